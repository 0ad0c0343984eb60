//! FRAGMENT: the further pieces of a body, and the fields that a first piece shares.

use crate::frame::{CallId, Cursor, FrameHeader, FrameRules, Kind, Violation};
use crate::status::Status;

/// More pieces follow this one. The same bit in REQUEST, RESPONSE, DESCRIBE and FRAGMENT.
pub const FRAGMENT_FLAG_MORE: u8 = 1 << 4;

/// As a u32; the constant's own test pins that it fits.
const STATUS_BYTES_MAX: u32 = Status::WIRE_BYTES_MAX as u32;

/// The header of a further piece of `call`'s body; `more` where it is not the last. The piece itself follows as it is.
#[must_use]
pub fn fragment_header(call: CallId, len: u32, more: bool) -> FrameHeader {
    let flags = if more { FRAGMENT_FLAG_MORE } else { 0 };
    FrameHeader { flags, ..FrameHeader::new(Kind::Fragment, call, len) }
}

/// The most bytes that the body of an answer may have. A status is small by itself and must get through whatever limit was
/// agreed for messages.
#[inline]
pub(super) fn body_bytes_max(is_status: bool, rules: &FrameRules) -> u32 {
    if is_status { rules.message_bytes_max.max(STATUS_BYTES_MAX) } else { rules.message_bytes_max }
}

/// The announced length of a body that comes in pieces. It is checked against the limit at once, so that a message that
/// is too long is known to be so before it is received; it is never a reason to reserve memory.
#[inline]
pub(super) fn read_total(cursor: &mut Cursor<'_>, kind: Kind, more: bool, max: u32) -> Result<Option<u32>, Violation> {
    if !more {
        return Ok(None);
    }
    let field = "total body length";
    let total = cursor.u32(field)?;
    if total > max {
        return Err(Violation::FieldTooLong { kind, field, value: u64::from(total), max: u64::from(max) });
    }
    Ok(Some(total))
}

/// The length of a body before it was compressed. It is checked against the limit at once, and is what is inflated at most.
#[inline]
pub(super) fn read_plain(
    cursor: &mut Cursor<'_>,
    kind: Kind,
    present: bool,
    rules: &FrameRules,
) -> Result<Option<u32>, Violation> {
    if !present {
        return Ok(None);
    }
    let field = "uncompressed length";
    match cursor.u32(field)? {
        0 => Err(Violation::FieldValue {
            kind,
            field,
            value: 0,
            expected: "at least 1; an empty body is never compressed",
        }),
        plain if plain > rules.message_bytes_max => Err(Violation::FieldTooLong {
            kind,
            field,
            value: u64::from(plain),
            max: u64::from(rules.message_bytes_max),
        }),
        plain => Ok(Some(plain)),
    }
}

#[inline]
pub(super) fn read_metadata<'a>(
    cursor: &mut Cursor<'a>,
    kind: Kind,
    present: bool,
    rules: &FrameRules,
) -> Result<&'a [u8], Violation> {
    if present { read_present_metadata(cursor, kind, rules) } else { Ok(&[]) }
}

fn read_present_metadata<'a>(cursor: &mut Cursor<'a>, kind: Kind, rules: &FrameRules) -> Result<&'a [u8], Violation> {
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

/// A whole body is within its limit, and a first piece leaves at least one byte to follow.
#[inline]
pub(super) fn check_body(header: &FrameHeader, total: Option<u32>, body: &[u8], max: u32) -> Result<(), Violation> {
    let len = body.len() as u64;
    match total {
        Some(total) if len >= u64::from(total) => {
            Err(Violation::FragmentSum { call: header.call, announced: u64::from(total), received: len })
        }
        None if len > u64::from(max) => {
            Err(Violation::FieldTooLong { kind: header.kind, field: "body length", value: len, max: u64::from(max) })
        }
        _ => Ok(()),
    }
}
