//! DATA, END and CREDIT: streams. Their layout is fixed here so that a later minor step can agree on the streams
//! capability; a session that has not agreed on it refuses them by their header.

use crate::frame::{CallId, Cursor, FrameHeader, Kind, Violation};
use bytes::BufMut;

/// One item of a stream: the payload is the item, whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data<'a>(pub &'a [u8]);

impl Data<'_> {
    /// Appends the frame. Items over one payload are a matter for the streams capability.
    pub fn put(&self, call: CallId, stream: u16, out: &mut impl BufMut) {
        let len = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        out.put_slice(&FrameHeader { stream, ..FrameHeader::new(Kind::Data, call, len) }.encode());
        out.put_slice(self.0);
    }
}

/// The end of a stream: empty for a clean end, else a [`Status`](crate::status::Status) in its wire form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End<'a>(pub &'a [u8]);

impl End<'_> {
    /// Appends the frame.
    pub fn put(&self, call: CallId, stream: u16, out: &mut impl BufMut) {
        let len = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        out.put_slice(&FrameHeader { stream, ..FrameHeader::new(Kind::End, call, len) }.encode());
        out.put_slice(self.0);
    }
}

/// Permission to send this many more bytes; call id 0 and stream 0 is the connection's own window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Credit(pub u32);

impl Credit {
    /// Appends the frame.
    pub fn put(self, call: CallId, stream: u16, out: &mut impl BufMut) {
        out.put_slice(&FrameHeader { stream, ..FrameHeader::new(Kind::Credit, call, 4) }.encode());
        out.put_u32_le(self.0);
    }

    /// Reads the payload of a credit frame.
    ///
    /// # Errors
    /// Where it is not four bytes.
    pub fn decode(payload: &[u8]) -> Result<Self, Violation> {
        let mut cursor = Cursor::new(Kind::Credit, payload);
        let credit = Credit(cursor.u32("credit")?);
        cursor.end()?;
        Ok(credit)
    }
}
