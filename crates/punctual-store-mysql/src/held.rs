//! A read view that somebody holds keeps every deleted row in its place: no claim, finish or sweep may step over all of them.

use crate::claims::{HEAD, TAKE};
use crate::holdings::{LOCK, LOCK_OWN};
use crate::schedules::sweeps::{DUE, NEXT_WAKE, WAKES};
use crate::{MysqlConfig, MysqlStore};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, Params, Row};
use punctual_clock::{Clock, SystemClock};
use punctual_task::rows::{FloorGroup, FloorPlace};
use punctual_task::{Store, WorkerId};
use punctual_testkit::turnover::{BATCH, TASKS, age, claim, declare, drain, enqueue, finish, sweep, worker};
use punctual_testkit::{PrivateServer, ServerKind};

/// How often a statement is run for one count: what the server does besides is then small.
const RUNS: u64 = 100;

/// Pages that the server has looked at since it began.
async fn looked_at(conn: &mut Conn) -> u64 {
    let sql = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read_requests'";
    let (_, count): (String, u64) = conn.query_first(sql).await.expect("a status").expect("a row");
    count
}

/// A store on a server of the test's own, since the server counts for all of its sessions together; a connection to look at it, and
/// one that holds a read view of it.
struct HeldView {
    store: MysqlStore,
    looking: Conn,
    holding: Conn,
    _server: PrivateServer,
}

impl HeldView {
    /// `None` where servers are given from outside.
    async fn open() -> Option<Self> {
        let server = PrivateServer::start(ServerKind::Mariadb)?;
        let mut looking = Conn::new(Opts::from_url(server.url()).expect("a URL")).await.expect("the server");
        looking.query_drop("CREATE DATABASE held; USE held").await.expect("a database");
        looking.query_drop("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await.expect("as the store does");
        let url = format!("{}held", server.url());
        let store = MysqlStore::open(&url, MysqlConfig::default()).await.expect("a store");
        let mut holding = Conn::new(Opts::from_url(&url).expect("a URL")).await.expect("the server");
        let hold = "START TRANSACTION WITH CONSISTENT SNAPSHOT; SELECT COUNT(*) FROM punctual_ready";
        holding.query_drop(hold).await.expect("a read view");
        Some(HeldView { store, looking, holding, _server: server })
    }

    async fn close(self) {
        self.store.close().await;
        self.holding.disconnect().await.expect("an end");
        self.looking.disconnect().await.expect("an end");
    }
}

/// How many pages a claim of one task from a group looks at, that begins to read at `floor`.
async fn pages_of_claim(conn: &mut Conn, group: FloorGroup, floor: FloorPlace, now: i64) -> u64 {
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
async fn claim_pages(held: &mut HeldView, worker: WorkerId) -> [u64; 2] {
    let (group, floor) = loop {
        drain(&held.store, worker, 1).await;
        // Once in a second a claim looks below; the one after it has floors.
        if let Some(known) = held.store.shared().floors().look(SystemClock.now()).iter().next() {
            break known;
        }
    };
    let now = held.store.now().await.expect("the time").as_micros();
    let lowest = (i64::MIN, i64::MIN);
    [
        pages_of_claim(&mut held.looking, group, floor, now).await,
        pages_of_claim(&mut held.looking, group, lowest, now).await,
    ]
}

/// How many pages these statements look at together.
async fn pages<const N: usize>(conn: &mut Conn, statements: [(&str, Params); N]) -> u64 {
    let before = looked_at(conn).await;
    for _ in 0..RUNS {
        conn.query_drop("BEGIN").await.expect("begun");
        for (sql, values) in &statements {
            conn.exec_drop(*sql, values.clone()).await.expect("an answer");
        }
        conn.query_drop("ROLLBACK").await.expect("undone");
    }
    (looked_at(conn).await - before) / RUNS
}

/// What it looks at to lock what a finish of one task is of: by its row, and by its worker.
async fn finish_pages(held: &mut HeldView, worker: WorkerId) -> [u64; 2] {
    let tasks = claim(&held.store, worker, 1).await;
    let rows = held.store.shared().claim_rows().of(tasks.iter().map(|task| task.task.0)).expect("its row is known");
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    let found: Option<i64> = held
        .looking
        .exec_first("SELECT id FROM punctual_claim WHERE id = ? AND worker = ?", (row, worker.0))
        .await
        .expect("an answer");
    assert_eq!(found, Some(*row), "the claim was written where it is remembered");
    let by_row = pages(&mut held.looking, [(LOCK_OWN, (row, worker.0).into())]).await;
    let by_worker = pages(&mut held.looking, [(LOCK, (worker.0,).into())]).await;
    finish(&held.store, worker, &tasks).await;
    [by_row, by_worker]
}

/// One server for all of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_read_view_slows_nothing() {
    let Some(mut held) = HeldView::open().await else { return };
    let worker = worker(&held.store).await;
    claims_and_finishes(&mut held, worker).await;
    sweeps(&mut held, worker).await;
    held.close().await;
}

/// A claim and a finish look at as many pages after thousands of tasks have been claimed and finished as at the beginning.
async fn claims_and_finishes(held: &mut HeldView, worker: WorkerId) {
    enqueue(&held.store).await;
    age(&held.store).await;
    let [first, _] = claim_pages(held, worker).await;
    let [first_finish, _] = finish_pages(held, worker).await;
    let mut drained = 0;
    while drained < TASKS - 2 * BATCH as usize {
        drained += drain(&held.store, worker, BATCH).await;
    }
    let [last, unbounded] = claim_pages(held, worker).await;
    assert!(last <= first * 2, "a claim looked at {first} pages at first and looks at {last} now");
    assert!(unbounded > last * 4, "the dead rows are not there: {unbounded} pages without a floor, {last} with one");
    let [last, unbounded] = finish_pages(held, worker).await;
    assert!(last <= first_finish * 2, "a finish looked at {first_finish} pages at first and looks at {last} now");
    assert!(unbounded > last * 4, "the dead rows are not there: {unbounded} pages by worker, {last} by row");
    while drain(&held.store, worker, BATCH).await > 0 {}
}

/// How often each is swept under the read view.
const SWEEPS: usize = 25;
/// All of them are as far behind.
const BEHIND: &str =
    "UPDATE punctual_position SET wake = cursor_at - 900000000, cursor_slot = cursor_slot - 1800000000,
    cursor_at = cursor_at - 900000000";

/// What it looks at to find the first due schedule and the next, from the floor that the store has now and from the beginning.
async fn sweep_pages(held: &mut HeldView, worker: WorkerId) -> [u64; 2] {
    let floor = loop {
        sweep(&held.store, worker).await;
        let look = held.store.shared().sweep_floors().look(SystemClock.now());
        if look.iter().next().is_some() {
            break look.floor(WAKES).0;
        }
    };
    let now = held.store.now().await.expect("the time").as_micros();
    held.looking.exec_drop("SET @now = ?", (now,)).await.expect("the time");
    let mut counts = [0, 0];
    for (count, from) in counts.iter_mut().zip([floor, i64::MIN]) {
        let statements = [(DUE, (from, 1).into()), (NEXT_WAKE, (from,).into())];
        *count = pages(&mut held.looking, statements).await;
    }
    counts
}

/// A sweep steps over what the sweeps of the last second left, and not over what all of them did.
async fn sweeps(held: &mut HeldView, worker: WorkerId) {
    declare(&held.store).await;
    held.looking.query_drop(BEHIND).await.expect("put back");
    for _ in 0..SWEEPS {
        sweep(&held.store, worker).await;
    }
    age(&held.store).await;
    let [last, unbounded] = sweep_pages(held, worker).await;
    assert!(unbounded > last * 3, "{unbounded} pages from the beginning, {last} from the floor");
}
