//! PING and PONG: liveness.

use crate::frame::{CallId, Cursor, FrameHeader, HEADER_BYTES, Kind, Violation};
use bytes::BufMut;

/// Eight opaque bytes that a pong repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ping(pub u64);

impl Ping {
    /// Bytes of a whole ping or pong frame.
    pub const FRAME_BYTES: usize = HEADER_BYTES + 8;

    /// Appends a ping.
    pub fn put(self, out: &mut impl BufMut) {
        self.put_as(Kind::Ping, out);
    }

    /// Appends the answer to this ping.
    pub fn put_pong(self, out: &mut impl BufMut) {
        self.put_as(Kind::Pong, out);
    }

    fn put_as(self, kind: Kind, out: &mut impl BufMut) {
        out.put_slice(&FrameHeader::new(kind, CallId::NONE, 8).encode());
        out.put_u64_le(self.0);
    }

    /// Reads the payload of a ping or pong.
    ///
    /// # Errors
    /// Where the payload is not eight bytes.
    pub fn decode(header: &FrameHeader, payload: &[u8]) -> Result<Self, Violation> {
        let mut cursor = Cursor::new(header.kind, payload);
        let ping = Ping(cursor.u64("opaque bytes")?);
        cursor.end()?;
        Ok(ping)
    }
}
