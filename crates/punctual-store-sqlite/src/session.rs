//! What a write works with: the one writing connection, what is remembered of the database, and the clocks.

use crate::config::SqliteConfig;
use crate::connection::Db;
use crate::definitions::Definitions;
use crate::errors::{Done, Fault};
use crate::holdings::Holdings;
use crate::leases::BootTime;
use crate::location::Location;
use crate::migrations;
use crate::names::Names;
use crate::sequence::Sequence;
use punctual_clock::Timestamp;
use punctual_task::StoreError;

/// The writer's state. Everything remembered is what the tables hold as of this transaction: a commit of another process
/// shows in `PRAGMA data_version`, and a rollback of ours forgets all.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) db: Db,
    pub(crate) names: Names,
    pub(crate) holdings: Holdings,
    pub(crate) definitions: Definitions,
    pub(crate) sequence: Sequence,
    pub(crate) location: Location,
    config: SqliteConfig,
    data_version: Option<i64>,
    spoiled: bool,
}

impl Session {
    /// Opens the database and brings its tables up to date.
    pub(crate) fn open(location: Location, config: SqliteConfig) -> Result<Self, StoreError> {
        let db = Db::open_writer(&location, &config)?;
        migrations::prepare(&db, &location, &config).map_err(|fault| fault.named(&location))?;
        Ok(Session {
            db,
            names: Names::default(),
            holdings: Holdings::default(),
            definitions: Definitions::default(),
            sequence: Sequence::default(),
            location,
            config,
            data_version: None,
            spoiled: false,
        })
    }

    /// The wall clock, which decides what is due.
    pub(crate) fn now(&self) -> Timestamp {
        self.config.clock.timestamp()
    }

    /// The boot clock, which decides which lease has ended.
    pub(crate) fn boot_time(&self) -> BootTime {
        BootTime::read(&*self.config.boot)
    }

    pub(crate) fn config(&self) -> &SqliteConfig {
        &self.config
    }

    /// Begins a group: takes the write lock and forgets what another process may have changed.
    pub(crate) fn begin(&mut self) -> Done<()> {
        if self.spoiled && self.location != Location::Memory {
            self.forget();
            self.db = Db::open_writer(&self.location, &self.config)?;
            migrations::prepare(&self.db, &self.location, &SqliteConfig { migrate: false, ..self.config.clone() })?;
            self.spoiled = false;
            tracing::info!(location = %self.location, "the database is open again");
        }
        self.db.sql("BEGIN IMMEDIATE")?.execute([])?;
        let version: i64 = self.db.sql("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if self.data_version != Some(version) {
            self.holdings = Holdings::default();
            self.sequence = Sequence::default();
            self.names.refresh(&self.db)?;
            self.data_version = Some(version);
        }
        Ok(())
    }

    /// Makes the group durable.
    pub(crate) fn commit(&mut self) -> Done<()> {
        self.db.sql("COMMIT")?.execute([])?;
        Ok(())
    }

    /// Undoes the group.
    pub(crate) fn roll_back(&mut self) {
        self.forget();
        if self.in_transaction() && self.db.conn().execute_batch("ROLLBACK").is_err() {
            self.spoiled = true;
        }
    }

    /// Whether the group's transaction is still there: a full disk can end it from within.
    pub(crate) fn in_transaction(&self) -> bool {
        !self.db.conn().is_autocommit()
    }

    /// Runs one member of a group so that its failure undoes its own writes only.
    pub(crate) fn step<T>(&mut self, work: impl FnOnce(&mut Session) -> Done<T>) -> Done<T> {
        self.db.sql("SAVEPOINT step")?.execute([])?;
        let outcome = work(self).and_then(|value| {
            self.sequence.flush(&self.db)?;
            Ok(value)
        });
        if outcome.is_ok() {
            self.db.sql("RELEASE step")?.execute([])?;
        } else if self.in_transaction() {
            let version = self.data_version;
            self.forget();
            let undone = self.db.conn().execute_batch("ROLLBACK TO step; RELEASE step").map_err(Fault::from);
            match undone.and_then(|()| self.names.refresh(&self.db)) {
                Ok(()) => self.data_version = version,
                Err(_) => self.roll_back(),
            }
        }
        outcome
    }

    /// Moves the log into the file, if that is possible: what the log took is room again.
    pub(crate) fn make_room(&mut self) {
        let moved = self.db.conn().query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        if let Err(error) = moved {
            tracing::debug!(location = %self.location, %error, "the log could not be moved into the file");
        }
    }

    /// Opens the connection again before the next group.
    pub(crate) fn spoil(&mut self) {
        self.spoiled = true;
    }

    fn forget(&mut self) {
        self.names = Names::default();
        self.holdings = Holdings::default();
        self.definitions = Definitions::default();
        self.sequence = Sequence::default();
        self.data_version = None;
    }
}
