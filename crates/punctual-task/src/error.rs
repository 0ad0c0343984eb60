//! Why a store could not do what it was asked.

use std::fmt;

/// What kind of failure, and so what to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The database cannot be reached, or the connection broke. Nothing is known about the write: read again by id.
    Unavailable,
    /// The database was busy for longer than the wait allows; nothing was written.
    Busy,
    /// No room: the disk or a quota is full; nothing was written.
    Full,
    /// The request is wrong: it names a limit, a field or a state that does not allow it.
    Refused,
    /// What was named is not there.
    NotFound,
    /// The state changed under a compare-and-swap.
    Conflict,
    /// The worker was declared dead: its claims belong to others.
    Fenced,
    /// The database was written by a newer version, or needs a migration.
    Version,
    /// The database's content is damaged or was written by something else.
    Corrupt,
    /// A broken invariant of ours.
    Bug,
}

/// A store's failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
}

impl StoreError {
    /// A failure of `kind`; the message names what is wrong and what to do.
    #[must_use]
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        StoreError { kind, message: message.into() }
    }

    /// [`StoreErrorKind::Refused`].
    #[must_use]
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Refused, message)
    }

    /// [`StoreErrorKind::NotFound`].
    #[must_use]
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::NotFound, message)
    }

    /// What kind of failure.
    #[must_use]
    pub const fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Whether the same request may succeed later without anybody changing anything.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Unavailable | StoreErrorKind::Busy | StoreErrorKind::Full)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StoreError {}
