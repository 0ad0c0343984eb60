//! The parts of what holds others: elements, entries, and the content of variants.

use super::reader::{Fault, Reader};
use serde::de::{DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor};

/// The elements of a sequence, or the fields of a tuple, whose number the type fixes.
pub(super) struct Elements<'a, 'de> {
    reader: &'a mut Reader<'de>,
    left: usize,
    counted: bool,
}

impl<'a, 'de> Elements<'a, 'de> {
    /// The elements of a sequence that announced `left` of them.
    pub(super) fn counted(reader: &'a mut Reader<'de>, left: usize) -> Self {
        Elements { reader, left, counted: true }
    }

    /// Parts whose number the type fixes.
    pub(super) fn fixed(reader: &'a mut Reader<'de>, left: usize) -> Self {
        Elements { reader, left, counted: false }
    }
}

impl<'de> SeqAccess<'de> for Elements<'_, 'de> {
    type Error = Fault;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(None);
        };
        self.left = left;
        let before = self.reader.left();
        let value = seed.deserialize(&mut *self.reader)?;
        if self.counted {
            self.reader.charge_empty(before)?;
        }
        Ok(Some(value))
    }

    /// Never more than the bytes left: a collection that trusts it reserves for what was received.
    #[inline]
    fn size_hint(&self) -> Option<usize> {
        Some(if self.counted { self.left.min(self.reader.left()) } else { self.left })
    }
}

/// The entries of a map.
pub(super) struct Entries<'a, 'de> {
    reader: &'a mut Reader<'de>,
    left: usize,
    began: usize,
}

impl<'a, 'de> Entries<'a, 'de> {
    /// The entries of a map that announced `left` of them.
    pub(super) fn new(reader: &'a mut Reader<'de>, left: usize) -> Self {
        let began = reader.left();
        Entries { reader, left, began }
    }
}

impl<'de> MapAccess<'de> for Entries<'_, 'de> {
    type Error = Fault;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(None);
        };
        self.left = left;
        self.began = self.reader.left();
        seed.deserialize(&mut *self.reader).map(Some)
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let value = seed.deserialize(&mut *self.reader)?;
        self.reader.charge_empty(self.began)?;
        Ok(value)
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        Some(self.left.min(self.reader.left()))
    }
}

/// One variant of an enum: its number, then its content as a tuple.
pub(super) struct Variant<'a, 'de>(pub(super) &'a mut Reader<'de>);

impl<'a, 'de> EnumAccess<'de> for Variant<'a, 'de> {
    type Error = Fault;
    type Variant = &'a mut Reader<'de>;

    #[inline]
    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self::Variant), Fault> {
        let index = self.0.unsigned::<32>()? as u32;
        let variant = seed.deserialize(IntoDeserializer::<Fault>::into_deserializer(index))?;
        Ok((variant, self.0))
    }
}

impl<'de> VariantAccess<'de> for &mut Reader<'de> {
    type Error = Fault;

    #[inline]
    fn unit_variant(self) -> Result<(), Fault> {
        Ok(())
    }

    #[inline]
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        seed.deserialize(self)
    }

    #[inline]
    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_seq(Elements::fixed(self, len))
    }

    #[inline]
    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Fault> {
        self.tuple_variant(fields.len(), visitor)
    }
}
