//! Where an arm runs: a database of its own, opened as a store or by plain SQL.

use crate::stores::mariadb::Maria;
use crate::stores::postgres::Postgres;
use crate::stores::sqlite::Sqlite;
use anyhow::Context as _;
use clap::ValueEnum;
use punctual_clock::{Clock, Instant, SystemClock, Timestamp};
use punctual_store_mysql::{MysqlConfig, MysqlStore};
use punctual_store_postgres::{PostgresConfig, PostgresStore};
use punctual_store_sqlite::{SqliteConfig, SqliteStore};
use punctual_task::Store;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A database that there is a store for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Sqlite,
    Postgres,
    Mariadb,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Sqlite, Kind::Postgres, Kind::Mariadb];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Sqlite => "SQLite",
            Kind::Postgres => "PostgreSQL",
            Kind::Mariadb => "MariaDB",
        }
    }
}

/// The system's clock, some way ahead: what lets slots become due at once.
#[derive(Debug, Default)]
pub struct Ahead(AtomicI64);

impl Ahead {
    pub fn advance_secs(&self, seconds: i64) {
        self.0.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }
}

impl Clock for Ahead {
    fn now(&self) -> Instant {
        SystemClock.now()
    }

    fn timestamp(&self) -> Timestamp {
        Timestamp::from_micros(SystemClock.timestamp().as_micros() + self.0.load(Ordering::SeqCst))
    }
}

/// What a store has done so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counted {
    pub statements: u64,
    pub commits: u64,
}

/// A store, and what it counts.
pub struct Opened {
    pub store: Arc<dyn Store>,
    counters: Box<dyn Fn() -> Counted + Send + Sync>,
}

impl Opened {
    pub fn counted(&self) -> Counted {
        (self.counters)()
    }
}

/// A server, or a folder for files.
pub struct Stand {
    kind: Kind,
    /// A folder or a URL.
    place: String,
    /// What a commit is worth there.
    pub durability: String,
}

impl Stand {
    pub async fn new(kind: Kind, folder: &Path) -> anyhow::Result<Self> {
        let server = |variable: &str| {
            let missing = || {
                format!(
                    "{variable} is not set: run this by `cargo xtask databases --durable -- ..`, or choose --stores sqlite"
                )
            };
            std::env::var(variable).ok().filter(|url| !url.is_empty()).with_context(missing)
        };
        Ok(match kind {
            Kind::Sqlite => Stand {
                kind,
                place: folder.to_str().context("the folder's path is no text")?.to_owned(),
                durability: "WAL, synchronous = FULL".to_owned(),
            },
            Kind::Postgres => {
                let place = server("PUNCTUAL_TEST_POSTGRES")?;
                let durability = Postgres::durability(&place).await?;
                Stand { kind, place, durability }
            }
            Kind::Mariadb => {
                let place = server("PUNCTUAL_TEST_MARIADB")?;
                let durability = Maria::durability(&place).await?;
                Stand { kind, place, durability }
            }
        })
    }

    /// A database without tables.
    pub async fn bed(&self, name: &str) -> anyhow::Result<Bed> {
        let database = format!("bench_{}_{name}", std::process::id());
        match self.kind {
            Kind::Sqlite => Ok(Bed::Sqlite(Path::new(&self.place).join(format!("{name}.db")))),
            Kind::Postgres => {
                Postgres::admin(&self.place, &format!("CREATE DATABASE {database} TEMPLATE template0")).await?;
                let (server, _) = self.place.rsplit_once('/').context("the URL names no database")?;
                let (server, url) = (self.place.clone(), format!("{server}/{database}"));
                Ok(Bed::Postgres { server, database, url })
            }
            Kind::Mariadb => {
                Maria::admin(&self.place, &format!("CREATE DATABASE {database}")).await?;
                let (server, _) = self.place.rsplit_once('/').context("the URL has no path")?;
                let (server, url) = (self.place.clone(), format!("{server}/{database}"));
                Ok(Bed::Mariadb { server, database, url })
            }
        }
    }
}

/// One arm's database.
pub enum Bed {
    Sqlite(PathBuf),
    Postgres { server: String, database: String, url: String },
    Mariadb { server: String, database: String, url: String },
}

impl Bed {
    /// As a store; `ahead` stands for the database's clock.
    pub async fn open(&self, ahead: Option<Arc<Ahead>>) -> anyhow::Result<Opened> {
        let clock = ahead.map(|ahead| ahead as Arc<dyn Clock>);
        Ok(match self {
            Bed::Sqlite(path) => {
                let mut config = SqliteConfig::default();
                if let Some(clock) = clock {
                    config.clock = clock;
                }
                let store = Arc::new(SqliteStore::open(path.to_str().context("a path is no text")?, config).await?);
                let counting = Arc::clone(&store);
                let counters = Box::new(move || {
                    let counters = counting.counters();
                    Counted { statements: counters.statements, commits: counters.commits }
                });
                Opened { store, counters }
            }
            Bed::Postgres { url, .. } => {
                let mut config = PostgresConfig::default();
                config.clock = clock;
                let store = Arc::new(PostgresStore::open(url, config).await?);
                let counting = Arc::clone(&store);
                let counters = Box::new(move || {
                    let counters = counting.counters();
                    Counted { statements: counters.statements, commits: counters.commits }
                });
                Opened { store, counters }
            }
            Bed::Mariadb { url, .. } => {
                let mut config = MysqlConfig::default();
                config.clock = clock;
                let store = Arc::new(MysqlStore::open(url, config).await?);
                let counting = Arc::clone(&store);
                let counters = Box::new(move || {
                    let counters = counting.counters();
                    Counted { statements: counters.statements, commits: counters.commits }
                });
                Opened { store, counters }
            }
        })
    }

    /// By plain SQL, with the product's tables.
    pub async fn raw(&self) -> anyhow::Result<Raw> {
        Ok(match self {
            Bed::Sqlite(path) => Raw::Sqlite(Sqlite::with_tables(path)?),
            Bed::Postgres { url, .. } => Raw::Postgres(Postgres::with_tables(url).await?),
            Bed::Mariadb { url, .. } => Raw::Mariadb(Maria::with_tables(url).await?),
        })
    }

    /// By plain SQL, beside a store that made the tables.
    pub async fn beside(&self) -> anyhow::Result<Raw> {
        Ok(match self {
            Bed::Sqlite(path) => Raw::Sqlite(Sqlite::open(path)?),
            Bed::Postgres { url, .. } => Raw::Postgres(Postgres::open(url).await?),
            Bed::Mariadb { url, .. } => Raw::Mariadb(Maria::open(url).await?),
        })
    }

    /// How many bytes were written so that commits last, since the server or this process began: PostgreSQL's write-ahead
    /// log, MariaDB's redo log; of SQLite all writes of this process, which are those to its log and those from there into
    /// the file. `None` where the system does not count.
    pub async fn logged_bytes(&self) -> anyhow::Result<Option<u64>> {
        match self {
            Bed::Sqlite(_) => Ok(written_bytes()),
            Bed::Postgres { url, .. } => Postgres::logged_bytes(url).await.map(Some),
            Bed::Mariadb { url, .. } => Maria::logged_bytes(url).await.map(Some),
        }
    }

    pub async fn remove(self) -> anyhow::Result<()> {
        match self {
            Bed::Sqlite(path) => {
                for end in ["", "-wal", "-shm"] {
                    // What is not there need not be removed.
                    let _ = std::fs::remove_file(format!("{}{end}", path.display()));
                }
                Ok(())
            }
            Bed::Postgres { server, database, .. } => {
                Postgres::admin(&server, &format!("DROP DATABASE {database} WITH (FORCE)")).await
            }
            Bed::Mariadb { server, database, .. } => Maria::admin(&server, &format!("DROP DATABASE {database}")).await,
        }
    }
}

/// What this process has written to files, by the system's own count.
fn written_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok())
}

/// Plain SQL on one connection. Ids and slots are numbered from 1.
pub enum Raw {
    Sqlite(Sqlite),
    Postgres(Postgres),
    Mariadb(Maria),
}

impl Raw {
    /// Plain statements, prepared, for slots of a schedule from `first` on, in one transaction.
    pub async fn singles(&mut self, schedule: i64, first: i64, count: u32) -> anyhow::Result<()> {
        match self {
            Raw::Sqlite(raw) => raw.singles(schedule, first, count),
            Raw::Postgres(raw) => raw.singles(schedule, first, count).await,
            Raw::Mariadb(raw) => raw.singles(schedule, first, count).await,
        }
    }

    /// The product's statements for a window, without planner, runtime or replies, in one transaction.
    pub async fn window(&mut self, first: i64, count: u32) -> anyhow::Result<()> {
        match self {
            // SQLite has no round trips: its best bulk is the loop over prepared statements.
            Raw::Sqlite(raw) => raw.singles(1, first, count),
            Raw::Postgres(raw) => raw.window(first, count).await,
            Raw::Mariadb(raw) => raw.window(first, count).await,
        }
    }

    /// Fills a table of jobs as a queue has it that keeps nothing.
    pub async fn fill_jobs(&mut self, count: u32) -> anyhow::Result<()> {
        match self {
            Raw::Sqlite(raw) => raw.fill_jobs(count),
            Raw::Postgres(raw) => raw.fill_jobs(count).await,
            Raw::Mariadb(raw) => raw.fill_jobs(count).await,
        }
    }

    /// Takes up to so many jobs and deletes them, a commit each; gives how many.
    pub async fn drain_jobs(&mut self, limit: u32) -> anyhow::Result<u32> {
        match self {
            Raw::Sqlite(raw) => raw.drain_jobs(limit),
            Raw::Postgres(raw) => raw.drain_jobs(limit).await,
            Raw::Mariadb(raw) => raw.drain_jobs(limit).await,
        }
    }

    /// Writes tasks for slots that a schedule has before it, so that a sweep finds them taken.
    pub async fn take_slots(&mut self, schedule: i64, slots: &[i64]) -> anyhow::Result<()> {
        match self {
            Raw::Sqlite(raw) => raw.take_slots(schedule, slots),
            Raw::Postgres(raw) => raw.take_slots(schedule, slots).await,
            Raw::Mariadb(raw) => raw.take_slots(schedule, slots).await,
        }
    }

    /// One task, waiting, in a commit of its own.
    pub async fn enqueue(&mut self, id: i64) -> anyhow::Result<()> {
        match self {
            Raw::Sqlite(raw) => raw.enqueue(id),
            Raw::Postgres(raw) => raw.enqueue(id).await,
            Raw::Mariadb(raw) => raw.enqueue(id).await,
        }
    }
}
