//! The tables' versions: numbered files, applied in order under a lock, each with its fingerprint kept.

use crate::config::PostgresConfig;
use crate::connection::{Connection, Connector};
use crate::errors::{Done, Fault};
use crate::location::Location;
use punctual_clock::{Entropy, SystemEntropy};
use punctual_task::{StoreError, StoreErrorKind};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use tokio_postgres::{Client, GenericClient};

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

static MIGRATIONS: [Migration; 2] = [
    Migration {
        version: 1,
        name: "first",
        up: include_str!("../migrations/0001_first.up.sql"),
        down: include_str!("../migrations/0001_first.down.sql"),
    },
    Migration {
        version: 2,
        name: "progress",
        up: include_str!("../migrations/0002_progress.up.sql"),
        down: include_str!("../migrations/0002_progress.down.sql"),
    },
];

const TABLE: &str = "CREATE TABLE IF NOT EXISTS migration (
    version integer PRIMARY KEY,
    name    text NOT NULL,
    sha256  text NOT NULL,
    applied timestamptz NOT NULL DEFAULT clock_timestamp()
)";
/// One migration at a time, over all schemas of the database.
const LOCK: &str = "SELECT pg_advisory_xact_lock(5782043190611201)";
/// From the catalogue's tables: functions such as `to_regclass` may remember what was not there a moment ago.
const HAS_TABLE: &str = "SELECT EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = 'migration')";
const HAS_SCHEMA: &str = "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)";
const APPLIED: &str = "SELECT version, sha256 FROM migration ORDER BY version";
const ADD: &str = "INSERT INTO migration (version, name, sha256) VALUES ($1, $2, $3)";
const REMOVE: &str = "DELETE FROM migration WHERE version = $1";
const IDENTIFY: &str = "INSERT INTO meta (name, value) VALUES ('identity', $1)";
pub(crate) const IDENTITY: &str = "SELECT value FROM meta WHERE name = 'identity'";
const ALIVE: &str = "SELECT count(*) FROM worker
    WHERE state = 0 AND until > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

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

/// Moves a database between versions.
///
/// # Cancel safety
/// A migration is one transaction: dropping a future leaves all of it done, or nothing.
pub struct Migrator {
    connection: Connection,
    location: Location,
    known: &'static [Migration],
}

impl std::fmt::Debug for Migrator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Migrator").field("location", &self.location).finish_non_exhaustive()
    }
}

impl Migrator {
    /// Connects to the database, whose tables need not be there.
    ///
    /// # Errors
    /// As [`PostgresStore::open`](crate::PostgresStore::open), without the version's.
    pub async fn open(location: &str, config: &PostgresConfig) -> Result<Self, StoreError> {
        config.validate()?;
        let location = Location::parse(location)?;
        let connector = Connector::new(location.clone(), config)?;
        let connection = connector.connect().await.map_err(|fault| fault.named(&location))?;
        connection.version(&location).await.map_err(|fault| fault.named(&location))?;
        Ok(Migrator { connection, location, known: &MIGRATIONS })
    }

    /// The version that the tables have now, 0 without tables.
    ///
    /// # Errors
    /// [`StoreErrorKind::Version`] if a newer build or a changed file wrote it.
    pub async fn version(&self) -> Result<u32, StoreError> {
        let current = current(&self.connection.client, &self.location, self.known).await;
        current.map_err(|fault| fault.named(&self.location))
    }

    /// Brings the tables up to `to`, by default this build's version. Gives what was applied.
    ///
    /// # Errors
    /// As [`Migrator::version`]; nothing is applied then.
    pub async fn up(&mut self, to: Option<u32>) -> Result<Vec<&'static Migration>, StoreError> {
        let applied = up(&mut self.connection.client, &self.location, self.known, to).await;
        applied.map_err(|fault| fault.named(&self.location))
    }

    /// Takes the tables down to version `to`, with what the newer ones hold. Gives what was undone.
    ///
    /// # Errors
    /// [`StoreErrorKind::Refused`] while a worker is alive: it works with the newer tables. Otherwise as
    /// [`Migrator::version`]; nothing is undone then.
    pub async fn down(&mut self, to: u32) -> Result<Vec<&'static Migration>, StoreError> {
        let undone = down(&mut self.connection.client, &self.location, self.known, to).await;
        undone.map_err(|fault| fault.named(&self.location))
    }
}

/// Brings the tables to this build's version, or refuses where `config` forbids that. Takes no lock if there is nothing to do.
pub(crate) async fn prepare(client: &mut Client, location: &Location, config: &PostgresConfig) -> Done<()> {
    let wanted = latest(&MIGRATIONS);
    let found = current(client, location, &MIGRATIONS).await?;
    if found == wanted {
        return Ok(());
    }
    if !config.migrate {
        return Err(Fault::Store(StoreError::new(
            StoreErrorKind::Version,
            format!("{location} has tables of version {found}, this build needs {wanted}; run `punctual migrate`"),
        )));
    }
    up(client, location, &MIGRATIONS, None).await.map(drop)
}

/// The random name that a database got when it was made: a copy of it has the same.
pub(crate) async fn identity(client: &Client) -> Done<String> {
    Ok(client.query_one(IDENTITY, &[]).await?.try_get(0)?)
}

/// The version that the tables have, after checking that it is one of ours.
async fn current(client: &impl GenericClient, location: &Location, known: &[Migration]) -> Done<u32> {
    let row = client.query_one(HAS_TABLE, &[&location.schema]).await?;
    if !row.try_get::<_, bool>(0)? {
        return Ok(0);
    }
    let mut applied: BTreeMap<u32, String> = BTreeMap::new();
    for row in client.query(APPLIED, &[]).await? {
        applied.insert(row.try_get::<_, i32>(0)?.cast_unsigned(), row.try_get(1)?);
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
                     use the build that made the tables, or restore the database from a backup",
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

async fn up(
    client: &mut Client,
    location: &Location,
    known: &'static [Migration],
    to: Option<u32>,
) -> Done<Vec<&'static Migration>> {
    let to = to.unwrap_or_else(|| latest(known));
    check_target(to, known)?;
    let transaction = client.transaction().await?;
    transaction.query(LOCK, &[]).await?;
    // Read again under the lock: another process may just have done the work.
    let found = current(&transaction, location, known).await?;
    if found == 0 && to > 0 {
        // A user without the right to make schemas may be given one.
        if !transaction.query_one(HAS_SCHEMA, &[&location.schema]).await?.try_get::<_, bool>(0)? {
            transaction.batch_execute(&create_schema(location)).await?;
        }
        transaction.batch_execute(TABLE).await?;
    }
    let mut applied = Vec::new();
    for migration in known.iter().filter(|migration| migration.version > found && migration.version <= to) {
        transaction.batch_execute(migration.up).await?;
        let version = migration.version.cast_signed();
        transaction.execute(ADD, &[&version, &migration.name, &migration.sha256()]).await?;
        if migration.version == 1 {
            let identity = format!("{:016x}{:016x}", SystemEntropy.next_u64(), SystemEntropy.next_u64());
            transaction.execute(IDENTIFY, &[&identity]).await?;
        }
        applied.push(migration);
    }
    transaction.commit().await?;
    Ok(applied)
}

fn create_schema(location: &Location) -> String {
    // SQL-FORMAT: the name was checked when the address was read: small letters, digits and underscores.
    format!("CREATE SCHEMA {}", location.schema)
}

async fn down(
    client: &mut Client,
    location: &Location,
    known: &'static [Migration],
    to: u32,
) -> Done<Vec<&'static Migration>> {
    check_target(to, known)?;
    let transaction = client.transaction().await?;
    transaction.query(LOCK, &[]).await?;
    let found = current(&transaction, location, known).await?;
    if found > 0 {
        let alive: i64 = transaction.query_one(ALIVE, &[]).await?.try_get(0)?;
        if alive > 0 {
            return Err(Fault::Store(StoreError::refused(format!(
                "{location}: {alive} workers are alive on the tables of version {found}; stop them first"
            ))));
        }
    }
    let mut undone = Vec::new();
    for migration in known.iter().rev().filter(|migration| migration.version <= found && migration.version > to) {
        transaction.batch_execute(migration.down).await?;
        transaction.execute(REMOVE, &[&migration.version.cast_signed()]).await?;
        undone.push(migration);
    }
    transaction.commit().await?;
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
