//! Every statement that the store runs is served by an index, in the order in which that lies, on tables of any size.

use crate::config::MysqlConfig;
use crate::queues;
use crate::store::MysqlStore;
use bytes::Bytes;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Row};
use punctual_clock::{Clock, Timestamp};
use punctual_task::schedule::Every;
use punctual_task::series::Overflow;
use punctual_task::{
    BackfillRequest, ClaimRequest, Declaration, Due, Finish, KeyHold, Missed, NewTask, Next, Outcome, Page, Resume,
    Retention, ScheduleCommand, ScheduleSpec, Store, Sweep, TaskFilter, TaskId, TaskOptions, TaskState, UniqueKey,
    WorkerId, WorkerInfo,
};
use punctual_testkit::VirtualClock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

static SEEN: Mutex<BTreeMap<&'static str, Vec<u8>>> = Mutex::new(BTreeMap::new());

/// Called with the text of each statement of a test, and with its values written in.
pub(crate) fn seen(text: &'static str, statement: &[u8]) {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).entry(text).or_insert_with(|| statement.to_vec());
}

/// Tables with a row or more for each task, schedule or loss. The others have one for each name, worker or batch of
/// claimed tasks, and may be read whole.
const LARGE: [&str; 12] = [
    "task",
    "task_body",
    "ready",
    "attempt",
    "ended",
    "hold",
    "unique_key",
    "cancel",
    "definition",
    "position",
    "missed",
    "schedule",
];
/// What statements call some of them.
const ALIASES: [&str; 9] = ["t", "p", "r", "h", "s", "d", "k", "a", "b"];
const LEASE: Duration = Duration::from_secs(15);

fn task(id: i64) -> NewTask {
    NewTask {
        id: TaskId(id),
        method: if id % 5 == 0 { "Demo/other" } else { "Demo/run" }.to_owned(),
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

async fn claim(store: &MysqlStore, worker: WorkerId, suspects: bool) -> Vec<(TaskId, u32)> {
    let methods = vec!["Demo/run".to_owned(), "Demo/other".to_owned()];
    let batch = store.claim(worker, ClaimRequest { queue: None, methods, limit: 4, suspects }).await.expect("a claim");
    batch.tasks.iter().map(|task| (task.task, task.n)).collect()
}

async fn finish(store: &MysqlStore, worker: WorkerId, task: (TaskId, u32), next: Next) {
    let now = store.now().await.expect("the time");
    let (out, outcome) = (Bytes::from_static(b"{}"), Outcome::Failed);
    let finish = Finish { task: task.0, n: task.1, started: now, ended: now, outcome, out, next };
    // The second one is a resend.
    store.finish(worker, vec![finish.clone(), finish]).await.expect("a finish");
}

/// Runs every operation, so that every statement is seen.
async fn everything(store: &MysqlStore, clock: &VirtualClock) {
    let info = WorkerInfo { name: "w".to_owned(), slots: 2 };
    let dead = store.register(info.clone(), LEASE).await.expect("a registration");
    let alive = store.register(info, LEASE).await.expect("a registration");
    let new: Vec<NewTask> = (1..=24).map(task).collect();
    store.draw_ids(12).await.expect("ids");
    store.enqueue(new.clone()).await.expect("an enqueue");
    store.enqueue(new[..3].to_vec()).await.expect("a resend");
    store.enqueue(vec![task(28)]).await.expect("a plain one");
    let held = claim(store, dead, false).await;
    store.cancel(vec![held[0].0, TaskId(12), TaskId(99)]).await.expect("cancels");
    clock.advance(LEASE);
    store.renew(alive, LEASE).await.expect("a renewal");
    store.rescue(alive).await.expect("a rescue");
    let mut held = Vec::new();
    for suspects in [true, true, true, false, false] {
        held.extend(claim(store, alive, suspects).await);
    }
    store.holdings(alive).await.expect("holdings");
    store.hand_back(alive, vec![held[0].0]).await.expect("a hand-back");
    let now = clock.timestamp();
    finish(store, alive, held[1], Next::Again { due: now, spent: 1 }).await;
    finish(store, alive, held[2], Next::Final(TaskState::Failed)).await;
    finish(store, alive, held[3], Next::Final(TaskState::Succeeded)).await;
    store.retry(vec![held[2].0, held[0].0]).await.expect("retries");
    finish(store, alive, held[4], Next::Final(TaskState::Failed)).await;
    store.pause_queue("Demo".to_owned(), true).await.expect("a pause");
    store.pause_queue("Demo".to_owned(), false).await.expect("a resume");

    let rule = Every::new(Duration::from_secs(60));
    let spec = ScheduleSpec {
        missed: Missed::All { max_count: 3, max_age: LEASE, overflow: Overflow::SkipOldest },
        max_pending: 3,
        ..ScheduleSpec::new("s", rule.into(), "Demo/run", Bytes::from_static(b"{}"))
    };
    let declaration = Declaration { spec: spec.clone(), revision: 0 };
    store.declare(declaration.clone()).await.expect("a declaration");
    store.declare(declaration).await.expect("the same again");
    let steer = async |command| store.steer("s".to_owned(), command).await.expect("a command");
    steer(ScheduleCommand::Trigger { id: TaskId(500), force: false }).await;
    steer(ScheduleCommand::edit(ScheduleSpec { max_pending: 2, ..spec.clone() }, 1)).await;
    clock.advance(Duration::from_secs(600));
    store.materialise(Sweep::default()).await.expect("a sweep");
    store.materialise(Sweep::default()).await.expect("a sweep of nothing");
    let request = BackfillRequest::new(1, Timestamp::EPOCH, Timestamp::MAX);
    steer(ScheduleCommand::PreviewBackfill(request)).await;
    steer(ScheduleCommand::Backfill(request)).await;
    store.materialise(Sweep::default()).await.expect("a sweep of the backfill");
    steer(ScheduleCommand::Pause { note: String::new() }).await;
    steer(ScheduleCommand::Resume(Resume::ByPolicy)).await;
    for held in claim(store, alive, false).await {
        finish(store, alive, held, Next::Final(TaskState::Succeeded)).await;
    }
    lists(store).await;
    steer(ScheduleCommand::Cancel).await;
    store.retire(alive).await.expect("a retirement");
    clock.advance(Duration::from_secs(600));
    let soon = Retention { ended: Some(LEASE), failed: Some(LEASE) };
    store.prune(soon, 1).await.expect("a pruning");
    store.prune(soon, 100).await.expect("a pruning");
}

/// Runs every read.
async fn lists(store: &MysqlStore) {
    for state in [None, Some(TaskState::Waiting), Some(TaskState::Running), Some(TaskState::Failed)] {
        for queue in [None, Some("Demo".to_owned())] {
            for schedule in [None, Some("s".to_owned())] {
                let filter = TaskFilter { state, queue: queue.clone(), method: None, schedule };
                store.tasks(filter, Page::default()).await.expect("a page");
            }
        }
    }
    for id in 1..=13 {
        store.task(TaskId(id)).await.expect("a task");
    }
    store.queues().await.expect("queues");
    store.workers().await.expect("workers");
    store.schedule("s".to_owned()).await.expect("a schedule");
    store.schedules(None, 10).await.expect("schedules");
    store.losses("s".to_owned(), 10).await.expect("losses");
    store.slot_ends("s".to_owned(), 10).await.expect("ends");
}

/// Rows as some time of work leaves them.
const FILL: [&str; 12] = [
    "INSERT IGNORE INTO punctual_task (id, lane, lvl, created, due, shape, args, schedule, era, slot, pass, at, run)
     SELECT 1000 + i, 1 + i % 7, i % 4, i, i, 1, 'x', IF(i % 2, 1 + i % 50, NULL), 1, i, 0, i, i FROM n",
    "INSERT IGNORE INTO punctual_task_body (id, args) SELECT 1000 + i, 'x' FROM n WHERE i % 3 = 0",
    "INSERT IGNORE INTO punctual_ready (lane, class, due, id, n, spent, losses, gate, flags)
     SELECT 1 + i % 7, i % 4, i, 1000 + i, 0, 0, 0, 0, 0 FROM n WHERE i % 2 = 0",
    "INSERT IGNORE INTO punctual_attempt (task, n, worker, started, ended, outcome, final, lane, result)
     SELECT 1000 + i, 1, 1, i, i, 0, 9, 1 + i % 7, 'x' FROM n WHERE i % 2 = 1",
    "INSERT IGNORE INTO punctual_hold (gate, task, pass) SELECT 1 + i % 50, 1000 + i, 0 FROM n",
    "INSERT IGNORE INTO punctual_unique_key (scope, target, name, task, waiting, until)
     SELECT 0, 1, CONCAT('key ', i), 1000 + i, 0, i FROM n",
    "INSERT IGNORE INTO punctual_position (id, state, note, rev, era, version, runs, wake, backfilling)
     SELECT 1000 + i, 0, '', 1, 1, 1, 0, i, 0 FROM n",
    "INSERT IGNORE INTO punctual_schedule (id, name, created, hash, revision)
     SELECT 1000 + i, CONCAT('name ', i), 1, 1, 1 FROM n",
    "INSERT IGNORE INTO punctual_definition (schedule, version, spec, args) SELECT 1000 + i, 1, '{}', 'x' FROM n",
    "INSERT IGNORE INTO punctual_missed (schedule, era, from_at, to_at, reason, slots, is_exact)
     SELECT 1000 + i, 1, i, i, 1, 1, 1 FROM n",
    "INSERT IGNORE INTO punctual_ended (kind, at, tasks) SELECT i % 2, i, '' FROM n",
    "INSERT IGNORE INTO punctual_cancel (task, worker) SELECT 1000 + i, 1 + i % 9 FROM n",
];

/// What is wrong with a step of a plan: a large table read whole, or rows sorted that an index gives in order.
fn complaint(row: &Row) -> Option<String> {
    let text = |name: &str| row.get::<Option<String>, _>(name).flatten().unwrap_or_default();
    let (table, kind, extra) = (text("table"), text("type"), text("Extra"));
    let table = table.strip_prefix("punctual_").unwrap_or(&table).to_owned();
    let large = LARGE.contains(&table.as_str()) || ALIASES.contains(&table.as_str());
    let whole = large && (kind == "ALL" || kind == "index" && !extra.contains("LIMIT"));
    let sorted = large && (extra.contains("filesort") || extra.contains("temporary"));
    (whole || sorted).then(|| format!("{table}: {kind} {extra}"))
}

async fn check(conn: &mut Conn, what: &str) {
    let statements = SEEN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert!(statements.len() > 80, "only {} statements were seen", statements.len());
    let mut wrong = Vec::new();
    for (text, statement) in statements {
        // The counts of the queues read their table whole, by its key: asked for by people only.
        let verb = text.trim_start_matches('(').split(' ').next().unwrap_or_default();
        if text == queues::COUNTS || !["SELECT", "UPDATE", "DELETE"].contains(&verb) || !text.contains("punctual_") {
            continue;
        }
        let explain = [b"EXPLAIN ".as_slice(), &statement].concat();
        let rows: Vec<Row> = conn.query(explain.as_slice()).await.unwrap_or_else(|error| panic!("{error}: {text}"));
        wrong.extend(rows.iter().filter_map(complaint).map(|line| format!("{line}: {text}")));
    }
    assert!(wrong.is_empty(), "on {what}:\n{}", wrong.join("\n"));
}

fn server() -> Opts {
    let name = "PUNCTUAL_TEST_MARIADB";
    let url = std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} names no server: run `cargo xtask test`, which starts one, or set it to a URL of a user who may create databases")
    });
    OptsBuilder::from_opts(Opts::from_url(&url).expect("a URL")).prefer_socket(false).into()
}

/// No statement reads a large table whole or sorts what an index gives in order, on empty tables and on filled ones: where
/// locked rows are passed over, a sort would lock every candidate.
#[tokio::test(flavor = "multi_thread")]
async fn every_statement_is_served_by_an_index() {
    let opts = server();
    let name = format!("punctual_plans_{}", std::process::id());
    let mut conn = Conn::new(opts.clone()).await.expect("the server");
    // SQL-FORMAT: the name is made of this process's number.
    conn.query_drop(format!("DROP DATABASE IF EXISTS {name}; CREATE DATABASE {name}; USE {name}")).await.expect("one");
    let pass = opts.pass().map(|pass| format!(":{pass}")).unwrap_or_default();
    let user = opts.user().unwrap_or("root");
    let url = format!("mysql://{user}{pass}@{}:{}/{name}", opts.ip_or_hostname(), opts.tcp_port());
    let clock = Arc::new(VirtualClock::starting_at(Timestamp::from_secs(1_772_409_600)));
    let config = MysqlConfig { clock: Some(clock.clone()), ..MysqlConfig::default() };
    let store = MysqlStore::open(&url, config).await.expect("a store");
    everything(&store, &clock).await;
    store.close().await;
    conn.query_drop("SET @now = 1").await.expect("a variable");
    check(&mut conn, "small tables").await;
    conn.query_drop("CREATE TABLE n AS SELECT seq AS i FROM seq_1_to_20000").await.expect("numbers");
    for insert in FILL {
        conn.query_drop(insert).await.unwrap_or_else(|error| panic!("{error}: {insert}"));
    }
    check(&mut conn, "filled tables").await;
    for table in LARGE {
        // SQL-FORMAT: the name is one of the list above.
        conn.query_drop(format!("ANALYZE TABLE punctual_{table}")).await.expect("analyze");
    }
    check(&mut conn, "filled tables, analysed").await;
    for table in LARGE {
        // SQL-FORMAT: the name is one of the list above.
        conn.query_drop(format!("TRUNCATE TABLE punctual_{table}; ANALYZE TABLE punctual_{table}"))
            .await
            .expect("none");
    }
    check(&mut conn, "empty tables, analysed").await;
    // SQL-FORMAT: the name is made of this process's number.
    conn.query_drop(format!("DROP DATABASE {name}")).await.expect("an end");
}
