//! MessagePack with structs as maps by field name, by rmp-serde, so that serde's rules of evolution hold.
//!
//! The bytes are walked once before rmp-serde reads them: its own depth limit does not count the content of enums, and it
//! does not say whether anything follows the value.

mod outline;

use crate::codec::{Codec, CodecError, DEPTH_MAX, Problem};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(super) fn encode<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
    rmp_serde::encode::write_named(out, value)
        .map_err(|error| CodecError::new(Codec::Named, Problem::Encode, None, error))
}

pub(super) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, CodecError> {
    outline::check(body)?;
    let mut reader = rmp_serde::Deserializer::from_read_ref(body);
    reader.set_max_depth(DEPTH_MAX as usize + 1);
    T::deserialize(&mut reader).map_err(|error| CodecError::new(Codec::Named, Problem::Data, None, error))
}
