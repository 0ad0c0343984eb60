//! Processes that are killed at any moment, two at a time on one database, lose nothing that they were told is written and double
//! no slot.
//!
//! The victim is this very test binary, started again. It writes a line to its standard output after each answer of the
//! store; the parent kills it with SIGKILL after a random number of lines, starts another one on the same database, and in
//! the end compares the database with all lines that came through. The server lives on: what its own end costs is for its log.

use crate::stand::{Database, connect, enqueue, number, success, task};
use bytes::Bytes;
use punctual_clock::{Entropy, SeededEntropy};
use punctual_store_postgres::{PostgresConfig, PostgresStore};
use punctual_task::schedule::Every;
use punctual_task::series::Overflow;
use punctual_task::{
    ClaimRequest, Claimed, Declaration, Finished, FollowOn, FollowUp, Missed, NewTask, Next, Outcome, ScheduleSpec,
    Store, StoreError, StoreErrorKind, Sweep, TaskFilter, TaskState, TransactionOf, UniqueKey, WorkerId, WorkerInfo,
};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write, stdout};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

/// Names the database that a victim works on.
const URL: &str = "PUNCTUAL_VICTIM_URL";
/// So short that what a dead victim held comes back while the next ones work.
const LEASE: Duration = Duration::from_millis(500);
/// How often a victim goes round before it ends by itself.
const ROUNDS_MAX: u32 = 5_000;

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

async fn register(store: &PostgresStore) -> WorkerId {
    store.register(WorkerInfo { name: "victim".to_owned(), slots: 8 }, LEASE).await.unwrap()
}

/// The answer, or nothing for a worker that was so slow that another one buried it.
fn unless_fenced<T>(answer: Result<T, StoreError>) -> Option<T> {
    match answer {
        Ok(given) => Some(given),
        Err(error) if error.kind() == StoreErrorKind::Fenced => None,
        Err(error) => panic!("{error}"),
    }
}

/// Works as an engine does, several operations at once, and says what it was told is written.
async fn work(url: &str, rounds: u32) {
    let store = PostgresStore::open(url, PostgresConfig::default()).await.unwrap();
    let mut worker = register(&store).await;
    store.declare(Declaration { spec: spec(), revision: 0 }).await.unwrap();
    let mut client = connect(url).await;
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
            let batch = unless_fenced(store.claim(worker, claim(round % 3 == 0)).await)?;
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
            let given = unless_fenced(store.finish_then(worker, finishes.clone(), follow_ups).await)?;
            for (finish, given) in finishes.iter().zip(given) {
                assert_eq!(given, Finished::Applied);
                let end = if finish.next == Next::Final(TaskState::Succeeded) { "succeeded" } else { "again" };
                say(&format!("{end} {} {} {}", finish.task.0, finish.n, worker.0));
            }
            Some(())
        };
        let kept = async {
            unless_fenced(store.renew(worker, LEASE).await)?;
            unless_fenced(store.rescue(worker).await)?;
            Some(())
        };
        let ordered = order(&mut client, &store, round);
        let ((), (), (), finished, kept) = tokio::join!(enqueued, swept, ordered, finished, kept);
        if finished.and(kept).is_none() {
            worker = register(&store).await;
        }
    }
}

/// An order and its task, in one transaction of the caller's own; every fourth one changes its mind.
async fn order(client: &mut Client, store: &PostgresStore, round: u32) {
    let id = store.draw_ids(1).await.unwrap().take().unwrap();
    let key = round.is_multiple_of(2).then(|| UniqueKey::new(format!("order {}", id.0)));
    let mut tx = client.transaction().await.unwrap();
    tx.execute("INSERT INTO public.orders (task) VALUES ($1)", &[&id.0]).await.unwrap();
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
async fn receipts(store: &PostgresStore, tasks: &[Claimed]) -> Vec<FollowUp> {
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
async fn database() -> Database {
    let database = Database::new();
    connect(&database.url()).await.batch_execute("CREATE TABLE orders (task bigint PRIMARY KEY)").await.unwrap();
    database
}

/// The victim: with a database named it works until it is killed; otherwise it shows that the work itself is right.
#[tokio::test]
async fn a_victim_works_until_it_is_killed() {
    match std::env::var(URL) {
        Ok(url) => work(&url, ROUNDS_MAX).await,
        Err(_) => {
            let database = database().await;
            work(&database.url(), 10).await;
            let mut ledger = Ledger::default();
            ledger.check(&database.connect().await).await;
            ledger.drain(&database).await;
        }
    }
}

/// What victims were told is written.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
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
    async fn check(&self, db: &Client) {
        // Everything as it is at one instant: others are still at work.
        db.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await.unwrap();
        let missing = async |sql: &str, values: &[&(dyn ToSql + Sync)]| {
            let lost: Vec<i64> = db.query(sql, values).await.unwrap().iter().map(|row| row.get(0)).collect();
            assert_eq!(lost, Vec::<i64>::new(), "lost: {sql}");
        };
        let list = |set: &BTreeSet<i64>| set.iter().copied().collect::<Vec<i64>>();
        missing(
            "SELECT u.id FROM unnest($1::bigint[]) u (id) LEFT JOIN task t ON t.id = u.id WHERE t.id IS NULL",
            &[&list(&self.tasks)],
        )
        .await;
        missing(
            "SELECT u.id FROM unnest($1::bigint[]) u (id) LEFT JOIN task t ON t.id = u.id WHERE t.slot IS NULL",
            &[&list(&self.occurrences)],
        )
        .await;
        missing(
            "SELECT u.id FROM unnest($1::bigint[]) u (id)
                LEFT JOIN attempt a ON a.task = u.id AND a.final = 9 WHERE a.task IS NULL",
            &[&list(&self.succeeded)],
        )
        .await;
        let tasks: Vec<i64> = self.attempts.iter().map(|(task, ..)| *task).collect();
        let ns: Vec<i32> = self.attempts.iter().map(|(_, n, _)| i32::try_from(*n).unwrap()).collect();
        let workers: Vec<i64> = self.attempts.iter().map(|(.., worker)| *worker).collect();
        missing(
            "SELECT u.task FROM unnest($1::bigint[], $2::int[], $3::bigint[]) u (task, n, worker)
                LEFT JOIN attempt a ON a.task = u.task AND a.n = u.n AND a.worker = u.worker WHERE a.task IS NULL",
            &[&tasks, &ns, &workers],
        )
        .await;
        for sql in [
            "SELECT count(*) - count(DISTINCT slot) FROM task WHERE slot IS NOT NULL",
            // Each window was written whole or not at all: no slot before the cursor is missing, none after it is there.
            "SELECT count(*) - (SELECT coalesce(sum(runs), 0)::bigint FROM position) FROM task WHERE slot IS NOT NULL",
            "SELECT count(*) FROM task t JOIN position p ON p.id = t.schedule WHERE t.at >= p.cursor_at",
            "SELECT coalesce(max(run), 0) - count(*) FROM task WHERE slot IS NOT NULL",
            "SELECT coalesce((max(at) - min(at)) / 20000 + 1 - count(*), 0) FROM task WHERE slot IS NOT NULL",
            "SELECT count(*) FROM missed",
            // An order and its task are both there, or neither.
            "SELECT count(*) FROM public.orders o LEFT JOIN task t ON t.id = o.task WHERE t.id IS NULL",
            "SELECT count(*) FROM task t JOIN lane l ON l.id = t.lane JOIN queue q ON q.id = l.queue
                LEFT JOIN public.orders o ON o.task = t.id WHERE q.name = 'orders' AND o.task IS NULL",
            // Each order that has succeeded has its receipt, and no other has one.
            "SELECT (SELECT count(*) FROM task t JOIN lane l ON l.id = t.lane JOIN queue q ON q.id = l.queue
                WHERE q.name = 'receipts') - (SELECT count(*) FROM attempt a JOIN lane l ON l.id = a.lane
                JOIN queue q ON q.id = l.queue WHERE q.name = 'orders' AND a.final = 9)",
            // A task waits, or has ended, or runs; never two of these.
            "SELECT count(*) FROM ready r JOIN attempt a ON a.task = r.id WHERE a.final IS NOT NULL",
            "SELECT count(*) FROM (SELECT task FROM attempt WHERE final IS NOT NULL GROUP BY task HAVING count(*) > 1) x",
            "SELECT count(*) FROM hold h JOIN attempt a ON a.task = h.task WHERE a.final IS NOT NULL",
        ] {
            let wrong: i64 = db.query_one(sql, &[]).await.unwrap().get(0);
            assert_eq!(wrong, 0, "{sql}");
        }
        db.batch_execute("COMMIT").await.unwrap();
    }

    /// Once their leases have ended, what dead workers held comes back, and all tasks run to their end.
    async fn drain(&mut self, database: &Database) {
        database.connect().await.batch_execute("UPDATE worker SET until = 0").await.unwrap();
        let store = PostgresStore::open(&database.url(), PostgresConfig::default()).await.unwrap();
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
        store.close();
        self.check(&database.connect().await).await;
    }
}

/// Starts a victim and kills it after so many lines. Gives how many it said.
fn kill_one(url: &str, left: u64, ledger: &Mutex<Ledger>) -> u64 {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::a_victim_works_until_it_is_killed", "--nocapture", "--quiet"])
        .env(URL, url)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(victim.stdout.take().unwrap());
    let (mut line, mut seen, mut lines) = (String::new(), None, 0);
    // Lines that were written before the kill are read after it: the pipe outlives the process.
    while out.read_line(&mut line).unwrap() > 0 {
        if let Some(line) = line.strip_suffix('\n') {
            ledger.lock().unwrap().read(line);
            seen = if line == "ready" { Some(0) } else { seen.map(|seen| seen + 1) };
            lines += 1;
        }
        line.clear();
        if seen.is_some_and(|seen| seen >= left) {
            victim.kill().unwrap();
        }
    }
    let status = victim.wait().unwrap();
    assert!(!status.success(), "a victim ended by itself");
    assert!(seen.is_some(), "a victim failed before it was ready");
    lines
}

/// Sixty kills, two processes at a time: nothing acknowledged is lost, no slot is doubled, every window is whole, and
/// everything runs in the end. `PUNCTUAL_KILLS` sets another number.
#[test]
fn b15_killed_processes_lose_and_double_nothing() {
    let database = crate::stand::apart(database);
    let url = database.url();
    let seed = number("PUNCTUAL_KILL_SEED", 7);
    let kills = number("PUNCTUAL_KILLS", 60);
    let ledger = Mutex::new(Ledger::default());
    let lines: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|thread| {
                let (url, ledger) = (&url, &ledger);
                scope.spawn(move || {
                    let chance = SeededEntropy::new(seed * 2 + thread);
                    (0..kills / 2).map(|_| kill_one(url, chance.below(120), ledger)).sum::<u64>()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(lines > kills, "{lines} lines");
    let mut ledger = ledger.into_inner().unwrap();
    crate::stand::apart(async || {
        ledger.check(&database.connect().await).await;
        ledger.drain(&database).await;
    });
}
