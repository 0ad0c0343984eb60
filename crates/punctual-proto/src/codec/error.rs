//! Why a body could not be encoded or decoded.

use crate::codec::Codec;
use crate::status::{Code, Status};
use std::fmt;

/// The most bytes of a codec's own words that are kept.
const TEXT_BYTES_MAX: usize = 512;

/// What is wrong with a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Problem {
    /// The value cannot be said in this codec.
    Encode,
    /// The body ends inside a value.
    Truncated,
    /// Bytes follow the value.
    Trailing,
    /// A length is over the bytes that are left, or empty elements are over their bound.
    Length,
    /// Nesting is over the bound.
    Depth,
    /// The bytes are not what this type reads: a wrong kind, a number out of range, bad UTF-8, an unknown variant.
    Data,
}

impl Problem {
    /// A short stable name, for metrics and test vectors.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Problem::Encode => "encode",
            Problem::Truncated => "truncated",
            Problem::Trailing => "trailing",
            Problem::Length => "length",
            Problem::Depth => "depth",
            Problem::Data => "data",
        }
    }
}

/// Why a body could not be encoded or decoded. That call fails alone; the connection lives.
///
/// The text may quote a value of the body (the peer's own bytes, sent back to it), so it does not belong in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodecError(Box<Inner>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Inner {
    codec: Codec,
    problem: Problem,
    at: Option<usize>,
    text: String,
}

impl CodecError {
    pub(crate) fn new(codec: Codec, problem: Problem, at: Option<usize>, text: impl fmt::Display) -> Self {
        let mut text = text.to_string();
        text.truncate(crate::status::cut_text(&text, TEXT_BYTES_MAX).len());
        CodecError(Box::new(Inner { codec, problem, at, text }))
    }

    /// The codec.
    #[must_use]
    pub fn codec(&self) -> Codec {
        self.0.codec
    }

    /// What is wrong.
    #[must_use]
    pub fn problem(&self) -> Problem {
        self.0.problem
    }

    /// The byte of the body at which reading stopped, where the codec knows.
    #[must_use]
    pub fn at(&self) -> Option<usize> {
        self.0.at
    }

    /// As the failure of a request, told to the caller: its argument is invalid.
    #[must_use]
    pub fn into_request_status(self) -> Status {
        Status::new(Code::InvalidArgument, format!("the request cannot be read: {self}"))
    }

    /// As the failure of a reply, told to the caller by its own side: the answer is lost.
    #[must_use]
    pub fn into_reply_status(self) -> Status {
        Status::new(Code::DataLoss, format!("the reply cannot be read: {self}"))
    }

    /// As the failure of a value that cannot be encoded, which is a defect of the side that made it.
    #[must_use]
    pub fn into_encode_status(self) -> Status {
        Status::new(Code::Internal, format!("the message cannot be encoded: {self}"))
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.codec, self.0.text)?;
        match self.0.at {
            Some(at) => write!(f, " (byte {at})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for CodecError {}
