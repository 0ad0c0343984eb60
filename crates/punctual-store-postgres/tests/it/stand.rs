//! What these tests share: a database of its own for each, on a server that `PUNCTUAL_TEST_POSTGRES` names.

use bytes::Bytes;
use punctual_clock::{Clock, Timestamp};
use punctual_store_postgres::{PostgresConfig, PostgresStore};
use punctual_task::{ClaimRequest, Due, Finish, NewTask, Next, Outcome, Store, TaskId, TaskOptions, TaskState};
use punctual_testkit::VirtualClock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio_postgres::{Client, NoTls};

/// Where the tests' wall clock begins.
pub(crate) const START: Timestamp = Timestamp::from_secs(1_772_409_600);

/// The server's address.
///
/// # Panics
/// Without one, with a line that says what to run.
pub(crate) fn server() -> String {
    std::env::var("PUNCTUAL_TEST_POSTGRES").ok().filter(|url| !url.is_empty()).unwrap_or_else(|| {
        panic!("PUNCTUAL_TEST_POSTGRES is not set: run `cargo xtask test`, or `cargo xtask databases -- cargo test ..`")
    })
}

/// The address of another database on the same server.
fn address(database: &str) -> String {
    let url = server();
    let (place, _) = url.rsplit_once('/').unwrap();
    format!("{place}/{database}")
}

/// Runs work on a runtime of its own, from wherever it is called.
pub(crate) fn apart<T: Send>(work: impl AsyncFnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let body = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(work())
        };
        scope.spawn(body).join().unwrap()
    })
}

/// A connection beside the store's: what another program has.
pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    drop(tokio::spawn(connection));
    client
}

/// An empty database of one test, dropped with it.
#[derive(Debug)]
pub(crate) struct Database {
    name: String,
}

impl Database {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("punctual_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let create = format!("CREATE DATABASE {name} TEMPLATE template0");
        apart(async || connect(&server()).await.batch_execute(&create).await.unwrap());
        Database { name }
    }

    pub(crate) fn url(&self) -> String {
        address(&self.name)
    }

    pub(crate) async fn connect(&self) -> Client {
        let client = connect(&self.url()).await;
        client.batch_execute("SET search_path TO punctual").await.unwrap();
        client
    }

    /// Runs one statement beside the store.
    pub(crate) fn execute(&self, sql: &str) -> u64 {
        apart(async || self.connect().await.execute(sql, &[]).await.unwrap())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        apart(async || connect(&server()).await.batch_execute(&drop).await.unwrap());
    }
}

/// A database, and the clock that its stores live by.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) database: Database,
    pub(crate) clock: Arc<VirtualClock>,
}

impl Place {
    pub(crate) fn new() -> Self {
        Place { database: Database::new(), clock: Arc::new(VirtualClock::starting_at(START)) }
    }

    pub(crate) async fn open(&self) -> PostgresStore {
        PostgresStore::open(&self.database.url(), config(self.clock.clone())).await.unwrap()
    }
}

/// A few connections, on this clock.
pub(crate) fn config(clock: Arc<dyn Clock>) -> PostgresConfig {
    let mut config = PostgresConfig::default();
    config.clock = Some(clock);
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
