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

    /// A short stable name, for metrics and test vectors; of a violation, its own.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            HandshakeError::NotPunctual { .. } => "not_punctual",
            HandshakeError::Version { .. } => "version",
            HandshakeError::Capabilities { .. } => "capabilities",
            HandshakeError::Limit(_) => "limit",
            HandshakeError::Violation(violation) => violation.name(),
            HandshakeError::Malformed { .. } => "malformed",
            HandshakeError::TooLarge { .. } => "too_large",
            HandshakeError::Refused(_) => "refused",
        }
    }

    fn code(&self) -> Code {
        match self {
            HandshakeError::Refused(status) => status.code(),
            HandshakeError::Capabilities { .. } | HandshakeError::Version { .. } | HandshakeError::Limit(_) => {
                Code::FailedPrecondition
            }
            _ => Code::ProtocolViolation,
        }
    }

    /// As a status for the calls that waited for this connection: in the words of this side.
    #[must_use]
    pub fn to_status(&self) -> Status {
        match self {
            HandshakeError::Refused(status) => status.clone(),
            _ => Status::new(self.code(), self.to_string()),
        }
    }

    /// As the status that a server refuses the client with: in words that mean the same on the client.
    #[must_use]
    pub fn to_refusal(&self) -> Status {
        match self {
            HandshakeError::Refused(status) => status.clone(),
            _ => Status::new(self.code(), Told { error: self, ours: "the server", theirs: "the client" }.to_string()),
        }
    }
}

/// The error in words for the two sides: "this side" means nothing to whom it is sent to.
struct Told<'a> {
    error: &'a HandshakeError,
    ours: &'static str,
    theirs: &'static str,
}

impl From<Violation> for HandshakeError {
    fn from(violation: Violation) -> Self {
        HandshakeError::Violation(violation)
    }
}

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Told { error, ours: us, theirs: them } = *self;
        match error {
            HandshakeError::NotPunctual { looks_like: Some("TLS") } => write!(
                f,
                "{them} speaks TLS, and this is a plain Punctual connection; use the same transport on both sides"
            ),
            HandshakeError::NotPunctual { looks_like: Some(what) } => {
                write!(f, "{them} speaks {what}, not Punctual; this is not a Punctual port, check the address")
            }
            HandshakeError::NotPunctual { looks_like: None } => {
                write!(f, "{them} does not speak Punctual; this is not a Punctual port, check the address")
            }
            HandshakeError::Version { ours, theirs } => {
                let older = if ours < theirs { us } else { them };
                write!(f, "{us} speaks protocol version {ours}, {them} {theirs}; upgrade {older}")
            }
            HandshakeError::Capabilities { missing, ours: true } => {
                write!(f, "{them} requires capabilities that {us} lacks: {missing}; upgrade {us}")
            }
            HandshakeError::Capabilities { missing, ours: false } => {
                write!(f, "{us} requires capabilities that {them} lacks: {missing}; upgrade {them}")
            }
            HandshakeError::Limit(error) => write!(f, "{them} announced a limit out of range: {error}"),
            HandshakeError::Violation(violation) => {
                write!(f, "the handshake of {them} broke the protocol: {violation}")
            }
            HandshakeError::Malformed { what } => write!(f, "the handshake of {them} cannot be read: {what}"),
            HandshakeError::TooLarge { bytes, max } => write!(
                f,
                "the handshake of {us} takes {bytes} bytes of at most {max}; shorten the authentication payload or \
                 offer fewer services"
            ),
            HandshakeError::Refused(status) => write!(f, "the server refused the connection: {status}"),
        }
    }
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Told { error: self, ours: "this side", theirs: "the peer" }.fmt(f)
    }
}

impl std::error::Error for HandshakeError {}
