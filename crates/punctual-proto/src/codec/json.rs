//! JSON by serde_json, with the depth checked first: its own limit is twice ours and cannot be set.

use crate::codec::{Codec, CodecError, DEPTH_MAX, Problem};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

pub(super) fn encode<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
    serde_json::to_writer(out, value).map_err(|error| CodecError::new(Codec::Json, Problem::Encode, None, error))
}

pub(super) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, CodecError> {
    check_depth(body)?;
    let mut reader = serde_json::Deserializer::from_slice(body);
    let fail = |error: serde_json::Error, otherwise| {
        let problem = if error.classify() == Category::Eof { Problem::Truncated } else { otherwise };
        CodecError::new(Codec::Json, problem, None, error)
    };
    let value = T::deserialize(&mut reader).map_err(|error| fail(error, Problem::Data))?;
    reader.end().map_err(|error| fail(error, Problem::Trailing))?;
    Ok(value)
}

/// Counts brackets outside of strings. What is not JSON at all is left to the parser.
fn check_depth(body: &[u8]) -> Result<(), CodecError> {
    let mut depth = 0u32;
    let mut in_string = false;
    let mut escaped = false;
    for (at, byte) in body.iter().enumerate() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                if depth > DEPTH_MAX {
                    let text = format_args!("nesting is deeper than {DEPTH_MAX} levels");
                    return Err(CodecError::new(Codec::Json, Problem::Depth, Some(at), text));
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}
