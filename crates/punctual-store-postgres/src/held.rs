//! A snapshot that somebody holds keeps every dead row in its place: no claim, finish or sweep may step over all of them.

use crate::claims::{HEADS, NEXT, Places, TAKE};
use crate::connection::{Connection, Connector};
use crate::schedules::sweeps::{DUE, FIRST_WOKEN, Start};
use crate::{Location, PostgresConfig, PostgresStore, holdings};
use punctual_clock::{Clock, SystemClock};
use punctual_task::rows::FloorPlace;
use punctual_task::{Store, WorkerId};
use punctual_testkit::turnover::{BATCH, METHOD, TASKS, age, claim, declare, drain, enqueue, finish, sweep, worker};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls};

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
        drain(&held.store, worker, 1).await;
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
    let tasks = claim(&held.store, worker, 1).await;
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
    let worker = worker(&held.store).await;
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

/// How often each is swept under the snapshot.
const SWEEPS: usize = 50;
/// All of them are as far behind.
const BEHIND: &str = "UPDATE position SET cursor_at = cursor_at - 900000000, cursor_slot = cursor_slot - 1800000000,
    wake = cursor_at - 900000000";

/// What it touches to find the first due schedule and the first end of an occurrence, from the floors that the store has now and
/// from the beginning. A floor lies up to a second of sweeps below the head, however many those are.
async fn sweep_pages(held: &Held, worker: WorkerId) -> [u64; 2] {
    let look = loop {
        sweep(&held.store, worker).await;
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
    declare(&held.store).await;
    held.looking.client.batch_execute(BEHIND).await.expect("put back");
    let worker = worker(&held.store).await;
    for _ in 0..SWEEPS {
        sweep(&held.store, worker).await;
    }
    age(&held.store).await;
    let [last, unbounded] = sweep_pages(&held, worker).await;
    assert!(unbounded > last * 3, "{unbounded} pages from the beginning, {last} from the floor");
    held.close().await;
}
