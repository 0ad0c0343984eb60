//! The tables' versions: numbered files, applied in order under the write lock, each with its fingerprint kept.

use crate::config::SqliteConfig;
use crate::connection::{APPLICATION_ID, Db};
use crate::errors::{Done, Fault};
use crate::leases::BootTime;
use crate::location::Location;
use punctual_clock::{Entropy, SystemEntropy, Timestamp};
use punctual_task::{StoreError, StoreErrorKind};
use rusqlite::{Transaction, TransactionBehavior, params};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// One step between two versions of the tables: plain SQL, to be printed and reviewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migration {
    /// The version of the tables after it, from 1.
    pub version: u32,
    /// What it is called.
    pub name: &'static str,
    /// The way up.
    pub up: &'static str,
    /// The way down: what was added goes, with what it holds.
    pub down: &'static str,
}

impl Migration {
    /// The SHA-256 of the way up, in hexadecimal: a database remembers it, so that a changed file is noticed.
    #[must_use]
    pub fn sha256(&self) -> String {
        Sha256::digest(self.up.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

static MIGRATIONS: [Migration; 3] = [
    Migration {
        version: 1,
        name: "first",
        up: include_str!("../migrations/0001_first.up.sql"),
        down: include_str!("../migrations/0001_first.down.sql"),
    },
    Migration {
        version: 2,
        name: "backfills",
        up: include_str!("../migrations/0002_backfills.up.sql"),
        down: include_str!("../migrations/0002_backfills.down.sql"),
    },
    Migration {
        version: 3,
        name: "progress",
        up: include_str!("../migrations/0003_progress.up.sql"),
        down: include_str!("../migrations/0003_progress.down.sql"),
    },
];

const TABLE: &str = "CREATE TABLE IF NOT EXISTS migration (
    version INTEGER PRIMARY KEY,
    name    TEXT NOT NULL,
    sha256  TEXT NOT NULL,
    applied INTEGER NOT NULL
)";

/// All migrations that this build knows, oldest first.
#[must_use]
pub fn migrations() -> &'static [Migration] {
    &MIGRATIONS
}

/// The version of the tables that this build works with.
#[must_use]
pub fn schema_version() -> u32 {
    latest(&MIGRATIONS)
}

fn latest(known: &[Migration]) -> u32 {
    known.last().map_or(0, |migration| migration.version)
}

/// Moves a database between versions while no store has it open for work; blocks.
#[derive(Debug)]
pub struct Migrator {
    db: Db,
    location: Location,
    config: SqliteConfig,
    known: &'static [Migration],
}

impl Migrator {
    /// Opens the database; a file that is not there is created, without tables.
    ///
    /// # Errors
    /// As [`SqliteStore::open`](crate::SqliteStore::open), without the version's.
    pub fn open(location: &str, config: SqliteConfig) -> Result<Self, StoreError> {
        config.validate()?;
        let location = Location::parse(location)?;
        let db = Db::open_writer(&location, &config)?;
        Ok(Migrator { db, location, config, known: &MIGRATIONS })
    }

    /// The version that the tables have now, 0 without tables.
    ///
    /// # Errors
    /// [`StoreErrorKind::Version`] if a newer build or a changed file wrote it.
    pub fn version(&self) -> Result<u32, StoreError> {
        current(&self.db, &self.location, self.known).map_err(|fault| fault.named(&self.location))
    }

    /// Brings the tables up to `to`, by default this build's version. Gives what was applied.
    ///
    /// # Errors
    /// As [`Migrator::version`]; nothing is applied then.
    pub fn up(&self, to: Option<u32>) -> Result<Vec<&'static Migration>, StoreError> {
        let now = self.config.clock.timestamp();
        up(&self.db, &self.location, self.known, to, now).map_err(|fault| fault.named(&self.location))
    }

    /// Takes the tables down to version `to`, with what the newer ones hold. Gives what was undone.
    ///
    /// # Errors
    /// [`StoreErrorKind::Refused`] while a worker is alive: it works with the newer tables. Otherwise as
    /// [`Migrator::version`]; nothing is undone then.
    pub fn down(&self, to: u32) -> Result<Vec<&'static Migration>, StoreError> {
        let boot = BootTime::read(&*self.config.boot);
        down(&self.db, &self.location, self.known, to, &boot).map_err(|fault| fault.named(&self.location))
    }
}

/// Brings the tables to this build's version, or refuses where `config` forbids that. Takes no lock if there is nothing to do.
pub(crate) fn prepare(db: &Db, location: &Location, config: &SqliteConfig) -> Done<()> {
    let wanted = latest(&MIGRATIONS);
    let found = current(db, location, &MIGRATIONS)?;
    if found == wanted {
        return Ok(());
    }
    if !config.migrate {
        return Err(Fault::Store(StoreError::new(
            StoreErrorKind::Version,
            format!("{location} has tables of version {found}, this build needs {wanted}; run `punctual migrate`"),
        )));
    }
    up(db, location, &MIGRATIONS, None, config.clock.timestamp()).map(|_| ())
}

/// The random name that a database got when it was made: a copy of it has the same.
pub(crate) fn identity(db: &Db) -> Done<String> {
    Ok(db.sql("SELECT value FROM meta WHERE name = 'identity'")?.query_row([], |row| row.get(0))?)
}

/// The version that the tables have, after checking that it is one of ours.
fn current(db: &Db, location: &Location, known: &[Migration]) -> Done<u32> {
    if !db.owner(location)? {
        return Ok(0);
    }
    let mut applied = BTreeMap::new();
    {
        let mut statement = db.conn().prepare("SELECT version, sha256 FROM migration ORDER BY version")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            applied.insert(row.get::<_, u32>(0)?, row.get::<_, String>(1)?);
        }
    }
    let newest = applied.last_key_value().map_or(0, |(version, _)| *version);
    let ours = latest(known);
    if newest > ours {
        return Err(Fault::Store(StoreError::new(
            StoreErrorKind::Version,
            format!(
                "{location} has tables of version {newest}, this build knows versions up to {ours}; \
                 use a newer build, or let that build take the tables down to version {ours}"
            ),
        )));
    }
    for migration in known.iter().filter(|migration| migration.version <= newest) {
        let sha256 = migration.sha256();
        let found = applied.get(&migration.version);
        if found != Some(&sha256) {
            return Err(Fault::Store(StoreError::new(
                StoreErrorKind::Version,
                format!(
                    "{location}: migration {} ({}) was applied as {}, this build has {}; \
                     use the build that made the database, or restore it from a backup",
                    migration.version,
                    migration.name,
                    found.map_or("none", |found| short(found)),
                    short(&sha256)
                ),
            )));
        }
    }
    Ok(newest)
}

fn short(sha256: &str) -> &str {
    sha256.get(..12).unwrap_or(sha256)
}

fn up(
    db: &Db,
    location: &Location,
    known: &'static [Migration],
    to: Option<u32>,
    now: Timestamp,
) -> Done<Vec<&'static Migration>> {
    let to = to.unwrap_or_else(|| latest(known));
    check_target(to, known)?;
    let transaction = Transaction::new_unchecked(db.conn(), TransactionBehavior::Immediate)?;
    // Read again under the lock: another process may just have done the work.
    let found = current(db, location, known)?;
    let mut applied = Vec::new();
    for migration in known.iter().filter(|migration| migration.version > found && migration.version <= to) {
        if migration.version == 1 {
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.execute_batch(TABLE)?;
        }
        transaction.execute_batch(migration.up)?;
        transaction.execute(
            "INSERT INTO migration (version, name, sha256, applied) VALUES (?1, ?2, ?3, ?4)",
            params![migration.version, migration.name, migration.sha256(), now.as_micros()],
        )?;
        if migration.version == 1 {
            let identity = format!("{:016x}{:016x}", SystemEntropy.next_u64(), SystemEntropy.next_u64());
            transaction.execute("INSERT INTO meta (name, value) VALUES ('identity', ?1)", params![identity])?;
        }
        applied.push(migration);
    }
    transaction.commit()?;
    Ok(applied)
}

fn down(
    db: &Db,
    location: &Location,
    known: &'static [Migration],
    to: u32,
    boot: &BootTime,
) -> Done<Vec<&'static Migration>> {
    check_target(to, known)?;
    let transaction = Transaction::new_unchecked(db.conn(), TransactionBehavior::Immediate)?;
    let found = current(db, location, known)?;
    if found > 0 {
        let alive: i64 = transaction.query_row(
            "SELECT count(*) FROM worker WHERE state = 0 AND (boot = ?1 OR boot = '' OR ?1 = '') AND until > ?2",
            params![boot.boot, boot.micros],
            |row| row.get(0),
        )?;
        if alive > 0 {
            return Err(Fault::Store(StoreError::refused(format!(
                "{location}: {alive} workers are alive on the tables of version {found}; stop them first"
            ))));
        }
    }
    let mut undone = Vec::new();
    for migration in known.iter().rev().filter(|migration| migration.version <= found && migration.version > to) {
        transaction.execute_batch(migration.down)?;
        transaction.execute("DELETE FROM migration WHERE version = ?1", params![migration.version])?;
        undone.push(migration);
    }
    transaction.commit()?;
    Ok(undone)
}

fn check_target(to: u32, known: &[Migration]) -> Done<()> {
    let ours = latest(known);
    if to > ours {
        return Err(Fault::Store(StoreError::refused(format!(
            "there is no version {to} of the tables; this build knows 0 to {ours}"
        ))));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
