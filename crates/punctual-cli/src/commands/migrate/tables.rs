//! The tables of a database of any kind, as `migrate` sees them.

use crate::exit::Failure;
use crate::target::{is_mysql, is_postgres};
use punctual::{mysql, postgres, sqlite};
use serde::Serialize;
use tokio::runtime::Runtime;

/// A version that was reached or left.
#[derive(Serialize)]
pub(super) struct Step {
    pub(super) version: u32,
    pub(super) name: &'static str,
}

/// The SQL of one version.
pub(super) struct Script {
    pub(super) version: u32,
    pub(super) name: &'static str,
    pub(super) up: &'static str,
    pub(super) down: &'static str,
}

/// What this build knows for the kind of database at a location, oldest first.
pub(super) fn scripts(location: Option<&str>) -> Vec<Script> {
    if location.is_some_and(is_postgres) {
        let script =
            |one: &postgres::Migration| Script { version: one.version, name: one.name, up: one.up, down: one.down };
        return postgres::migrations().iter().map(script).collect();
    }
    if location.is_some_and(is_mysql) {
        let script =
            |one: &mysql::Migration| Script { version: one.version, name: one.name, up: one.up, down: one.down };
        return mysql::migrations().iter().map(script).collect();
    }
    let script = |one: &sqlite::Migration| Script { version: one.version, name: one.name, up: one.up, down: one.down };
    sqlite::migrations().iter().map(script).collect()
}

/// A database whose tables are moved between versions.
pub(super) enum Tables {
    Sqlite(sqlite::Migrator),
    Postgres { runtime: Runtime, migrator: Box<postgres::Migrator> },
    Mysql { runtime: Runtime, migrator: Box<mysql::Migrator> },
}

impl Tables {
    /// Opens it, with or without tables.
    pub(super) fn open(location: &str) -> Result<Self, Failure> {
        if !is_postgres(location) && !is_mysql(location) {
            return Ok(Tables::Sqlite(sqlite::Migrator::open(location, sqlite::SqliteConfig::default())?));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::failed(format!("cannot start the runtime: {error}")))?;
        if is_mysql(location) {
            let migrator = runtime.block_on(mysql::Migrator::open(location, mysql::MysqlConfig::default()))?;
            return Ok(Tables::Mysql { runtime, migrator: Box::new(migrator) });
        }
        let config = postgres::PostgresConfig::default();
        let migrator = runtime.block_on(postgres::Migrator::open(location, &config))?;
        Ok(Tables::Postgres { runtime, migrator: Box::new(migrator) })
    }

    /// The version that they have.
    pub(super) fn version(&mut self) -> Result<u32, Failure> {
        Ok(match self {
            Tables::Sqlite(migrator) => migrator.version()?,
            Tables::Postgres { runtime, migrator } => runtime.block_on(migrator.version())?,
            Tables::Mysql { runtime, migrator } => runtime.block_on(migrator.version())?,
        })
    }

    /// Brings them to this build's version.
    pub(super) fn up(&mut self) -> Result<Vec<Step>, Failure> {
        Ok(match self {
            Tables::Sqlite(migrator) => sqlite_steps(&migrator.up(None)?),
            Tables::Postgres { runtime, migrator } => postgres_steps(&runtime.block_on(migrator.up(None))?),
            Tables::Mysql { runtime, migrator } => mysql_steps(&runtime.block_on(migrator.up(None))?),
        })
    }

    /// Takes them down to a version.
    pub(super) fn down(&mut self, to: u32) -> Result<Vec<Step>, Failure> {
        Ok(match self {
            Tables::Sqlite(migrator) => sqlite_steps(&migrator.down(to)?),
            Tables::Postgres { runtime, migrator } => postgres_steps(&runtime.block_on(migrator.down(to))?),
            Tables::Mysql { runtime, migrator } => mysql_steps(&runtime.block_on(migrator.down(to))?),
        })
    }
}

fn sqlite_steps(migrations: &[&'static sqlite::Migration]) -> Vec<Step> {
    migrations.iter().map(|one| Step { version: one.version, name: one.name }).collect()
}

fn postgres_steps(migrations: &[&'static postgres::Migration]) -> Vec<Step> {
    migrations.iter().map(|one| Step { version: one.version, name: one.name }).collect()
}

fn mysql_steps(migrations: &[&'static mysql::Migration]) -> Vec<Step> {
    migrations.iter().map(|one| Step { version: one.version, name: one.name }).collect()
}
