//! MessagePack with structs as maps by field name, by rmp-serde, so that serde's rules of evolution hold.

use crate::codec::{Codec, CodecError, DEPTH_MAX, Problem};
use rmp_serde::decode::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(super) fn encode<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
    rmp_serde::encode::write_named(out, value)
        .map_err(|error| CodecError::new(Codec::Named, Problem::Encode, None, error))
}

pub(super) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, CodecError> {
    let mut rest = body;
    let value = {
        let mut reader = rmp_serde::Deserializer::new(&mut rest);
        reader.set_max_depth(DEPTH_MAX as usize);
        T::deserialize(&mut reader)
    };
    let at = body.len() - rest.len();
    match value {
        Ok(value) if rest.is_empty() => Ok(value),
        Ok(_) => Err(CodecError::new(
            Codec::Named,
            Problem::Trailing,
            Some(at),
            format_args!("{} bytes follow the value", rest.len()),
        )),
        Err(error) => {
            let problem = match &error {
                Error::DepthLimitExceeded => Problem::Depth,
                Error::InvalidMarkerRead(_) | Error::InvalidDataRead(_) => Problem::Truncated,
                _ => Problem::Data,
            };
            Err(CodecError::new(Codec::Named, problem, Some(at), error))
        }
    }
}
