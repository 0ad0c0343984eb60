//! FRAGMENT: the further pieces of a body, and the fields that a first piece shares.

use crate::frame::{CallId, Cursor, FrameHeader, FrameRules, Kind, Violation};

/// More pieces follow this one. The same bit in REQUEST, RESPONSE, DESCRIBE and FRAGMENT.
pub const FRAGMENT_FLAG_MORE: u8 = 1 << 4;

/// The header of a further piece of `call`'s body; `more` where it is not the last. The piece itself follows as it is.
#[must_use]
pub fn fragment_header(call: CallId, len: u32, more: bool) -> FrameHeader {
    let flags = if more { FRAGMENT_FLAG_MORE } else { 0 };
    FrameHeader { flags, ..FrameHeader::new(Kind::Fragment, call, len) }
}

/// The announced length of a body that comes in pieces. It is checked against the limit at once, so that a message that
/// is too long is known to be so before it is received; it is never a reason to reserve memory.
pub(super) fn read_total(
    cursor: &mut Cursor<'_>,
    kind: Kind,
    more: bool,
    rules: &FrameRules,
) -> Result<Option<u32>, Violation> {
    if !more {
        return Ok(None);
    }
    let total = cursor.u32("total body length")?;
    if total > rules.message_bytes_max {
        return Err(Violation::FieldTooLong {
            kind,
            field: "total body length",
            value: u64::from(total),
            max: u64::from(rules.message_bytes_max),
        });
    }
    Ok(Some(total))
}

pub(super) fn read_metadata<'a>(
    cursor: &mut Cursor<'a>,
    kind: Kind,
    present: bool,
    rules: &FrameRules,
) -> Result<&'a [u8], Violation> {
    if !present {
        return Ok(&[]);
    }
    let field = "metadata length";
    let len = cursor.u32(field)?;
    if len == 0 {
        return Err(Violation::FieldValue { kind, field, value: 0, expected: "at least 1, or no metadata flag" });
    }
    if len > rules.metadata_bytes_max {
        return Err(Violation::FieldTooLong {
            kind,
            field,
            value: u64::from(len),
            max: u64::from(rules.metadata_bytes_max),
        });
    }
    cursor.take("metadata", u64::from(len))
}

/// A first piece with more to follow leaves at least one byte to follow.
pub(super) fn check_first_piece(call: CallId, total: Option<u32>, body: &[u8]) -> Result<(), Violation> {
    match total {
        Some(total) if body.len() as u64 >= u64::from(total) => {
            Err(Violation::FragmentSum { call, announced: u64::from(total), received: body.len() as u64 })
        }
        _ => Ok(()),
    }
}
