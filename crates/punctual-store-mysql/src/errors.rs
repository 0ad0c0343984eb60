//! What the server and the driver say, as the store's kinds of failure: one clear line each that names the database and
//! what to do.

use mysql_async::{DriverError, Error};
use punctual_task::rows::Damage;
use punctual_task::{StoreError, StoreErrorKind};
use std::fmt;

/// A failure inside the store, before the database is named.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The server refused, or the driver failed.
    Sql(Error),
    /// The server did not answer in time.
    Silent,
    /// What was read moved before it was locked.
    Moved,
    /// A decision of ours: the message is complete.
    Store(StoreError),
}

/// What the store's own steps give.
pub(crate) type Done<T> = Result<T, Fault>;

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Sql(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Fault::Store(error)
    }
}

/// A deadlock: one transaction of several is rolled back.
const DEADLOCK: u16 = 1213;
/// A lock was not to be had in time; only the statement is rolled back.
const LOCK_TIMEOUT: u16 = 1205;
/// Under snapshot isolation: the row was changed since it was read.
const CHANGED_SINCE_READ: u16 = 1020;
/// A unique index has the value already.
const DUPLICATE: u16 = 1062;
/// The server is going down, or somebody ended the connection.
const ENDED: [u16; 5] = [1053, 1317, 1927, 3169, 4031];
const FULL: [u16; 4] = [1021, 1114, 1030, 1041];
const DENIED: [u16; 7] = [1044, 1045, 1142, 1143, 1227, 1370, 1698];
const READ_ONLY: [u16; 3] = [1290, 1792, 1836];

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
            format!("{what}; restore the database from a backup, or check its tables"),
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
            format!("a bug in the MySQL store: {what}; please report it"),
        ))
    }

    /// The server's number for it.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Fault::Sql(Error::Server(error)) => Some(error.code),
            Fault::Sql(_) | Fault::Silent | Fault::Moved | Fault::Store(_) => None,
        }
    }

    /// Whether other transactions were in the way, so that the same again may pass.
    pub(crate) fn is_contention(&self) -> bool {
        matches!(self, Fault::Moved) || matches!(self.code(), Some(DEADLOCK | LOCK_TIMEOUT | CHANGED_SINCE_READ))
    }

    /// Whether a unique index refused a row.
    pub(crate) fn is_duplicate(&self) -> bool {
        self.code() == Some(DUPLICATE)
    }

    /// Whether the connection is of no further use.
    pub(crate) fn is_broken(&self) -> bool {
        match self {
            Fault::Silent => true,
            Fault::Sql(Error::Server(error)) => ENDED.contains(&error.code),
            Fault::Sql(_) => true,
            Fault::Moved | Fault::Store(_) => false,
        }
    }

    /// Whether a row cannot be read, by this build or at all, while the database itself works.
    pub(crate) fn is_unreadable(&self) -> bool {
        matches!(self, Fault::Store(error) if matches!(error.kind(), StoreErrorKind::Corrupt | StoreErrorKind::Version))
    }

    /// Whether work on other rows may succeed all the same: the database itself works.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Fault::Store(_) => true,
            Fault::Sql(_) | Fault::Silent | Fault::Moved => self.is_duplicate(),
        }
    }

    /// The failure as a caller sees it. `place` names the database without its password.
    pub(crate) fn named(self, place: &dyn fmt::Display) -> StoreError {
        let error = match self {
            Fault::Store(error) => return error,
            Fault::Moved => {
                let (kind, advice) = advice(DEADLOCK);
                return StoreError::new(kind, format!("{place}: {advice}"));
            }
            Fault::Silent => {
                return StoreError::new(
                    StoreErrorKind::Unavailable,
                    format!(
                        "{place}: the server did not answer in time, and whether anything was written is not known; \
                         look at the server and the network, and read again what was being written"
                    ),
                );
            }
            Fault::Sql(error) => error,
        };
        let (kind, advice) = match &error {
            Error::Server(server) => advice(server.code),
            Error::Io(_) | Error::Other(_) => (StoreErrorKind::Unavailable, UNREACHABLE),
            Error::Driver(DriverError::PacketTooLarge) => advice(1153),
            Error::Driver(DriverError::ConnectionClosed | DriverError::PacketOutOfOrder) => {
                (StoreErrorKind::Unavailable, UNREACHABLE)
            }
            Error::Driver(_) => {
                (StoreErrorKind::Unavailable, "the server answered what the driver does not understand")
            }
            Error::Url(_) => (StoreErrorKind::Refused, "the URL cannot be used"),
        };
        StoreError::new(kind, format!("{place}: {advice} ({error})"))
    }
}

const UNREACHABLE: &str = "the server cannot be reached, or the connection broke; check that it runs and the network, and \
    read again what was being written";

fn advice(code: u16) -> (StoreErrorKind, &'static str) {
    match code {
        DEADLOCK | LOCK_TIMEOUT | CHANGED_SINCE_READ => (
            StoreErrorKind::Busy,
            "other transactions were in the way for longer than the configured wait, and nothing was written; \
             look for a long transaction of another program, or raise the wait",
        ),
        1040 | 1203 | 1226 => {
            (StoreErrorKind::Unavailable, "the server has no connection left; raise its limit, or lower this store's")
        }
        1049 => (StoreErrorKind::NotFound, "there is no such database; create it first (CREATE DATABASE)"),
        1146 | 1054 => (StoreErrorKind::Version, "its tables are not those of this build; run `punctual migrate`"),
        1153 => (StoreErrorKind::Refused, "a row is larger than the server takes; raise its max_allowed_packet"),
        code if DENIED.contains(&code) => (
            StoreErrorKind::Unavailable,
            "the server refuses this user; check user and password, and grant the user all rights on the database",
        ),
        code if READ_ONLY.contains(&code) => {
            (StoreErrorKind::Unavailable, "the server is read-only; name the primary, not a replica")
        }
        code if FULL.contains(&code) => (
            StoreErrorKind::Full,
            "the server has no room left, and nothing was written; make room, work goes on by itself",
        ),
        code if ENDED.contains(&code) => (StoreErrorKind::Unavailable, UNREACHABLE),
        _ => (StoreErrorKind::Bug, "a bug in the MySQL store; please report it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql_async::ServerError;

    fn server(code: u16) -> Fault {
        Fault::Sql(Error::Server(ServerError { code, message: "said".to_owned(), state: "HY000".to_owned() }))
    }

    /// Each of the server's answers that users meet has a kind of its own and an advice, in one line that names the place.
    #[test]
    fn answers_have_kinds() {
        for (code, kind) in [
            (1213, StoreErrorKind::Busy),
            (1205, StoreErrorKind::Busy),
            (1020, StoreErrorKind::Busy),
            (1045, StoreErrorKind::Unavailable),
            (1049, StoreErrorKind::NotFound),
            (1146, StoreErrorKind::Version),
            (1114, StoreErrorKind::Full),
            (1153, StoreErrorKind::Refused),
            (1290, StoreErrorKind::Unavailable),
            (1927, StoreErrorKind::Unavailable),
            (1064, StoreErrorKind::Bug),
        ] {
            let error = server(code).named(&"mysql://u@h:1/d");
            assert_eq!(error.kind(), kind, "{code}");
            assert!(error.to_string().starts_with("mysql://u@h:1/d: ") && !error.to_string().contains('\n'), "{error}");
        }
        assert!(server(1213).is_contention() && server(1020).is_contention() && !server(1062).is_contention());
        assert!(server(1927).is_broken() && !server(1213).is_broken() && Fault::Silent.is_broken());
    }
}
