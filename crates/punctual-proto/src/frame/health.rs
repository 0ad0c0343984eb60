//! HEALTH: the state of a server or of one of its services.

use crate::describe::HealthStatus;
use crate::frame::{CallId, Cursor, FrameHeader, Kind, Violation};
use crate::handshake::SERVICE_NAME_BYTES_MAX;
use bytes::BufMut;

pub(super) const FLAG_REPLY: u8 = 1;

/// A health frame: from a client the service's name (empty for the server as a whole), from a server one state byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthFrame<'a> {
    /// How is this service?
    Query(&'a str),
    /// It is like this.
    Reply(HealthStatus),
}

impl<'a> HealthFrame<'a> {
    /// Appends the frame. A name over its limit is cut, and so names no service.
    pub fn put(&self, call: CallId, out: &mut impl BufMut) {
        match *self {
            HealthFrame::Query(service) => {
                let service = crate::status::cut_text(service, SERVICE_NAME_BYTES_MAX as usize);
                let len = u32::try_from(service.len()).unwrap_or(SERVICE_NAME_BYTES_MAX);
                out.put_slice(&FrameHeader::new(Kind::Health, call, len).encode());
                out.put_slice(service.as_bytes());
            }
            HealthFrame::Reply(status) => {
                let header = FrameHeader { flags: FLAG_REPLY, ..FrameHeader::new(Kind::Health, call, 1) };
                out.put_slice(&header.encode());
                out.put_u8(status as u8);
            }
        }
    }

    /// Reads the payload of a health frame whose header was decoded.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn decode(header: &FrameHeader, payload: &'a [u8]) -> Result<Self, Violation> {
        let mut cursor = Cursor::new(Kind::Health, payload);
        if header.flags & FLAG_REPLY == 0 {
            return Ok(HealthFrame::Query(cursor.rest_str("service name")?));
        }
        let state = cursor.u8("state")?;
        cursor.end()?;
        HealthStatus::from_byte(state).map(HealthFrame::Reply).ok_or(Violation::FieldValue {
            kind: Kind::Health,
            field: "state",
            value: u64::from(state),
            expected: "0 to 3",
        })
    }
}
