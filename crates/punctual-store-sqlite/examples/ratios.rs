//! Measures the store against plain SQL on the same tables and disk, in one run, and prints ratios.
//!
//! `cargo run --release -p punctual-store-sqlite --example ratios [DIRECTORY]`
#![expect(clippy::unwrap_used, reason = "a measurement that fails is no measurement")]

use bytes::Bytes;
use punctual_clock::{Clock, Instant, SystemClock, Timestamp};
use punctual_store_sqlite::{SqliteConfig, SqliteCounters, SqliteStore, migrations};
use punctual_task::schedule::Every;
use punctual_task::series::Overflow;
use punctual_task::{
    ClaimRequest, Declaration, Due, Finish, Missed, NewTask, Next, Outcome, Overlap, ScheduleSpec, Store, Sweep,
    TaskId, TaskOptions, TaskState, WorkerInfo,
};
use punctual_testkit::VirtualClock;
use rusqlite::{Connection, params};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How many tasks or slots each bulk arm handles.
const ROWS: u32 = 200_000;
/// How many commits each arm of single ones makes.
const SINGLES: u32 = 1_000;
const WINDOW: u32 = 500;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let directory = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = tempfile::TempDir::new_in(directory).unwrap();
    for round in 1..=3 {
        println!("round {round}");
        let path = |name: &str| directory.path().join(format!("{name}-{round}.db"));
        runtime.block_on(materialise(&path("windows"), &path("slots"), &path("raw")));
        runtime.block_on(drain(&path("drain"), &path("delete")));
        runtime.block_on(enqueue(&path("enqueue")));
    }
}

/// Real time and processor time since the start of an arm.
struct Arm {
    start: Instant,
    cpu: f64,
}

impl Arm {
    fn start() -> Self {
        Arm { start: SystemClock.now(), cpu: cpu() }
    }

    /// Prints an arm and gives how many a second it did, and how many a second of processor time: on a busy machine the
    /// second is what repeats.
    fn end(&self, what: &str, count: u32) -> Rate {
        let rate = Rate {
            real: f64::from(count) / SystemClock.now().since(self.start).as_secs_f64(),
            cpu: f64::from(count) / (cpu() - self.cpu).max(0.001),
        };
        println!("  {what:<50} {:>10.0}/s {:>10.0}/s of processor time", rate.real, rate.cpu);
        rate
    }
}

struct Rate {
    real: f64,
    cpu: f64,
}

/// Seconds of processor time that this process has used, of all its threads.
fn cpu() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

fn compare(what: &str, ours: &Rate, other: &Rate) {
    println!("  => {what}: {:.2} x, {:.2} x by processor time", ours.real / other.real, ours.cpu / other.cpu);
}

async fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path.to_str().unwrap(), SqliteConfig::default()).await.unwrap()
}

/// A store on a clock that can be set forward.
async fn open_on(path: &Path, clock: Arc<VirtualClock>) -> SqliteStore {
    let mut config = SqliteConfig::default();
    config.clock = clock;
    SqliteStore::open(path.to_str().unwrap(), config).await.unwrap()
}

fn task(id: TaskId) -> NewTask {
    NewTask {
        id,
        method: "Demo/run".to_owned(),
        queue: "Demo".to_owned(),
        level: 1,
        due: Due::Now,
        args: Bytes::from_static(b"{\"n\":12345}"),
        schema: 7,
        options: TaskOptions::default(),
        key: None,
    }
}

/// A schedule with so many slots due that every sweep finds a full window.
async fn schedule(path: &Path) -> SqliteStore {
    let clock = Arc::new(VirtualClock::starting_at(SystemClock.timestamp()));
    let store = open_on(path, clock.clone()).await;
    let spec = ScheduleSpec {
        missed: Missed::All { max_count: 1, max_age: Duration::from_secs(1 << 30), overflow: Overflow::SkipOldest },
        overlap: Overlap::Allow,
        max_pending: ScheduleSpec::MAX_PENDING_MAX,
        late_after: ScheduleSpec::LATE_AFTER_MAX,
        ..ScheduleSpec::new(
            "s",
            Every::new(Duration::from_millis(10)).into(),
            "Demo/run",
            Bytes::from_static(b"{\"n\":12345}"),
        )
    };
    store.declare(Declaration { spec, revision: 0 }).await.unwrap();
    clock.advance(Duration::from_secs(80_000));
    store
}

async fn materialise(windows: &Path, slots: &Path, raw: &Path) {
    let store = schedule(windows).await;
    let arm = Arm::start();
    let mut created = 0;
    while created < ROWS {
        let report = store.materialise(Sweep { schedules_max: 1, window_max: WINDOW }).await.unwrap();
        created += u32::try_from(report.schedules.iter().map(|done| done.tasks.len()).sum::<usize>()).unwrap();
    }
    let bulk = arm.end("materialise, windows of 500", created);
    store.close().await;

    let store = schedule(slots).await;
    let arm = Arm::start();
    for _ in 0..SINGLES {
        let report = store.materialise(Sweep { schedules_max: 1, window_max: 1 }).await.unwrap();
        assert_eq!(report.schedules[0].tasks.len(), 1);
    }
    let single = arm.end("materialise, one commit a slot", SINGLES);
    store.close().await;

    let raw = raw_windows(raw);
    compare("windows to one commit a slot", &bulk, &single);
    compare("windows to raw", &bulk, &raw);
}

/// A connection on our tables with the store's settings.
fn connection(path: &Path) -> Connection {
    let conn = Connection::open(path).unwrap();
    conn.pragma_update(None, "journal_mode", "wal").unwrap();
    conn.pragma_update(None, "synchronous", "FULL").unwrap();
    conn.pragma_update(None, "cache_size", -32 * 1024).unwrap();
    conn.pragma_update(None, "wal_autocheckpoint", 4_000).unwrap();
    conn.set_prepared_statement_cache_capacity(64);
    for migration in migrations() {
        conn.execute_batch(migration.up).unwrap();
    }
    conn
}

/// The rows of a window without planner, runtime or replies.
fn raw_windows(path: &Path) -> Rate {
    let conn = connection(path);
    let arm = Arm::start();
    let mut id = 1_i64;
    while id <= i64::from(ROWS) {
        conn.execute_batch("BEGIN IMMEDIATE").unwrap();
        {
            let mut task = conn
                .prepare_cached(
                    "INSERT INTO task (id, lane, lvl, created, due, schedule, era, slot, pass, at, run, catch_up, version)
                     VALUES (?1, 1, 1, ?2, ?3, 1, 1, ?4, 0, ?5, ?6, 0, 1)",
                )
                .unwrap();
            let mut ready = conn
                .prepare_cached(
                    "INSERT INTO ready (lane, class, due, id, n, spent, losses) VALUES (1, 1, ?1, ?2, 0, 0, 0)",
                )
                .unwrap();
            let mut hold = conn.prepare_cached("INSERT INTO hold (gate, task) VALUES (1, ?1)").unwrap();
            for id in id..id + i64::from(WINDOW) {
                let at = 1_800_000_000_000_000 + id * 10_000;
                task.execute(params![id, at, at, at * 2, at, id]).unwrap();
                ready.execute(params![at, id]).unwrap();
                hold.execute(params![id]).unwrap();
            }
            conn.prepare_cached("UPDATE sequence SET next = ?1 WHERE name = 'task'")
                .unwrap()
                .execute(params![id])
                .unwrap();
        }
        conn.execute_batch("COMMIT").unwrap();
        id += i64::from(WINDOW);
    }
    arm.end("  raw: the same rows by plain statements", ROWS)
}

async fn fill(store: &SqliteStore) {
    for _ in 0..ROWS / 10_000 {
        let mut ids = store.draw_ids(10_000).await.unwrap();
        store.enqueue(std::iter::from_fn(|| ids.take()).map(task).collect()).await.unwrap();
    }
}

async fn drain(path: &Path, raw: &Path) {
    let store = open(path).await;
    fill(&store).await;
    let info = WorkerInfo { name: "w".to_owned(), slots: 500 };
    let worker = store.register(info, Duration::from_secs(600)).await.unwrap();
    let request = ClaimRequest { queue: None, methods: vec!["Demo/run".to_owned()], limit: WINDOW, suspects: false };
    let before = store.counters();
    let arm = Arm::start();
    let mut done = 0;
    while done < ROWS {
        let batch = store.claim(worker, request.clone()).await.unwrap();
        done += u32::try_from(batch.tasks.len()).unwrap();
        let now = store.now().await.unwrap();
        let finishes = batch.tasks.iter().map(|task| success(task.task, task.n, now)).collect();
        store.finish(worker, finishes).await.unwrap();
    }
    let ours = arm.end("drain, claims and finishes of 500, attempts kept", done);
    let after = store.counters();
    per_task(done, &before, &after);
    store.close().await;
    let delete = raw_delete(raw);
    compare("drain to raw", &ours, &delete);
}

fn success(task: TaskId, n: u32, now: Timestamp) -> Finish {
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

fn per_task(tasks: u32, before: &SqliteCounters, after: &SqliteCounters) {
    let each = |count: u64| count as f64 / f64::from(tasks);
    println!(
        "     per task: {:.4} operations, {:.4} commits, {:.4} statements",
        each(after.writes - before.writes),
        each(after.commits - before.commits),
        each(after.statements - before.statements)
    );
}

/// One table, no attempts: what a queue that keeps nothing does.
fn raw_delete(path: &Path) -> Rate {
    let conn = connection(path);
    conn.execute_batch(
        "CREATE TABLE job (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, priority INTEGER NOT NULL, run_at INTEGER NOT NULL,
         state INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0, locked_at INTEGER, locked_by INTEGER,
         payload BLOB);
         CREATE INDEX job_ready ON job (queue, priority, run_at, id) WHERE state = 0;
         BEGIN;",
    )
    .unwrap();
    for _ in 0..ROWS {
        conn.prepare_cached("INSERT INTO job (queue, priority, run_at, payload) VALUES (0, 0, 0, ?1)")
            .unwrap()
            .execute(params![b"{\"n\":12345}".as_slice()])
            .unwrap();
    }
    conn.execute_batch("COMMIT").unwrap();
    let arm = Arm::start();
    loop {
        conn.execute_batch("BEGIN IMMEDIATE").unwrap();
        let ids: Vec<(i64, Vec<u8>)> = conn
            .prepare_cached(
                "UPDATE job SET state = 1, attempts = attempts + 1, locked_at = 1, locked_by = 1 WHERE id IN
                 (SELECT id FROM job WHERE queue = 0 AND state = 0 AND run_at <= 1 ORDER BY priority, run_at, id LIMIT ?1)
                 RETURNING id, payload",
            )
            .unwrap()
            .query_map(params![WINDOW], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        conn.execute_batch("COMMIT; BEGIN IMMEDIATE").unwrap();
        for (id, _) in &ids {
            conn.prepare_cached("DELETE FROM job WHERE id = ?1").unwrap().execute(params![id]).unwrap();
        }
        conn.execute_batch("COMMIT").unwrap();
        if ids.is_empty() {
            break;
        }
    }
    arm.end("  raw: update, then delete", ROWS)
}

async fn enqueue(path: &Path) {
    let store = Arc::new(open(path).await);
    let arm = Arm::start();
    let mut ids = store.draw_ids(SINGLES).await.unwrap();
    while let Some(id) = ids.take() {
        store.enqueue(vec![task(id)]).await.unwrap();
    }
    let alone = arm.end("one caller, one commit each", SINGLES);
    let mut ids = store.draw_ids(64 * 200).await.unwrap();
    let arm = Arm::start();
    let mut callers = Vec::new();
    for _ in 0..64 {
        let mine: Vec<TaskId> = std::iter::from_fn(|| ids.take()).take(200).collect();
        let store = store.clone();
        callers.push(tokio::spawn(async move {
            for id in mine {
                store.enqueue(vec![task(id)]).await.unwrap();
            }
        }));
    }
    for caller in callers {
        caller.await.unwrap();
    }
    let many = arm.end("64 callers, single durable enqueues", 64 * 200);
    compare("many callers to one", &many, &alone);
}
