//! Two processes on one database, killed at random again and again under load: no slot is lost and none is doubled, by what
//! the handlers themselves wrote down.
//!
//! A victim is this very test binary, started again: an engine that serves handlers, declares schedules and enqueues tasks
//! until it is killed. What is acknowledged and what runs becomes a line of its standard output, which outlives it; the
//! parent kills one of the two with SIGKILL after a random number of lines, starts another in its place, and in the end lets
//! an engine of its own finish what is left and compares the store with all lines. On servers the processes also live on while
//! the server itself is killed, or stopped, and started again.
//!
//! The database is a fresh SQLite file, with the feature `postgres` also a fresh database on the server that
//! `PUNCTUAL_TEST_POSTGRES` names, and with `mysql` a fresh database on that of `PUNCTUAL_TEST_MARIADB`.
//! `PUNCTUAL_KILLS_DB=URL` names an empty database of any kind for the first of these tests, `PUNCTUAL_KILLS_ROUNDS` another number
//! of kills than 200.

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod database;

use punctual::engine::EngineConfig;
use punctual::schedule::{CompiledRule, Every, Missed, MissedOverflow, Rule, Slot};
use punctual::task::{Outcome, Page, Resume, ScheduleCommand, Store, TaskFilter, TaskId, TaskState};
use punctual::{Context, Engine, Status, service};
#[cfg(any(feature = "postgres", feature = "mysql"))]
use punctual_testkit::{PrivateServer, ServerKind};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write, stdout};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tempfile::TempDir;

/// Names the database that a victim works on.
const VICTIM: &str = "PUNCTUAL_KILLS_VICTIM";
/// How many processes work at once.
const VICTIMS: usize = 2;
/// How many kills without another number asked for.
const ROUNDS: u64 = 200;
/// How often the server is started again: two times of three after a kill, else after an end in order.
#[cfg(any(feature = "postgres", feature = "mysql"))]
const RESTARTS: usize = 12;
/// So many lines show that a victim has found the database again: more than it can have claimed before.
#[cfg(any(feature = "postgres", feature = "mysql"))]
const GOES_ON: u64 = 100;
/// A victim is killed after up to so many of its lines.
const LINES_MAX: u64 = 60;
/// The schedules: name, step in milliseconds, how many may be live at once.
const SCHEDULES: [(&str, u64, u32); 3] = [("fast", 10, 300), ("slow", 250, 20), ("serial", 40, 1)];

/// What victims run.
#[service]
pub(crate) trait Labour {
    /// Writes itself down.
    #[rpc(durable, attempts = 50, backoff = "fixed(1ms)")]
    async fn work(&self, key: u64) -> Result<u64, Status>;
}

/// Where lines go: to standard output in a victim, into memory in the parent.
#[derive(Debug, Clone)]
enum Ledger {
    Out,
    Kept(Arc<Mutex<Vec<String>>>),
}

impl Ledger {
    /// Says a line in one write, so that a killed process leaves whole lines and at most one torn one.
    fn say(&self, line: String) {
        match self {
            Ledger::Out => {
                let mut out = stdout().lock();
                out.write_all(format!("{line};\n").as_bytes()).and_then(|()| out.flush()).expect("a reader");
            }
            Ledger::Kept(lines) => lines.lock().expect("no panic under the lock").push(line),
        }
    }
}

#[derive(Debug)]
struct Hands(Ledger);

impl Labour for Hands {
    async fn work(&self, key: u64) -> Result<u64, Status> {
        let context = Context::current().expect("a handler runs in a context");
        let task = context.task().expect("it is a task");
        match &task.slot {
            Some(slot) => {
                let at = slot.at.as_micros();
                self.0.say(format!("slot {} {at} {} {}", slot.schedule, task.id, task.attempt));
            }
            None => self.0.say(format!("task {} {}", task.id, task.attempt)),
        }
        // Some attempts last long enough to be killed in the middle.
        if task.id.is_multiple_of(7) {
            tokio::time::sleep(Duration::from_millis(task.id % 40)).await;
        }
        Ok(key)
    }
}

/// A lease so short that the next victim finds the last one dead before long.
fn config() -> EngineConfig {
    let mut config = EngineConfig::default();
    config.slots = 16;
    config.prefetch_max = 32;
    config.poll = Duration::from_millis(50);
    config.poll_busy = Duration::from_millis(5);
    config.lease = Duration::from_millis(1_000);
    config.renewal = Duration::from_millis(100);
    config.stop_after = Duration::from_millis(600);
    config.stop_grace = Duration::from_millis(300);
    config.rescue = Duration::from_millis(50);
    config
}

async fn engine(url: &str, ledger: Ledger) -> Engine {
    let builder = punctual::open(url).await.expect("the database opens");
    builder.config(config()).serve(LabourServer::new(Hands(ledger))).start().await.expect("an engine starts")
}

fn rule(step: u64) -> Rule {
    Every::new(Duration::from_millis(step)).into()
}

async fn declare(engine: &Engine) {
    let missed = Missed::All { max_count: 10_000, max_age: Duration::from_secs(3600), overflow: MissedOverflow::Halt };
    for (name, step, max_pending) in SCHEDULES {
        let schedule = engine.schedule(name, rule(step), labour::Work { key: 0 });
        schedule.missed(missed).max_pending(max_pending).await.expect("a declaration");
    }
}

/// Works until it is killed.
async fn victim(url: &str) {
    let engine = engine(url, Ledger::Out).await;
    declare(&engine).await;
    Ledger::Out.say("ready".to_owned());
    for key in 0.. {
        // A database that another victim holds for long is no failure of this one.
        if let Ok(task) = engine.enqueue(labour::Work { key }).await {
            Ledger::Out.say(format!("put {}", task.id.0));
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// The victim: with a database named it works until it is killed. Without, there is nothing to do.
#[tokio::test]
async fn a_victim_works_until_it_is_killed() {
    if let Ok(url) = std::env::var(VICTIM) {
        victim(&url).await;
    }
}

/// A running victim, whose lines a thread reads.
struct Running {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    told: mpsc::Receiver<()>,
    reader: std::thread::JoinHandle<()>,
}

impl Running {
    fn start(url: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["kills::a_victim_works_until_it_is_killed", "--exact", "--nocapture"])
            .env(VICTIM, url)
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .expect("a victim starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let (tell, told) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                // The test harness says things of its own, and a kill may tear the last line.
                if let Some(line) = line.strip_suffix(';') {
                    kept.lock().expect("no panic under the lock").push(line.to_owned());
                    let _ = tell.send(());
                }
            }
        });
        Running { child, lines, told, reader }
    }

    /// Waits for so many more lines.
    fn wait(&self, lines: u64) {
        for _ in 0..lines {
            self.told.recv().expect("a victim works until it is killed; its own output says why it did not");
        }
    }

    /// Waits until it has said so much since now that it must have found the database again.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    fn goes_on(&self) {
        while self.told.try_recv().is_ok() {}
        self.wait(GOES_ON);
    }

    /// Kills it after so many more lines; gives all that it said.
    fn kill_after(mut self, lines: u64) -> Vec<String> {
        self.wait(lines);
        self.child.kill().expect("SIGKILL");
        self.child.wait().expect("its end");
        self.reader.join().expect("no panic in the reader");
        std::mem::take(&mut *self.lines.lock().expect("no panic under the lock"))
    }
}

/// Everything that was said.
#[derive(Debug, Default)]
struct Said {
    /// Tasks that the store acknowledged.
    put: BTreeSet<i64>,
    /// Attempts that ran, by task.
    ran: BTreeMap<i64, Vec<u32>>,
    /// Which task ran for a slot.
    slots: BTreeMap<(String, i64), BTreeSet<i64>>,
}

impl Said {
    fn read(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |word: &str| word.parse::<i64>().expect("a number");
        match words.as_slice() {
            ["ready"] => {}
            ["put", task] => assert!(self.put.insert(number(task)), "task {task} was acknowledged twice"),
            ["task", task, attempt] => self.attempt(number(task), attempt),
            ["slot", schedule, at, task, attempt] => {
                self.slots.entry(((*schedule).to_owned(), number(at))).or_default().insert(number(task));
                self.attempt(number(task), attempt);
            }
            _ => panic!("{line:?} is no line of a victim"),
        }
    }

    fn attempt(&mut self, task: i64, attempt: &str) {
        self.ran.entry(task).or_default().push(attempt.parse().expect("a number"));
    }
}

/// Everything that a filter finds.
async fn ids(store: &dyn Store, filter: TaskFilter) -> Vec<(TaskId, Option<i64>)> {
    let mut all = Vec::new();
    let mut before = None;
    loop {
        let page = store.tasks(filter.clone(), Page { before, limit: Page::LIMIT_MAX }).await.expect("a page");
        before = page.last().map(|task| task.id);
        let last = page.len() < Page::LIMIT_MAX as usize;
        all.extend(page.iter().map(|task| (task.id, task.occurrence.as_ref().map(|slot| slot.at.as_micros()))));
        if last {
            return all;
        }
    }
}

async fn any_in(store: &dyn Store, state: TaskState) -> bool {
    let filter = TaskFilter { state: Some(state), ..TaskFilter::default() };
    !store.tasks(filter, Page { before: None, limit: 1 }).await.expect("a page").is_empty()
}

/// Lets everything that is stored end; gives how many tasks had been given up after three losses in a row.
async fn finish(engine: &Engine) -> usize {
    let store = engine.store();
    for (name, ..) in SCHEDULES {
        let pause = ScheduleCommand::Pause { note: "the killing is over".to_owned() };
        engine.steer(name, pause).await.expect("a pause");
    }
    let mut given_up = 0;
    let mut looks = tokio::time::interval(Duration::from_millis(20));
    loop {
        looks.tick().await;
        if any_in(&**store, TaskState::Waiting).await || any_in(&**store, TaskState::Running).await {
            continue;
        }
        let failed = TaskFilter { state: Some(TaskState::Failed), ..TaskFilter::default() };
        let lost: Vec<TaskId> = ids(&**store, failed).await.into_iter().map(|(id, _)| id).collect();
        if lost.is_empty() {
            return given_up;
        }
        given_up += lost.len();
        engine.retry(lost).await.expect("a redrive");
    }
}

/// Every slot up to the cursor has one task, which ran; nothing was acknowledged and lost; no attempt ran twice, and one
/// attempt of each task succeeded.
async fn check(store: &dyn Store, said: &Said) -> usize {
    let mut slots = 0;
    for (name, ..) in SCHEDULES {
        let view = store.schedule(name.to_owned()).await.expect("a view").expect("it was declared");
        assert_eq!(view.lost, [], "{name}");
        let cursor = view.position.cursor.expect("it goes on");
        let rule = CompiledRule::new(&view.spec.rule, view.created).expect("its rule");
        let before = |slot: &Slot| slot.at < cursor.at;
        let expected: Vec<i64> = rule
            .slots_after(view.created)
            .map(|slot| slot.expect("a slot"))
            .take_while(before)
            .map(|slot| slot.at.as_micros())
            .collect();
        let filter = TaskFilter { schedule: Some(name.to_owned()), ..TaskFilter::default() };
        let mut stored: Vec<i64> = ids(store, filter).await.into_iter().filter_map(|(_, at)| at).collect();
        stored.sort_unstable();
        assert_eq!(stored.len(), expected.len(), "{name}: slots up to the cursor and tasks for them");
        assert!(stored == expected, "{name}: the tasks are not those of the slots");
        assert_eq!(view.position.runs as usize, expected.len(), "{name}");
        for at in expected {
            let ran = said.slots.get(&(name.to_owned(), at)).map_or(0, BTreeSet::len);
            assert_eq!(ran, 1, "{name}: tasks that ran for the slot at {at}");
            slots += 1;
        }
    }
    let all: BTreeSet<i64> = ids(store, TaskFilter::default()).await.into_iter().map(|(id, _)| id.0).collect();
    for task in &said.put {
        assert!(all.contains(task), "task {task} was acknowledged and is lost");
    }
    for task in all {
        let detail = store.task(TaskId(task)).await.expect("an answer").expect("it is there");
        assert_eq!(detail.view.state, TaskState::Succeeded, "task {task}");
        let good = detail.attempts.iter().filter(|attempt| attempt.outcome == Outcome::Succeeded).count();
        assert_eq!(good, 1, "task {task} succeeded so often");
        let ran = said.ran.get(&task).unwrap_or_else(|| panic!("task {task} never ran"));
        let distinct: BTreeSet<u32> = ran.iter().copied().collect();
        assert_eq!(distinct.len(), ran.len(), "an attempt of task {task} ran twice: {ran:?}");
    }
    slots
}

/// The next of a sequence of numbers that a seed decides.
fn chance(state: &AtomicU64, below: u64) -> u64 {
    let mixed = state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((mixed ^ (mixed >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 33) % below
}

/// Kills victims on the database at `url`, which is empty.
fn run(url: &str) {
    let rounds = std::env::var("PUNCTUAL_KILLS_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let state = AtomicU64::new(7);
    let mut said = Said::default();
    let mut victims: Vec<Running> = (0..VICTIMS).map(|_| Running::start(url)).collect();
    for round in 0..rounds + VICTIMS as u64 {
        let index = usize::try_from(chance(&state, victims.len() as u64)).expect("small");
        // The first one must make the tables, and now and then one is killed before it says a word.
        let lines = if round == 0 { LINES_MAX } else { chance(&state, LINES_MAX) };
        let killed = victims.swap_remove(index);
        for line in killed.kill_after(lines) {
            said.read(&line);
        }
        if round < rounds {
            victims.push(Running::start(url));
        }
    }
    let again = settle(url, said, &format!("{rounds} kills"));
    assert!(again > 0, "no kill hit a running task: the load was too small to show anything");
}

/// Kills and stops the server of the database at `url` again and again while victims work on it, and starts it again: both go on
/// by themselves each time.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn restart(url: &str, server: &mut PrivateServer) {
    let state = AtomicU64::new(11);
    let victims: Vec<Running> = (0..VICTIMS).map(|_| Running::start(url)).collect();
    for victim in &victims {
        victim.wait(LINES_MAX);
    }
    for round in 0..RESTARTS {
        victims[round % VICTIMS].wait(1 + chance(&state, LINES_MAX));
        if round % 3 == 2 {
            server.stop()
        } else {
            server.kill()
        }
        server.start_again();
        for victim in &victims {
            victim.goes_on();
        }
    }
    let mut said = Said::default();
    for victim in victims {
        for line in victim.kill_after(LINES_MAX) {
            said.read(&line);
        }
    }
    settle(url, said, &format!("{RESTARTS} restarts of the server"));
}

/// Lets everything end and compares the store with all lines; gives how many attempts were repeated.
fn settle(url: &str, mut said: Said, after: &str) -> usize {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let engine = engine(url, Ledger::Kept(Arc::clone(&kept))).await;
        let given_up = finish(&engine).await;
        for line in kept.lock().expect("no panic under the lock").drain(..) {
            said.read(&line);
        }
        let slots = check(&**engine.store(), &said).await;
        let again: usize = said.ran.values().map(|attempts| attempts.len() - 1).sum();
        eprintln!(
            "{after}: {slots} slots and {} other tasks, each decided once; {again} attempts repeated, \
             {given_up} tasks given up after three losses and redriven",
            said.put.len()
        );
        for (name, ..) in SCHEDULES {
            let resumed = engine.steer(name, ScheduleCommand::Resume(Resume::FromNow)).await;
            resumed.expect("the schedule was only paused");
        }
        engine.shutdown(Duration::from_secs(5)).await;
        again
    })
}

/// Two processes on one database, killed 200 times: zero lost and zero doubled slots by the handlers' ledger.
#[test]
fn two_processes_killed_at_random_lose_and_double_nothing() {
    if let Ok(url) = std::env::var("PUNCTUAL_KILLS_DB") {
        return run(&url);
    }
    let dir = TempDir::new().expect("a directory");
    run(&format!("sqlite://{}", dir.path().join("kills.db").display()));
}

/// The same on PostgreSQL, in a database of its own.
#[cfg(feature = "postgres")]
#[test]
fn two_processes_on_postgres_lose_and_double_nothing() {
    run(&database::Postgres::new("kills").url());
}

/// Both processes on a PostgreSQL that is killed, stopped and started again under them: zero lost and zero doubled slots, and
/// both go on by themselves.
#[cfg(feature = "postgres")]
#[test]
fn a_postgres_that_is_restarted_loses_and_doubles_nothing() {
    let Some(mut server) = PrivateServer::start(ServerKind::Postgres) else { return };
    let database = database::Postgres::on(server.url().to_owned(), "restarts");
    restart(&database.url(), &mut server);
}

/// The same as with kills on MariaDB, in a database of its own.
#[cfg(feature = "mysql")]
#[test]
fn two_processes_on_mariadb_lose_and_double_nothing() {
    run(&database::Mariadb::new("kills").url());
}

/// Both processes on a MariaDB that is killed, stopped and started again under them.
#[cfg(feature = "mysql")]
#[test]
fn a_mariadb_that_is_restarted_loses_and_doubles_nothing() {
    let Some(mut server) = PrivateServer::start(ServerKind::Mariadb) else { return };
    let database = database::Mariadb::on(server.url().to_owned(), "restarts");
    restart(&database.url(), &mut server);
}
