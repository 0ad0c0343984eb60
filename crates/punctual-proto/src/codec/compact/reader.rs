//! The strict reader of the compact format.

use super::parts::{Elements, Entries, Variant};
use crate::codec::{Codec, CodecError, DEPTH_MAX, EMPTY_ELEMENTS_MAX, Problem};
use serde::de::{Deserializer, Error, Expected, Unexpected, Visitor};
use std::fmt;

/// Why reading stopped. Boxed, since it crosses every level of a type's own code.
#[derive(Debug)]
pub(super) struct Fault(Box<(Problem, String)>);

impl Fault {
    #[cold]
    fn new(problem: Problem, text: impl fmt::Display) -> Self {
        Fault(Box::new((problem, text.to_string())))
    }

    pub(super) fn into_error(self, at: usize) -> CodecError {
        CodecError::new(Codec::Compact, self.0.0, Some(at), self.0.1)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.1)
    }
}

impl std::error::Error for Fault {}

impl Error for Fault {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Fault::new(Problem::Data, text)
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Fault::new(Problem::Data, format_args!("invalid value: {unexpected}, expected {expected}"))
    }
}

/// Reads one value from the front of a body.
pub(super) struct Reader<'de> {
    rest: &'de [u8],
    whole: usize,
    depth_left: u32,
    empty_left: u32,
}

impl<'de> Reader<'de> {
    pub(super) fn new(body: &'de [u8]) -> Self {
        Reader { rest: body, whole: body.len(), depth_left: DEPTH_MAX, empty_left: EMPTY_ELEMENTS_MAX }
    }

    pub(super) fn position(&self) -> usize {
        self.whole - self.rest.len()
    }

    /// Bytes not yet read.
    #[inline]
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn end(&self) -> Result<(), Fault> {
        match self.rest.len() {
            0 => Ok(()),
            extra => Err(Fault::new(Problem::Trailing, format_args!("{extra} bytes follow the value"))),
        }
    }

    #[cold]
    fn short(&self, need: usize) -> Fault {
        Fault::new(Problem::Truncated, format_args!("{need} bytes are needed where {} are left", self.rest.len()))
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, Fault> {
        let (byte, rest) = self.rest.split_first().ok_or_else(|| self.short(1))?;
        self.rest = rest;
        Ok(*byte)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.short(N))?;
        self.rest = rest;
        Ok(*taken)
    }

    #[inline]
    pub(super) fn unsigned<const BITS: u32>(&mut self) -> Result<u64, Fault> {
        // Most integers are small, and one byte needs none of the checks of the others.
        if let [byte @ 0..0x80, rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(u64::from(*byte));
        }
        self.unsigned_long::<BITS>()
    }

    fn unsigned_long<const BITS: u32>(&mut self) -> Result<u64, Fault> {
        let (mut value, mut shift, mut rest) = (0u64, 0, self.rest);
        while let [byte, after @ ..] = rest {
            rest = after;
            let low = u64::from(byte & 0x7f);
            let room = BITS - shift;
            if room < 7 && low >> room != 0 {
                return Err(too_wide(BITS));
            }
            value |= low << shift;
            if byte & 0x80 == 0 {
                self.rest = rest;
                return Ok(value);
            }
            if room <= 7 {
                return Err(too_wide(BITS));
            }
            shift += 7;
        }
        Err(cut_integer())
    }

    /// As [`Self::unsigned`], so rare that it needs no path for small ones.
    fn unsigned128(&mut self) -> Result<u128, Fault> {
        let (mut value, mut shift, mut rest) = (0u128, 0, self.rest);
        while let [byte, after @ ..] = rest {
            rest = after;
            let low = u128::from(byte & 0x7f);
            let room = 128 - shift;
            if room < 7 && low >> room != 0 {
                return Err(too_wide(128));
            }
            value |= low << shift;
            if byte & 0x80 == 0 {
                self.rest = rest;
                return Ok(value);
            }
            if room <= 7 {
                return Err(too_wide(128));
            }
            shift += 7;
        }
        Err(cut_integer())
    }

    #[inline]
    fn signed<const BITS: u32>(&mut self) -> Result<i64, Fault> {
        let folded = self.unsigned::<BITS>()?;
        Ok((folded >> 1) as i64 ^ -((folded & 1) as i64))
    }

    #[inline]
    fn bytes(&mut self) -> Result<&'de [u8], Fault> {
        let len = self.unsigned::<64>()?;
        let cut = usize::try_from(len).ok().and_then(|len| self.rest.split_at_checked(len));
        let (taken, rest) = cut.ok_or_else(|| {
            let left = self.rest.len();
            Fault::new(Problem::Length, format_args!("a length of {len} bytes where {left} are left"))
        })?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn str(&mut self) -> Result<&'de str, Fault> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Fault::new(Problem::Data, "a text is not UTF-8"))
    }

    /// A count of elements. Those that take bytes cannot outnumber the bytes left; those that take none have a bound of
    /// their own, so a count over the sum of both is refused before the first element.
    #[inline]
    fn count(&mut self) -> Result<usize, Fault> {
        let count = self.unsigned::<64>()?;
        let left = self.rest.len();
        if count > left as u64 + u64::from(self.empty_left) {
            return Err(Fault::new(Problem::Length, format_args!("{count} elements where {left} bytes are left")));
        }
        // At most the length of a slice plus a small constant.
        Ok(count as usize)
    }

    /// Reads something that holds other things.
    #[inline]
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        self.depth_left = self
            .depth_left
            .checked_sub(1)
            .ok_or_else(|| Fault::new(Problem::Depth, format_args!("nesting is deeper than {DEPTH_MAX} levels")))?;
        let result = read(self);
        self.depth_left += 1;
        result
    }

    /// Charges an element or entry that began at `before` bytes left and took none.
    #[inline]
    pub(super) fn charge_empty(&mut self, before: usize) -> Result<(), Fault> {
        if self.rest.len() == before {
            self.empty_left = self.empty_left.checked_sub(1).ok_or_else(|| {
                let text = format_args!("more than {EMPTY_ELEMENTS_MAX} elements take no bytes");
                Fault::new(Problem::Length, text)
            })?;
        }
        Ok(())
    }
}

#[cold]
fn cut_integer() -> Fault {
    Fault::new(Problem::Truncated, "the body ends inside an integer")
}

#[cold]
fn too_wide(bits: u32) -> Fault {
    Fault::new(Problem::Data, format_args!("an integer does not fit {bits} bits"))
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Fault;

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Fault> {
        Err(Fault::new(Problem::Data, "the compact codec cannot read a type that asks the bytes what they are"))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_any(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_any(visitor)
    }

    #[inline]
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.byte()? {
            0 => visitor.visit_bool(false),
            1 => visitor.visit_bool(true),
            other => Err(Fault::new(Problem::Data, format_args!("{other} for a bool; expected 0 or 1"))),
        }
    }

    #[inline]
    fn deserialize_i8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_i8(self.byte()? as i8)
    }

    #[inline]
    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_u8(self.byte()?)
    }

    #[inline]
    fn deserialize_i16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_i16(self.signed::<16>()? as i16)
    }

    #[inline]
    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_i32(self.signed::<32>()? as i32)
    }

    #[inline]
    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_i64(self.signed::<64>()?)
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let folded = self.unsigned128()?;
        visitor.visit_i128((folded >> 1) as i128 ^ -((folded & 1) as i128))
    }

    #[inline]
    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_u16(self.unsigned::<16>()? as u16)
    }

    #[inline]
    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_u32(self.unsigned::<32>()? as u32)
    }

    #[inline]
    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_u64(self.unsigned::<64>()?)
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_u128(self.unsigned128()?)
    }

    #[inline]
    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_f32(f32::from_le_bytes(self.array()?))
    }

    #[inline]
    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_f64(f64::from_le_bytes(self.array()?))
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let mut chars = self.str()?.chars();
        match (chars.next(), chars.next()) {
            (Some(one), None) => visitor.visit_char(one),
            _ => Err(Fault::new(Problem::Data, "a character is not exactly one")),
        }
    }

    #[inline]
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_borrowed_str(self.str()?)
    }

    #[inline]
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_borrowed_str(self.str()?)
    }

    #[inline]
    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_borrowed_bytes(self.bytes()?)
    }

    #[inline]
    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_borrowed_bytes(self.bytes()?)
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.byte()? {
            0 => visitor.visit_none(),
            1 => self.nested(|reader| visitor.visit_some(reader)),
            other => Err(Fault::new(Problem::Data, format_args!("{other} for an option; expected 0 or 1"))),
        }
    }

    #[inline]
    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    #[inline]
    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        self.nested(|reader| visitor.visit_newtype_struct(reader))
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let left = self.count()?;
        self.nested(|reader| visitor.visit_seq(Elements::counted(reader, left)))
    }

    #[inline]
    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Fault> {
        self.nested(|reader| visitor.visit_seq(Elements::fixed(reader, len)))
    }

    #[inline]
    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_tuple(len, visitor)
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let left = self.count()?;
        self.nested(|reader| visitor.visit_map(Entries::new(reader, left)))
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_tuple(fields.len(), visitor)
    }

    #[inline]
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.nested(|reader| visitor.visit_enum(Variant(reader)))
    }
}
