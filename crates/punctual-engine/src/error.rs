//! Why the engine could not do what it was asked.

use punctual_task::{StoreError, StoreErrorKind};
use std::fmt;

/// What kind of failure, and so what to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store cannot be reached, is busy, or has no room. The same request may succeed later.
    Unavailable,
    /// The request names something that a limit or a state does not allow.
    Refused,
    /// What was named is not there.
    NotFound,
    /// The state changed under a compare-and-swap.
    Conflict,
    /// A value cannot be written as JSON, or stored JSON cannot be read as the type asked for.
    Payload,
    /// The engine's configuration is wrong.
    Config,
    /// The store is of another version, or is damaged.
    Store,
    /// A broken invariant of ours.
    Bug,
}

/// Whose fault a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The one who called: the same request will fail again.
    Caller,
    /// The database, the disk, the network.
    Environment,
    /// Ours.
    Bug,
}

/// The engine's failure. Its text names what is wrong and what to do; where a store said more, that is its source.
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<StoreError>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), source: None }
    }

    /// What kind of failure.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whose fault it is.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self.kind {
            ErrorKind::Unavailable | ErrorKind::Store => Fault::Environment,
            ErrorKind::Bug => Fault::Bug,
            _ => Fault::Caller,
        }
    }

    /// Whether the same request may succeed later without anybody changing anything.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self.kind, ErrorKind::Unavailable)
    }

    /// What the store said, where the failure is a store's.
    #[must_use]
    pub const fn store_error(&self) -> Option<&StoreError> {
        self.source.as_ref()
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Error::from_store(String::new(), error)
    }
}

impl Error {
    /// `doing` says what was tried (`"enqueueing Billing/charge"`); empty where the store's words are enough.
    pub(crate) fn from_store(doing: impl Into<String>, error: StoreError) -> Self {
        let kind = match error.kind() {
            StoreErrorKind::Unavailable | StoreErrorKind::Busy | StoreErrorKind::Full => ErrorKind::Unavailable,
            StoreErrorKind::Refused => ErrorKind::Refused,
            StoreErrorKind::NotFound => ErrorKind::NotFound,
            StoreErrorKind::Conflict => ErrorKind::Conflict,
            StoreErrorKind::Version | StoreErrorKind::Corrupt => ErrorKind::Store,
            // Fenced reaches no caller: the engine registers again by itself.
            _ => ErrorKind::Bug,
        };
        Error { kind, message: doing.into(), source: Some(error) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            // Alone, the store's text is this error's own level.
            Some(source) if self.message.is_empty() => fmt::Display::fmt(source, f),
            _ => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if self.message.is_empty() {
            return None;
        }
        self.source.as_ref().map(|source| source as _)
    }
}
