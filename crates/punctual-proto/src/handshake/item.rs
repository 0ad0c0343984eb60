//! The items of a handshake payload: `tag u16 · length u16 · value`, until the payload ends.
//!
//! A tag that this version does not know is skipped: what must be understood has a capability bit that can be required.

use crate::frame::{Cursor, Kind};
use crate::handshake::HandshakeError;
use crate::limits::Limits;
use bytes::BufMut;

pub(super) const MESSAGE_BYTES_MAX: u16 = 1;
pub(super) const METADATA_BYTES_MAX: u16 = 2;
pub(super) const PENDING_CALLS_MAX: u16 = 3;
pub(super) const RUNNING_CALLS_MAX: u16 = 4;
pub(super) const STREAMS_MAX: u16 = 5;
pub(super) const STREAM_WINDOW_BYTES: u16 = 6;
pub(super) const CONNECTION_WINDOW_BYTES: u16 = 7;
pub(super) const AGENT: u16 = 16;
pub(super) const AUTHENTICATION: u16 = 17;
pub(super) const COMPRESSION: u16 = 18;
pub(super) const SERVICE: u16 = 32;

/// The most bytes of an agent's name.
pub(super) const AGENT_BYTES_MAX: usize = 128;

pub(super) fn put(tag: u16, value: &[u8], out: &mut Vec<u8>) -> Result<(), HandshakeError> {
    let max = usize::from(u16::MAX);
    let len = u16::try_from(value.len()).map_err(|_| HandshakeError::TooLarge { bytes: value.len(), max })?;
    out.put_u16_le(tag);
    out.put_u16_le(len);
    out.put_slice(value);
    Ok(())
}

/// The next item, or `None` at the end.
pub(super) fn next<'a>(cursor: &mut Cursor<'a>) -> Result<Option<(u16, &'a [u8])>, HandshakeError> {
    if cursor.is_empty() {
        return Ok(None);
    }
    let tag = cursor.u16("item tag")?;
    let len = cursor.u16("item length")?;
    Ok(Some((tag, cursor.take("item", u64::from(len))?)))
}

pub(super) fn cursor(payload: &[u8]) -> Cursor<'_> {
    Cursor::new(Kind::Handshake, payload)
}

/// The limits that cross the wire, with their tags.
pub(super) fn put_limits(limits: &Limits, out: &mut Vec<u8>) -> Result<(), HandshakeError> {
    for (tag, value) in [
        (MESSAGE_BYTES_MAX, limits.message_bytes_max),
        (METADATA_BYTES_MAX, limits.metadata_bytes_max),
        (PENDING_CALLS_MAX, limits.pending_calls_max),
        (RUNNING_CALLS_MAX, limits.running_calls_max),
        (STREAMS_MAX, limits.streams_max),
        (STREAM_WINDOW_BYTES, limits.stream_window_bytes),
        (CONNECTION_WINDOW_BYTES, limits.connection_window_bytes),
    ] {
        put(tag, &value.to_le_bytes(), out)?;
    }
    Ok(())
}

/// Puts a limit where its tag says; false where the tag is none of a limit.
pub(super) fn read_limit(tag: u16, value: &[u8], limits: &mut Limits) -> Result<bool, HandshakeError> {
    let hole = match tag {
        MESSAGE_BYTES_MAX => &mut limits.message_bytes_max,
        METADATA_BYTES_MAX => &mut limits.metadata_bytes_max,
        PENDING_CALLS_MAX => &mut limits.pending_calls_max,
        RUNNING_CALLS_MAX => &mut limits.running_calls_max,
        STREAMS_MAX => &mut limits.streams_max,
        STREAM_WINDOW_BYTES => &mut limits.stream_window_bytes,
        CONNECTION_WINDOW_BYTES => &mut limits.connection_window_bytes,
        _ => return Ok(false),
    };
    let bytes: [u8; 4] =
        value.try_into().map_err(|_| HandshakeError::Malformed { what: "a limit is not four bytes" })?;
    *hole = u32::from_le_bytes(bytes);
    Ok(true)
}

/// Remembers the tags that may come once.
#[derive(Default)]
pub(super) struct Seen(u64);

impl Seen {
    /// Known tags below 64 may come once, but for services.
    pub(super) fn once(&mut self, tag: u16) -> Result<(), HandshakeError> {
        if tag >= 64 || tag == SERVICE {
            return Ok(());
        }
        let bit = 1u64 << tag;
        if self.0 & bit != 0 {
            return Err(HandshakeError::Malformed { what: "an item comes twice" });
        }
        self.0 |= bit;
        Ok(())
    }
}

pub(super) fn text(value: &[u8], max: usize, what: &'static str) -> Result<String, HandshakeError> {
    if value.len() > max {
        return Err(HandshakeError::Malformed { what });
    }
    std::str::from_utf8(value).map(str::to_owned).map_err(|_| HandshakeError::Malformed { what })
}
