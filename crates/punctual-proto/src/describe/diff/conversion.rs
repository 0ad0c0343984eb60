//! One plain shape read as another.

use super::Outcome;
use super::shape::Reading;
use crate::describe::TypeDescription;

/// What becomes of the values of `wrote` that are read as `reads`.
pub(super) fn convert(wrote: &TypeDescription, reads: &TypeDescription) -> Reading {
    use TypeDescription::{Bytes, Char, F32, F64, Str};
    if wrote == reads {
        return Reading::WORKS;
    }
    match (wrote, reads) {
        (F32, F64) | (Char, Str | Bytes) | (Str, Bytes) => Reading::WORKS,
        // JSON refuses a number that is too large; the named codec makes it infinite.
        (F64, F32) => Reading { named: Outcome::Works, json: Outcome::SomeFail },
        (Str, Char) => Reading::SOME_FAIL,
        // MessagePack has bytes, which a text takes where they are UTF-8; JSON writes them as numbers.
        (Bytes, Str) => Reading { named: Outcome::SomeFail, json: Outcome::Fails },
        _ => integers(wrote, reads),
    }
}

fn integers(wrote: &TypeDescription, reads: &TypeDescription) -> Reading {
    let Some((lowest, highest)) = range(wrote) else { return Reading::FAILS };
    let json = match (range(reads), reads) {
        (Some((least, most)), _) if lowest >= least && highest <= most => Outcome::Works,
        (Some(_), _) => Outcome::SomeFail,
        (None, TypeDescription::F32) if *wrote == TypeDescription::U128 => Outcome::SomeFail,
        (None, TypeDescription::F32 | TypeDescription::F64) => Outcome::Works,
        _ => return Reading::FAILS,
    };
    // The named codec writes integers of 128 bits as bytes, which only they read; others of either sign.
    let named = if is_wide(wrote) && !is_wide(reads) { Outcome::Fails } else { json };
    Reading { named, json }
}

/// Integers that the named codec writes as bytes.
fn is_wide(ty: &TypeDescription) -> bool {
    matches!(ty, TypeDescription::U128 | TypeDescription::I128)
}

fn range(ty: &TypeDescription) -> Option<(i128, u128)> {
    use TypeDescription::{I8, I16, I32, I64, I128, U8, U16, U32, U64, U128};
    Some(match ty {
        U8 => (0, u8::MAX.into()),
        U16 => (0, u16::MAX.into()),
        U32 => (0, u32::MAX.into()),
        U64 => (0, u64::MAX.into()),
        U128 => (0, u128::MAX),
        I8 => (i8::MIN.into(), 0x7f),
        I16 => (i16::MIN.into(), 0x7fff),
        I32 => (i32::MIN.into(), 0x7fff_ffff),
        I64 => (i64::MIN.into(), 0x7fff_ffff_ffff_ffff),
        I128 => (i128::MIN, i128::MAX.unsigned_abs()),
        _ => return None,
    })
}
