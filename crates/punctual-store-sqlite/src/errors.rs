//! What SQLite says, as the store's kinds of failure: one clear line each that names the file and what to do.

use crate::location::Location;
use punctual_task::rows::Damage;
use punctual_task::{StoreError, StoreErrorKind};
use rusqlite::ErrorCode;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A failure inside the store, before the file is named.
#[derive(Debug)]
pub(crate) enum Fault {
    /// SQLite refused or failed.
    Sql(rusqlite::Error),
    /// A decision of ours: the message is complete.
    Store(StoreError),
}

/// What the store's own steps give.
pub(crate) type Done<T> = Result<T, Fault>;

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Fault::Sql(error)
    }
}

impl From<rusqlite::types::FromSqlError> for Fault {
    fn from(error: rusqlite::types::FromSqlError) -> Self {
        Fault::Sql(error.into())
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Fault::Store(error)
    }
}

impl From<Damage> for Fault {
    fn from(damage: Damage) -> Self {
        Fault::corrupt(damage)
    }
}

impl Fault {
    /// The database holds what this code never writes.
    pub(crate) fn corrupt(what: impl fmt::Display) -> Self {
        Fault::Store(StoreError::new(
            StoreErrorKind::Corrupt,
            format!("{what}; restore the database from a backup, or run `PRAGMA integrity_check` on it"),
        ))
    }

    /// What a row says in JSON is not of this build's form.
    pub(crate) fn unread(what: impl fmt::Display) -> Self {
        Fault::Store(StoreError::new(
            StoreErrorKind::Version,
            format!("{what}; a newer build may have written it: use that build, or restore the database from a backup"),
        ))
    }

    /// A broken invariant of ours.
    pub(crate) fn bug(what: impl fmt::Display) -> Self {
        Fault::Store(StoreError::new(
            StoreErrorKind::Bug,
            format!("a bug in the SQLite store: {what}; please report it"),
        ))
    }

    /// Whether another connection holds a lock that was needed.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// Whether the connection is better opened again before it is used for anything else.
    pub(crate) fn spoils_connection(&self) -> bool {
        matches!(
            self.code(),
            Some(
                ErrorCode::SystemIoFailure
                    | ErrorCode::DatabaseCorrupt
                    | ErrorCode::NotADatabase
                    | ErrorCode::CannotOpen
                    | ErrorCode::OutOfMemory
                    | ErrorCode::ReadOnly
            )
        )
    }

    /// Whether a row cannot be read, by this build or at all, while the database itself works.
    pub(crate) fn is_unreadable(&self) -> bool {
        match self {
            Fault::Store(error) => matches!(error.kind(), StoreErrorKind::Corrupt | StoreErrorKind::Version),
            Fault::Sql(error) => matches!(
                error,
                rusqlite::Error::FromSqlConversionFailure(..)
                    | rusqlite::Error::IntegralValueOutOfRange(..)
                    | rusqlite::Error::Utf8Error(..)
                    | rusqlite::Error::InvalidColumnType(..)
            ),
        }
    }

    /// Whether work on other rows may succeed all the same: the database itself works.
    pub(crate) fn is_local(&self) -> bool {
        !self.spoils_connection() && !self.is_busy() && self.code() != Some(ErrorCode::DiskFull)
    }

    fn code(&self) -> Option<ErrorCode> {
        match self {
            Fault::Sql(rusqlite::Error::SqliteFailure(error, _) | rusqlite::Error::SqlInputError { error, .. }) => {
                Some(error.code)
            }
            Fault::Sql(_) | Fault::Store(_) => None,
        }
    }

    /// The failure as a caller sees it.
    pub(crate) fn named(self, location: &Location) -> StoreError {
        let error = match self {
            Fault::Store(error) => return error,
            Fault::Sql(error) => error,
        };
        let (kind, text) = match &error {
            rusqlite::Error::SqliteFailure(failure, _) | rusqlite::Error::SqlInputError { error: failure, .. } => {
                let (kind, advice) = advice(failure.code);
                (kind, format!("{location}: {advice} ({error})"))
            }
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::InvalidColumnType(..) => (
                StoreErrorKind::Corrupt,
                format!("{location}: a row holds what was never written ({error}); restore the database from a backup"),
            ),
            rusqlite::Error::NulError(_) | rusqlite::Error::InvalidPath(_) => {
                (StoreErrorKind::Refused, format!("{location}: not a usable path ({error})"))
            }
            _ => (StoreErrorKind::Bug, format!("{location}: a bug in the SQLite store ({error}); please report it")),
        };
        StoreError::new(kind, text)
    }
}

/// Runs work whose panic is a bug of one operation, and must not take the others, or the process, with it.
pub(crate) fn caught<T>(work: impl FnOnce() -> Done<T>) -> Done<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(Fault::bug(format!("it panicked: {}", panic_text(&*panic)))))
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

fn advice(code: ErrorCode) -> (StoreErrorKind, &'static str) {
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => (
            StoreErrorKind::Busy,
            "another process held the database for longer than the configured wait and nothing was written; \
             look for a backup or a long transaction of another program, or raise the wait",
        ),
        ErrorCode::DiskFull => {
            (StoreErrorKind::Full, "no room on the disk, and nothing was written; make room, work goes on by itself")
        }
        ErrorCode::SystemIoFailure => (
            StoreErrorKind::Unavailable,
            "the disk failed to read or write; check the disk and the system's log, and read again what was being written",
        ),
        ErrorCode::CannotOpen | ErrorCode::PermissionDenied => (
            StoreErrorKind::Unavailable,
            "cannot be opened; give this process the right to read and write the file and its directory",
        ),
        ErrorCode::ReadOnly => (
            StoreErrorKind::Unavailable,
            "is read-only; give this process the right to write the file and its directory",
        ),
        ErrorCode::FileLockingProtocolFailed => (
            StoreErrorKind::Unavailable,
            "the file system does not lock files as SQLite needs it; put the database on a local disk",
        ),
        ErrorCode::OutOfMemory => (StoreErrorKind::Unavailable, "SQLite ran out of memory, and nothing was written"),
        ErrorCode::OperationInterrupted | ErrorCode::OperationAborted => {
            (StoreErrorKind::Unavailable, "the operation was interrupted, and nothing was written")
        }
        ErrorCode::DatabaseCorrupt => {
            (StoreErrorKind::Corrupt, "the database is damaged; stop using it and restore it from a backup")
        }
        ErrorCode::NotADatabase => {
            (StoreErrorKind::Corrupt, "is not a SQLite database, or an encrypted one; name another file")
        }
        ErrorCode::TooBig => (StoreErrorKind::Refused, "a value is larger than SQLite takes"),
        _ => (StoreErrorKind::Bug, "a bug in the SQLite store; please report it"),
    }
}
