//! Measures the store against plain SQL on the same tables and server, in one run, and prints ratios.
//!
//! `cargo xtask databases --durable -- cargo run --release -p punctual-store-postgres --example ratios`
#![expect(clippy::unwrap_used, reason = "a measurement that fails is no measurement")]

use bytes::Bytes;
use punctual_clock::{Clock, Instant, SystemClock, Timestamp};
use punctual_store_postgres::{PostgresConfig, PostgresCounters, PostgresStore, migrations};
use punctual_task::schedule::Every;
use punctual_task::series::Overflow;
use punctual_task::{
    ClaimRequest, Declaration, Due, Finish, Missed, NewTask, Next, Outcome, Overlap, ScheduleSpec, Store, Sweep,
    TaskId, TaskOptions, TaskState, WorkerInfo,
};
use punctual_testkit::VirtualClock;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::{Client, NoTls};

/// How many tasks or slots each bulk arm handles.
const ROWS: u32 = 100_000;
/// How many commits each arm of single ones makes.
const SINGLES: u32 = 2_000;
const WINDOW: u32 = 500;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let server = std::env::var("PUNCTUAL_TEST_POSTGRES").unwrap_or_default();
    assert!(!server.is_empty(), "run it by `cargo xtask databases --durable -- cargo run ..`");
    let admin = connect(&server).await;
    let fsync: String = admin.query_one("SHOW fsync", &[]).await.unwrap().get(0);
    println!("fsync is {fsync}");
    for round in 1..=3 {
        println!("round {round}");
        let name = format!("ratios_{}_{round}", std::process::id());
        admin.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await.unwrap();
        let url = format!("{}/{name}", server.rsplit_once('/').unwrap().0);
        // An arm's ratio is taken to the arm run just before it.
        materialise(&url).await;
        sweep(&url).await;
        drain(&url).await;
        enqueue(&url).await;
        admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.unwrap();
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    drop(tokio::spawn(connection));
    client
}

/// Runs an arm and gives how many a second it did.
struct Arm(Instant);

impl Arm {
    fn start() -> Self {
        Arm(SystemClock.now())
    }

    fn end(&self, what: &str, count: u32) -> f64 {
        let rate = f64::from(count) / SystemClock.now().since(self.0).as_secs_f64();
        println!("  {what:<56} {rate:>10.0}/s");
        rate
    }
}

fn compare(what: &str, ours: f64, other: f64) {
    println!("  => {what}: {:.2} x", ours / other);
}

/// Bytes of log that the server has written.
async fn wal(client: &Client) -> i64 {
    let sql = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

async fn open(url: &str, schema: &str, clock: Option<Arc<VirtualClock>>) -> PostgresStore {
    let mut config = PostgresConfig::default();
    config.clock = clock.map(|clock| clock as Arc<dyn Clock>);
    PostgresStore::open(&format!("{url}?schema={schema}"), config).await.unwrap()
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
fn spec(name: String) -> ScheduleSpec {
    ScheduleSpec {
        missed: Missed::All { max_count: 1, max_age: Duration::from_secs(1 << 30), overflow: Overflow::SkipOldest },
        overlap: Overlap::Allow,
        max_pending: ScheduleSpec::MAX_PENDING_MAX,
        late_after: ScheduleSpec::LATE_AFTER_MAX,
        ..ScheduleSpec::new(
            name,
            Every::new(Duration::from_millis(10)).into(),
            "Demo/run",
            Bytes::from_static(b"{\"n\":12345}"),
        )
    }
}

async fn schedules(url: &str, schema: &str, count: u32) -> PostgresStore {
    let clock = Arc::new(VirtualClock::starting_at(SystemClock.timestamp()));
    let store = open(url, schema, Some(clock.clone())).await;
    for number in 0..count {
        store.declare(Declaration { spec: spec(format!("s{number}")), revision: 0 }).await.unwrap();
    }
    clock.advance(Duration::from_secs(80_000));
    store
}

async fn materialise(url: &str) {
    let client = connect(url).await;
    let store = schedules(url, "windows", 1).await;
    let (before, wal_before) = (store.counters(), wal(&client).await);
    let arm = Arm::start();
    let mut created = 0;
    while created < ROWS {
        let report = store.materialise(Sweep { schedules_max: 1, window_max: WINDOW }).await.unwrap();
        created += u32::try_from(report.schedules.iter().map(|done| done.tasks.len()).sum::<usize>()).unwrap();
    }
    let bulk = arm.end("materialise, windows of 500", created);
    per_task(created, &before, &store.counters(), wal(&client).await - wal_before);
    store.close();

    let raw = raw(url, "raw", WINDOW, ROWS).await;
    compare("windows to raw", bulk, raw);
    let slots = raw_slots(url).await;
    compare("windows to raw, one commit a slot", bulk, slots);

    let store = schedules(url, "singles", 1).await;
    let arm = Arm::start();
    for _ in 0..SINGLES {
        store.materialise(Sweep { schedules_max: 1, window_max: 1 }).await.unwrap();
    }
    let single = arm.end("materialise, one commit a slot", SINGLES);
    compare("windows to one commit a slot", bulk, single);
    store.close();
}

/// Makes the tables in a schema and points the connection at them.
async fn tables(url: &str, schema: &str) -> Client {
    let client = connect(url).await;
    client
        .batch_execute(&format!(
            "CREATE SCHEMA {schema}; SET search_path TO {schema}; SET jit TO off; SET enable_seqscan TO off; \
             SET enable_bitmapscan TO off; SET plan_cache_mode TO force_generic_plan"
        ))
        .await
        .unwrap();
    for migration in migrations() {
        client.batch_execute(migration.up).await.unwrap();
    }
    client
        .batch_execute(
            "INSERT INTO position (id, rev, runs, wake, cursor_slot, cursor_at, cursor_gap, era, version, state, backfilling, note)
             VALUES (1, 1, 0, 1, 0, 0, false, 1, 1, 0, false, '')",
        )
        .await
        .unwrap();
    client
}

/// The rows of a window by the statements of the product, without planner, runtime or replies: lock, look, write.
async fn raw(url: &str, schema: &str, window: u32, rows: u32) -> f64 {
    let client = tables(url, schema).await;
    let lock = client
        .prepare(
            "SELECT id, rev, cursor_at FROM position WHERE wake <= $1 ORDER BY wake, id LIMIT 1 FOR UPDATE SKIP LOCKED",
        )
        .await
        .unwrap();
    let taken = client
        .prepare("SELECT slot FROM task WHERE schedule = 1 AND era = 1 AND slot BETWEEN $1 AND $2 AND pass = 0 ORDER BY slot")
        .await
        .unwrap();
    let live = client
        .prepare("SELECT count(*) FROM (SELECT 1 FROM hold WHERE gate = 1 AND pass = 0 ORDER BY task LIMIT 1) h")
        .await
        .unwrap();
    let write = client
        .prepare(
            "WITH u AS MATERIALIZED (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) u (id, slot, at)),
             t AS (INSERT INTO task (id, lane, lvl, created, due, schedule, era, slot, pass, at, run, catch_up, version)
                SELECT id, 1, 1, at, at, 1, 1, slot, 0, at, id, false, 1 FROM u),
             h AS (INSERT INTO hold (gate, task, pass) SELECT 1, id, 0 FROM u)
             INSERT INTO ready (id, due, lane, n, spent, losses, class) SELECT id, at, 1, 0, 0, 0, 1 FROM u",
        )
        .await
        .unwrap();
    let advance = client
        .prepare("UPDATE position SET rev = rev + 1, cursor_slot = $1, cursor_at = $2, runs = $3 WHERE id = 1")
        .await
        .unwrap();
    let mut id = 1_i64;
    let arm = Arm::start();
    while id <= i64::from(rows) {
        let ids: Vec<i64> = (id..id + i64::from(window)).collect();
        let ats: Vec<i64> = ids.iter().map(|id| 1_800_000_000_000_000 + id * 10_000).collect();
        let slots: Vec<i64> = ats.iter().map(|at| at * 2).collect();
        let (first, last, last_at) = (slots[0], *slots.last().unwrap(), *ats.last().unwrap());
        let now = i64::MAX;
        let (begun, locked) = tokio::join!(client.batch_execute("BEGIN"), async { client.query(&lock, &[&now]).await });
        begun.unwrap();
        locked.unwrap();
        let (found, count) = tokio::join!(async { client.query(&taken, &[&first, &last]).await }, async {
            client.query(&live, &[]).await
        });
        found.unwrap();
        count.unwrap();
        let (wrote, moved, committed) = tokio::join!(
            async { client.execute(&write, &[&ids, &slots, &ats]).await },
            async { client.execute(&advance, &[&last, &last_at, &id]).await },
            client.batch_execute("COMMIT")
        );
        wrote.unwrap();
        moved.unwrap();
        committed.unwrap();
        id += i64::from(window);
    }
    arm.end(&format!("  raw: the same statements, windows of {window}"), rows)
}

/// Plain statements, prepared, a commit a slot: what a scheduler does that materialises one by one.
async fn raw_slots(url: &str) -> f64 {
    let client = tables(url, "raw_slots").await;
    let statements = [
        "INSERT INTO task (id, lane, lvl, created, due, schedule, era, slot, pass, at, run, catch_up, version)
            VALUES ($1, 1, 1, $2, $2, 1, 1, $2::bigint * 2, 0, $2, $1, false, 1)",
        "INSERT INTO ready (id, due, lane, n, spent, losses, class) VALUES ($1, $2, 1, 0, 0, 0, 1)",
        "INSERT INTO hold (gate, task, pass) VALUES (1, $1, least(0, $2::bigint)::int)",
        "UPDATE position SET rev = rev + 1, cursor_slot = $2::bigint * 2, cursor_at = $2, runs = $1 WHERE id = 1",
    ];
    let mut prepared = Vec::new();
    for sql in statements {
        prepared.push(client.prepare(sql).await.unwrap());
    }
    let arm = Arm::start();
    for id in 1..=i64::from(SINGLES) {
        let at = 1_700_000_000_000_000 + id * 10_000;
        client.batch_execute("BEGIN").await.unwrap();
        for statement in &prepared {
            client.execute(statement, &[&id, &at]).await.unwrap();
        }
        client.batch_execute("COMMIT").await.unwrap();
    }
    arm.end("  raw: plain statements, one commit a slot", SINGLES)
}

/// A thousand schedules with one slot each, in one commit, against a commit each.
async fn sweep(url: &str) {
    let store = schedules(url, "many", 1_000).await;
    let arm = Arm::start();
    let mut created = 0;
    while created < 20_000 {
        let report = store.materialise(Sweep { schedules_max: 1_000, window_max: 1 }).await.unwrap();
        created += u32::try_from(report.schedules.iter().map(|done| done.tasks.len()).sum::<usize>()).unwrap();
    }
    let bulk = arm.end("sweeps of 1,000 schedules, window 1", created);
    let arm = Arm::start();
    for _ in 0..SINGLES {
        store.materialise(Sweep { schedules_max: 1, window_max: 1 }).await.unwrap();
    }
    let single = arm.end("one commit a schedule", SINGLES);
    compare("sweep to one commit a schedule", bulk, single);
    store.close();
}

async fn drain(url: &str) {
    let client = connect(url).await;
    let store = open(url, "drain", None).await;
    let arm = Arm::start();
    for _ in 0..ROWS / 5_000 {
        let mut ids = store.draw_ids(5_000).await.unwrap();
        store.enqueue(std::iter::from_fn(|| ids.take()).map(task).collect()).await.unwrap();
    }
    arm.end("enqueue, 5,000 at a time", ROWS);
    let info = WorkerInfo { name: "w".to_owned(), slots: 500 };
    let worker = store.register(info, Duration::from_secs(600)).await.unwrap();
    let request = ClaimRequest { queue: None, methods: vec!["Demo/run".to_owned()], limit: WINDOW, suspects: false };
    let (before, wal_before) = (store.counters(), wal(&client).await);
    let arm = Arm::start();
    let mut done = 0;
    // As an engine does: the next claim goes on beside the last finish.
    let mut batch = store.claim(worker, request.clone()).await.unwrap();
    while !batch.tasks.is_empty() {
        done += u32::try_from(batch.tasks.len()).unwrap();
        let now = SystemClock.timestamp();
        let finishes = batch.tasks.iter().map(|task| success(task.task, task.n, now)).collect();
        let (finished, next) = tokio::join!(store.finish(worker, finishes), store.claim(worker, request.clone()));
        finished.unwrap();
        batch = next.unwrap();
    }
    assert_eq!(done, ROWS);
    let ours = arm.end("drain, claims and finishes of 500, attempts kept", done);
    per_task(done, &before, &store.counters(), wal(&client).await - wal_before);
    store.close();
    let delete = raw_delete(url).await;
    compare("drain to raw delete", ours, delete);
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

fn per_task(tasks: u32, before: &PostgresCounters, after: &PostgresCounters, wal: i64) {
    let each = |count: u64| count as f64 / f64::from(tasks);
    println!(
        "     per task: {:.4} round trips, {:.4} statements, {:.4} commits, {:.0} bytes of log",
        each(after.round_trips - before.round_trips),
        each(after.statements - before.statements),
        each(after.commits - before.commits),
        wal as f64 / f64::from(tasks)
    );
}

/// One table, no attempts: what a queue that keeps nothing does, in batches of 500 on one connection.
async fn raw_delete(url: &str) -> f64 {
    let client = connect(url).await;
    client
        .batch_execute(&format!(
            "CREATE TABLE job (id bigint PRIMARY KEY, queue int NOT NULL, priority int NOT NULL, run_at bigint NOT NULL,
                state int NOT NULL DEFAULT 0, attempts int NOT NULL DEFAULT 0, locked_at bigint, locked_by bigint, payload bytea);
             CREATE INDEX job_ready ON job (queue, priority, run_at, id) WHERE state = 0;
             INSERT INTO job (id, queue, priority, run_at, payload) SELECT i, 0, 0, 0, 'x' FROM generate_series(1, {ROWS}) i"
        ))
        .await
        .unwrap();
    let take = client
        .prepare(
            "UPDATE job SET state = 1, attempts = attempts + 1, locked_at = 1, locked_by = 1 WHERE id = ANY (ARRAY
             (SELECT id FROM job WHERE queue = 0 AND state = 0 AND run_at <= 1 ORDER BY priority, run_at, id LIMIT $1
                FOR UPDATE SKIP LOCKED)) RETURNING id, payload",
        )
        .await
        .unwrap();
    let delete = client.prepare("DELETE FROM job WHERE id = ANY ($1)").await.unwrap();
    let arm = Arm::start();
    loop {
        let rows = client.query(&take, &[&i64::from(WINDOW)]).await.unwrap();
        let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        if ids.is_empty() {
            break;
        }
        client.execute(&delete, &[&ids]).await.unwrap();
    }
    arm.end("  raw: update, then delete", ROWS)
}

async fn enqueue(url: &str) {
    let store = Arc::new(open(url, "singly", None).await);
    let arm = Arm::start();
    let mut ids = store.draw_ids(SINGLES).await.unwrap();
    while let Some(id) = ids.take() {
        store.enqueue(vec![task(id)]).await.unwrap();
    }
    let alone = arm.end("one caller, one commit each", SINGLES);
    for callers in [16, 64] {
        let mut ids = store.draw_ids(64 * 400).await.unwrap();
        let each = 64 * 400 / callers;
        let arm = Arm::start();
        let mut tasks = Vec::new();
        for _ in 0..callers {
            let mine: Vec<TaskId> = std::iter::from_fn(|| ids.take()).take(each).collect();
            let store = store.clone();
            tasks.push(tokio::spawn(async move {
                for id in mine {
                    store.enqueue(vec![task(id)]).await.unwrap();
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        let many = arm.end(&format!("{callers} callers, single durable enqueues"), 64 * 400);
        compare("many callers to one", many, alone);
    }
    let client = tables(url, "raw_single").await;
    let insert = "WITH t AS (INSERT INTO task (id, lane, lvl, created, due, schema, args)
            VALUES ($1, 1, 1, 1, 1, 1, 'x'))
        INSERT INTO ready (id, due, lane, n, spent, losses, class) VALUES ($1, 1, 1, 0, 0, 0, 1)";
    let insert = client.prepare(insert).await.unwrap();
    let arm = Arm::start();
    for id in 1..=i64::from(SINGLES) {
        client.execute(&insert, &[&id]).await.unwrap();
    }
    arm.end("  raw: one connection committing alone", SINGLES);
}
