//! GOAWAY: no more calls on this connection, and how many were taken.

use crate::frame::{CallId, Cursor, FrameHeader, Kind, Violation};
use bytes::BufMut;

/// The count of the first of a graceful pair: "no new calls"; the true count follows.
pub const NO_NEW_CALLS: u64 = u64::MAX;

/// The most bytes of a go-away's text; longer ones are cut.
pub(crate) const TEXT_BYTES_MAX: u32 = 1_024;

/// Why a side says goodbye.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum GoAwayReason {
    /// The process is stopping.
    Shutdown = 0,
    /// The connection reached its maximum age.
    Age = 1,
    /// The peer broke the protocol; the text says how. The connection closes behind this frame.
    ProtocolViolation = 2,
    /// The peer provoked too much work or too many errors.
    Overload = 3,
    /// The identity of the connection expired or was revoked.
    Unauthenticated = 4,
}

impl GoAwayReason {
    /// Every reason, in the order of the numbers.
    pub const ALL: [GoAwayReason; 5] = [
        GoAwayReason::Shutdown,
        GoAwayReason::Age,
        GoAwayReason::ProtocolViolation,
        GoAwayReason::Overload,
        GoAwayReason::Unauthenticated,
    ];

    /// The name in metrics and test vectors.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            GoAwayReason::Shutdown => "shutdown",
            GoAwayReason::Age => "age",
            GoAwayReason::ProtocolViolation => "protocol_violation",
            GoAwayReason::Overload => "overload",
            GoAwayReason::Unauthenticated => "unauthenticated",
        }
    }
}

/// A go-away frame: `accepted u64 · reason u8 · text`.
///
/// From a server, `accepted` counts the request heads that it took, in wire order: a request with a higher number never
/// reached a handler and may be sent elsewhere. [`NO_NEW_CALLS`] comes first in a graceful stop. From a client it is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoAway<'a> {
    /// Accepted request heads, or [`NO_NEW_CALLS`].
    pub accepted: u64,
    /// Why.
    pub reason: GoAwayReason,
    /// For people; at most 1,024 bytes.
    pub text: &'a str,
}

impl<'a> GoAway<'a> {
    /// Appends the frame, the text cut to its limit on a character boundary.
    pub fn put(&self, out: &mut impl BufMut) {
        let text = crate::status::cut_text(self.text, TEXT_BYTES_MAX as usize);
        let len = 9 + u32::try_from(text.len()).unwrap_or(TEXT_BYTES_MAX);
        out.put_slice(&FrameHeader::new(Kind::GoAway, CallId::NONE, len).encode());
        out.put_u64_le(self.accepted);
        out.put_u8(self.reason as u8);
        out.put_slice(text.as_bytes());
    }

    /// Reads the payload of a go-away.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn decode(payload: &'a [u8]) -> Result<Self, Violation> {
        let mut cursor = Cursor::new(Kind::GoAway, payload);
        let accepted = cursor.u64("accepted count")?;
        let byte = cursor.u8("reason")?;
        let reason =
            GoAwayReason::ALL.into_iter().find(|reason| *reason as u8 == byte).ok_or(Violation::FieldValue {
                kind: Kind::GoAway,
                field: "reason",
                value: u64::from(byte),
                expected: "0 to 4",
            })?;
        Ok(GoAway { accepted, reason, text: cursor.rest_str("text")? })
    }
}
