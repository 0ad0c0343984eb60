//! One connection: how it is opened, which SQLite it needs, and how our files are told from others.

use crate::config::SqliteConfig;
use crate::errors::{Done, Fault};
use crate::location::Location;
use punctual_task::{StoreError, StoreErrorKind};
use rusqlite::config::DbConfig;
use rusqlite::{CachedStatement, Connection, OpenFlags};
use std::cell::Cell;
use std::thread;
use std::time::Duration;

/// Marks our files (`PRAGMA application_id`): "PNCT".
pub(crate) const APPLICATION_ID: i32 = 0x504e_4354;
/// Versions before 3.51.3 can corrupt a database when two connections write and checkpoint at once.
const SQLITE_VERSION_MIN: i32 = 3_051_003;
/// How often a held lock is tried again. Short, since another process holds it for some milliseconds at a time and takes
/// it again at once.
const POLL: Duration = Duration::from_millis(1);
/// All statements of this crate are prepared once a connection; there are fewer than this.
const STATEMENTS_MAX: usize = 192;
/// Page cache of the writing connection, in KiB: the upper levels of every index of some millions of rows.
const WRITER_CACHE_KIB: i64 = 32 * 1024;
/// Page cache of each reading connection, in KiB.
const READER_CACHE_KIB: i64 = 8 * 1024;
/// Pages in the log before they are moved into the file: fewer, larger moves than SQLite's default of 1,000, each of
/// which costs the writer two syncs.
const CHECKPOINT_PAGES: i64 = 4_000;
/// The log file is cut back to this size after a long reader let it grow, in bytes.
const LOG_BYTES_MAX: i64 = 64 << 20;

/// Refuses a SQLite that is too old.
pub(crate) fn check_version(found: i32) -> Result<(), StoreError> {
    if found >= SQLITE_VERSION_MIN {
        return Ok(());
    }
    Err(StoreError::new(
        StoreErrorKind::Version,
        format!(
            "SQLite {} is older than {}, before which a bug can corrupt a database; build with the bundled SQLite",
            dotted(found),
            dotted(SQLITE_VERSION_MIN)
        ),
    ))
}

fn dotted(version: i32) -> String {
    format!("{}.{}.{}", version / 1_000_000, version / 1_000 % 1_000, version % 1_000)
}

/// A connection that counts the statements it is asked for.
#[derive(Debug)]
pub(crate) struct Db {
    conn: Connection,
    statements: Cell<u64>,
}

/// Where statements run: on a connection of ours, or in a transaction of a caller's.
pub(crate) trait Sql {
    /// A prepared statement.
    fn sql(&self, text: &'static str) -> Done<CachedStatement<'_>>;
}

impl Sql for Db {
    fn sql(&self, text: &'static str) -> Done<CachedStatement<'_>> {
        Db::sql(self, text)
    }
}

impl Sql for Connection {
    fn sql(&self, text: &'static str) -> Done<CachedStatement<'_>> {
        Ok(self.prepare_cached(text)?)
    }
}

/// Whose file it is, by its mark, then how many objects are in it, then its mark again: `true` if ours, `false` if nobody's yet. Another
/// process may make the tables between two looks, and marks the file in the same commit.
fn whose(before: i32, objects: i64, after: i32) -> Option<bool> {
    match (before, objects, after) {
        (APPLICATION_ID, ..) | (.., APPLICATION_ID) => Some(true),
        (0, 0, 0) => Some(false),
        _ => None,
    }
}

impl Db {
    /// A prepared statement. Its text is a constant, so that it is prepared once a connection.
    pub(crate) fn sql(&self, text: &'static str) -> Done<CachedStatement<'_>> {
        self.statements.set(self.statements.get().wrapping_add(1));
        #[cfg(test)]
        crate::plans::seen(text);
        Ok(self.conn.prepare_cached(text)?)
    }

    /// The connection itself, for transactions and pragmas.
    pub(crate) fn conn(&self) -> &Connection {
        &self.conn
    }

    /// How many statements were asked for since the last call; a loop over one prepared statement counts once.
    pub(crate) fn take_statements(&self) -> u64 {
        self.statements.replace(0)
    }

    /// Opens the writing connection of a file of ours or of one that is still empty.
    pub(crate) fn open_writer(location: &Location, config: &SqliteConfig) -> Result<Self, StoreError> {
        check_version(rusqlite::version_number())?;
        location.check()?;
        let open = || -> Done<Self> {
            let db = Self::open(location, OpenFlags::SQLITE_OPEN_CREATE, config.wait)?;
            db.owner(location)?;
            db.use_log(location, config.wait)?;
            let conn = db.conn();
            conn.pragma_update(None, "synchronous", "FULL")?;
            conn.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
            conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
            conn.pragma_update_and_check(None, "journal_size_limit", LOG_BYTES_MAX, |_| Ok(()))?;
            Ok(db)
        };
        open().map_err(|fault| fault.named(location))
    }

    /// Opens a connection that cannot write.
    pub(crate) fn open_reader(location: &Location, config: &SqliteConfig) -> Result<Self, StoreError> {
        let open = || -> Done<Self> {
            // Not opened read-only: a log needs its shared memory file written, also by readers.
            let db = Self::open(location, OpenFlags::empty(), config.wait)?;
            db.conn.pragma_update(None, "query_only", true)?;
            db.conn.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
            Ok(db)
        };
        open().map_err(|fault| fault.named(location))
    }

    fn open(location: &Location, extra: OpenFlags, wait: Duration) -> Done<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | extra;
        let mut conn = match location {
            Location::Memory => Connection::open_in_memory()?,
            Location::File(path) => Connection::open_with_flags(path, flags)?,
        };
        let polls = polls(wait);
        conn.busy_handler(Some(move |tried: i32| {
            thread::sleep(POLL);
            tried < polls
        }))?;
        conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        // Plans never depend on bound values: otherwise SQLite prepares most statements again with each new value.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        conn.pragma_update(None, "foreign_keys", false)?;
        conn.pragma_update(None, "trusted_schema", false)?;
        conn.pragma_update(None, "temp_store", "MEMORY")?;
        // A mapped file turns an I/O error into a signal that ends the process.
        conn.pragma_update_and_check(None, "mmap_size", 0, |_| Ok(())).or_else(no_row)?;
        Ok(Db { conn, statements: Cell::new(0) })
    }

    /// Whose file it is: `true` if ours, `false` if nobody's yet.
    ///
    /// # Errors
    /// [`StoreErrorKind::Corrupt`] for a file of another program.
    pub(crate) fn owner(&self, location: &Location) -> Done<bool> {
        let id = || self.conn.pragma_query_value(None, "application_id", |row| row.get::<_, i32>(0));
        let before = id()?;
        let objects: i64 = self.conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        if let Some(ours) = whose(before, objects, id()?) {
            return Ok(ours);
        }
        Err(Fault::Store(StoreError::new(
            StoreErrorKind::Corrupt,
            format!(
                "{location} was written by something else (a SQLite database that is not Punctual's); name another file"
            ),
        )))
    }

    /// Turns the write-ahead log on. The switch takes a lock without asking the busy handler, so it is tried again here.
    fn use_log(&self, location: &Location, wait: Duration) -> Done<()> {
        let mut tried = 0;
        let mode: String = loop {
            let mode = self.conn.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0));
            match mode.map_err(Fault::from) {
                Err(fault) if fault.is_busy() && tried < polls(wait) => {
                    tried += 1;
                    thread::sleep(POLL);
                }
                other => break other?,
            }
        };
        let wanted = match location {
            Location::Memory => "memory",
            Location::File(_) => "wal",
        };
        if mode.eq_ignore_ascii_case(wanted) {
            return Ok(());
        }
        Err(Fault::Store(StoreError::new(
            StoreErrorKind::Unavailable,
            format!(
                "{location}: SQLite gives the journal mode {mode:?} where the write-ahead log is needed; \
                 put the database on a local disk, not on a network file system"
            ),
        )))
    }
}

/// Older builds answer `mmap_size` without a row.
fn no_row(error: rusqlite::Error) -> rusqlite::Result<()> {
    match error {
        rusqlite::Error::QueryReturnedNoRows => Ok(()),
        other => Err(other),
    }
}

fn polls(wait: Duration) -> i32 {
    i32::try_from(wait.as_millis() / POLL.as_millis().max(1)).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file whose tables another process makes between two looks is ours, and never a stranger's.
    #[test]
    fn a_file_that_is_being_made_is_ours() {
        assert_eq!(whose(APPLICATION_ID, 20, APPLICATION_ID), Some(true));
        assert_eq!(whose(0, 20, APPLICATION_ID), Some(true), "made before the second look");
        assert_eq!(whose(0, 0, APPLICATION_ID), Some(true), "made before the third look");
        assert_eq!(whose(0, 0, 0), Some(false));
        assert_eq!([whose(0, 1, 0), whose(7, 0, 7), whose(7, 20, 7)], [None; 3]);
    }

    /// A SQLite with the corruption bug is refused by both its version and the one that is needed.
    #[test]
    fn old_versions_are_refused() {
        assert_eq!(check_version(rusqlite::version_number()), Ok(()));
        assert_eq!(check_version(3_051_003), Ok(()));
        let refused = check_version(3_040_001).expect_err("3.40.1 has the bug");
        assert_eq!(refused.kind(), StoreErrorKind::Version);
        assert!(refused.to_string().contains("3.40.1") && refused.to_string().contains("3.51.3"), "{refused}");
    }
}
