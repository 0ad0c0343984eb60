//! The codes: gRPC's sixteen under gRPC's numbers, and three of the transport's own.

use std::fmt;

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Who made the call: its arguments, its rights, its deadline.
    Caller,
    /// The other end broke the protocol or sent what cannot be read.
    Peer,
    /// Neither: a network, a process that is starting or stopping, a load.
    Environment,
    /// A defect in a handler or in this library.
    Bug,
}

/// What kind of failure a [`Status`](crate::status::Status) is. The number is its byte on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Code {
    /// The caller, or the server on its behalf, cancelled.
    Cancelled = 1,
    /// A failure that nobody classified, or a code of a newer version.
    Unknown = 2,
    /// The arguments are wrong whatever the state of the system.
    InvalidArgument = 3,
    /// The budget ended first. The work may have been done all the same.
    DeadlineExceeded = 4,
    /// What was asked for does not exist.
    NotFound = 5,
    /// What was to be made exists.
    AlreadyExists = 6,
    /// Who is calling is known, and may not.
    PermissionDenied = 7,
    /// A limit was hit; the status names it.
    ResourceExhausted = 8,
    /// The system is not in the state that the call needs.
    FailedPrecondition = 9,
    /// A conflict with another call; start again from the read.
    Aborted = 10,
    /// Past the valid range, which may grow.
    OutOfRange = 11,
    /// The server has no such method.
    Unimplemented = 12,
    /// An invariant is broken; the text says no more than the server allows.
    Internal = 13,
    /// The service cannot be reached or cannot answer now.
    Unavailable = 14,
    /// A message cannot be read back: it was cut, or its codec refuses it.
    DataLoss = 15,
    /// Who is calling is not known.
    Unauthenticated = 16,
    /// The connection closed while the call was under way. The work may have been done.
    ConnectionClosed = 32,
    /// The peer broke the protocol, and the connection closed for it.
    ProtocolViolation = 33,
    /// Nothing came from the peer for the agreed time, and the connection closed for it.
    HeartbeatLost = 34,
}

impl Code {
    /// Every code, in the order of the numbers.
    pub const ALL: [Code; 19] = [
        Code::Cancelled,
        Code::Unknown,
        Code::InvalidArgument,
        Code::DeadlineExceeded,
        Code::NotFound,
        Code::AlreadyExists,
        Code::PermissionDenied,
        Code::ResourceExhausted,
        Code::FailedPrecondition,
        Code::Aborted,
        Code::OutOfRange,
        Code::Unimplemented,
        Code::Internal,
        Code::Unavailable,
        Code::DataLoss,
        Code::Unauthenticated,
        Code::ConnectionClosed,
        Code::ProtocolViolation,
        Code::HeartbeatLost,
    ];

    /// The code with this number; [`Code::Unknown`] for one that this version does not know, `None` for 0, which is no
    /// failure.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Code> {
        match byte {
            0 => None,
            byte => Some(Code::ALL.into_iter().find(|code| *code as u8 == byte).unwrap_or(Code::Unknown)),
        }
    }

    /// The name in JSON, in command output and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Code::Cancelled => "cancelled",
            Code::Unknown => "unknown",
            Code::InvalidArgument => "invalid_argument",
            Code::DeadlineExceeded => "deadline_exceeded",
            Code::NotFound => "not_found",
            Code::AlreadyExists => "already_exists",
            Code::PermissionDenied => "permission_denied",
            Code::ResourceExhausted => "resource_exhausted",
            Code::FailedPrecondition => "failed_precondition",
            Code::Aborted => "aborted",
            Code::OutOfRange => "out_of_range",
            Code::Unimplemented => "unimplemented",
            Code::Internal => "internal",
            Code::Unavailable => "unavailable",
            Code::DataLoss => "data_loss",
            Code::Unauthenticated => "unauthenticated",
            Code::ConnectionClosed => "connection_closed",
            Code::ProtocolViolation => "protocol_violation",
            Code::HeartbeatLost => "heartbeat_lost",
        }
    }

    /// The code of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Code> {
        Code::ALL.into_iter().find(|code| code.name() == name)
    }

    /// Whose fault a failure of this kind is.
    #[must_use]
    pub const fn fault(self) -> Fault {
        match self {
            Code::Cancelled
            | Code::InvalidArgument
            | Code::DeadlineExceeded
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::Unauthenticated => Fault::Caller,
            Code::ResourceExhausted | Code::Unavailable | Code::ConnectionClosed | Code::HeartbeatLost => {
                Fault::Environment
            }
            Code::DataLoss | Code::ProtocolViolation => Fault::Peer,
            Code::Unknown | Code::Internal => Fault::Bug,
        }
    }

    /// Whether another try of the same call may succeed by itself.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(self, Code::Unavailable | Code::ConnectionClosed | Code::HeartbeatLost)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
