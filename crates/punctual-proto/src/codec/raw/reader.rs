//! Gives the whole body as bytes, to a type that takes bytes.

use super::Refused;
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

/// A whole body.
pub(super) struct Reader<'de>(pub(super) &'de [u8]);

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Refused;

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Refused> {
        Err(Refused::not_bytes())
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_borrowed_bytes(self.0)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_borrowed_bytes(self.0)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        if fields.len() == 1 { visitor.visit_seq(OneField(Some(self.0))) } else { Err(Refused::not_bytes()) }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string option unit unit_struct seq tuple
        tuple_struct map enum identifier ignored_any
    }
}

/// The one field of a struct.
struct OneField<'de>(Option<&'de [u8]>);

impl<'de> SeqAccess<'de> for OneField<'de> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refused> {
        self.0.take().map(|body| seed.deserialize(Reader(body))).transpose()
    }
}
