//! CANCEL: the client no longer wants a call that it published.

use crate::frame::{CallId, Cursor, FrameHeader, HEADER_BYTES, Kind, Violation};
use bytes::BufMut;
use punctual_context::CancelReason;

/// Why a call was cancelled, as it crosses the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CancelCause {
    /// The caller dropped or cancelled it.
    User = 1,
    /// The caller's deadline passed.
    Deadline = 2,
    /// The consumer of the returned stream went away.
    ConsumerGone = 3,
}

impl CancelCause {
    /// Every cause, in the order of the numbers.
    pub const ALL: [CancelCause; 3] = [CancelCause::User, CancelCause::Deadline, CancelCause::ConsumerGone];

    /// The name in metrics and test vectors.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            CancelCause::User => "user",
            CancelCause::Deadline => "deadline",
            CancelCause::ConsumerGone => "consumer_gone",
        }
    }
}

impl From<CancelCause> for CancelReason {
    fn from(cause: CancelCause) -> Self {
        match cause {
            CancelCause::User => CancelReason::User,
            CancelCause::Deadline => CancelReason::Deadline,
            CancelCause::ConsumerGone => CancelReason::ConsumerGone,
        }
    }
}

/// A cancel frame: one reason byte where the cancel-reason capability was agreed, else nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cancel(pub Option<CancelCause>);

impl Cancel {
    /// The most bytes that a cancel frame takes: what admission reserves for each published request.
    pub const FRAME_BYTES_MAX: usize = HEADER_BYTES + 1;

    /// Appends the frame.
    pub fn put(self, call: CallId, out: &mut impl BufMut) {
        let len = u32::from(self.0.is_some());
        out.put_slice(&FrameHeader::new(Kind::Cancel, call, len).encode());
        if let Some(cause) = self.0 {
            out.put_u8(cause as u8);
        }
    }

    /// Reads the payload of a cancel whose header was decoded: the header's rules fixed its length.
    ///
    /// # Errors
    /// Where the reason is none of the three, or bytes follow it.
    pub fn decode(payload: &[u8]) -> Result<Self, Violation> {
        let mut cursor = Cursor::new(Kind::Cancel, payload);
        if cursor.is_empty() {
            return Ok(Cancel(None));
        }
        let byte = cursor.u8("reason")?;
        let cause = CancelCause::ALL.into_iter().find(|cause| *cause as u8 == byte).ok_or(Violation::FieldValue {
            kind: Kind::Cancel,
            field: "reason",
            value: u64::from(byte),
            expected: "1 (user), 2 (deadline) or 3 (consumer gone)",
        })?;
        cursor.end()?;
        Ok(Cancel(Some(cause)))
    }
}
