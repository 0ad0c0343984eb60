//! Frames: the fixed header and the payload layouts of protocol version 1 (`docs/protocol.md`).
//!
//! Everything here is a pure view over bytes. Reading never allocates: a header is judged from its 16 bytes against the
//! [`FrameRules`] of the connection's state before a single payload byte is waited for, and a payload is read into views
//! that borrow it. Writing appends to a buffer of the caller's choice. Which frame may follow which is the session's
//! business.

mod call_id;
mod cancel;
mod cursor;
mod describe;
mod fragment;
mod go_away;
mod header;
mod health;
mod kind;
mod ping;
mod request;
mod response;
mod rules;
mod stream;
#[cfg(test)]
mod tests;
mod violation;

pub use call_id::{CallId, SLOT_BITS};
pub use cancel::{Cancel, CancelCause};
pub(crate) use cursor::Cursor;
pub use describe::DescribeHead;
pub use fragment::{FRAGMENT_FLAG_MORE, fragment_header};
pub use go_away::{GoAway, GoAwayReason, NO_NEW_CALLS};
pub use header::FrameHeader;
pub use health::HealthFrame;
pub use kind::{Direction, Kind};
pub use ping::Ping;
pub use request::RequestHead;
pub use response::{Outcome, ResponseHead};
pub use rules::{FrameRules, Phase};
pub use stream::{CallStreams, Credit, DataHead, EndHead};
pub use violation::Violation;

/// Bytes of every frame header.
pub const HEADER_BYTES: usize = 16;

/// The most payload bytes behind a header, in every state: what a big message is cut into, so that it cannot hold back
/// small calls for longer than one piece takes to write.
pub const PAYLOAD_BYTES_MAX: u32 = 65_536;

/// The longest header plus fixed fields of a frame of a call: header, method, budget, total, streams and metadata
/// length.
pub const HEAD_BYTES_MAX: usize = HEADER_BYTES + 8 + 8 + 4 + 4 + 2 + 4;

/// The bytes in front of a frame's variable parts, built on the stack so that a frame is appended to the open batch in
/// at most three copies and without an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    bytes: [u8; HEAD_BYTES_MAX],
    len: usize,
}

impl Prefix {
    #[inline]
    fn new(header: [u8; HEADER_BYTES]) -> Self {
        let mut bytes = [0; HEAD_BYTES_MAX];
        if let Some(hole) = bytes.first_chunk_mut() {
            *hole = header;
        }
        Prefix { bytes, len: HEADER_BYTES }
    }

    /// Only called with the fixed fields that [`HEAD_BYTES_MAX`] sums up.
    #[inline]
    fn put<const N: usize>(&mut self, field: [u8; N]) {
        if let Some(hole) = self.bytes.get_mut(self.len..).and_then(<[u8]>::first_chunk_mut) {
            *hole = field;
            self.len += N;
        }
    }

    /// The bytes.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// Fills in the length of a frame that is complete but for `linked` bytes that follow it.
fn set_len(frame: &mut [u8], linked: usize) {
    let len = u32::try_from((frame.len() + linked).saturating_sub(HEADER_BYTES)).unwrap_or(u32::MAX);
    if let Some(hole) = frame.first_chunk_mut::<4>() {
        *hole = len.to_le_bytes();
    }
}

/// Fills in the call of a frame that is complete otherwise.
pub(crate) fn set_call(frame: &mut [u8], call: CallId) {
    if let Some(hole) = frame.get_mut(8..HEADER_BYTES) {
        hole.copy_from_slice(&call.as_u64().to_le_bytes());
    }
}
