//! Every statement that the store runs has an index that gives its rows, on tables of any size: the plans that connections keep
//! are looked at, over empty tables and over filled ones.

use crate::{PostgresConfig, PostgresStore};
use bytes::Bytes;
use punctual_clock::{Clock, Timestamp};
use punctual_task::schedule::Every;
use punctual_task::{
    BackfillRequest, ClaimRequest, Declaration, Due, Finish, KeyHold, Missed, NewTask, Next, Outcome, Page, Resume,
    Retention, ScheduleCommand, ScheduleSpec, Store, Sweep, TaskFilter, TaskId, TaskOptions, TaskState, UniqueKey,
    WorkerId, WorkerInfo,
};
use punctual_testkit::VirtualClock;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_postgres::{Client, NoTls};

static SEEN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// Called with the text of each statement that is prepared in a test.
pub(crate) fn seen(text: &'static str) {
    SEEN.lock().expect("no test panics with it").insert(text);
}

/// Tables with a row or more for each task, schedule or loss. The others have one for each name, worker or batch of
/// claimed tasks, and may be read whole.
const LARGE: [&str; 13] = [
    "task",
    "task_body",
    "ready",
    "attempt",
    "ended",
    "hold",
    "unique_key",
    "cancel",
    "schedule",
    "definition",
    "position",
    "missed",
    "missed_sum",
];
/// The one statement that reads a large table whole, by its index: the counts of the queues, asked for by people only.
const WHOLE: &str = crate::queues::COUNTS;
const LEASE: Duration = Duration::from_secs(15);

fn task(id: i64) -> NewTask {
    NewTask {
        id: TaskId(id),
        method: "Demo/run".to_owned(),
        queue: "Demo".to_owned(),
        level: 1,
        due: Due::Now,
        args: Bytes::from(vec![b'1'; if id % 2 == 0 { 10 } else { 5_000 }]),
        schema: 7,
        options: TaskOptions::default(),
        key: (id % 4 != 0).then(|| UniqueKey {
            hold: if id % 3 == 0 { KeyHold::FinishedPlus(LEASE) } else { KeyHold::Waiting },
            ..UniqueKey::new(id.to_string())
        }),
    }
}

async fn claim(store: &PostgresStore, worker: WorkerId, suspects: bool) -> Vec<(TaskId, u32)> {
    let request = ClaimRequest { queue: None, methods: vec!["Demo/run".to_owned()], limit: 4, suspects };
    let batch = store.claim(worker, request).await.expect("a claim");
    batch.tasks.iter().map(|task| (task.task, task.n)).collect()
}

async fn finish(store: &PostgresStore, worker: WorkerId, task: (TaskId, u32), now: Timestamp, next: Next) {
    let finish = Finish {
        task: task.0,
        n: task.1,
        started: now,
        ended: now,
        outcome: Outcome::Failed,
        out: Bytes::from_static(b"{}"),
        next,
    };
    // The second one is a resend.
    store.finish(worker, vec![finish.clone()]).await.expect("a finish");
    store.finish(worker, vec![finish]).await.expect("a finish");
}

/// Runs every operation, so that every statement is seen.
async fn everything(store: &PostgresStore, clock: &VirtualClock) {
    let info = || WorkerInfo { name: "w".to_owned(), slots: 2 };
    let dead = store.register(info(), LEASE).await.expect("a registration");
    let alive = store.register(info(), LEASE).await.expect("a registration");
    store.draw_ids(20).await.expect("ids");
    store.enqueue((1..=12).map(task).collect()).await.expect("an enqueue");
    store.enqueue(vec![task(1)]).await.expect("a resend");
    store.enqueue(vec![task(16)]).await.expect("one statement");
    let held = claim(store, dead, false).await;
    store.cancel(vec![held[0].0, TaskId(12), TaskId(99)]).await.expect("cancels");
    clock.advance(LEASE);
    store.renew(alive, LEASE).await.expect("a renewal");
    store.rescue(alive).await.expect("a rescue");
    let mut held = claim(store, alive, true).await;
    held.extend(claim(store, alive, false).await);
    held.extend(claim(store, alive, false).await);
    store.holdings(alive).await.expect("holdings");
    store.hand_back(alive, vec![held[0].0]).await.expect("a hand-back");
    let now = clock.timestamp();
    finish(store, alive, held[1], now, Next::Again { due: now, spent: 1 }).await;
    finish(store, alive, held[2], now, Next::Final(TaskState::Failed)).await;
    finish(store, alive, held[3], now, Next::Final(TaskState::Succeeded)).await;
    store.retry(vec![held[2].0, held[0].0]).await.expect("retries");
    finish(store, alive, held[4], now, Next::Final(TaskState::Failed)).await;
    store.pause_queue("Demo".to_owned(), true).await.expect("a pause");
    store.pause_queue("Demo".to_owned(), false).await.expect("a resume");
    schedules(store, clock).await;
    let held = claim(store, alive, false).await;
    finish(store, alive, held[0], clock.timestamp(), Next::Final(TaskState::Succeeded)).await;
    lists(store).await;
    clock.advance(Duration::from_secs(40 * 86_400));
    store.renew(alive, LEASE).await.expect("a renewal");
    store.prune(Retention::default(), 1_000).await.expect("a pruning");
    store.retire(alive).await.expect("a retirement");
}

async fn schedules(store: &PostgresStore, clock: &VirtualClock) {
    let rule = Every::new(Duration::from_secs(60));
    let spec = ScheduleSpec {
        missed: Missed::All { max_count: 3, max_age: LEASE, overflow: punctual_task::series::Overflow::SkipOldest },
        max_pending: 3,
        ..ScheduleSpec::new("s", rule.into(), "Demo/run", Bytes::from_static(b"{}"))
    };
    let declaration = Declaration { spec: spec.clone(), revision: 0 };
    store.declare(declaration.clone()).await.expect("a declaration");
    store.declare(declaration).await.expect("the same again");
    let edited = ScheduleSpec { max_pending: 2, ..spec };
    let steer = |command| store.steer("s".to_owned(), command);
    for command in [
        ScheduleCommand::Trigger { id: TaskId(500), force: false },
        ScheduleCommand::Trigger { id: TaskId(500), force: false },
        ScheduleCommand::edit(edited, 1),
        ScheduleCommand::Pause { note: String::new() },
        ScheduleCommand::Resume(Resume::ByPolicy),
    ] {
        steer(command).await.expect("a command");
    }
    clock.advance(Duration::from_secs(600));
    store.materialise(Sweep::default()).await.expect("a sweep");
    store.materialise(Sweep::default()).await.expect("a sweep of nothing");
    let request = BackfillRequest::new(1, Timestamp::EPOCH, Timestamp::MAX);
    steer(ScheduleCommand::PreviewBackfill(request)).await.expect("a preview");
    steer(ScheduleCommand::Backfill(request)).await.expect("a backfill");
    store.materialise(Sweep::default()).await.expect("a sweep with a backfill");
    store.losses("s".to_owned(), 10).await.expect("losses");
    store.schedule("s".to_owned()).await.expect("a schedule");
    store.schedules(None, 10).await.expect("schedules");
}

async fn lists(store: &PostgresStore) {
    store.task(TaskId(1)).await.expect("a task");
    store.queues().await.expect("queues");
    store.workers().await.expect("workers");
    let states = [None, Some(TaskState::Waiting), Some(TaskState::Running), Some(TaskState::Failed)];
    for state in states {
        for queue in [None, Some("Demo".to_owned())] {
            for schedule in [None, Some("s".to_owned())] {
                let filter = TaskFilter { state, queue: queue.clone(), method: None, schedule: schedule.clone() };
                store.tasks(filter, Page::default()).await.expect("a page");
            }
        }
    }
}

/// What of a plan reads a large table as a whole.
fn whole_reads(plan: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, line) in plan.iter().enumerate() {
        let on = |table: &str| {
            line.split(" on ").nth(1).and_then(|rest| rest.split_whitespace().next()).is_some_and(|name| name == table)
        };
        if !LARGE.iter().any(|table| on(table)) {
            continue;
        }
        let depth = |line: &str| line.len() - line.trim_start().len();
        let details = plan.iter().skip(at + 1).take_while(|next| depth(next) > depth(line) && !next.contains("->"));
        let bounded = details.clone().any(|next| next.contains("Index Cond") || next.contains("TID Cond"));
        if line.contains("Scan") && !bounded {
            found.push(line.trim().to_owned());
        }
    }
    found
}

async fn check(client: &Client, when: &str) {
    let statements: Vec<&'static str> = SEEN.lock().expect("no test panics with it").iter().copied().collect();
    assert!(statements.len() > 60, "only {} statements were seen", statements.len());
    let mut wrong = Vec::new();
    for sql in statements.into_iter().filter(|sql| *sql != WHOLE) {
        let prepared = client.prepare(sql).await.expect(sql);
        let count = prepared.params().len();
        let values = vec!["NULL"; count].join(", ");
        let arguments = if count == 0 { String::new() } else { format!("({values})") };
        let types: Vec<&str> = prepared.params().iter().map(tokio_postgres::types::Type::name).collect();
        let declared = if count == 0 { String::new() } else { format!("({})", types.join(", ")) };
        // SQL-FORMAT: the statements are the store's own, and the types the server's.
        client.batch_execute(&format!("PREPARE looked_at {declared} AS {sql}")).await.expect(sql);
        // SQL-FORMAT: as many NULLs as the statement has parameters.
        let explained = client.simple_query(&format!("EXPLAIN (COSTS OFF) EXECUTE looked_at {arguments}")).await;
        let plan: Vec<String> = explained
            .expect(sql)
            .into_iter()
            .filter_map(|message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            })
            .collect();
        client.batch_execute("DEALLOCATE looked_at").await.expect(sql);
        let whole = whole_reads(&plan);
        if !whole.is_empty() {
            wrong.push(format!("{when}: {sql}\nreads whole: {whole:?}\n{}", plan.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// No statement reads a large table whole: neither while the tables are empty, which is when a busy service's first connections
/// make their plans, nor when they are full and PostgreSQL knows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_statement_has_its_index() {
    let server = std::env::var("PUNCTUAL_TEST_POSTGRES").unwrap_or_default();
    assert!(!server.is_empty(), "PUNCTUAL_TEST_POSTGRES is not set: run `cargo xtask test`");
    let name = format!("punctual_plans_{}", std::process::id());
    let (admin, connection) = tokio_postgres::connect(&server, NoTls).await.expect("the server answers");
    drop(tokio::spawn(connection));
    // SQL-FORMAT: the name is made of the process's number.
    admin.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await.expect("a database");
    let url = format!("{}/{name}", server.rsplit_once('/').expect("an address").0);
    let clock = Arc::new(VirtualClock::starting_at(Timestamp::from_secs(1_772_409_600)));
    let config = PostgresConfig { clock: Some(clock.clone()), ..PostgresConfig::default() };
    let store = PostgresStore::open(&url, config.clone()).await.expect("it opens");
    everything(&store, &clock).await;
    let connector = crate::connection::Connector::new(crate::Location::parse(&url).expect("an address"), &config);
    let connection = connector.expect("a way").connect().await.expect("a connection");
    let times = "SELECT set_config('punctual.now', '9', false), set_config('punctual.lease', '9', false)";
    connection.client.batch_execute(times).await.expect("times");
    let truncate = "TRUNCATE task, task_body, ready, attempt, ended, hold, unique_key, cancel, missed, missed_sum";
    connection.client.batch_execute(truncate).await.expect("emptied");
    check(&connection.client, "empty").await;
    connection.client.batch_execute(FILL).await.expect("filled");
    connection.client.batch_execute("ANALYZE").await.expect("analysed");
    check(&connection.client, "filled").await;
    drop((connection, store));
    // SQL-FORMAT: the name is made of the process's number.
    admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.expect("dropped");
}

/// Thirty thousand tasks, most of them ended, over a thousand schedules.
const FILL: &str = "
INSERT INTO task (id, created, due, schema, schedule, slot, at, run, lane, era, pass, version, lvl, catch_up, args)
    SELECT i, i, i, 1, i % 1000, i, i, i, 1, 1, 0, 1, 1, false, 'x' FROM generate_series(1000, 31000) i;
INSERT INTO task_body SELECT i, 'y' FROM generate_series(1000, 11000) i;
INSERT INTO ready (id, due, lane, n, spent, losses, class) SELECT i, i, 1, 0, 0, 0, 1 FROM generate_series(21000, 31000) i;
INSERT INTO attempt (task, worker, started, ended, n, lane, outcome, final, out)
    SELECT i, 1, i, i, 1, 1, 0, 9, 'z' FROM generate_series(1000, 20999) i;
INSERT INTO ended (at, kind, tasks) SELECT i, 0, '' FROM generate_series(1, 2000) i;
INSERT INTO hold (gate, task, pass) SELECT i % 1000, i, 0 FROM generate_series(21000, 31000) i;
INSERT INTO unique_key (task, target, scope, waiting, text) SELECT i, 1, 0, false, i::text FROM generate_series(1, 9000) i;
INSERT INTO cancel SELECT i, i FROM generate_series(1, 3000) i;
INSERT INTO missed (schedule, from_at, to_at, count, era, reason, exact)
    SELECT i % 1000, i, i, 1, 1, 0, true FROM generate_series(1, 9000) i;
INSERT INTO missed_sum (schedule, count, reason) SELECT i, 1, 0 FROM generate_series(1, 3000) i;
INSERT INTO schedule (created, hash, revision, name) SELECT i, i, i, 'n' || i FROM generate_series(1, 3000) i;
INSERT INTO definition SELECT i + 100, 1, '{}', '' FROM generate_series(1, 3000) i;
INSERT INTO position (id, rev, runs, wake, era, version, state, backfilling, note)
    SELECT i + 100, 1, 1, i, 1, 1, 0, false, '' FROM generate_series(1, 3000) i;
";
