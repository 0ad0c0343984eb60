//! A read view that somebody holds keeps every deleted row in its place: a claim must not step over all of them.

use super::{HEAD, TAKE};
use crate::{MysqlConfig, MysqlStore};
use bytes::Bytes;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, Params, Row};
use punctual_clock::{Clock, SystemClock};
use punctual_task::rows::{FloorGroup, FloorPlace};
use punctual_task::{
    ClaimRequest, Claimed, Due, Finish, NewTask, Next, Outcome, Store, TaskId, TaskOptions, TaskState, WorkerId,
    WorkerInfo,
};
use punctual_testkit::{PrivateServer, ServerKind};
use std::time::Duration;

/// How many tasks are claimed and finished under the read view.
const TASKS: usize = 20_000;
const BATCH: u32 = 500;
const METHOD: &str = "Demo/run";
/// How often a statement is run for one count: what the server does besides is then small.
const RUNS: u64 = 100;

async fn enqueue(store: &MysqlStore) {
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
async fn age(store: &MysqlStore) {
    let written = store.now().await.expect("the time");
    while store.now().await.expect("the time") <= written.after(Duration::from_secs(1)) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Claims and finishes some; gives how many.
async fn drain(store: &MysqlStore, worker: WorkerId, limit: u32) -> usize {
    let request = ClaimRequest { queue: None, methods: vec![METHOD.to_owned()], limit, suspects: false };
    let tasks = store.claim(worker, request).await.expect("a claim").tasks;
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
    tasks.len()
}

/// Pages that the server has looked at since it began.
async fn looked_at(conn: &mut Conn) -> u64 {
    let sql = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read_requests'";
    let (_, count): (String, u64) = conn.query_first(sql).await.expect("a status").expect("a row");
    count
}

/// How many pages a claim of one task from a group looks at, that begins to read at `floor`.
async fn pages(conn: &mut Conn, group: FloorGroup, floor: FloorPlace, now: i64) -> u64 {
    let before = looked_at(conn).await;
    for _ in 0..RUNS {
        conn.query_drop("BEGIN").await.expect("begun");
        let values: Params = (group.0, group.1, group.0, group.1, floor.0).into();
        let head: Row = conn.exec_first(HEAD, values).await.expect("a head").expect("a row");
        let head: i64 = head.get(2).expect("tasks wait");
        conn.exec_drop(TAKE, (group.0, group.1, head - 1, now, 1)).await.expect("a task");
        conn.query_drop("ROLLBACK").await.expect("undone");
    }
    (looked_at(conn).await - before) / RUNS
}

/// The same with the floor that the store has now, and without one.
async fn claim_pages(store: &MysqlStore, conn: &mut Conn, worker: WorkerId) -> [u64; 2] {
    let (group, floor) = loop {
        drain(store, worker, 1).await;
        // Once in a second a claim looks below; the one after it has floors.
        if let Some(known) = store.shared().floors().look(SystemClock.now()).iter().next() {
            break known;
        }
    };
    let now = store.now().await.expect("the time").as_micros();
    [pages(conn, group, floor, now).await, pages(conn, group, (i64::MIN, i64::MIN), now).await]
}

/// A claim looks at as many pages after thousands of tasks have been claimed and finished under a held read view as at the
/// beginning. On a server of the test's own, since the server counts for all of its sessions together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_read_view_does_not_slow_claims() {
    let Some(server) = PrivateServer::start(ServerKind::Mariadb) else { return };
    let mut looking = Conn::new(Opts::from_url(server.url()).expect("a URL")).await.expect("the server");
    looking.query_drop("CREATE DATABASE held; USE held").await.expect("a database");
    looking.query_drop("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await.expect("as the store does");
    let url = format!("{}held", server.url());
    let store = MysqlStore::open(&url, MysqlConfig::default()).await.expect("a store");
    let mut holding = Conn::new(Opts::from_url(&url).expect("a URL")).await.expect("the server");
    let hold = "START TRANSACTION WITH CONSISTENT SNAPSHOT; SELECT COUNT(*) FROM punctual_ready";
    holding.query_drop(hold).await.expect("a read view");

    enqueue(&store).await;
    age(&store).await;
    let lease = Duration::from_secs(3_600);
    let worker = store.register(WorkerInfo { name: "w".to_owned(), slots: 9 }, lease).await.expect("a worker");
    let [first, _] = claim_pages(&store, &mut looking, worker).await;
    let mut drained = 0;
    while drained < TASKS - 2 * BATCH as usize {
        drained += drain(&store, worker, BATCH).await;
    }
    let [last, unbounded] = claim_pages(&store, &mut looking, worker).await;
    assert!(last <= first * 2, "a claim looked at {first} pages at first and looks at {last} now");
    assert!(unbounded > last * 4, "the dead rows are not there: {unbounded} pages without a floor, {last} with one");
    store.close().await;
    holding.disconnect().await.expect("an end");
    looking.disconnect().await.expect("an end");
}
