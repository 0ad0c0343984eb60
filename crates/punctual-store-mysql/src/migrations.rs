//! The tables' versions: numbered files, applied in order under a lock of the server's, each with its fingerprint kept.
//!
//! What changes a table commits at once here, so a migration cannot be undone as a whole when it is stopped halfway. It is
//! noted before it begins and after each of its statements, and every statement can be run a second time: whoever migrates
//! next goes on where it was stopped, and nobody works on tables in between.

use crate::address::Address;
use crate::answers::cell;
use crate::config::MysqlConfig;
use crate::connection::Session;
use crate::errors::{Done, Fault};
use crate::script::{Script, Value};
use crate::shared::Shared;
use punctual_clock::{Entropy, SystemEntropy};
use punctual_task::{StoreError, StoreErrorKind};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;

/// One step between two versions of the tables: plain SQL, to be printed and reviewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migration {
    /// The version of the tables after it, from 1.
    pub version: u32,
    /// What it is called.
    pub name: &'static str,
    /// The way up. Statements end with a semicolon, comments begin with two dashes, and every statement can be run again.
    pub up: &'static str,
    /// The way down: what was added goes, with what it holds.
    pub down: &'static str,
}

impl Migration {
    /// A migration, for tests of what only later releases have.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(version: u32, name: &'static str, up: &'static str, down: &'static str) -> Self {
        Migration { version, name, up, down }
    }

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

/// How long one statement of a migration may take: on large tables they are copied.
const STATEMENT_MAX: Duration = Duration::from_secs(24 * 3600);

const TABLE: &str = "CREATE TABLE IF NOT EXISTS punctual_migration (
    version INT UNSIGNED NOT NULL PRIMARY KEY,
    name    VARBINARY(100) NOT NULL,
    sha256  VARBINARY(64) NOT NULL,
    down    TINYINT NOT NULL,
    step    INT UNSIGNED NOT NULL,
    steps   INT UNSIGNED NOT NULL,
    applied BIGINT NOT NULL
) ENGINE = InnoDB";
const TABLES: &str = "SELECT table_name FROM information_schema.tables
    WHERE table_schema = DATABASE() AND table_name LIKE 'punctual\\_%'";
const LIST: &str = "SELECT version, sha256, down, step, steps FROM punctual_migration ORDER BY version";
const BEGIN: &str = "INSERT INTO punctual_migration (version, name, sha256, down, step, steps, applied)
    VALUES (?, ?, ?, 0, 0, ?, @now)";
const BEGIN_DOWN: &str =
    "UPDATE punctual_migration SET down = 1, step = 0, steps = ?, applied = @now WHERE version = ? AND down = 0";
const STEP: &str = "UPDATE punctual_migration SET step = ? WHERE version = ?";
const FORGET: &str = "DELETE FROM punctual_migration WHERE version = ?";
const FORGET_ALL: &str = "DROP TABLE punctual_migration";
const LOCK: &str = "SELECT GET_LOCK(?, ?)";
const UNLOCK: &str = "DO RELEASE_LOCK(?)";
pub(crate) const IDENTITY: &str = "SELECT value FROM punctual_meta WHERE name = 'identity'";
const ADD_IDENTITY: &str = "INSERT IGNORE INTO punctual_meta (name, value) VALUES ('identity', ?)";
const ALIVE: &str = "SELECT COUNT(*) FROM punctual_lease WHERE ends > ?";

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

/// The statements of a migration, without comments.
fn statements(text: &'static str) -> Vec<String> {
    let code: Vec<&str> = text.lines().map(|line| line.split("--").next().unwrap_or_default().trim_end()).collect();
    let code = code.join("\n");
    code.split(';').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Moves a database between versions while no store has it open for work.
#[derive(Debug)]
pub struct Migrator {
    session: Session,
    known: &'static [Migration],
}

impl Migrator {
    /// Connects to the database, which may still be without tables.
    ///
    /// # Errors
    /// As [`MysqlStore::open`](crate::MysqlStore::open), without the version's.
    pub async fn open(url: &str, config: MysqlConfig) -> Result<Self, StoreError> {
        config.validate()?;
        let shared = Arc::new(Shared::new(Address::parse(url)?, config));
        let session = connect(&shared).await.map_err(|fault| fault.named(&shared.address))?;
        Ok(Migrator { session, known: &MIGRATIONS })
    }

    /// The same with other migrations, for tests of what only later releases have.
    #[doc(hidden)]
    #[must_use]
    pub fn with(mut self, known: &'static [Migration]) -> Self {
        self.known = known;
        self
    }

    /// The version that the tables have now, 0 without tables. One that is half applied does not count.
    ///
    /// # Errors
    /// [`StoreErrorKind::Version`] if a newer build or a changed file wrote it.
    pub async fn version(&mut self) -> Result<u32, StoreError> {
        let found = current(&mut self.session, self.known).await;
        found.map(|found| found.version).map_err(|fault| fault.named(&self.session.shared.address))
    }

    /// Brings the tables up to `to`, by default this build's version, and goes on with a migration that was stopped halfway.
    /// Gives what was applied.
    ///
    /// # Errors
    /// As [`Migrator::version`]; nothing is applied then. If a statement fails, those before it stay, and the next call goes
    /// on there.
    pub async fn up(&mut self, to: Option<u32>) -> Result<Vec<&'static Migration>, StoreError> {
        up(&mut self.session, self.known, to).await.map_err(|fault| fault.named(&self.session.shared.address))
    }

    /// Takes the tables down to version `to`, with what the newer ones hold. Gives what was undone.
    ///
    /// # Errors
    /// [`StoreErrorKind::Refused`] while a worker is alive: it works with the newer tables. Otherwise as [`Migrator::up`].
    pub async fn down(&mut self, to: u32) -> Result<Vec<&'static Migration>, StoreError> {
        down(&mut self.session, self.known, to).await.map_err(|fault| fault.named(&self.session.shared.address))
    }
}

async fn connect(shared: &Arc<Shared>) -> Done<Session> {
    Session::connect(Arc::clone(shared), STATEMENT_MAX).await
}

/// Brings the tables to this build's version, or refuses where `config` forbids that. Gives the database's identity.
pub(crate) async fn prepare(shared: &Arc<Shared>) -> Done<String> {
    let mut session = connect(shared).await?;
    let wanted = latest(&MIGRATIONS);
    let found = current(&mut session, &MIGRATIONS).await?;
    if found.version != wanted || found.half.is_some() {
        if !shared.config.migrate {
            let half = match found.half {
                Some(half) => format!(" and a migration to or from version {half} that was stopped halfway"),
                None => String::new(),
            };
            return Err(Fault::Store(StoreError::new(
                StoreErrorKind::Version,
                format!(
                    "{} has tables of version {}{half}, this build needs {wanted}; run `punctual migrate`",
                    shared.address, found.version
                ),
            )));
        }
        up(&mut session, &MIGRATIONS, None).await?;
    }
    let rows = session.run(&Script::of(IDENTITY, &[])).await?.rows()?;
    let row = rows.first().ok_or_else(|| Fault::corrupt("the database has lost its identity"))?;
    let identity = cell(row, 0)?;
    session.disconnect().await;
    Ok(identity)
}

/// What a database has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Found {
    /// The last version that is there as a whole.
    version: u32,
    /// The version that a stopped migration was to add or remove.
    half: Option<u32>,
    half_down: bool,
    /// How many statements of it are done.
    step: usize,
}

/// What the database has, after checking that it is of ours.
async fn current(session: &mut Session, known: &[Migration]) -> Done<Found> {
    let rows = session.run(&Script::of(TABLES, &[])).await?.rows()?;
    let tables: Vec<String> = rows.iter().map(|row| cell(row, 0)).collect::<Done<_>>()?;
    let place = session.shared.address.to_string();
    if !tables.iter().any(|name| name == "punctual_migration") {
        return match tables.first() {
            None => Ok(Found::default()),
            Some(table) => Err(Fault::Store(StoreError::new(
                StoreErrorKind::Corrupt,
                format!(
                    "{place} has a table {table} and no record of migrations; restore it from a backup, or drop that table"
                ),
            ))),
        };
    }
    let rows = session.run(&Script::of(LIST, &[])).await?.rows()?;
    let ours = latest(known);
    let mut found = Found::default();
    for row in &rows {
        let (version, sha256): (u32, String) = (cell(row, 0)?, cell(row, 1)?);
        if version > ours {
            return Err(Fault::Store(StoreError::new(
                StoreErrorKind::Version,
                format!(
                    "{place} has tables of version {version}, this build knows versions up to {ours}; use a newer build, or let \
                     that build take the tables down to version {ours}"
                ),
            )));
        }
        let migration = known.iter().find(|migration| migration.version == version);
        let expected = migration.map(Migration::sha256).unwrap_or_default();
        if expected != sha256 {
            return Err(Fault::Store(StoreError::new(
                StoreErrorKind::Version,
                format!(
                    "{place}: migration {version} was applied as {}, this build has {}; use the build that made the \
                     database, or restore it from a backup",
                    short(&sha256),
                    short(&expected)
                ),
            )));
        }
        let (down, step, steps): (bool, usize, usize) = (cell(row, 2)?, cell(row, 3)?, cell(row, 4)?);
        if down || step < steps {
            found = Found { half: Some(version), half_down: down, step, ..found };
        } else {
            found.version = version;
        }
    }
    Ok(found)
}

fn short(sha256: &str) -> &str {
    sha256.get(..12).unwrap_or(sha256)
}

/// Takes the server's lock of this database's migrations; it ends with the connection at the latest.
async fn lock(session: &mut Session) -> Done<String> {
    let name = Sha256::digest(session.shared.address.database().as_bytes());
    let name: String = name.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let name = ["punctual.", &name].concat();
    let wait = i64::try_from(session.shared.config.wait.as_secs()).unwrap_or(10);
    let rows = session.run(&Script::of(LOCK, &[name.as_str().into(), wait.into()])).await?.rows()?;
    let got: Option<bool> = rows.first().map_or(Ok(None), |row| cell(row, 0))?;
    if got == Some(true) {
        return Ok(name);
    }
    Err(Fault::Store(StoreError::new(
        StoreErrorKind::Busy,
        format!("{}: another process has been migrating the tables for {wait} s; wait for it", session.shared.address),
    )))
}

async fn unlock(session: &mut Session, name: &str) {
    // It ends with the connection if the word does not reach the server.
    let _ = session.run(&Script::of(UNLOCK, &[name.into()])).await;
}

async fn up(session: &mut Session, known: &'static [Migration], to: Option<u32>) -> Done<Vec<&'static Migration>> {
    let to = to.unwrap_or_else(|| latest(known));
    check_target(to, known)?;
    let lock = lock(session).await?;
    let outcome = up_locked(session, known, to).await;
    unlock(session, &lock).await;
    outcome
}

async fn up_locked(session: &mut Session, known: &'static [Migration], to: u32) -> Done<Vec<&'static Migration>> {
    // Read again under the lock: another process may just have done the work.
    let mut found = current(session, known).await?;
    if let (Some(half), true) = (found.half, found.half_down) {
        finish_down(session, known, half, found.step).await?;
        found.half = None;
    }
    let mut applied = Vec::new();
    for migration in known.iter().filter(|migration| migration.version > found.version && migration.version <= to) {
        let steps = statements(migration.up);
        let mut from = 0;
        if found.half == Some(migration.version) {
            from = found.step;
        } else {
            let mut script = Script::of(TABLE, &[]);
            session.shared.time.clone().ask(&mut script);
            let (version, sha256) = (migration.version, migration.sha256());
            let values = [version.into(), migration.name.into(), sha256.as_str().into(), count(&steps)];
            script.add(BEGIN, &values);
            session.run(&script).await?;
        }
        run_steps(session, migration.version, &steps, from).await?;
        let identity = format!("{:016x}{:016x}", SystemEntropy.next_u64(), SystemEntropy.next_u64());
        session.run(&Script::of(ADD_IDENTITY, &[identity.as_str().into()])).await?;
        applied.push(migration);
    }
    Ok(applied)
}

fn count(steps: &[String]) -> Value<'static> {
    Value::Int(i64::try_from(steps.len()).unwrap_or(i64::MAX))
}

/// Runs the statements from `from` on, and notes each.
async fn run_steps(session: &mut Session, version: u32, steps: &[String], from: usize) -> Done<()> {
    for (at, step) in steps.iter().enumerate().skip(from) {
        session.run_text(step).await?;
        let done = i64::try_from(at + 1).unwrap_or(i64::MAX);
        session.run(&Script::of(STEP, &[done.into(), version.into()])).await?;
    }
    Ok(())
}

async fn down(session: &mut Session, known: &'static [Migration], to: u32) -> Done<Vec<&'static Migration>> {
    check_target(to, known)?;
    let lock = lock(session).await?;
    let outcome = down_locked(session, known, to).await;
    unlock(session, &lock).await;
    outcome
}

async fn down_locked(session: &mut Session, known: &'static [Migration], to: u32) -> Done<Vec<&'static Migration>> {
    let found = current(session, known).await?;
    if found.version > 0 {
        let mut script = Script::new();
        let time = session.shared.time.clone();
        time.ask(&mut script);
        let moment = time.answer(&mut session.run(&script).await?)?;
        let rows = session.run(&Script::of(ALIVE, &[moment.lease.into()])).await?.rows()?;
        let alive: u64 = rows.first().map_or(Ok(0), |row| cell(row, 0))?;
        if alive > 0 {
            return Err(Fault::Store(StoreError::refused(format!(
                "{}: {alive} workers are alive on the tables of version {}; stop them first",
                session.shared.address, found.version
            ))));
        }
    }
    let mut undone = Vec::new();
    let there = found.version.max(found.half.unwrap_or(0));
    for migration in known.iter().rev().filter(|migration| migration.version <= there && migration.version > to) {
        let from = if found.half == Some(migration.version) && found.half_down { found.step } else { 0 };
        finish_down(session, known, migration.version, from).await?;
        undone.push(migration);
    }
    if to == 0 && there > 0 {
        session.run(&Script::of(FORGET_ALL, &[])).await?;
    }
    Ok(undone)
}

/// Takes one version away, from its statement `from` on.
async fn finish_down(session: &mut Session, known: &'static [Migration], version: u32, from: usize) -> Done<()> {
    let Some(migration) = known.iter().find(|migration| migration.version == version) else {
        return Err(Fault::bug(format!("version {version} is not known")));
    };
    let steps = statements(migration.down);
    let mut script = Script::new();
    session.shared.time.clone().ask(&mut script);
    script.add(BEGIN_DOWN, &[count(&steps), version.into()]);
    session.run(&script).await?;
    run_steps(session, version, &steps, from).await?;
    session.run(&Script::of(FORGET, &[version.into()])).await?;
    Ok(())
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
mod tests {
    use super::*;

    /// Statements are found whatever stands in the comments, and each of them can be run again.
    #[test]
    fn statements_can_be_run_again() {
        for migration in migrations() {
            for step in statements(migration.up) {
                assert!(
                    step.starts_with("CREATE TABLE IF NOT EXISTS ") || step.starts_with("INSERT IGNORE "),
                    "{step}"
                );
                assert!(!step.contains("--") && step.matches('(').count() == step.matches(')').count(), "{step}");
            }
            for step in statements(migration.down) {
                assert!(step.starts_with("DROP TABLE IF EXISTS "), "{step}");
            }
        }
        assert_eq!(statements("-- a; b\nSELECT 1; -- c; d\n\nSELECT\n  2;\n"), ["SELECT 1", "SELECT\n  2"]);
    }

    /// Versions count on from 1, and what goes up comes down.
    #[test]
    fn versions_count_on() {
        for (at, migration) in migrations().iter().enumerate() {
            assert_eq!(migration.version as usize, at + 1);
            let tables = |text: &str| text.matches(" TABLE IF ").count();
            assert_eq!(tables(migration.up), tables(migration.down), "{}", migration.name);
        }
    }
}
