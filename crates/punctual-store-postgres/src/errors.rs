//! What PostgreSQL says, as the store's kinds of failure: one clear line each that names the database and what to do.

use crate::location::Location;
use punctual_task::rows::Damage;
use punctual_task::{StoreError, StoreErrorKind};
use std::error::Error as _;
use std::fmt;
use tokio_postgres::error::SqlState;

/// A failure inside the store, before the database is named.
#[derive(Debug)]
pub(crate) enum Fault {
    /// PostgreSQL refused, or the connection broke.
    Sql(tokio_postgres::Error),
    /// A decision of ours: the message is complete.
    Store(StoreError),
    /// The state that was decided on is gone; the same from the beginning decides anew.
    Again(&'static str),
    /// No answer came while the connection stood.
    Silent,
    /// All connections were in use for longer than the wait.
    NoConnection,
}

/// What the store's own steps give.
pub(crate) type Done<T> = Result<T, Fault>;

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Fault::Sql(error)
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
            format!("{what}; restore the database from a backup, or check it with `pg_amcheck`"),
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
            format!("a bug in the PostgreSQL store: {what}; please report it"),
        ))
    }

    fn state(&self) -> Option<&SqlState> {
        match self {
            Fault::Sql(error) => error.code(),
            Fault::Store(_) | Fault::Again(_) | Fault::Silent | Fault::NoConnection => None,
        }
    }

    /// Whether the same transaction from its beginning may succeed at once: it met another one.
    pub(crate) fn met_another(&self) -> bool {
        matches!(self, Fault::Again(_))
            || matches!(self.state(), Some(state) if [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE].contains(state))
    }

    /// Whether a row was there already.
    pub(crate) fn is_duplicate(&self) -> bool {
        self.state() == Some(&SqlState::UNIQUE_VIOLATION)
    }

    /// Whether the connection is of no more use.
    pub(crate) fn lost_connection(&self) -> bool {
        match self {
            Fault::Silent => true,
            Fault::Sql(error) => error.as_db_error().map_or_else(
                || error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>()),
                |_| self.state().is_some_and(ends_connection),
            ),
            Fault::Store(_) | Fault::Again(_) | Fault::NoConnection => false,
        }
    }

    /// Whether a row cannot be read, by this build or at all, while the database itself works.
    pub(crate) fn is_unreadable(&self) -> bool {
        matches!(self, Fault::Store(error) if matches!(error.kind(), StoreErrorKind::Corrupt | StoreErrorKind::Version))
    }

    /// Whether work on other rows may succeed all the same: the database itself works.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Fault::Store(error) => !error.is_retryable(),
            Fault::Sql(_) => {
                !self.lost_connection()
                    && self
                        .state()
                        .is_some_and(|state| !matches!(state.code().get(..2), Some("53" | "57" | "58" | "55")))
            }
            Fault::Again(_) | Fault::Silent | Fault::NoConnection => false,
        }
    }

    /// The failure as a caller sees it.
    pub(crate) fn named(self, location: &Location) -> StoreError {
        let (kind, text) = match &self {
            Fault::Store(error) => return error.clone(),
            Fault::Again(what) => (
                StoreErrorKind::Busy,
                format!(
                    "{location}: others changed {what} again and again meanwhile, and nothing was written; try again"
                ),
            ),
            Fault::Silent => (
                StoreErrorKind::Unavailable,
                format!("{location}: no answer for too long; read again what was being written"),
            ),
            Fault::NoConnection => (
                StoreErrorKind::Busy,
                format!(
                    "{location}: all connections are in use, and nothing was written; raise `connections` if it lasts"
                ),
            ),
            Fault::Sql(error) => match error.as_db_error() {
                Some(said) => {
                    let (kind, advice) = advice(said.code());
                    (kind, format!("{location}: {advice} ({}, {})", said.message(), said.code().code()))
                }
                None if self.lost_connection() => (
                    StoreErrorKind::Unavailable,
                    format!("{location}: the connection broke ({}); read again what was being written", chain(error)),
                ),
                None => not_connected(location, error),
            },
        };
        StoreError::new(kind, text)
    }
}

/// Why no connection could be made.
fn not_connected(location: &Location, error: &tokio_postgres::Error) -> (StoreErrorKind, String) {
    let text = chain(error);
    let (kind, advice) = if text.contains("TLS") || text.contains("certificate") {
        (StoreErrorKind::Unavailable, "; see `sslmode` and `sslrootcert` of the address")
    } else if text.contains("password missing") || text.contains("user missing") {
        (StoreErrorKind::Refused, "; write user and password into the address")
    } else if text.contains("connecting") || text.contains("timed out") {
        (StoreErrorKind::Unavailable, "; check that the server runs and can be reached")
    } else if text.contains("converting") || text.contains("deserializ") {
        (StoreErrorKind::Corrupt, "; a row holds what was never written: restore the database from a backup")
    } else {
        (StoreErrorKind::Bug, "; a bug in the PostgreSQL store: please report it")
    };
    (kind, format!("{location}: {text}{advice}"))
}

/// The error with what lies behind it.
fn chain(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

fn ends_connection(state: &SqlState) -> bool {
    let code = state.code();
    code.starts_with("08") || matches!(code, "57P01" | "57P02" | "57P03" | "57P05" | "25P03")
}

/// What kind of failure a state is, and what to do.
fn advice(state: &SqlState) -> (StoreErrorKind, &'static str) {
    use StoreErrorKind::{Bug, Busy, Corrupt, Full, NotFound, Refused, Unavailable, Version};
    match state.code() {
        "53100" => (Full, "no room on the server's disk, and nothing was written; make room, work goes on by itself"),
        "53300" => (Busy, "the server has no connection left; raise its max_connections or lower `connections`"),
        "53200" | "53000" | "53400" => (Unavailable, "the server ran out of a resource, and nothing was written"),
        "57014" => (Busy, "a statement ran for longer than statement_timeout and was ended; nothing was written"),
        "55P03" => (Busy, "another transaction held a lock for longer than lock_timeout, and nothing was written"),
        "40P01" | "40001" => (Busy, "the transaction met others again and again, and nothing was written; try again"),
        "25006" => (Unavailable, "the server is read-only (a standby?); name the primary"),
        "28P01" | "28000" => (Refused, "the server refuses this user or password"),
        "3D000" => (NotFound, "there is no such database; create it first"),
        "3F000" | "42P01" | "42703" => {
            (Version, "the tables are missing or of another version; run `punctual migrate`")
        }
        "42501" => (Refused, "the user lacks a right; it needs all of them on its own schema, and CREATE to make that"),
        "22021" | "22P05" => (Refused, "a text holds a character that PostgreSQL does not store"),
        "XX001" | "XX002" => (Corrupt, "the database is damaged; stop using it and restore it from a backup"),
        code if code.starts_with("08") || code.starts_with("57") || code.starts_with("58") => {
            (Unavailable, "the server ended the connection; read again what was being written")
        }
        "25P02" => (Refused, "the transaction has failed before; roll it back and begin it anew"),
        "25P03" => (Unavailable, "the server ended a transaction that stood still, and nothing was written"),
        _ => (Bug, "a bug in the PostgreSQL store; please report it"),
    }
}
