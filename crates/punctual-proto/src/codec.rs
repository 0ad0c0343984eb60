//! Codecs: how a message's body is turned into bytes and, strictly, back.
//!
//! Which one is used is named in each request and response ([`Codec`]): compact between peers whose contracts are the
//! same, named where they differ, JSON for tools, raw where the whole body is the caller's bytes. Decoding refuses
//! trailing bytes, bad UTF-8, lengths over the bytes present and nesting over [`DEPTH_MAX`]; what it allocates is bounded
//! by the bytes present, times the size of an element in memory, and never by an announced length.

mod args;
mod compact;
mod error;
mod json;
mod named;
mod raw;

pub use args::Args;
pub use error::{CodecError, Problem};

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::Any;
use std::fmt;

/// The most levels of nesting in a message: options, sequences, maps, tuples, structs and enums inside each other.
pub const DEPTH_MAX: u32 = 64;

/// The most elements of a message that take no bytes at all (units in a compact sequence). Their number would otherwise
/// be bounded by nothing that was received: six bytes can announce a thousand million of them.
pub const EMPTY_ELEMENTS_MAX: u32 = 1_024;

/// How a body is encoded. The number is its two bits on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Codec {
    /// Fields in order, without names: small and fast, only between peers of the same contract hash.
    Compact = 0,
    /// Fields by name: unknown ones are ignored and absent ones take their default.
    Named = 1,
    /// JSON, for tools and the gateway.
    Json = 2,
    /// The body is the one `Bytes` argument or result itself.
    Raw = 3,
}

impl Codec {
    /// Every codec, in the order of the numbers.
    pub const ALL: [Codec; 4] = [Codec::Compact, Codec::Named, Codec::Json, Codec::Raw];

    /// The two bits on the wire.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// From the lowest two bits of `bits`; each of the four values is a codec.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Codec {
        match bits & 0b11 {
            0 => Codec::Compact,
            1 => Codec::Named,
            2 => Codec::Json,
            _ => Codec::Raw,
        }
    }

    /// The name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Codec::Compact => "compact",
            Codec::Named => "named",
            Codec::Json => "json",
            Codec::Raw => "raw",
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Appends `value` to `out`. Nothing is allocated but what `out` needs to grow.
///
/// # Errors
/// Where the value cannot be said in this codec (a sequence of unknown length in compact, a map key that is not text in
/// JSON, anything but bytes in raw) or its own `Serialize` fails. `out` is then as it was before.
pub fn encode<T: Serialize + ?Sized>(codec: Codec, value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let start = out.len();
    let result = match codec {
        Codec::Compact => compact::encode(value, out),
        Codec::Named => named::encode(value, out),
        Codec::Json => json::encode(value, out),
        Codec::Raw => raw::encode(value, out),
    };
    if result.is_err() {
        out.truncate(start);
    }
    result
}

/// Reads a whole body.
///
/// # Errors
/// Where the bytes are not exactly one value of `T` in this codec, or exceed a bound of this module.
pub fn decode<T: DeserializeOwned>(codec: Codec, body: &[u8]) -> Result<T, CodecError> {
    match codec {
        Codec::Compact => compact::decode(body),
        Codec::Named => named::decode(body),
        Codec::Json => json::decode(body),
        Codec::Raw => raw::decode(body),
    }
}

/// Reads a whole body that is already shared: a raw body is taken as it is where `T` is [`Bytes`], without a copy.
///
/// # Errors
/// As [`decode`].
pub fn decode_shared<T: DeserializeOwned + 'static>(codec: Codec, body: Bytes) -> Result<T, CodecError> {
    if codec == Codec::Raw {
        let mut taken: Option<T> = None;
        if let Some(hole) = (&mut taken as &mut dyn Any).downcast_mut::<Option<Bytes>>() {
            *hole = Some(body.clone());
        }
        if let Some(value) = taken {
            return Ok(value);
        }
    }
    decode(codec, &body)
}

#[cfg(test)]
mod tests;
