//! The raw codec: the body is one value of bytes as it is, or a struct whose one field is that.

mod reader;
mod writer;

use crate::codec::{Codec, CodecError, Problem};
use serde::de::DeserializeOwned;
use serde::ser::Serialize;
use std::fmt;

pub(super) fn encode<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
    value.serialize(writer::Writer(out)).map_err(|refused| CodecError::new(Codec::Raw, Problem::Encode, None, refused))
}

pub(super) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, CodecError> {
    T::deserialize(reader::Reader(body)).map_err(|refused| CodecError::new(Codec::Raw, Problem::Data, None, refused))
}

/// Why a value is not raw bytes.
#[derive(Debug)]
struct Refused(String);

impl Refused {
    fn not_bytes() -> Self {
        Refused("only bytes, or a struct with one field of bytes, can be sent raw".to_owned())
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

impl serde::ser::Error for Refused {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Refused(text.to_string())
    }
}

impl serde::de::Error for Refused {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Refused(text.to_string())
    }
}
