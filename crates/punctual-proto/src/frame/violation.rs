//! Violations of the protocol: why a connection must close.

use crate::frame::{CallId, Direction, Kind};
use std::fmt;

/// What a peer did that version 1 forbids. There is no resynchronisation: the connection closes with this as the reason.
///
/// The [`Display`](fmt::Display) form is one line that says what, where, and what was expected; it never repeats payload
/// bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A kind byte that version 1 does not have.
    UnknownKind {
        /// The byte.
        kind: u8,
    },
    /// A kind that may not come now, or not from this side.
    UnexpectedKind {
        /// The kind.
        kind: Kind,
        /// Who wrote it.
        from: Direction,
        /// What may come.
        expected: &'static str,
    },
    /// Flag bits that this kind does not have.
    UnknownFlags {
        /// The kind.
        kind: Kind,
        /// All its flag bits.
        flags: u8,
        /// The bits that the kind has.
        known: u8,
    },
    /// Flag bits that exist, but not together.
    FlagCombination {
        /// The kind.
        kind: Kind,
        /// All its flag bits.
        flags: u8,
        /// The rule that was broken.
        rule: &'static str,
    },
    /// A payload longer than this state allows.
    PayloadTooLong {
        /// The kind.
        kind: Kind,
        /// The announced bytes.
        len: u32,
        /// The most allowed.
        max: u32,
    },
    /// A payload that cannot hold the fields of its kind and flags.
    PayloadTooShort {
        /// The kind.
        kind: Kind,
        /// The announced bytes.
        len: u32,
        /// The least needed.
        min: u32,
    },
    /// A stream id that this kind, this side or the call does not have.
    StreamId {
        /// The kind.
        kind: Kind,
        /// The id.
        stream: u16,
        /// The rule that was broken.
        rule: &'static str,
    },
    /// A call id that this kind, these flags or the agreed limits do not allow.
    CallId {
        /// The kind.
        kind: Kind,
        /// The id.
        call: CallId,
        /// The rule that was broken.
        rule: &'static str,
    },
    /// A field that ends behind the payload.
    Truncated {
        /// The kind.
        kind: Kind,
        /// The field.
        field: &'static str,
        /// The bytes that it needs.
        need: u64,
        /// The bytes that are left.
        have: u64,
    },
    /// Bytes behind the last field.
    TrailingBytes {
        /// The kind.
        kind: Kind,
        /// How many.
        extra: u64,
    },
    /// A field over its limit.
    FieldTooLong {
        /// The kind.
        kind: Kind,
        /// The field.
        field: &'static str,
        /// Its length or value.
        value: u64,
        /// The most allowed.
        max: u64,
    },
    /// A field whose value is not allowed.
    FieldValue {
        /// The kind.
        kind: Kind,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What is allowed.
        expected: &'static str,
    },
    /// A text field that is not UTF-8.
    NotUtf8 {
        /// The kind.
        kind: Kind,
        /// The field.
        field: &'static str,
    },
    /// A fragment for a message that is not being assembled.
    FragmentWithoutMessage {
        /// The id.
        call: CallId,
    },
    /// A fragmented message whose pieces do not add up to the announced length.
    FragmentSum {
        /// The id.
        call: CallId,
        /// The announced body bytes.
        announced: u64,
        /// The body bytes with this fragment.
        received: u64,
    },
    /// More unfinished messages, or more bytes of them, than one connection assembles.
    AssemblyFull {
        /// The limit's name.
        limit: &'static str,
        /// Its value.
        max: u64,
    },
    /// A request under an id that is still running.
    CallIdInUse {
        /// The id.
        call: CallId,
    },
    /// A frame of a stream that has not begun or has ended.
    StreamState {
        /// The kind.
        kind: Kind,
        /// The call.
        call: CallId,
        /// The stream.
        stream: u16,
        /// What is wrong with it.
        rule: &'static str,
    },
    /// An item for which there was no credit.
    WindowExceeded {
        /// The call.
        call: CallId,
        /// The stream.
        stream: u16,
        /// The limit's name.
        limit: &'static str,
        /// Its value.
        window: u64,
        /// The bytes under way with the item.
        bytes: u64,
    },
}

impl Violation {
    /// A short stable name, for metrics and test vectors.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Violation::UnknownKind { .. } => "unknown_kind",
            Violation::UnexpectedKind { .. } => "unexpected_kind",
            Violation::UnknownFlags { .. } => "unknown_flags",
            Violation::FlagCombination { .. } => "flag_combination",
            Violation::PayloadTooLong { .. } => "payload_too_long",
            Violation::PayloadTooShort { .. } => "payload_too_short",
            Violation::StreamId { .. } => "stream_id",
            Violation::CallId { .. } => "call_id",
            Violation::Truncated { .. } => "truncated",
            Violation::TrailingBytes { .. } => "trailing_bytes",
            Violation::FieldTooLong { .. } => "field_too_long",
            Violation::FieldValue { .. } => "field_value",
            Violation::NotUtf8 { .. } => "not_utf8",
            Violation::FragmentWithoutMessage { .. } => "fragment_without_message",
            Violation::FragmentSum { .. } => "fragment_sum",
            Violation::AssemblyFull { .. } => "assembly_full",
            Violation::CallIdInUse { .. } => "call_id_in_use",
            Violation::StreamState { .. } => "stream_state",
            Violation::WindowExceeded { .. } => "window_exceeded",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Violation::UnknownKind { kind } => {
                write!(f, "frame kind {kind} is unknown; protocol version 1 has 1 to {}", Kind::ALL.len())
            }
            Violation::UnexpectedKind { kind, from, expected } => {
                let from = match from {
                    Direction::FromClient => "the client",
                    Direction::FromServer => "the server",
                };
                write!(f, "a {kind} frame from {from}; expected {expected}")
            }
            Violation::UnknownFlags { kind, flags, known } => {
                write!(f, "a {kind} frame with flags {flags:#010b}; its flags are {known:#010b}")
            }
            Violation::FlagCombination { kind, flags, rule } => {
                write!(f, "a {kind} frame with flags {flags:#010b}; {rule}")
            }
            Violation::PayloadTooLong { kind, len, max } => {
                write!(f, "a {kind} frame announces {len} payload bytes; the limit here is {max}")
            }
            Violation::PayloadTooShort { kind, len, min } => {
                write!(f, "a {kind} frame announces {len} payload bytes; its fields need at least {min}")
            }
            Violation::StreamId { kind, stream, rule } => {
                write!(f, "a {kind} frame with stream id {stream}; {rule}")
            }
            Violation::CallId { kind, call, rule } => write!(f, "a {kind} frame with call id {call}; {rule}"),
            Violation::Truncated { kind, field, need, have } => {
                write!(f, "the {field} of a {kind} frame needs {need} bytes where {have} are left")
            }
            Violation::TrailingBytes { kind, extra } => {
                write!(f, "a {kind} frame has {extra} bytes behind its last field; expected none")
            }
            Violation::FieldTooLong { kind, field, value, max } => {
                write!(f, "the {field} of a {kind} frame is {value}; the limit is {max}")
            }
            Violation::FieldValue { kind, field, value, expected } => {
                write!(f, "the {field} of a {kind} frame is {value}; expected {expected}")
            }
            Violation::NotUtf8 { kind, field } => write!(f, "the {field} of a {kind} frame is not UTF-8"),
            Violation::FragmentWithoutMessage { call } => {
                write!(f, "a FRAGMENT frame for call {call}, of which no unfinished message is known")
            }
            Violation::FragmentSum { call, announced, received } => write!(
                f,
                "the fragments of call {call} come to {received} body bytes with the last one; {announced} were announced"
            ),
            Violation::AssemblyFull { limit, max } => {
                write!(f, "unfinished fragmented messages exceed {limit} ({max}); finish or cancel some first")
            }
            Violation::CallIdInUse { call } => {
                write!(f, "a REQUEST frame under call id {call}, which is still running")
            }
            Violation::StreamState { kind, call, stream, rule } => {
                write!(f, "a {kind} frame for stream {stream} of call {call}; {rule}")
            }
            Violation::WindowExceeded { call, stream, limit, window, bytes } => write!(
                f,
                "an item of stream {stream} of call {call} brings the bytes under way to {bytes}; {limit} is {window}"
            ),
        }
    }
}

impl std::error::Error for Violation {}
