//! A snapshot that somebody holds keeps every dead row in its place: no claim, finish or sweep may step over all of them.

use crate::claims::{HEADS, NEXT, Places, TAKE};
use crate::connection::{Connection, Connector};
use crate::schedules::sweeps::{DUE, FIRST_WOKEN, Start};
use crate::{Location, PostgresConfig, PostgresStore, holdings};
use bytes::Bytes;
use punctual_clock::{Clock, SystemClock};
use punctual_task::rows::FloorPlace;
use punctual_task::schedule::Every;
use punctual_task::{
    ClaimRequest, Claimed, Declaration, Due, Finish, Missed, NewTask, Next, Outcome, Overflow, ScheduleSpec, Store,
    Sweep, TaskId, TaskOptions, TaskState, WorkerId, WorkerInfo,
};
use std::time::Duration;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls};

/// How many tasks are claimed and finished under the snapshot.
const TASKS: usize = 20_000;
const BATCH: u32 = 500;
const METHOD: &str = "Demo/run";

async fn enqueue(store: &PostgresStore) {
    for _ in 0..TASKS / BATCH as usize {
        let mut ids = store.draw_ids(BATCH).await.expect("ids");
        let task = |id: TaskId| NewTask {
            id,
            method: METHOD.to_owned(),
            queue: "Demo".to_owned(),
            level: 1,
            due: Due::Now,
            args: Bytes::from_static(b"{}"),
            schema: 7,
            options: TaskOptions::default(),
            key: None,
        };
        store.enqueue(std::iter::from_fn(|| ids.take()).map(task).collect()).await.expect("an enqueue");
    }
}

/// Waits until a floor may stand at the very head: while that is younger than a second, what was claimed in the second before
/// it is read again, and a fast machine does all of this in less.
async fn age(store: &PostgresStore) {
    let written = store.now().await.expect("the time");
    while store.now().await.expect("the time") <= written.after(Duration::from_secs(1)) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Claims and finishes some; gives how many.
async fn drain(store: &PostgresStore, worker: WorkerId, limit: u32) -> usize {
    let request = ClaimRequest { queue: None, methods: vec![METHOD.to_owned()], limit, suspects: true };
    let tasks = store.claim(worker, request).await.expect("a claim").tasks;
    finish(store, worker, &tasks).await;
    tasks.len()
}

async fn finish(store: &PostgresStore, worker: WorkerId, tasks: &[Claimed]) {
    let now = store.now().await.expect("the time");
    let finish = |task: &Claimed| Finish {
        task: task.task,
        n: task.n,
        started: now,
        ended: now,
        outcome: Outcome::Succeeded,
        out: Bytes::from_static(b"null"),
        next: Next::Final(TaskState::Succeeded),
    };
    store.finish(worker, tasks.iter().map(finish).collect()).await.expect("a finish");
}

/// How many pages a statement touches, by the server's own count.
async fn pages(client: &Client, sql: &str, values: &[&(dyn ToSql + Sync)]) -> u64 {
    // SQL-FORMAT: the statement is one of the store's own.
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) {sql}");
    client.batch_execute("BEGIN").await.expect("begun");
    let plan: Vec<String> =
        client.query(&explain, values).await.expect("a plan").iter().map(|row| row.get(0)).collect();
    client.batch_execute("ROLLBACK").await.expect("undone");
    let Some(line) = plan.iter().find(|line| line.contains("Buffers:")) else { return 0 };
    let counts = line.split_whitespace().filter_map(|word| word.split_once('='));
    counts
        .filter(|(what, _)| matches!(*what, "hit" | "read"))
        .map(|(_, count)| count.parse::<u64>().expect("a count"))
        .sum()
}

/// A store on a database of its own, and a connection to look at it, while a third one holds a snapshot of it.
struct Held {
    store: PostgresStore,
    looking: Connection,
    admin: Client,
    name: String,
    _holding: Connection,
}

impl Held {
    async fn open(what: &str) -> Self {
        let server = std::env::var("PUNCTUAL_TEST_POSTGRES").unwrap_or_default();
        assert!(!server.is_empty(), "PUNCTUAL_TEST_POSTGRES is not set: run `cargo xtask test`");
        let name = format!("punctual_held_{what}_{}", std::process::id());
        let (admin, connection) = tokio_postgres::connect(&server, NoTls).await.expect("the server answers");
        drop(tokio::spawn(connection));
        // SQL-FORMAT: the name is made of the process's number.
        admin.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await.expect("a database");
        let url = format!("{}/{name}", server.rsplit_once('/').expect("an address").0);
        let config = PostgresConfig::default();
        let store = PostgresStore::open(&url, config.clone()).await.expect("it opens");
        let connector = Connector::new(Location::parse(&url).expect("an address"), &config).expect("a way");
        let looking = connector.connect().await.expect("a connection");
        let holding = connector.connect().await.expect("a connection");
        // The store's connections do not stay idle in a transaction for long.
        let hold = "SET idle_in_transaction_session_timeout = 0; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM ready";
        holding.client.batch_execute(hold).await.expect("a snapshot");
        Held { store, looking, admin, name, _holding: holding }
    }

    async fn worker(&self) -> WorkerId {
        let info = WorkerInfo { name: "w".to_owned(), slots: 9 };
        self.store.register(info, Duration::from_secs(3_600)).await.expect("a worker")
    }

    /// How many pages a statement touches.
    async fn pages(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> u64 {
        pages(&self.looking.client, sql, values).await
    }

    async fn close(self) {
        let Held { store, looking, admin, name, _holding: holding } = self;
        drop((holding, looking, store));
        // SQL-FORMAT: the name is made of the process's number.
        admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.expect("dropped");
    }
}

/// What the statements of a claim of one task touch, with the floors that the store has now; and what they would touch
/// without.
async fn claim_pages(held: &Held, worker: WorkerId) -> [u64; 2] {
    let store = &held.store;
    let look = loop {
        drain(store, worker, 1).await;
        let look = store.shared().floors().look(SystemClock.now());
        // Once in a second a claim looks below; the one after it has floors.
        if look.iter().next().is_some() {
            break look;
        }
    };
    let now = store.now().await.expect("the time").as_micros();
    let mut counts = [0, 0];
    let lowest: FloorPlace = (i64::MIN, i64::MIN);
    let with = Places::of(look.iter());
    let without = Places::of(look.iter().map(|(group, _)| (group, lowest)));
    for (count, places) in counts.iter_mut().zip([with, without]) {
        let Places { lanes, classes, dues, ids } = places;
        let (methods, none) = (vec![METHOD], None::<String>);
        *count += held.pages(HEADS, &[&methods, &none, &7_i32, &lanes, &classes, &dues, &ids]).await;
        *count += held.pages(TAKE, &[&lanes, &classes, &now, &1_i64, &dues, &ids]).await;
        *count += held.pages(NEXT, &[&lanes, &classes, &dues, &ids]).await;
    }
    counts
}

/// What it touches to lock what a finish of one task is of: by its row, and by its worker.
async fn finish_pages(held: &Held, worker: WorkerId) -> [u64; 2] {
    let request = ClaimRequest { queue: None, methods: vec![METHOD.to_owned()], limit: 1, suspects: true };
    let tasks = held.store.claim(worker, request).await.expect("a claim").tasks;
    let rows = held.store.shared().claim_rows().of(tasks.iter().map(|task| task.task.0)).expect("its row is known");
    assert_eq!((tasks.len(), rows.len()), (1, 1));
    let by_row = held.pages(holdings::LOCK_OWN, &[&rows, &worker.0]).await;
    let by_worker = held.pages(holdings::LOCK, &[&vec![worker.0]]).await;
    finish(&held.store, worker, &tasks).await;
    [by_row, by_worker]
}

/// A claim and a finish touch as many pages after thousands of tasks have been claimed and finished under a held snapshot as at
/// the beginning.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_snapshot_does_not_slow_claims_and_finishes() {
    let held = Held::open("claims").await;
    enqueue(&held.store).await;
    age(&held.store).await;
    let worker = held.worker().await;
    let [first, _] = claim_pages(&held, worker).await;
    let [first_finish, _] = finish_pages(&held, worker).await;
    let mut drained = 0;
    while drained < TASKS - 2 * BATCH as usize {
        drained += drain(&held.store, worker, BATCH).await;
    }
    let [last, unbounded] = claim_pages(&held, worker).await;
    assert!(last <= first * 2, "a claim touched {first} pages at first and touches {last} now");
    assert!(unbounded > last * 4, "the dead rows are not there: {unbounded} pages without floors, {last} with");
    let [last, unbounded] = finish_pages(&held, worker).await;
    assert!(last <= first_finish * 2, "a finish touched {first_finish} pages at first and touches {last} now");
    assert!(unbounded > last * 4, "the dead rows are not there: {unbounded} pages by worker, {last} by row");
    held.close().await;
}

/// How many schedules are swept.
const SCHEDULES: usize = 300;
/// How often each is swept under the snapshot.
const SWEEPS: usize = 50;
/// All of them are as far behind.
const BEHIND: &str = "UPDATE position SET cursor_at = cursor_at - 900000000, cursor_slot = cursor_slot - 1800000000,
    wake = cursor_at - 900000000";

/// Sweeps one slot of each schedule, and runs what that made.
async fn sweep(held: &Held, worker: WorkerId) {
    let one = Sweep { schedules_max: 500, window_max: 1 };
    let report = held.store.materialise(one).await.expect("a sweep");
    let created: usize = report.schedules.iter().map(|one| one.tasks.len()).sum();
    assert_eq!(created, SCHEDULES, "{report:?}");
    assert_eq!(drain(&held.store, worker, BATCH).await, SCHEDULES);
}

/// What it touches to find the first due schedule and the first end of an occurrence, from the floors that the store has now and
/// from the beginning. A floor lies up to a second of sweeps below the head, however many those are.
async fn sweep_pages(held: &Held, worker: WorkerId) -> [u64; 2] {
    let look = loop {
        sweep(held, worker).await;
        let look = held.store.shared().sweep_floors().look(SystemClock.now());
        if look.iter().next().is_some() {
            break look;
        }
    };
    // SQL-FORMAT: a number.
    let now = format!(
        "SELECT set_config('punctual.now', '{}', false)",
        held.store.now().await.expect("the time").as_micros()
    );
    held.looking.client.batch_execute(&now).await.expect("the time");
    let mut counts = [0, 0];
    for (count, from) in counts.iter_mut().zip([Start::of(&look), Start::BEGINNING]) {
        let (wake, id) = from.wake;
        *count += held.pages(FIRST_WOKEN, &[&from.woken]).await;
        *count += held.pages(DUE, &[&1_i64, &wake, &id]).await;
    }
    counts
}

/// A sweep steps over what the sweeps of the last second left of a held snapshot, and not over what all of them did. (What it takes to
/// reach one schedule's row grows with that schedule's own sweeps: its former versions lie before the last one.)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_snapshot_does_not_slow_sweeps() {
    let held = Held::open("sweeps").await;
    let anchor = held.store.now().await.expect("the time").before(Duration::from_secs(1_000));
    for number in 0..SCHEDULES {
        let rule = Every::new(Duration::from_secs(1)).anchor(anchor).into();
        let mut spec = ScheduleSpec::new(format!("s{number}"), rule, METHOD, Bytes::from_static(b"{}"));
        let max_age = Duration::from_secs(86_400);
        spec.missed = Missed::All { max_count: ScheduleSpec::CATCH_UP_MAX, max_age, overflow: Overflow::Halt };
        spec.max_pending = 10;
        held.store.declare(Declaration { spec, revision: 0 }).await.expect("a declaration");
    }
    held.looking.client.batch_execute(BEHIND).await.expect("put back");
    let worker = held.worker().await;
    for _ in 0..SWEEPS {
        sweep(&held, worker).await;
    }
    age(&held.store).await;
    let [last, unbounded] = sweep_pages(&held, worker).await;
    assert!(unbounded > last * 3, "{unbounded} pages from the beginning, {last} from the floor");
    held.close().await;
}
