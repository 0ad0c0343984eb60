//! Every statement that the store runs has an index that gives its rows, and their order, on tables of any size.

use crate::config::SqliteConfig;
use crate::location::Location;
use crate::schedules::{commands, sweeps, views};
use crate::session::Session;
use crate::{attempts, cancels, claims, lists, queues, retention, tasks, workers};
use bytes::Bytes;
use punctual_clock::Timestamp;
use punctual_task::schedule::Every;
use punctual_task::{
    BackfillRequest, ClaimRequest, Declaration, Due, Finish, KeyHold, Missed, NewTask, Next, Outcome, Page, Resume,
    Retention, ScheduleCommand, ScheduleSpec, Sweep, TaskFilter, TaskId, TaskOptions, TaskState, UniqueKey, WorkerId,
    WorkerInfo,
};
use punctual_testkit::VirtualClock;
use rusqlite::StatementStatus;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

thread_local! {
    static SEEN: RefCell<BTreeSet<&'static str>> = const { RefCell::new(BTreeSet::new()) };
}

/// Called with the text of each statement that is prepared in a test.
pub(crate) fn seen(text: &'static str) {
    SEEN.with_borrow_mut(|seen| seen.insert(text));
}

/// Tables with a row or more for each task, schedule or loss. The others have one for each name, worker or batch of
/// claimed tasks, and may be read whole.
const LARGE: [&str; 13] = [
    "task",
    "task_body",
    "ready",
    "attempt",
    "ended",
    "hold",
    "unique_key",
    "cancel",
    "schedule",
    "definition",
    "position",
    "missed",
    "missed_sum",
];
/// What statements call some of them.
const ALIASES: [&str; 6] = ["t", "p", "r", "h", "s", "d"];
/// The one statement that reads a large table whole, by its index: the counts of the queues, asked for by people only.
const WHOLE: &str = queues::COUNTS;

const LEASE: Duration = Duration::from_secs(15);

fn session(clock: &Arc<VirtualClock>) -> Session {
    let boot = Arc::new(crate::MonotonicBoot::new(clock.clone(), "boot"));
    let config = SqliteConfig { boot, clock: clock.clone(), ..SqliteConfig::default() };
    Session::open(Location::Memory, config).expect("memory opens")
}

fn task(id: i64) -> NewTask {
    NewTask {
        id: TaskId(id),
        method: "Demo/run".to_owned(),
        queue: "Demo".to_owned(),
        level: 1,
        due: Due::Now,
        args: Bytes::from(vec![b'1'; if id % 2 == 0 { 10 } else { 5_000 }]),
        schema: 7,
        options: TaskOptions::default(),
        key: Some(UniqueKey {
            hold: if id % 3 == 0 { KeyHold::FinishedPlus(LEASE) } else { KeyHold::Waiting },
            ..UniqueKey::new(id.to_string())
        }),
    }
}

fn claim(session: &mut Session, worker: WorkerId, suspects: bool) -> Vec<(TaskId, u32)> {
    let request = ClaimRequest { queue: None, methods: vec!["Demo/run".to_owned()], limit: 4, suspects };
    let batch = claims::claim(session, worker, &request).expect("a claim");
    batch.tasks.iter().map(|task| (task.task, task.n)).collect()
}

fn finish(session: &mut Session, worker: WorkerId, task: (TaskId, u32), next: Next) {
    let now = session.now();
    let finish = Finish {
        task: task.0,
        n: task.1,
        started: now,
        ended: now,
        outcome: Outcome::Failed,
        out: Bytes::from_static(b"{}"),
        next,
    };
    // The second one is a resend.
    attempts::finish(session, worker, &[finish.clone(), finish], &[]).expect("a finish");
}

/// Runs every operation, so that every statement is seen.
fn everything(session: &mut Session, clock: &VirtualClock) {
    session.begin().expect("begin");
    let info = WorkerInfo { name: "w".to_owned(), slots: 2 };
    let [dead, alive] = [(); 2].map(|()| workers::register(session, &info, LEASE).expect("a registration"));
    let new: Vec<NewTask> = (1..=12).map(task).collect();
    tasks::draw_ids(session, 12).expect("ids");
    tasks::enqueue(session, &new).expect("an enqueue");
    tasks::enqueue(session, &new[..1]).expect("a resend");
    let held = claim(session, dead, false);
    cancels::cancel(session, &[held[0].0, TaskId(12), TaskId(99)]).expect("cancels");
    clock.advance(LEASE);
    workers::renew(session, alive, LEASE).expect("a renewal");
    workers::rescue(session, alive).expect("a rescue");
    let held = [claim(session, alive, true), claim(session, alive, false), claim(session, alive, false)].concat();
    workers::holdings(session, alive).expect("holdings");
    workers::hand_back(session, alive, &[held[0].0]).expect("a hand-back");
    finish(session, alive, held[1], Next::Again { due: session.now(), spent: 1 });
    finish(session, alive, held[2], Next::Final(TaskState::Failed));
    finish(session, alive, held[3], Next::Final(TaskState::Succeeded));
    cancels::retry(session, &[held[2].0, held[0].0]).expect("retries");
    finish(session, alive, held[4], Next::Final(TaskState::Failed));
    queues::pause(session, "Demo", true).expect("a pause");
    queues::pause(session, "Demo", false).expect("a resume");

    let rule = Every::new(Duration::from_secs(60));
    let spec = ScheduleSpec {
        missed: Missed::All { max_count: 3, max_age: LEASE, overflow: punctual_task::series::Overflow::SkipOldest },
        max_pending: 3,
        ..ScheduleSpec::new("s", rule.into(), "Demo/run", Bytes::from_static(b"{}"))
    };
    let declaration = Declaration { spec: spec.clone(), revision: 0 };
    commands::declare(session, &declaration).expect("a declaration");
    commands::declare(session, &declaration).expect("the same again");
    let edited = ScheduleSpec { max_pending: 2, ..spec };
    for command in [
        ScheduleCommand::Trigger { id: TaskId(500), force: false },
        ScheduleCommand::Trigger { id: TaskId(500), force: false },
        ScheduleCommand::edit(edited, 1),
        ScheduleCommand::Pause { note: String::new() },
        ScheduleCommand::Resume(Resume::ByPolicy),
    ] {
        commands::steer(session, "s", &command).expect("a command");
    }
    clock.advance(Duration::from_secs(600));
    sweeps::materialise(session, Sweep::default()).expect("a sweep");
    sweeps::materialise(session, Sweep::default()).expect("a sweep of nothing");
    let request = BackfillRequest::new(1, Timestamp::EPOCH, Timestamp::MAX);
    let again = ScheduleSpec { max_pending: 1, ..views::one(&session.db, "s").expect("a view").expect("there").spec };
    for command in [
        ScheduleCommand::PreviewBackfill(request),
        ScheduleCommand::Backfill(request),
        ScheduleCommand::Edit { spec: Box::new(again.clone()), version: 2, decide_first: false, drop_pending: true },
    ] {
        commands::steer(session, "s", &command).expect("a command");
    }
    sweeps::materialise(session, Sweep::default()).expect("a sweep of the backfill");
    for command in [ScheduleCommand::Cancel, ScheduleCommand::NewSeries { spec: Box::new(again) }] {
        commands::steer(session, "s", &command).expect("a command");
    }
    workers::retire(session, alive).expect("a retirement");
    clock.advance(Duration::from_secs(600));
    let soon = Retention { ended: Some(LEASE), failed: Some(LEASE) };
    retention::prune(session, soon, 1).expect("a pruning");
    lists_of(session);
    retention::prune(session, soon, 100).expect("a pruning");
    session.sequence.flush(&session.db).expect("a flush");
    session.commit().expect("commit");
}

/// Runs every read.
fn lists_of(session: &Session) {
    let (db, now) = (&session.db, session.now());
    let states = [None, Some(TaskState::Waiting), Some(TaskState::Running), Some(TaskState::Failed)];
    for state in states {
        for queue in [None, Some("Demo".to_owned())] {
            for schedule in [None, Some("s".to_owned())] {
                let filter = TaskFilter { state, queue: queue.clone(), method: None, schedule };
                lists::page(db, &filter, Page::default()).expect("a page");
            }
        }
    }
    for id in 1..=13 {
        lists::detail(db, TaskId(id), now).expect("a task");
    }
    queues::list(db, now).expect("queues");
    workers::list(db, now, &session.boot_time()).expect("workers");
    views::one(db, "s").expect("a schedule");
    views::page(db, None, 10).expect("schedules");
    views::losses(db, "s", 10).expect("losses");
    views::ends(db, "s", 10).expect("ends");
}

/// The plan of one statement, a line a step.
fn plan(session: &Session, text: &str) -> Vec<String> {
    // SQL-FORMAT: the text is a statement of this crate, taken from its own cache.
    let mut statement = session.db.conn().prepare(&format!("EXPLAIN QUERY PLAN {text}")).expect("a statement");
    let count = statement.parameter_count();
    for at in 1..=count {
        statement.raw_bind_parameter(at, 1).expect("a parameter");
    }
    let mut rows = statement.raw_query();
    let mut lines = Vec::new();
    while let Some(row) = rows.next().expect("a step") {
        lines.push(row.get(3).expect("text"));
    }
    lines
}

/// Ranges that a statement reads in order and leaves early, by its limit or by its caller.
const RANGES: [&str; 9] =
    ["(rowid<?)", "(rowid>?)", "(id<?)", "(name>?)", "(wake<?)", "(wake>?)", "(until<?)", "(to_at<?)", "(lane>?)"];

/// Whether a step of a plan reads more rows than it gives: a table without an index, an index without its first column, a
/// sort.
fn complaint(line: &str) -> bool {
    let mut words = line.split(' ');
    match (words.next(), words.next()) {
        (Some("SCAN"), Some(name)) => LARGE.contains(&name) || ALIASES.contains(&name),
        (Some("SEARCH"), Some(_)) => {
            line.contains("AUTOMATIC") || !(line.contains("=?") || RANGES.iter().any(|range| line.contains(range)))
        }
        _ => line.contains("TEMP B-TREE"),
    }
}

fn check(session: &Session, what: &str) {
    let statements = SEEN.with_borrow(Clone::clone);
    assert!(statements.len() > 60, "only {} statements were seen", statements.len());
    let mut wrong = Vec::new();
    for text in statements {
        if text == WHOLE || !["SELECT", "UPDATE", "DELETE", "INSERT"].iter().any(|verb| text.starts_with(verb)) {
            continue;
        }
        wrong.extend(
            plan(session, text).into_iter().filter(|line| complaint(line)).map(|line| format!("{line}: {text}")),
        );
    }
    assert!(wrong.is_empty(), "on {what}:\n{}", wrong.join("\n"));
}

/// Rows as some time of work leaves them.
fn fill(session: &Session) {
    for insert in [
        "INSERT INTO task (id, lane, lvl, created, due, schema, args) {n} SELECT 1000 + i, 1 + i % 7, i % 4, i, i, 1, x'31' FROM n",
        "INSERT INTO ready (lane, class, due, id, n, spent, losses)
         {n} SELECT 1 + i % 7, i % 4, i, 1000 + i, 0, 0, 0 FROM n WHERE i % 2 = 0",
        "INSERT INTO attempt (task, n, worker, started, ended, outcome, final, lane, out)
         {n} SELECT 1000 + i, 1, 1, i, i, 0, 9, 1 + i % 7, x'31' FROM n WHERE i % 2 = 1",
        "INSERT INTO hold (gate, task) {n} SELECT 1 + i % 50, 1000 + i FROM n",
        "INSERT INTO unique_key (scope, target, text, task, waiting, until)
         {n} SELECT 0, 1, 'key ' || i, 1000 + i, 0, i FROM n",
        "INSERT INTO position (id, state, note, rev, era, version, runs, wake)
         {n} SELECT 1000 + i, 0, '', 1, 1, 1, 0, i FROM n",
        "INSERT INTO schedule (id, name, created, hash, revision) {n} SELECT 1000 + i, 'name ' || i, 1, 1, 1 FROM n",
        "INSERT INTO definition (schedule, version, spec, args) {n} SELECT 1000 + i, 1, '{}', x'31' FROM n",
        "INSERT INTO missed (schedule, era, from_at, to_at, reason, count, exact)
         {n} SELECT 1000 + i, 1, i, i, 1, 1, 1 FROM n",
        "INSERT INTO ended (kind, at, tasks) {n} SELECT i % 2, i, x'' FROM n",
    ] {
        let numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)";
        session.db.conn().execute_batch(&insert.replace("{n}", numbers)).expect("rows");
    }
}

/// No statement reads a large table whole or sorts what an index could give in order: on empty tables, on filled ones, and
/// when somebody has run ANALYZE on either.
#[test]
fn every_statement_is_served_by_an_index() {
    let clock = Arc::new(VirtualClock::starting_at(Timestamp::from_secs(1_772_409_600)));
    let mut busy = session(&clock);
    everything(&mut busy, &clock);
    let empty = session(&clock);
    check(&empty, "empty tables");
    empty.db.conn().execute_batch("ANALYZE").expect("analyze");
    check(&empty, "empty tables, analysed");
    fill(&busy);
    check(&busy, "filled tables");
    busy.db.conn().execute_batch("ANALYZE").expect("analyze");
    check(&busy, "filled tables, analysed");
}

/// Every statement is prepared once a connection, whatever values it is run with.
#[test]
fn no_statement_is_prepared_again() {
    let clock = Arc::new(VirtualClock::starting_at(Timestamp::from_secs(1_772_409_600)));
    let mut session = session(&clock);
    everything(&mut session, &clock);
    for text in SEEN.with_borrow(Clone::clone) {
        let statement = session.db.conn().prepare_cached(text).expect("a statement");
        assert_eq!(statement.get_status(StatementStatus::RePrepare), 0, "{text}");
    }
}

/// Virtual machine steps since the last call, of all statements seen.
fn steps(session: &Session) -> i32 {
    let statements = SEEN.with_borrow(Clone::clone);
    let steps = |text: &&str| {
        let statement = session.db.conn().prepare_cached(text).expect("a statement");
        statement.reset_status(StatementStatus::VmStep)
    };
    statements.iter().map(steps).sum()
}

/// What a claim and its finish cost does not depend on how much waits: in the lane, in its other levels, or in lanes that
/// the claim is not for.
#[test]
fn a_claim_costs_the_same_whatever_waits() {
    let clock = Arc::new(VirtualClock::starting_at(Timestamp::from_secs(1_772_409_600)));
    let mut session = session(&clock);
    session.begin().expect("begin");
    let worker = workers::register(&mut session, &WorkerInfo { name: "w".to_owned(), slots: 1 }, LEASE);
    let worker = worker.expect("a registration");
    let mut id = 0;
    let mut costs = Vec::new();
    for backlog in [300, 3_000, 30_000] {
        let mut new = Vec::new();
        while id < backlog {
            id += 1;
            let method = if id % 3 == 0 { "Mail/send" } else { "Demo/run" };
            let level = u8::try_from(id % 4).expect("a level");
            new.push(NewTask { method: method.to_owned(), level, key: None, ..task(id) });
        }
        tasks::enqueue(&mut session, &new).expect("an enqueue");
        clock.advance(Duration::from_millis(1));
        steps(&session);
        for held in claim(&mut session, worker, true) {
            finish(&mut session, worker, held, Next::Final(TaskState::Succeeded));
        }
        costs.push(steps(&session));
    }
    let (least, most) = (costs.iter().min().expect("three"), costs.iter().max().expect("three"));
    assert!(most - least < least / 10, "{costs:?}");
}
