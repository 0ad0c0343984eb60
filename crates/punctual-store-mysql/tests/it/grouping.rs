//! Group commit: callers share commits, and each gets its own answer. The counts that the performance goals name.

use crate::server::Database;
use crate::stand::{any, enqueue, open, success, task};
use punctual_store_mysql::MysqlStore;
use punctual_task::{KeyMode, NewTask, Store, StoreErrorKind, TaskId, UniqueKey, WorkerInfo};
use std::sync::Arc;
use std::time::Duration;

/// Many callers at once need far fewer commits than calls, and every task is there.
#[tokio::test]
async fn many_callers_need_few_commits() {
    let database = Database::new();
    let store = Arc::new(open(&database).await);
    enqueue(&*store, 1).await;
    let before = store.counters();
    let mut callers = Vec::new();
    for caller in 0..64 {
        let store = Arc::clone(&store);
        callers.push(tokio::spawn(async move {
            for at in 0..10 {
                let id = TaskId(1_000 + caller * 10 + at);
                let given = store.enqueue(vec![task(id)]).await.unwrap();
                assert_eq!((given[0].id, given[0].inserted), (id, true));
            }
        }));
    }
    for caller in callers {
        caller.await.unwrap();
    }
    let after = store.counters();
    let commits = after.commits - before.commits;
    assert!(commits * 4 <= 640, "{commits} commits for 640 calls");
    assert_eq!(database.number("SELECT COUNT(*) FROM punctual_task").await, 641);
}

/// One of a group that is wrong is refused alone: an id with other content, and a key that another holds.
#[tokio::test]
async fn the_wrong_one_is_refused_alone() {
    let database = Database::new();
    let store = open(&database).await;
    let taken = enqueue(&store, 1).await[0];
    let keyed =
        |id: i64, mode: KeyMode| NewTask { key: Some(UniqueKey { mode, ..UniqueKey::new("k") }), ..task(TaskId(id)) };
    store.enqueue(vec![keyed(100, KeyMode::Keep)]).await.unwrap();
    let wrong = NewTask { level: 3, ..task(taken) };
    let (first, second, third, fourth) = tokio::join!(
        store.enqueue(vec![task(TaskId(200))]),
        store.enqueue(vec![wrong]),
        store.enqueue(vec![task(TaskId(201)), keyed(202, KeyMode::Reject)]),
        store.enqueue(vec![task(TaskId(203))]),
    );
    assert!(first.is_ok() && fourth.is_ok());
    assert_eq!(second.unwrap_err().kind(), StoreErrorKind::Refused);
    assert_eq!(third.unwrap_err().kind(), StoreErrorKind::Refused);
    for (id, there) in [(200, true), (201, false), (202, false), (203, true)] {
        assert_eq!(store.task(TaskId(id)).await.unwrap().is_some(), there, "task {id}");
    }
}

/// From a backlog, a task costs less than two hundredths of a round trip and a two-hundredth of a commit, and a finish of
/// what it claimed needs two round trips whatever its size.
#[tokio::test]
async fn a_backlog_is_drained_in_few_commits() {
    const TASKS: u32 = 5_000;
    let database = Database::new();
    let store = open(&database).await;
    enqueue(&store, TASKS).await;
    let worker =
        store.register(WorkerInfo { name: "w".to_owned(), slots: 500 }, Duration::from_secs(60)).await.unwrap();
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
    assert!(per_task(after.operations - before.operations) <= 0.01, "{after:?}");
    assert!(per_task(after.commits - before.commits) <= 0.005, "{after:?}");
    assert!(per_task(after.round_trips - before.round_trips) <= 0.02, "{after:?}");
}

/// A window of 500 slots is one commit of a few round trips.
#[tokio::test]
async fn a_window_is_one_commit() {
    let database = Database::new();
    let store = open(&database).await;
    let spec = punctual_testkit::store_suite::minutely("s");
    store.declare(punctual_task::Declaration { spec, revision: 0 }).await.unwrap();
    let view = store.schedule("s".to_owned()).await.unwrap().unwrap();
    let cursor = view.position.cursor.unwrap();
    let slots = punctual_testkit::store_suite::slots_from(&view, cursor, 500);
    let window = punctual_task::Window { schedule: view.position.id, version: view.position.version, cursor, slots };
    // The lane's names and the ids are new once.
    let before = store.counters();
    assert_eq!(store.apply(window).await.unwrap().tasks.len(), 500);
    let after = store.counters();
    assert_eq!(after.commits - before.commits, 1);
    assert!(after.round_trips - before.round_trips <= 12, "{before:?} {after:?}");
}

/// An answered write is seen by every read that begins after it, through whichever connection and store.
#[tokio::test]
async fn reads_see_answered_writes() {
    let database = Database::new();
    let (store, second): (MysqlStore, MysqlStore) = (open(&database).await, open(&database).await);
    for _ in 0..20 {
        let id = enqueue(&store, 1).await[0];
        assert!(store.task(id).await.unwrap().is_some());
        assert!(second.task(id).await.unwrap().is_some());
    }
}
