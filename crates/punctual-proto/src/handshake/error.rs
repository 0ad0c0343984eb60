//! Why a connection could not be opened.

use crate::frame::Violation;
use crate::handshake::Capabilities;
use crate::status::{Code, Status};
use std::fmt;

/// Why a handshake failed. One line each, saying what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The first bytes are not a Punctual preface.
    NotPunctual {
        /// What they look like, where that is known.
        looks_like: Option<&'static str>,
    },
    /// Both are Punctual, of different protocol versions.
    Version {
        /// This side's.
        ours: u8,
        /// The peer's.
        theirs: u8,
    },
    /// One side requires what the other cannot do.
    Capabilities {
        /// What is missing.
        missing: Capabilities,
        /// Whether it is this side that lacks it.
        ours: bool,
    },
    /// The peer announced a limit that version 1 does not allow.
    Limit(crate::limits::LimitError),
    /// A handshake frame that breaks the protocol.
    Violation(Violation),
    /// The peer's handshake payload cannot be read.
    Malformed {
        /// What is wrong with it.
        what: &'static str,
    },
    /// What this side wants to say does not fit a handshake frame.
    TooLarge {
        /// The bytes it would take.
        bytes: usize,
        /// The most allowed.
        max: usize,
    },
    /// The server refused, and said why.
    Refused(Status),
}

impl HandshakeError {
    /// For bytes that are no preface; recognises what commonly answers on a wrong port.
    pub(super) fn not_punctual(bytes: &[u8]) -> Self {
        let starts = |prefixes: &[&[u8]]| prefixes.iter().any(|prefix| bytes.starts_with(prefix));
        // TLS records: handshake (22) or alert (21), then the record version 3.x.
        let looks_like = if starts(&[&[0x16, 3], &[0x15, 3]]) {
            Some("TLS")
        } else if starts(&[
            b"GET ",
            b"POST ",
            b"PUT ",
            b"HEAD ",
            b"DELETE ",
            b"OPTIONS ",
            b"PATCH ",
            b"HTTP/",
            b"PRI * HT",
        ]) {
            Some("HTTP")
        } else if starts(&[b"SSH-"]) {
            Some("SSH")
        } else {
            None
        };
        HandshakeError::NotPunctual { looks_like }
    }

    /// As a status for the calls that waited for this connection, or for the peer that is refused.
    #[must_use]
    pub fn to_status(&self) -> Status {
        match self {
            HandshakeError::Refused(status) => status.clone(),
            HandshakeError::Capabilities { .. } | HandshakeError::Version { .. } | HandshakeError::Limit(_) => {
                Status::new(Code::FailedPrecondition, self.to_string())
            }
            _ => Status::new(Code::ProtocolViolation, self.to_string()),
        }
    }
}

impl From<Violation> for HandshakeError {
    fn from(violation: Violation) -> Self {
        HandshakeError::Violation(violation)
    }
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeError::NotPunctual { looks_like: Some("TLS") } => f.write_str(
                "the peer speaks TLS, and this is a plain Punctual port; use the same transport on both sides",
            ),
            HandshakeError::NotPunctual { looks_like: Some(what) } => {
                write!(f, "the peer speaks {what}, not Punctual; this is not a Punctual port, check the address")
            }
            HandshakeError::NotPunctual { looks_like: None } => {
                f.write_str("the peer does not speak Punctual; this is not a Punctual port, check the address")
            }
            HandshakeError::Version { ours, theirs } => {
                let older = if ours < theirs { "this side" } else { "the peer" };
                write!(f, "this side speaks protocol version {ours}, the peer {theirs}; upgrade {older}")
            }
            HandshakeError::Capabilities { missing, ours: true } => {
                write!(f, "the peer requires capabilities that this side lacks: {missing}; upgrade this side")
            }
            HandshakeError::Capabilities { missing, ours: false } => {
                write!(f, "the peer lacks capabilities that this side requires: {missing}; upgrade the peer")
            }
            HandshakeError::Limit(error) => write!(f, "the peer announced a limit out of range: {error}"),
            HandshakeError::Violation(violation) => write!(f, "the handshake broke the protocol: {violation}"),
            HandshakeError::Malformed { what } => write!(f, "the peer's handshake cannot be read: {what}"),
            HandshakeError::TooLarge { bytes, max } => write!(
                f,
                "this side's handshake takes {bytes} bytes of at most {max}; shorten the authentication payload or offer \
                 fewer services"
            ),
            HandshakeError::Refused(status) => write!(f, "the server refused the connection: {status}"),
        }
    }
}

impl std::error::Error for HandshakeError {}
