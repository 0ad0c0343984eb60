//! A process that is killed at any moment loses nothing that it was told is written, and doubles no slot.
//!
//! The victim is this very test binary, started again. It writes a line to its standard output after each answer of the
//! store; the parent kills it with SIGKILL after a random number of lines, starts it again on the same file, and in the end
//! compares the file with all lines that came through. SIGKILL cannot show a missing sync, since the page cache lives on;
//! that each commit is one is a matter of `PRAGMA synchronous`.

use crate::stand::{Place, enqueue, number, success, task};
use bytes::Bytes;
use punctual_clock::{Entropy, SeededEntropy};
use punctual_store_sqlite::{MonotonicBoot, SqliteConfig, SqliteStore, SqliteTransaction};
use punctual_task::schedule::Every;
use punctual_task::series::Overflow;
use punctual_task::{
    BlockingTransactionOf, ClaimRequest, Claimed, Declaration, Finished, FollowOn, FollowUp, Missed, NewTask, Next,
    Outcome, ScheduleSpec, Store, StoreError, Sweep, TaskFilter, TaskState, UniqueKey, WorkerInfo,
};
use rusqlite::{Connection, TransactionBehavior};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write, stdout};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Names the file that a victim works on.
const FILE: &str = "PUNCTUAL_VICTIM_FILE";
/// A lease so short that the next victim finds the last one dead.
const LEASE: Duration = Duration::from_millis(40);
/// How often a victim goes round before it ends by itself.
const ROUNDS_MAX: u32 = 2_000;
/// A table of the caller's, in the same file.
const ORDERS: &str = "CREATE TABLE IF NOT EXISTS orders (task INTEGER PRIMARY KEY)";

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
        ..ScheduleSpec::new("s", Every::new(Duration::from_millis(2)).into(), "Demo/run", Bytes::from_static(b"{}"))
    }
}

/// Says a line in one write, so that a killed process leaves whole lines and at most one torn one. Only victims speak.
fn say(line: &str) {
    if std::env::var_os(FILE).is_none() {
        return;
    }
    let mut out = stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Works as an engine does, several operations at once, and says what it was told is written.
async fn work(path: &str, rounds: u32) {
    let store = Arc::new(SqliteStore::open(path, SqliteConfig::default()).await.unwrap());
    let info = WorkerInfo { name: "victim".to_owned(), slots: 8 };
    let worker = store.register(info, LEASE).await.unwrap();
    store.declare(Declaration { spec: spec(), revision: 0 }).await.unwrap();
    store.with_tx(|tx| changed(tx.connection().execute_batch(ORDERS))).await.unwrap();
    say("ready");
    for round in 0..rounds {
        let enqueued = async {
            for id in enqueue(&*store, 1 + round % 7).await {
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
            let batch = store.claim(worker, claim(round % 3 == 0)).await.unwrap();
            let now = store.now().await.unwrap();
            let finishes: Vec<_> = batch
                .tasks
                .iter()
                .map(|task| {
                    let mut finish = success(task.task, task.n, now);
                    if (task.task.0 + i64::from(task.n)) % 5 == 0 {
                        finish.outcome = Outcome::Failed;
                        finish.next = Next::Again { due: now, spent: 1 };
                    }
                    finish
                })
                .collect();
            let follow_ups = receipts(&store, &batch.tasks).await;
            let given = store.finish_then(worker, finishes.clone(), follow_ups).await.unwrap();
            for (finish, given) in finishes.iter().zip(given) {
                assert_eq!(given, Finished::Applied);
                let end = if finish.next == Next::Final(TaskState::Succeeded) { "succeeded" } else { "again" };
                say(&format!("{end} {} {} {}", finish.task.0, finish.n, worker.0));
            }
        };
        let kept = async {
            store.renew(worker, LEASE).await.unwrap();
            store.rescue(worker).await.unwrap();
        };
        let ordered = order(&store, path, round);
        tokio::join!(enqueued, swept, ordered, finished, kept);
    }
}

/// A failure as one of the store's.
fn changed<T>(done: rusqlite::Result<T>) -> Result<T, StoreError> {
    done.map_err(|error| StoreError::refused(error.to_string()))
}

/// An order and its task, in one transaction: of the writer's or of the caller's own. Every fourth one changes its mind.
async fn order(store: &Arc<SqliteStore>, path: &str, round: u32) {
    let id = store.draw_ids(1).await.unwrap().take().unwrap();
    let key = round.is_multiple_of(2).then(|| UniqueKey::new(format!("order {}", id.0)));
    let tasks = vec![NewTask { key, queue: "orders".to_owned(), ..task(id) }];
    let commit = round % 4 != 3;
    if round.is_multiple_of(3) {
        let same = Arc::clone(store);
        let work = move |tx: &mut SqliteTransaction<'_>| {
            changed(tx.connection().execute("INSERT INTO orders (task) VALUES (?1)", [id.0]))?;
            tx.enqueue(&*same, tasks.clone())?;
            if commit { Ok(()) } else { Err(StoreError::refused("changed its mind")) }
        };
        assert_eq!(store.with_tx(work).await.is_ok(), commit);
    } else {
        let mut connection = Connection::open(path).unwrap();
        connection.busy_timeout(Duration::from_secs(60)).unwrap();
        let mut tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        tx.execute("INSERT INTO orders (task) VALUES (?1)", [id.0]).unwrap();
        assert!(tx.enqueue(&**store, tasks).unwrap()[0].inserted);
        if commit { tx.commit() } else { tx.rollback() }.unwrap();
    }
    if commit {
        say(&format!("enqueued {}", id.0));
    }
}

/// What follows the orders among these tasks, if they succeed.
async fn receipts(store: &SqliteStore, tasks: &[Claimed]) -> Vec<FollowUp> {
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

/// The victim: with a file named it works until it is killed; otherwise it shows that the work itself is right.
#[tokio::test]
async fn a_victim_works_until_it_is_killed() {
    match std::env::var(FILE) {
        Ok(path) => work(&path, ROUNDS_MAX).await,
        Err(_) => {
            let place = Place::new();
            work(&place.text(), 10).await;
            let mut ledger = Ledger::default();
            ledger.check(&place.connection());
            ledger.drain(&place).await;
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
}

impl Ledger {
    fn read(&mut self, line: &str) {
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
    fn check(&self, db: &Connection) {
        let ok: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(ok, "ok");
        let has = |sql: &str, values: &[i64]| {
            db.prepare_cached(sql).unwrap().exists(rusqlite::params_from_iter(values)).unwrap()
        };
        for task in &self.tasks {
            assert!(has("SELECT 1 FROM task WHERE id = ?1", &[*task]), "task {task} is lost");
        }
        for task in &self.occurrences {
            assert!(
                has("SELECT 1 FROM task WHERE id = ?1 AND slot IS NOT NULL", &[*task]),
                "occurrence {task} is lost"
            );
        }
        for (task, n, worker) in &self.attempts {
            let there = has(
                "SELECT 1 FROM attempt WHERE task = ?1 AND n = ?2 AND worker = ?3",
                &[*task, i64::from(*n), *worker],
            );
            assert!(there, "attempt {n} of task {task} is lost");
        }
        for task in &self.succeeded {
            assert!(has("SELECT 1 FROM attempt WHERE task = ?1 AND final = 9", &[*task]), "the end of {task} is lost");
        }
        let none = |sql: &str| {
            let wrong: i64 = db.query_row(sql, [], |row| row.get(0)).unwrap();
            assert_eq!(wrong, 0, "{sql}");
        };
        none("SELECT count(*) - count(DISTINCT slot) FROM task WHERE slot IS NOT NULL");
        // Each window was written whole or not at all: no slot before the cursor is missing, none after it is there.
        none("SELECT count(*) - (SELECT coalesce(sum(runs), 0) FROM position) FROM task WHERE slot IS NOT NULL");
        none("SELECT count(*) FROM task t JOIN position p ON p.id = t.schedule WHERE t.at >= p.cursor_at");
        none("SELECT coalesce(max(run), 0) - count(*) FROM task WHERE slot IS NOT NULL");
        none("SELECT coalesce((max(at) - min(at)) / 2000 + 1 - count(*), 0) FROM task WHERE slot IS NOT NULL");
        none("SELECT count(*) FROM missed");
        // An order and its task are both there, or neither.
        none("SELECT count(*) FROM orders o LEFT JOIN task t ON t.id = o.task WHERE t.id IS NULL");
        none(
            "SELECT count(*) FROM task t JOIN lane l ON l.id = t.lane JOIN queue q ON q.id = l.queue
            LEFT JOIN orders o ON o.task = t.id WHERE q.name = 'orders' AND o.task IS NULL",
        );
        // Each order that has succeeded has its receipt, and no other has one.
        none(
            "SELECT (SELECT count(*) FROM task t JOIN lane l ON l.id = t.lane JOIN queue q ON q.id = l.queue
            WHERE q.name = 'receipts') - (SELECT count(*) FROM attempt a JOIN lane l ON l.id = a.lane
            JOIN queue q ON q.id = l.queue WHERE q.name = 'orders' AND a.final = 9)",
        );
        // A task waits, or has ended, or runs; never two of these.
        none("SELECT count(*) FROM ready r JOIN attempt a ON a.task = r.id WHERE a.final IS NOT NULL");
        none(
            "SELECT count(*) FROM (SELECT task FROM attempt WHERE final IS NOT NULL GROUP BY task HAVING count(*) > 1)",
        );
        none("SELECT count(*) FROM hold h JOIN attempt a ON a.task = h.task WHERE a.final IS NOT NULL");
    }

    /// After a reboot every lease is void: what was held comes back, and all tasks run to their end.
    async fn drain(&mut self, place: &Place) {
        let mut config = SqliteConfig::default();
        config.boot = Arc::new(MonotonicBoot::new(config.clock.clone(), "the next boot"));
        let store = SqliteStore::open(&place.text(), config).await.unwrap();
        let info = WorkerInfo { name: "survivor".to_owned(), slots: 8 };
        let worker = store.register(info, Duration::from_secs(3600)).await.unwrap();
        store.rescue(worker).await.unwrap();
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
        self.check(&place.connection());
    }
}

/// One hundred kills: nothing acknowledged is lost, no slot is doubled, every window is whole, and everything runs in the
/// end. `PUNCTUAL_KILLS` sets another number.
#[tokio::test]
async fn b15_killed_processes_lose_and_double_nothing() {
    let place = Place::new();
    let chance = SeededEntropy::new(number("PUNCTUAL_KILL_SEED", 7));
    let mut ledger = Ledger::default();
    let kills = number("PUNCTUAL_KILLS", 100);
    let mut lines = 0;
    for kill in 0..kills {
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kills::a_victim_works_until_it_is_killed", "--nocapture", "--quiet"])
            .env(FILE, place.text())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let left = chance.below(120);
        let mut out = BufReader::new(victim.stdout.take().unwrap());
        let mut line = String::new();
        let mut seen = None;
        // Lines that were written before the kill are read after it: the pipe outlives the process.
        while out.read_line(&mut line).unwrap() > 0 {
            if let Some(line) = line.strip_suffix('\n') {
                ledger.read(line);
                seen = if line == "ready" { Some(0) } else { seen.map(|seen| seen + 1) };
                lines += 1;
            }
            line.clear();
            if seen.is_some_and(|seen| seen >= left) {
                victim.kill().unwrap();
            }
        }
        let status = victim.wait().unwrap();
        assert!(!status.success(), "the victim of kill {kill} ended by itself");
        if kill % 10 == 9 {
            ledger.check(&place.connection());
        }
    }
    assert!(lines > kills, "{lines} lines");
    ledger.check(&place.connection());
    ledger.drain(&place).await;
}
