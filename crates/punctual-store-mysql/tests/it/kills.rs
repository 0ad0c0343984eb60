//! Processes that are killed at any moment lose nothing that they were told is written, and double no slot.
//!
//! The victims are this very test binary, started again, two at a time on one database. Each writes a line to its standard
//! output after each answer of the store; the parent kills it with SIGKILL after a random number of lines and starts another,
//! and in the end compares the database with all lines that came through.

use crate::server::Database;
use crate::stand::{enqueue, number, open, success, task};
use bytes::Bytes;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, TxOpts};
use punctual_clock::{Entropy, SeededEntropy};
use punctual_store_mysql::{MysqlConfig, MysqlStore};
use punctual_task::schedule::Every;
use punctual_task::series::Overflow;
use punctual_task::{
    ClaimRequest, Claimed, Declaration, Finished, FollowOn, FollowUp, Missed, NewTask, Next, Outcome, ScheduleSpec,
    Store, StoreErrorKind, Sweep, TaskFilter, TaskState, TransactionOf, UniqueKey, WorkerInfo,
};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write, stdout};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// Names the database that a victim works on.
const URL: &str = "PUNCTUAL_VICTIM_URL";
/// A lease so short that the others soon find a victim dead.
const LEASE: Duration = Duration::from_millis(400);
/// How often a victim goes round before it ends by itself.
const ROUNDS_MAX: u32 = 2_000;

fn claim(suspects: bool) -> ClaimRequest {
    ClaimRequest { queue: None, methods: vec!["Demo/run".to_owned()], limit: 15, suspects }
}

fn spec() -> ScheduleSpec {
    ScheduleSpec {
        missed: Missed::All {
            max_count: ScheduleSpec::CATCH_UP_MAX,
            max_age: Duration::from_secs(3600),
            overflow: Overflow::SkipOldest,
        },
        max_pending: ScheduleSpec::MAX_PENDING_MAX,
        ..ScheduleSpec::new("s", Every::new(Duration::from_millis(20)).into(), "Demo/run", Bytes::from_static(b"{}"))
    }
}

/// Says a line in one write, so that a killed process leaves whole lines and at most one torn one. Only victims speak.
fn say(line: &str) {
    if std::env::var_os(URL).is_none() {
        return;
    }
    let mut out = stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Works as an engine does, several operations at once, and says what it was told is written. A victim that another declared
/// dead registers again.
async fn work(url: &str, rounds: u32) {
    let store = MysqlStore::open(url, MysqlConfig::default()).await.unwrap();
    let info = WorkerInfo { name: "victim".to_owned(), slots: 8 };
    let mut worker = store.register(info.clone(), LEASE).await.unwrap();
    store.declare(Declaration { spec: spec(), revision: 0 }).await.unwrap();
    let mut connection = Conn::from_url(url).await.unwrap();
    say("ready");
    for round in 0..rounds {
        let enqueued = async {
            for id in enqueue(&store, 1 + round % 7).await {
                say(&format!("enqueued {}", id.0));
            }
        };
        let swept = async {
            let report = store.materialise(Sweep { window_max: 20, ..Sweep::default() }).await.unwrap();
            for task in report.schedules.iter().flat_map(|done| &done.tasks) {
                say(&format!("created {}", task.0));
            }
        };
        let finished = async {
            let batch = store.claim(worker, claim(round % 3 == 0)).await?;
            let now = store.now().await?;
            let finish = |task: &Claimed| {
                let mut finish = success(task.task, task.n, now);
                if (task.task.0 + i64::from(task.n)) % 5 == 0 {
                    finish.outcome = Outcome::Failed;
                    finish.next = Next::Again { due: now, spent: 1 };
                }
                finish
            };
            let finishes: Vec<_> = batch.tasks.iter().map(finish).collect();
            let follow_ups = receipts(&store, &batch.tasks).await;
            let given = store.finish_then(worker, finishes.clone(), follow_ups).await?;
            for (finish, given) in finishes.iter().zip(given) {
                assert_eq!(given, Finished::Applied);
                let end = if finish.next == Next::Final(TaskState::Succeeded) { "succeeded" } else { "again" };
                say(&format!("{end} {} {} {}", finish.task.0, finish.n, worker.0));
            }
            Ok(())
        };
        let kept = async {
            store.renew(worker, LEASE).await?;
            store.rescue(worker).await.map(|_| ())
        };
        let ordered = order(&mut connection, &store, round);
        let ((), (), (), finished, kept) = tokio::join!(enqueued, swept, ordered, finished, kept);
        for outcome in [finished, kept] {
            if let Err(error) = outcome {
                let error: punctual_task::StoreError = error;
                assert_eq!(error.kind(), StoreErrorKind::Fenced, "{error}");
                worker = store.register(info.clone(), LEASE).await.unwrap();
            }
        }
    }
}

/// An order and its task, in one transaction of the caller's own; every fourth one changes its mind.
async fn order(connection: &mut Conn, store: &MysqlStore, round: u32) {
    let id = store.draw_ids(1).await.unwrap().take().unwrap();
    let key = round.is_multiple_of(2).then(|| UniqueKey::new(format!("order {}", id.0)));
    let mut tx = connection.start_transaction(TxOpts::default()).await.unwrap();
    tx.query_drop(format!("INSERT INTO orders (task) VALUES ({})", id.0)).await.unwrap();
    let task = NewTask { key, queue: "orders".to_owned(), ..task(id) };
    assert!(tx.enqueue(store, vec![task]).await.unwrap()[0].inserted);
    if round % 4 == 3 {
        tx.rollback().await.unwrap();
    } else {
        tx.commit().await.unwrap();
        say(&format!("enqueued {}", id.0));
    }
}

/// What follows the orders among these tasks, if they succeed.
async fn receipts(store: &MysqlStore, tasks: &[Claimed]) -> Vec<FollowUp> {
    let orders: Vec<&Claimed> = tasks.iter().filter(|task| task.queue == "orders").collect();
    let mut ids = store.draw_ids(u32::try_from(orders.len()).unwrap()).await.unwrap();
    let receipt = |order: &&Claimed| {
        let id = ids.take().unwrap();
        let key = (id.0 % 2 == 0).then(|| UniqueKey::new(format!("receipt {}", order.task.0)));
        let then = NewTask { key, queue: "receipts".to_owned(), ..task(id) };
        FollowUp { task: order.task, n: order.n, on: FollowOn::Success, then }
    };
    orders.iter().map(receipt).collect()
}

/// A database with a table of another program's.
fn database() -> Database {
    let database = Database::new();
    database.run("CREATE TABLE orders (task BIGINT NOT NULL PRIMARY KEY) ENGINE = InnoDB");
    database
}

/// The victim: with a database named it works until it is killed; otherwise it shows that the work itself is right.
#[tokio::test]
async fn a_victim_works_until_it_is_killed() {
    match std::env::var(URL) {
        Ok(url) => work(&url, ROUNDS_MAX).await,
        Err(_) => {
            let database = database();
            work(&database.url(), 10).await;
            let mut ledger = Ledger::default();
            ledger.check(&database).await;
            ledger.drain(&database).await;
        }
    }
}

/// What victims were told is written.
#[derive(Debug, Default)]
struct Ledger {
    tasks: BTreeSet<i64>,
    occurrences: BTreeSet<i64>,
    attempts: BTreeSet<(i64, u32, i64)>,
    succeeded: BTreeSet<i64>,
    lines: u64,
}

impl Ledger {
    fn read(&mut self, line: &str) {
        self.lines += 1;
        let mut words = line.split(' ');
        let (verb, numbers) =
            (words.next().unwrap_or_default(), words.map(str::parse).collect::<Result<Vec<i64>, _>>());
        match (verb, numbers.unwrap_or_default().as_slice()) {
            ("enqueued", [task]) => drop(self.tasks.insert(*task)),
            ("created", [task]) => drop(self.occurrences.insert(*task)),
            ("again", [task, n, worker]) => drop(self.attempts.insert((*task, u32::try_from(*n).unwrap(), *worker))),
            ("succeeded", [task, n, worker]) => {
                self.attempts.insert((*task, u32::try_from(*n).unwrap(), *worker));
                assert!(self.succeeded.insert(*task), "task {task} ended twice");
            }
            // The test harness says things of its own.
            _ => {}
        }
    }

    /// Everything acknowledged is there, and what is there is consistent.
    async fn check(&self, database: &Database) {
        let mut conn = database.connection().await;
        let all = |rows: Vec<i64>| rows.into_iter().collect::<BTreeSet<i64>>();
        let there = all(conn.query("SELECT id FROM punctual_task").await.unwrap());
        assert_eq!(self.tasks.difference(&there).next(), None, "a task is lost");
        let there = all(conn.query("SELECT id FROM punctual_task WHERE slot IS NOT NULL").await.unwrap());
        assert_eq!(self.occurrences.difference(&there).next(), None, "an occurrence is lost");
        let rows: Vec<(i64, u32, i64)> = conn.query("SELECT task, n, worker FROM punctual_attempt").await.unwrap();
        let there: BTreeSet<_> = rows.into_iter().collect();
        assert_eq!(self.attempts.difference(&there).next(), None, "an attempt is lost");
        let there = all(conn.query("SELECT task FROM punctual_attempt WHERE final = 9").await.unwrap());
        assert_eq!(self.succeeded.difference(&there).next(), None, "an end is lost");
        for wrong in [
            "SELECT COUNT(*) - COUNT(DISTINCT slot) FROM punctual_task WHERE slot IS NOT NULL",
            // Each window was written whole or not at all: no slot before the cursor is missing, none after it is there.
            "SELECT COUNT(*) - (SELECT COALESCE(SUM(runs), 0) FROM punctual_position) FROM punctual_task WHERE slot IS NOT NULL",
            "SELECT COUNT(*) FROM punctual_task t JOIN punctual_position p ON p.id = t.schedule WHERE t.at >= p.cursor_at",
            "SELECT COALESCE(MAX(run), 0) - COUNT(*) FROM punctual_task WHERE slot IS NOT NULL",
            "SELECT COALESCE((MAX(at) - MIN(at)) DIV 20000 + 1 - COUNT(*), 0) FROM punctual_task WHERE slot IS NOT NULL",
            "SELECT COUNT(*) FROM punctual_missed",
            // An order and its task are both there, or neither.
            "SELECT COUNT(*) FROM orders o LEFT JOIN punctual_task t ON t.id = o.task WHERE t.id IS NULL",
            "SELECT COUNT(*) FROM punctual_task t JOIN punctual_lane l ON l.id = t.lane JOIN punctual_queue q ON q.id = l.queue
             LEFT JOIN orders o ON o.task = t.id WHERE q.name = 'orders' AND o.task IS NULL",
            // Each order that has succeeded has its receipt, and no other has one.
            "SELECT (SELECT COUNT(*) FROM punctual_task t JOIN punctual_lane l ON l.id = t.lane
             JOIN punctual_queue q ON q.id = l.queue WHERE q.name = 'receipts') - (SELECT COUNT(*) FROM punctual_attempt a
             JOIN punctual_lane l ON l.id = a.lane JOIN punctual_queue q ON q.id = l.queue WHERE q.name = 'orders' AND a.final = 9)",
            // A task waits, or has ended, or runs; never two of these.
            "SELECT COUNT(*) FROM punctual_ready r JOIN punctual_attempt a ON a.task = r.id WHERE a.final IS NOT NULL",
            "SELECT COUNT(*) FROM (SELECT task FROM punctual_attempt WHERE final IS NOT NULL GROUP BY task HAVING COUNT(*) > 1) x",
            "SELECT COUNT(*) FROM punctual_hold h JOIN punctual_attempt a ON a.task = h.task WHERE a.final IS NOT NULL",
        ] {
            let snapshot = "START TRANSACTION WITH CONSISTENT SNAPSHOT";
            conn.query_drop(snapshot).await.unwrap();
            let found: Option<i64> = conn.query_first(wrong).await.unwrap();
            conn.query_drop("COMMIT").await.unwrap();
            assert_eq!(found, Some(0), "{wrong}");
        }
        conn.disconnect().await.unwrap();
    }

    /// When the last leases have ended what was held comes back, and all tasks run to their end.
    async fn drain(&mut self, database: &Database) {
        let store = open(database).await;
        let info = WorkerInfo { name: "survivor".to_owned(), slots: 8 };
        let worker = store.register(info, Duration::from_secs(3600)).await.unwrap();
        while store.workers().await.unwrap().iter().any(|other| other.id != worker && (other.alive || other.holds > 0))
        {
            store.rescue(worker).await.unwrap();
        }
        for suspects in [false, true] {
            loop {
                let batch = store.claim(worker, ClaimRequest { limit: 500, ..claim(suspects) }).await.unwrap();
                if batch.tasks.is_empty() {
                    break;
                }
                let now = store.now().await.unwrap();
                let finishes: Vec<_> = batch.tasks.iter().map(|task| success(task.task, task.n, now)).collect();
                let follow_ups = receipts(&store, &batch.tasks).await;
                let given = store.finish_then(worker, finishes, follow_ups).await.unwrap();
                for (task, given) in batch.tasks.iter().zip(given) {
                    assert_eq!(given, Finished::Applied);
                    assert!(self.succeeded.insert(task.task.0), "task {} ended twice", task.task);
                }
            }
        }
        for state in [TaskState::Waiting, TaskState::Running] {
            let filter = TaskFilter { state: Some(state), ..TaskFilter::default() };
            assert_eq!(store.tasks(filter, punctual_task::Page::default()).await.unwrap(), []);
        }
        store.close().await;
        self.check(database).await;
    }
}

/// B15: two processes at a time, killed again and again: nothing acknowledged is lost, no slot is doubled, every window is
/// whole, and everything runs in the end. `PUNCTUAL_KILLS` sets another number.
#[tokio::test]
async fn b15_killed_processes_lose_and_double_nothing() {
    let database = database();
    let ledger = Mutex::new(Ledger::default());
    let kills = number("PUNCTUAL_KILLS", 20);
    let seed = number("PUNCTUAL_KILL_SEED", 7);
    // The tables are there before the first victim is killed: a stopped migration is a test of its own.
    open(&database).await.close().await;
    std::thread::scope(|scope| {
        for lane in 0..2 {
            let (database, ledger) = (&database, &ledger);
            scope.spawn(move || {
                let chance = SeededEntropy::new(seed + lane);
                for kill in 0..kills / 2 {
                    run_victim(database, ledger, chance.below(80), kill);
                }
            });
        }
    });
    let mut ledger = ledger.into_inner().unwrap();
    assert!(ledger.lines > kills, "{} lines", ledger.lines);
    ledger.check(&database).await;
    ledger.drain(&database).await;
}

/// Starts a victim and kills it after so many lines.
fn run_victim(database: &Database, ledger: &Mutex<Ledger>, left: u64, kill: u64) {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::a_victim_works_until_it_is_killed", "--nocapture", "--quiet"])
        .env(URL, database.url())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(victim.stdout.take().unwrap());
    let mut line = String::new();
    let mut seen = None;
    // Lines that were written before the kill are read after it: the pipe outlives the process.
    while out.read_line(&mut line).unwrap() > 0 {
        if let Some(line) = line.strip_suffix('\n') {
            ledger.lock().unwrap().read(line);
            seen = if line == "ready" { Some(0) } else { seen.map(|seen| seen + 1) };
        }
        line.clear();
        if seen.is_some_and(|seen| seen >= left) {
            victim.kill().unwrap();
        }
    }
    let status = victim.wait().unwrap();
    assert!(!status.success(), "the victim of kill {kill} ended by itself");
}
