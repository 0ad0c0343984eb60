//! The engine on SQLite: what a file adds, above all restarts. Threads, commits and time are real, and the test moves the
//! clock on where it does not want to wait.

use crate::calls::{Oops, Step, on};
use crate::world::{Ledger, SECOND, START};
use punctual_context::Context;
use punctual_engine::{Engine, EngineBuilder, EngineConfig, TaskEnd};
use punctual_store_sqlite::{MonotonicBoot, SqliteConfig, SqliteStore};
use punctual_task::schedule::Every;
use punctual_task::{Outcome, Store, TaskState, WorkerInfo};
use punctual_testkit::SteppedClock;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// One database file and the clock of everything that opens it.
struct File {
    folder: tempfile::TempDir,
    clock: Arc<SteppedClock>,
}

impl File {
    fn new() -> Self {
        File { folder: tempfile::tempdir().unwrap(), clock: Arc::new(SteppedClock::starting_at(START)) }
    }

    async fn open(&self) -> Arc<SqliteStore> {
        let mut config = SqliteConfig::default();
        config.clock = Arc::<SteppedClock>::clone(&self.clock);
        config.boot = Arc::new(MonotonicBoot::new(Arc::<SteppedClock>::clone(&self.clock), "test"));
        let path = self.folder.path().join("test.db");
        Arc::new(SqliteStore::open(path.to_str().unwrap(), config).await.unwrap())
    }

    fn builder(&self, store: &Arc<SqliteStore>) -> EngineBuilder {
        let mut config = EngineConfig::default();
        // The test moves the clock in large steps, which must not look like a lost lease.
        config.renewal = Duration::from_millis(5);
        config.lease = SECOND * 7_200;
        config.stop_after = SECOND * 7_000;
        Engine::builder(Arc::<SqliteStore>::clone(store)).clock(Arc::<SteppedClock>::clone(&self.clock)).config(config)
    }
}

/// Results, errors and retries are in the file: an engine that opens it later reads them and goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_goes_on() {
    let file = File::new();
    let store = file.open().await;
    let engine = file
        .builder(&store)
        .serve(on(|step: Step| async move { if step.n == 1 { Ok(1) } else { Err(Oops::new(2)) } }))
        .start()
        .await
        .unwrap();
    let good = engine.enqueue(Step { n: 1 }).await.unwrap();
    let bad = engine.enqueue(Step { n: 2 }).await.unwrap();
    assert_eq!(engine.wait(&good).await.unwrap(), TaskEnd::Succeeded(1));
    while engine.stats().retried == 0 {
        tokio::task::yield_now().await;
    }
    assert!(engine.shutdown(SECOND * 10).await.is_clean());
    drop((engine, store));

    let store = file.open().await;
    let engine = file.builder(&store).serve(on(|_: Step| async { Err(Oops::new(3)) })).start().await.unwrap();
    assert_eq!(engine.outcome::<Step>(good.id).await.unwrap(), Some(TaskEnd::Succeeded(1)));
    for attempt in 2..=3 {
        file.clock.advance(SECOND * 10);
        while engine.stats().finished < attempt - 1 {
            tokio::task::yield_now().await;
        }
    }
    let error = engine.wait(&bad).await.unwrap().failed().unwrap();
    assert_eq!(error.error, Some(Oops::new(3)));
    let codes: Vec<_> = store.task(bad.id).await.unwrap().unwrap().attempts.iter().map(|a| (a.n, a.outcome)).collect();
    assert_eq!(codes, [(1, Outcome::Failed), (2, Outcome::Failed), (3, Outcome::Failed)]);
}

/// Slots of a schedule run once each, in order, over engines that come and go: some in order, some dropped in the
/// middle of everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_run_once_over_restarts() {
    let file = File::new();
    let (ran, mut runs) = mpsc::unbounded_channel();
    for round in 0..6 {
        let store = file.open().await;
        let ran = ran.clone();
        let handler = on(move |_: Step| {
            let slot = Context::current().expect("a context").task().and_then(|task| task.slot.clone());
            let slot = slot.expect("of an occurrence");
            ran.send((slot.at.since(START).as_secs() / 3_600, slot.run)).unwrap();
            async { Ok(0) }
        });
        let engine = file.builder(&store).serve(handler).start().await.unwrap();
        engine.schedule("hourly", Every::new(SECOND * 3_600), Step { n: 1 }).await.unwrap();
        for hour in 1..=3 {
            file.clock.advance(SECOND * 3_600);
            let expected = round * 3 + hour;
            assert_eq!(runs.recv().await, Some((expected, expected)));
        }
        if round % 2 == 0 {
            assert!(engine.shutdown(SECOND * 10).await.is_clean());
        } else {
            // The last occurrence's end is on record before the next slot may be created.
            while engine.stats().finished < 3 {
                tokio::task::yield_now().await;
            }
        }
    }
    assert!(runs.try_recv().is_err(), "nothing ran twice");
}

/// An engine that dies holding work loses none of it: what it had finished stays finished, and the rest runs again after
/// its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_engine_loses_nothing() {
    const TASKS: u64 = 500;
    let file = File::new();
    let store = file.open().await;
    let ledger = Arc::new(Ledger::default());
    let first = Arc::clone(&ledger);
    let handler = on(move |step: Step| {
        first.add(step.n);
        async move {
            if step.n >= 300 {
                std::future::pending::<()>().await;
            }
            Ok(step.n)
        }
    });
    let engine = file.builder(&store).serve(handler).start().await.unwrap();
    let tasks = engine.enqueue_many((0..TASKS).map(|n| Step { n })).await.unwrap();
    while engine.stats().finished < 300 {
        tokio::task::yield_now().await;
    }
    drop(engine);
    let judge = store.register(WorkerInfo { name: "judge".to_owned(), slots: 1 }, SECOND).await.unwrap();
    let rescue = loop {
        // Again if a renewal was on its way when the engine was dropped.
        file.clock.advance(SECOND * 7_300);
        let rescue = store.rescue(judge).await.unwrap();
        if rescue.workers > 0 {
            break rescue;
        }
    };
    assert!(rescue.requeued >= 64, "all slots were taken: {rescue:?}");
    store.retire(judge).await.unwrap();

    let again = Arc::new(Ledger::default());
    let second = Arc::clone(&again);
    let handler = on(move |step: Step| {
        second.add(step.n);
        async move { Ok(step.n) }
    });
    let heir = file.builder(&store).serve(handler).start().await.unwrap();
    for (n, task) in tasks.iter().enumerate() {
        assert_eq!(heir.wait(task).await.unwrap(), TaskEnd::Succeeded(u64::try_from(n).unwrap()));
    }
    assert!(again.counts().into_iter().all(|(n, count)| n >= 300 && count == 1), "only what was lost ran again");
    assert_eq!(again.counts().len(), 200);
}

/// A backlog costs few commits: claims and finishes go in batches, and the store joins them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_costs_few_commits() {
    const TASKS: u64 = 20_000;
    let file = File::new();
    let store = file.open().await;
    let producer = file.builder(&store).start().await.unwrap();
    let last = producer.enqueue_many((0..TASKS).map(|n| Step { n })).await.unwrap().pop().unwrap();
    let before = store.counters();
    let engine = file.builder(&store).serve(on(|step: Step| async move { Ok(step.n) })).start().await.unwrap();
    producer.wait(&last).await.unwrap();
    while engine.stats().finished < TASKS {
        tokio::task::yield_now().await;
    }
    let commits = store.counters().commits - before.commits;
    assert!(commits <= TASKS / 50, "{commits} commits");
    let queue = store.queues().await.unwrap().pop().unwrap();
    assert_eq!((queue.due, queue.running), (0, 0));
    assert_eq!(store.task(last.id).await.unwrap().unwrap().view.state, TaskState::Succeeded);
}
