//! The compact codec: the format of postcard 1, written by postcard and read by a reader of our own.
//!
//! The reader is ours because the strictness is: postcard's has no bound on nesting or on elements that take no bytes,
//! and does not say where it stopped (`docs/adr/0004-compact-reader.md`).

mod parts;
mod reader;

use crate::codec::{Codec, CodecError, Problem};
use postcard::ser_flavors::Flavor;
use reader::Reader;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Lets postcard append to a borrowed buffer, so that a panic in a `Serialize` cannot take the buffer away.
struct Append<'a>(&'a mut Vec<u8>);

impl Flavor for Append<'_> {
    type Output = ();

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

pub(super) fn encode<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
    postcard::serialize_with_flavor(value, Append(out))
        .map_err(|error| CodecError::new(Codec::Compact, Problem::Encode, None, error))
}

pub(super) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, CodecError> {
    let mut reader = Reader::new(body);
    let value = T::deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    value.map_err(|fault| fault.into_error(reader.position()))
}
