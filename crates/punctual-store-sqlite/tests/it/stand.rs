//! What these tests share: a store in a directory of its own, on a clock that the test moves.

use bytes::Bytes;
use punctual_clock::{Clock, Timestamp};
use punctual_store_sqlite::{MonotonicBoot, SqliteConfig, SqliteStore};
use punctual_task::{ClaimRequest, Due, Finish, NewTask, Next, Outcome, Store, TaskId, TaskOptions, TaskState};
use punctual_testkit::VirtualClock;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// Where the tests' wall clock begins.
pub(crate) const START: Timestamp = Timestamp::from_secs(1_772_409_600);

/// A directory with a database and the clock that its stores live by.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) dir: TempDir,
    pub(crate) clock: Arc<VirtualClock>,
}

impl Place {
    pub(crate) fn new() -> Self {
        Place { dir: TempDir::new().unwrap(), clock: Arc::new(VirtualClock::starting_at(START)) }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("punctual.db")
    }

    pub(crate) fn text(&self) -> String {
        self.path().to_str().unwrap().to_owned()
    }

    pub(crate) async fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.text(), config(self.clock.clone())).await.unwrap()
    }

    /// A connection beside the store's: what another program has.
    pub(crate) fn connection(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path()).unwrap()
    }
}

/// Both clocks from one.
pub(crate) fn config(clock: Arc<dyn Clock>) -> SqliteConfig {
    let mut config = SqliteConfig::default();
    config.boot = Arc::new(MonotonicBoot::new(clock.clone(), "boot-1"));
    config.clock = clock;
    config
}

/// A task due now.
pub(crate) fn task(id: TaskId) -> NewTask {
    NewTask {
        id,
        method: "Demo/run".to_owned(),
        queue: "Demo".to_owned(),
        level: 1,
        due: Due::Now,
        args: Bytes::from_static(b"{\"n\":1}"),
        schema: 7,
        options: TaskOptions::default(),
        key: None,
    }
}

/// Writes `count` tasks due now.
pub(crate) async fn enqueue(store: &dyn Store, count: u32) -> Vec<TaskId> {
    let mut ids = store.draw_ids(count).await.unwrap();
    let tasks: Vec<NewTask> = std::iter::from_fn(|| ids.take()).map(task).collect();
    let ids = tasks.iter().map(|task| task.id).collect();
    store.enqueue(tasks).await.unwrap();
    ids
}

/// Asks for tasks of any queue.
pub(crate) fn any(limit: u32) -> ClaimRequest {
    ClaimRequest { queue: None, methods: vec!["Demo/run".to_owned()], limit, suspects: false }
}

/// The end of attempt `n` as a success.
pub(crate) fn success(task: TaskId, n: u32, now: Timestamp) -> Finish {
    Finish {
        task,
        n,
        started: now,
        ended: now,
        outcome: Outcome::Succeeded,
        out: Bytes::from_static(b"null"),
        next: Next::Final(TaskState::Succeeded),
    }
}

/// How much a test does: a number from the environment, for long runs before a release, or the default.
pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}
