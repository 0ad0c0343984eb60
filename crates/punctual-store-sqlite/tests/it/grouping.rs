//! Group commit: callers share commits, and each gets its own answer.

use crate::stand::{Place, any, config, enqueue, success, task};
use punctual_store_sqlite::SqliteStore;
use punctual_task::{KeyMode, NewTask, Reply, Store, StoreErrorKind, TaskId, UniqueKey, WorkerInfo};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Asks without waiting: the operation is queued when this returns.
fn ask<T>(mut reply: Reply<'_, T>) -> Reply<'_, T> {
    let polled = reply.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Pending), "the lock is held: nobody can be answered yet");
    reply
}

/// Sixty-four callers who ask while the writer waits are one commit; the one whose request is refused is refused alone.
#[tokio::test]
async fn callers_share_a_commit() {
    let place = Place::new();
    let store = place.open().await;
    let holder = enqueue(&store, 1).await[0];
    let keyed =
        |id: i64, mode: KeyMode| NewTask { key: Some(UniqueKey { mode, ..UniqueKey::new("k") }), ..task(TaskId(id)) };
    store.enqueue(vec![keyed(100, KeyMode::Keep)]).await.unwrap();
    let before = store.counters();

    let other = place.connection();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut asked: Vec<_> = (0..63).map(|at| ask(store.enqueue(vec![task(TaskId(1_000 + at))]))).collect();
    asked.insert(30, ask(store.enqueue(vec![task(TaskId(2_000)), keyed(2_001, KeyMode::Reject)])));
    other.execute_batch("COMMIT").unwrap();
    for (at, reply) in asked.into_iter().enumerate() {
        match reply.await {
            Ok(given) => assert!(given.iter().all(|given| given.inserted), "caller {at}"),
            Err(error) => assert_eq!((at, error.kind()), (30, StoreErrorKind::Refused)),
        }
    }
    let after = store.counters();
    assert_eq!((after.writes - before.writes, after.commits - before.commits), (64, 1));
    for id in (1_000..1_063).chain([holder.0]) {
        assert!(store.task(TaskId(id)).await.unwrap().is_some(), "task {id}");
    }
    assert!(store.task(TaskId(2_000)).await.unwrap().is_none(), "a refused batch is written whole or not at all");
}

/// Without any other writer in the way, many callers still need far fewer commits than calls.
#[tokio::test]
async fn many_callers_need_few_commits() {
    let place = Place::new();
    let store = place.open().await;
    let before = store.counters();
    for round in 0..20 {
        // All are asked before the first is awaited: while one group commits, the others queue.
        let mut asked: Vec<_> = (0..64).map(|at| store.enqueue(vec![task(TaskId(1 + round * 64 + at))])).collect();
        for reply in &mut asked {
            let _ = reply.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
        for reply in asked {
            reply.await.unwrap();
        }
    }
    let after = store.counters();
    let (calls, commits) = (after.writes - before.writes, after.commits - before.commits);
    assert_eq!(calls, 20 * 64);
    assert!(commits * 4 <= calls, "{commits} commits for {calls} calls");
}

/// From a backlog, a task costs less than a hundredth of an operation and a two-hundredth of a commit.
#[tokio::test]
async fn a_backlog_is_drained_in_few_commits() {
    const TASKS: u32 = 10_000;
    let place = Place::new();
    let store = place.open().await;
    enqueue(&store, TASKS).await;
    let info = WorkerInfo { name: "w".to_owned(), slots: 500 };
    let worker = store.register(info, Duration::from_secs(15)).await.unwrap();
    let before = store.counters();
    let now = store.now().await.unwrap();
    let mut done = 0;
    while done < TASKS {
        let batch = store.claim(worker, any(500)).await.unwrap();
        done += u32::try_from(batch.tasks.len()).unwrap();
        let finishes = batch.tasks.iter().map(|task| success(task.task, task.n, now)).collect();
        store.finish(worker, finishes).await.unwrap();
    }
    let after = store.counters();
    let per_task = |count: u64| count as f64 / f64::from(TASKS);
    assert!(per_task(after.writes - before.writes) <= 0.01, "{after:?}");
    assert!(per_task(after.commits - before.commits) <= 0.005, "{after:?}");
    assert!(per_task(after.statements - before.statements) <= 0.1, "{after:?}");
}

/// A second process that holds the write lock makes callers wait, not fail; beyond the wait they are told so, nothing is
/// written, and work goes on when the lock is free.
#[tokio::test]
async fn a_held_lock_is_waited_for() {
    let place = Place::new();
    let mut hurried = config(place.clock.clone());
    hurried.wait = Duration::from_millis(50);
    let store = SqliteStore::open(&place.text(), hurried).await.unwrap();
    let other = place.connection();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.enqueue(vec![task(TaskId(1))]).await.expect_err("the lock is held");
    assert_eq!(error.kind(), StoreErrorKind::Busy);
    assert!(error.is_retryable() && error.to_string().contains(&place.text()), "{error}");
    // Reading is possible all the time.
    assert_eq!(store.task(TaskId(1)).await.unwrap(), None);
    other.execute_batch("COMMIT").unwrap();
    store.enqueue(vec![task(TaskId(1))]).await.unwrap();

    let patient = place.open().await;
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = ask(patient.enqueue(vec![task(TaskId(2))]));
    other.execute_batch("COMMIT").unwrap();
    waiting.await.unwrap();
}

/// An answered write is seen by every read that begins after it, through whichever connection.
#[tokio::test]
async fn reads_see_answered_writes() {
    let place = Place::new();
    let (store, second) = (place.open().await, place.open().await);
    for _ in 0..50 {
        let id = enqueue(&store, 1).await[0];
        assert!(store.task(id).await.unwrap().is_some());
        assert!(second.task(id).await.unwrap().is_some());
    }
}

/// A caller that goes away leaves its operation done or not done, and everybody else unharmed.
#[tokio::test]
async fn a_dropped_caller_harms_nobody() {
    let place = Place::new();
    let store = place.open().await;
    let other = place.connection();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let kept = ask(store.enqueue(vec![task(TaskId(1))]));
    drop(ask(store.enqueue(vec![task(TaskId(2))])));
    let last = ask(store.enqueue(vec![task(TaskId(3))]));
    other.execute_batch("COMMIT").unwrap();
    kept.await.unwrap();
    last.await.unwrap();
    store.close().await;
}
