//! A snapshot that somebody holds keeps every dead row in its place: a claim must not step over all of them.

use super::{HEADS, NEXT, Places, TAKE};
use crate::connection::Connector;
use crate::{Location, PostgresConfig, PostgresStore};
use bytes::Bytes;
use punctual_clock::{Clock, SystemClock};
use punctual_task::rows::FloorPlace;
use punctual_task::{
    ClaimRequest, Due, Finish, NewTask, Next, Outcome, Store, TaskId, TaskOptions, TaskState, WorkerId, WorkerInfo,
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
    let now = store.now().await.expect("the time");
    let finish = |task: &punctual_task::Claimed| Finish {
        task: task.task,
        n: task.n,
        started: now,
        ended: now,
        outcome: Outcome::Succeeded,
        out: Bytes::from_static(b"null"),
        next: Next::Final(TaskState::Succeeded),
    };
    store.finish(worker, tasks.iter().map(finish).collect()).await.expect("a finish");
    tasks.len()
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

/// What the statements of a claim of one task touch, with the floors that the store has now; and what they would touch
/// without.
async fn claim_pages(store: &PostgresStore, client: &Client, worker: WorkerId) -> [u64; 2] {
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
        *count += pages(client, HEADS, &[&methods, &none, &7_i32, &lanes, &classes, &dues, &ids]).await;
        *count += pages(client, TAKE, &[&lanes, &classes, &now, &1_i64, &dues, &ids]).await;
        *count += pages(client, NEXT, &[&lanes, &classes, &dues, &ids]).await;
    }
    counts
}

/// A claim touches as many pages after thousands of tasks have been claimed and finished under a held snapshot as at the
/// beginning.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_snapshot_does_not_slow_claims() {
    let server = std::env::var("PUNCTUAL_TEST_POSTGRES").unwrap_or_default();
    assert!(!server.is_empty(), "PUNCTUAL_TEST_POSTGRES is not set: run `cargo xtask test`");
    let name = format!("punctual_held_{}", std::process::id());
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
    let hold = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM ready";
    holding.client.batch_execute(hold).await.expect("a snapshot");

    enqueue(&store).await;
    age(&store).await;
    let lease = Duration::from_secs(3_600);
    let worker = store.register(WorkerInfo { name: "w".to_owned(), slots: 9 }, lease).await.expect("a worker");
    let [first, _] = claim_pages(&store, &looking.client, worker).await;
    let mut drained = 0;
    while drained < TASKS - 2 * BATCH as usize {
        drained += drain(&store, worker, BATCH).await;
    }
    let [last, unbounded] = claim_pages(&store, &looking.client, worker).await;
    assert!(last <= first * 2, "a claim touched {first} pages at first and touches {last} now");
    assert!(unbounded > last * 4, "the dead rows are not there: {unbounded} pages without floors, {last} with");

    drop((holding, looking, store));
    // SQL-FORMAT: the name is made of the process's number.
    admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.expect("dropped");
}
