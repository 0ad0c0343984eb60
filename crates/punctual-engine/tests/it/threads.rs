//! The same engine on several threads and in real time: what paused time on one thread cannot show.

use crate::calls::{Step, on};
use crate::world::Ledger;
use punctual_clock::SystemClock;
use punctual_engine::{Engine, EngineConfig, TaskEnd};
use punctual_task::{MemStore, Page, Store, TaskFilter, TaskState};
use punctual_testkit::{Fault, FaultyStore, Op};
use std::sync::Arc;
use std::time::Duration;

/// Two engines on four threads, with lanes, claimer, completer and keeper truly side by side, and a store that fails one
/// call in ten, half of these after the write: each task runs once, and nothing is held at the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn threads_and_faults_double_nothing() {
    const TASKS: u64 = 3_000;
    let mem = Arc::new(MemStore::new(Arc::new(SystemClock)));
    let store = Arc::new(FaultyStore::new(Arc::<MemStore>::clone(&mem)));
    let observer = Engine::builder(mem).start().await.unwrap();
    let ledger = Arc::new(Ledger::default());
    let mut engines = Vec::new();
    for _ in 0..2 {
        let mut config = EngineConfig::default();
        config.slots = 8;
        config.renewal = Duration::from_millis(5);
        config.enqueue_wait = Duration::from_secs(60);
        let ran = Arc::clone(&ledger);
        let handler = on(move |step: Step| {
            ran.add(step.n);
            async move {
                if step.n.is_multiple_of(7) {
                    tokio::task::yield_now().await;
                }
                Ok(step.n)
            }
        });
        let builder = Engine::builder(Arc::<FaultyStore>::clone(&store)).config(config).serve(handler);
        engines.push(builder.start().await.unwrap());
    }
    store.fail_by_chance(11, 100);
    let mut tasks = Vec::new();
    for chunk in 0..30 {
        let calls = (0..TASKS / 30).map(|n| Step { n: chunk * (TASKS / 30) + n });
        tasks.extend(engines[0].enqueue_many(calls).await.unwrap());
    }
    for (n, task) in tasks.iter().enumerate() {
        assert_eq!(observer.wait(task).await.unwrap(), TaskEnd::Succeeded(u64::try_from(n).unwrap()));
    }
    store.heal();
    for engine in &engines {
        assert!(engine.shutdown(Duration::from_secs(10)).await.is_clean());
        assert_eq!(engine.stats().leases_lost, 0);
    }
    let counts = ledger.counts();
    assert_eq!(counts.len(), 3_000);
    assert!(counts.values().all(|count| *count == 1), "{:?}", counts.iter().find(|(_, count)| **count != 1));
    let running = TaskFilter { state: Some(TaskState::Running), ..TaskFilter::default() };
    assert!(store.tasks(running, Page::default()).await.unwrap().is_empty());
}

/// A panic on the keeper's own thread does not end it: the lease is renewed again.
#[tokio::test]
async fn a_panic_does_not_end_the_keeper() {
    let mem = Arc::new(MemStore::new(Arc::new(SystemClock)));
    let store = Arc::new(FaultyStore::new(mem));
    let mut config = EngineConfig::default();
    config.renewal = Duration::from_millis(5);
    store.fail_next(Op::Renew, Fault::Panic, 1);
    let serves = on(|step: Step| async move { Ok(step.n) });
    let engine = Engine::builder(Arc::<FaultyStore>::clone(&store)).config(config).serve(serves).start().await.unwrap();
    while engine.stats().renewals < 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(engine.shutdown(Duration::from_secs(10)).await.is_clean());
}

/// A handler that blocks its thread holds up neither the record of the task before it nor the claims after it: what its
/// lane woke last would otherwise wait on that very thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocking_handler_holds_up_no_record() {
    let store = Arc::new(MemStore::new(Arc::new(SystemClock)));
    let mut config = EngineConfig::default();
    config.slots = 1;
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = std::sync::Mutex::new(blocked);
    let handler = on(move |step: Step| {
        if step.n == 20 {
            // Until the test ends.
            let _ = blocked.lock().unwrap().recv();
        }
        async move { Ok(step.n) }
    });
    let producer = Engine::builder(Arc::<MemStore>::clone(&store)).start().await.unwrap();
    let tasks = producer.enqueue_many((0..=20).map(|n| Step { n })).await.unwrap();
    let engine = Engine::builder(store).config(config).serve(handler).start().await.unwrap();
    // Claimed ahead in one batch with the one that blocks, and run before it in one go.
    assert_eq!(producer.wait(&tasks[19]).await.unwrap(), TaskEnd::Succeeded(19));
    release.send(()).unwrap();
    assert_eq!(engine.wait(&tasks[20]).await.unwrap(), TaskEnd::Succeeded(20));
}
