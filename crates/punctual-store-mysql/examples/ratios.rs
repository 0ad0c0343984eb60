//! Measures the store against plain SQL on the same server, in one run, and prints ratios.
//!
//! `PUNCTUAL_TEST_MARIADB=mysql://user:password@host cargo run --release -p punctual-store-mysql --example ratios`, on a server
//! with `innodb_flush_log_at_trx_commit = 1`. It makes a database of its own and drops it.
#![expect(clippy::unwrap_used, reason = "a measurement that fails is no measurement")]

use bytes::Bytes;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use punctual_clock::{Clock, Instant, SystemClock, Timestamp};
use punctual_store_mysql::{MysqlConfig, MysqlCounters, MysqlStore};
use punctual_task::schedule::{CompiledRule, Every, Slot};
use punctual_task::{
    ClaimRequest, Declaration, Due, Finish, NewTask, Next, Outcome, ScheduleSpec, Store, TaskId, TaskOptions,
    TaskState, Window, WorkerInfo,
};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// How many tasks or slots each bulk arm handles.
const ROWS: u32 = 50_000;
/// How many commits each arm of single ones makes.
const SINGLES: u32 = 500;
const WINDOW: u32 = 500;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let url = std::env::var("PUNCTUAL_TEST_MARIADB").unwrap();
        let server: Opts = OptsBuilder::from_opts(Opts::from_url(&url).unwrap()).prefer_socket(false).into();
        for round in 1..=3 {
            println!("round {round}");
            let place = Place::new(&server, round).await;
            materialise(&place).await;
            drain(&place).await;
            enqueue(&place).await;
            place.end().await;
        }
    });
}

/// A database of this run.
struct Place {
    server: Opts,
    name: String,
}

impl Place {
    async fn new(server: &Opts, round: u32) -> Self {
        let name = format!("punctual_ratios_{}_{round}", std::process::id());
        let mut conn = Conn::new(server.clone()).await.unwrap();
        conn.query_drop(format!("CREATE DATABASE {name}")).await.unwrap();
        let flush: Option<i64> = conn.query_first("SELECT @@innodb_flush_log_at_trx_commit").await.unwrap();
        assert_eq!(flush, Some(1), "the server does not sync its log at each commit");
        Place { server: server.clone(), name }
    }

    async fn open(&self) -> MysqlStore {
        let (user, pass) = (self.server.user().unwrap_or("root"), self.server.pass());
        let pass = pass.map(|pass| format!(":{pass}")).unwrap_or_default();
        let host = format!("{}:{}", self.server.ip_or_hostname(), self.server.tcp_port());
        MysqlStore::open(&format!("mysql://{user}{pass}@{host}/{}", self.name), MysqlConfig::default()).await.unwrap()
    }

    /// A connection as the store has them.
    async fn connection(&self) -> Conn {
        let mut conn = Conn::new(OptsBuilder::from_opts(self.server.clone()).db_name(Some(&self.name))).await.unwrap();
        conn.query_drop("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await.unwrap();
        conn
    }

    async fn end(self) {
        let mut conn = Conn::new(self.server).await.unwrap();
        conn.query_drop(format!("DROP DATABASE {}", self.name)).await.unwrap();
    }
}

/// Real time since the start of an arm.
struct Arm(Instant);

impl Arm {
    fn start() -> Self {
        Arm(SystemClock.now())
    }

    fn end(&self, what: &str, count: u32) -> f64 {
        let rate = f64::from(count) / SystemClock.now().since(self.0).as_secs_f64();
        println!("  {what:<60} {rate:>10.0}/s");
        rate
    }
}

fn compare(what: &str, ours: f64, other: f64) {
    println!("  => {what}: {:.2} x", ours / other);
}

fn per_row(rows: u32, before: &MysqlCounters, after: &MysqlCounters) {
    let each = |count: u64| count as f64 / f64::from(rows);
    println!(
        "     per row: {:.4} round trips, {:.4} statements, {:.4} commits",
        each(after.round_trips - before.round_trips),
        each(after.statements - before.statements),
        each(after.commits - before.commits)
    );
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

/// Windows of so many slots, each under compare-and-swap from the cursor on.
async fn windows(store: &MysqlStore, name: &str, count: u32, window: u32) {
    let view = store.schedule(name.to_owned()).await.unwrap().unwrap();
    let rule = CompiledRule::new(&view.spec.rule, view.created).unwrap();
    let mut cursor = view.position.cursor.unwrap();
    let mut created = 0;
    while created < count {
        let rest = rule.slots_after(cursor.at).map(Result::unwrap);
        let slots: Vec<Slot> = std::iter::once(cursor).chain(rest).take(window as usize).collect();
        let asked = Window { schedule: view.position.id, version: view.position.version, cursor, slots };
        let done = store.apply(asked).await.unwrap();
        assert_eq!(done.tasks.len(), window as usize);
        created += window;
        cursor = done.position.cursor.unwrap();
    }
}

async fn materialise(place: &Place) {
    let store = place.open().await;
    for name in ["windows", "slots"] {
        let spec = ScheduleSpec {
            max_pending: ScheduleSpec::MAX_PENDING_MAX,
            overlap: punctual_task::Overlap::Allow,
            ..ScheduleSpec::new(
                name,
                Every::new(Duration::from_millis(10)).into(),
                "Demo/run",
                Bytes::from_static(b"1"),
            )
        };
        store.declare(Declaration { spec, revision: 0 }).await.unwrap();
    }
    let before = store.counters();
    let arm = Arm::start();
    windows(&store, "windows", ROWS, WINDOW).await;
    let bulk = arm.end("materialise, windows of 500", ROWS);
    per_row(ROWS, &before, &store.counters());
    let arm = Arm::start();
    windows(&store, "slots", SINGLES, 1).await;
    let single = arm.end("materialise, one commit a slot, through the store", SINGLES);
    let raw_bulk = raw_windows(place, ROWS, WINDOW, "  raw: the same rows by plain statements").await;
    let raw_single = raw_windows(place, SINGLES, 1, "  raw: one commit a slot, the same connection").await;
    compare("windows to one commit a slot, raw", bulk, raw_single);
    compare("windows to one commit a slot, through the store", bulk, single);
    compare("windows to raw windows", bulk, raw_bulk);
}

/// The rows of windows without planner, runtime or replies.
async fn raw_windows(place: &Place, rows: u32, window: u32, what: &str) -> f64 {
    let mut conn = place.connection().await;
    let mut id: i64 =
        conn.query_first("SELECT COALESCE(MAX(id), 0) + 1000000 FROM punctual_task").await.unwrap().unwrap();
    conn.query_drop(
        "INSERT IGNORE INTO punctual_position (id, state, note, rev, era, version, runs, wake, backfilling)
         VALUES (900, 1, '', 1, 1, 1, 0, NULL, 0)",
    )
    .await
    .unwrap();
    let arm = Arm::start();
    for _ in 0..rows / window {
        conn.query_drop("START TRANSACTION").await.unwrap();
        conn.query_drop("SELECT * FROM punctual_position WHERE id = 900 FOR UPDATE").await.unwrap();
        let (mut task, mut ready, mut hold) = (
            "INSERT INTO punctual_task (id, lane, lvl, created, due, schedule, era, slot, pass, at, run, catch_up, version) VALUES "
                .to_owned(),
            "INSERT INTO punctual_ready (lane, class, due, id, n, spent, losses, gate, flags) VALUES ".to_owned(),
            "INSERT INTO punctual_hold (gate, task, pass) VALUES ".to_owned(),
        );
        for at in 0..window {
            let comma = if at > 0 { "," } else { "" };
            let due = 1_800_000_000_000_000 + id * 10_000;
            let _ = write!(task, "{comma}({id},1,1,{due},{due},900,1,{},0,{due},{id},0,1)", due * 2);
            let _ = write!(ready, "{comma}(1,1,{due},{id},0,0,0,900,0)");
            let _ = write!(hold, "{comma}(900,{id},0)");
            id += 1;
        }
        for sql in [task, ready, hold] {
            conn.query_drop(sql).await.unwrap();
        }
        conn.query_drop("UPDATE punctual_position SET rev = rev + 1, runs = runs + 1 WHERE id = 900").await.unwrap();
        conn.query_drop("COMMIT").await.unwrap();
    }
    arm.end(what, rows)
}

async fn drain(place: &Place) {
    let store = place.open().await;
    {
        // What the windows left is out of the way.
        let mut conn = place.connection().await;
        conn.query_drop("TRUNCATE TABLE punctual_ready").await.unwrap();
    }
    for _ in 0..ROWS / 10_000 {
        let mut ids = store.draw_ids(10_000).await.unwrap();
        store.enqueue(std::iter::from_fn(|| ids.take()).map(task).collect()).await.unwrap();
    }
    let worker =
        store.register(WorkerInfo { name: "w".to_owned(), slots: 500 }, Duration::from_secs(600)).await.unwrap();
    let request = ClaimRequest { queue: None, methods: vec!["Demo/run".to_owned()], limit: WINDOW, suspects: false };
    let before = store.counters();
    let arm = Arm::start();
    let mut done = 0;
    while done < ROWS {
        let batch = store.claim(worker, request.clone()).await.unwrap();
        done += u32::try_from(batch.tasks.len()).unwrap();
        let now = SystemClock.timestamp();
        store.finish(worker, batch.tasks.iter().map(|task| success(task.task, task.n, now)).collect()).await.unwrap();
    }
    let ours = arm.end("drain, claims and finishes of 500, attempts kept", done);
    per_row(done, &before, &store.counters());
    let delete = raw_delete(place).await;
    compare("drain to raw", ours, delete);
}

fn success(task: TaskId, n: u32, now: Timestamp) -> Finish {
    let (out, outcome) = (Bytes::from_static(b"null"), Outcome::Succeeded);
    Finish { task, n, started: now, ended: now, outcome, out, next: Next::Final(TaskState::Succeeded) }
}

/// One table, no attempts: what a queue that keeps nothing does.
async fn raw_delete(place: &Place) -> f64 {
    let mut conn = place.connection().await;
    conn.query_drop(
        "CREATE TABLE job (id BIGINT AUTO_INCREMENT PRIMARY KEY, queue INT NOT NULL, priority INT NOT NULL, run_at BIGINT NOT NULL,
         state TINYINT NOT NULL DEFAULT 0, attempts INT NOT NULL DEFAULT 0, locked_at BIGINT, locked_by BIGINT,
         payload VARBINARY(1000), KEY job_ready (queue, state, priority, run_at, id))",
    )
    .await
    .unwrap();
    for _ in 0..ROWS / 1_000 {
        let rows = vec!["(0,0,0,'{\"n\":12345}')"; 1_000].join(",");
        conn.query_drop(format!("INSERT INTO job (queue, priority, run_at, payload) VALUES {rows}")).await.unwrap();
    }
    let arm = Arm::start();
    loop {
        conn.query_drop("START TRANSACTION").await.unwrap();
        let rows: Vec<(i64, Vec<u8>)> = conn
            .query(format!(
                "SELECT id, payload FROM job FORCE INDEX (job_ready) WHERE queue = 0 AND state = 0 AND run_at <= 1
                 ORDER BY priority, run_at, id LIMIT {WINDOW} FOR UPDATE SKIP LOCKED"
            ))
            .await
            .unwrap();
        if rows.is_empty() {
            break;
        }
        let ids: Vec<String> = rows.iter().map(|(id, _)| id.to_string()).collect();
        let ids = ids.join(",");
        conn.query_drop(format!(
            "UPDATE job SET state = 1, attempts = attempts + 1, locked_at = 1, locked_by = 1 WHERE id IN ({ids})"
        ))
        .await
        .unwrap();
        conn.query_drop("COMMIT").await.unwrap();
        conn.query_drop(format!("DELETE FROM job WHERE id IN ({ids})")).await.unwrap();
    }
    let rate = arm.end("  raw: lock, update, then delete", ROWS);
    conn.query_drop("DROP TABLE job").await.unwrap();
    rate
}

async fn enqueue(place: &Place) {
    let store = Arc::new(place.open().await);
    let arm = Arm::start();
    let mut ids = store.draw_ids(SINGLES).await.unwrap();
    while let Some(id) = ids.take() {
        store.enqueue(vec![task(id)]).await.unwrap();
    }
    let alone = arm.end("one caller, one commit each", SINGLES);
    let mut ids = store.draw_ids(64 * 100).await.unwrap();
    let arm = Arm::start();
    let mut callers = Vec::new();
    for _ in 0..64 {
        let mine: Vec<TaskId> = std::iter::from_fn(|| ids.take()).take(100).collect();
        let store = Arc::clone(&store);
        callers.push(tokio::spawn(async move {
            for id in mine {
                store.enqueue(vec![task(id)]).await.unwrap();
            }
        }));
    }
    for caller in callers {
        caller.await.unwrap();
    }
    let many = arm.end("64 callers, single durable enqueues", 64 * 100);
    compare("many callers to one", many, alone);
}
