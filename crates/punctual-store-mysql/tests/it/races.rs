//! Many at once: deadlocks are run again, and nobody sees one.

use crate::server::Database;
use crate::stand::{any, config, open, success, task};
use punctual_clock::{Clock, Timestamp};
use punctual_store_mysql::MysqlStore;
use punctual_task::{KeyHold, NewTask, Rescue, Store, TaskId, UniqueKey, WorkerInfo};
use punctual_testkit::VirtualClock;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Sixteen producers on four stores write batches whose unique keys cross in both orders, while two workers drain: no caller
/// sees a deadlock, every key has one task at a time, and every task ends once.
#[tokio::test]
async fn racing_producers_see_no_deadlock() {
    const PRODUCERS: i64 = 16;
    const ROUNDS: i64 = 12;
    let database = Database::new();
    let mut stores: Vec<Arc<MysqlStore>> = Vec::new();
    for _ in 0..4 {
        stores.push(Arc::new(open(&database).await));
    }
    let mut producers = Vec::new();
    for producer in 0..PRODUCERS {
        let store = Arc::clone(&stores[usize::try_from(producer % 4).unwrap()]);
        producers.push(tokio::spawn(async move {
            let mut written = Vec::new();
            for round in 0..ROUNDS {
                let mut ids = store.draw_ids(4).await.unwrap();
                let mut batch: Vec<NewTask> = (0..4)
                    .map(|at| {
                        let hold = if at % 2 == 0 { KeyHold::Finished } else { KeyHold::Waiting };
                        let key = UniqueKey { hold, ..UniqueKey::new(format!("key-{}", (round + at) % 5)) };
                        NewTask { key: Some(key), ..task(ids.take().unwrap()) }
                    })
                    .collect();
                if producer % 2 == 0 {
                    batch.reverse();
                }
                for given in store.enqueue(batch).await.unwrap() {
                    if given.inserted {
                        written.push(given.id);
                    }
                }
            }
            written
        }));
    }
    let mut drains = Vec::new();
    for store in stores.iter().take(2) {
        let store = Arc::clone(store);
        drains.push(tokio::spawn(async move {
            let info = WorkerInfo { name: "w".to_owned(), slots: 8 };
            let worker = store.register(info, Duration::from_secs(600)).await.unwrap();
            let mut ended = Vec::new();
            for _ in 0..40 {
                ended.extend(drain_once(&store, worker).await);
            }
            ended
        }));
    }
    let mut written = BTreeSet::new();
    for producer in producers {
        for id in producer.await.unwrap() {
            assert!(written.insert(id), "task {id} was written twice");
        }
    }
    let mut ended = Vec::new();
    for drain in drains {
        ended.extend(drain.await.unwrap());
    }
    let worker =
        stores[3].register(WorkerInfo { name: "last".to_owned(), slots: 8 }, Duration::from_secs(600)).await.unwrap();
    loop {
        let more = drain_once(&stores[3], worker).await;
        if more.is_empty() {
            break;
        }
        ended.extend(more);
    }
    let once: BTreeSet<TaskId> = ended.iter().copied().collect();
    assert_eq!(once.len(), ended.len(), "a task ended twice");
    assert_eq!(once, written);
    assert_eq!(database.number("SELECT COUNT(*) FROM punctual_unique_key").await, 0);
}

async fn drain_once(store: &MysqlStore, worker: punctual_task::WorkerId) -> Vec<TaskId> {
    let batch = store.claim(worker, any(7)).await.unwrap();
    let now = store.now().await.unwrap();
    let finishes: Vec<_> = batch.tasks.iter().map(|task| success(task.task, task.n, now)).collect();
    store.finish(worker, finishes).await.unwrap();
    batch.tasks.iter().map(|task| task.task).collect()
}

/// A transaction of another program that holds the rows makes callers wait and try again, not fail; a claim passes over what is locked.
#[tokio::test]
async fn locked_rows_are_passed_over() {
    use mysql_async::prelude::Queryable;
    let database = Database::new();
    let store = open(&database).await;
    let ids = crate::stand::enqueue(&store, 10).await;
    let mut other = database.connection().await;
    other.query_drop("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION").await.unwrap();
    let lock = format!(
        "SELECT id FROM punctual_ready FORCE INDEX (punctual_ready_id) WHERE id IN ({}, {}, {}, {}) FOR UPDATE",
        ids[0].0, ids[1].0, ids[2].0, ids[3].0
    );
    let locked: Vec<i64> = other.query(lock).await.unwrap();
    assert_eq!(locked.len(), 4);
    let worker = store.register(WorkerInfo { name: "w".to_owned(), slots: 8 }, Duration::from_secs(600)).await.unwrap();
    let claimed: Vec<TaskId> = store.claim(worker, any(4)).await.unwrap().tasks.iter().map(|task| task.task).collect();
    assert_eq!(claimed, ids[4..8]);
    other.query_drop("ROLLBACK").await.unwrap();
    let claimed: Vec<TaskId> = store.claim(worker, any(10)).await.unwrap().tasks.iter().map(|task| task.task).collect();
    assert_eq!(claimed, [&ids[..4], &ids[8..]].concat());
}

/// A dead worker's late finish holds its claims until it is refused. A rescue that comes in between waits for it instead of
/// putting the tasks off to the next one.
#[tokio::test]
async fn a_rescue_waits_for_held_claims() {
    use mysql_async::prelude::Queryable;
    const LEASE: Duration = Duration::from_secs(15);
    let database = Database::new();
    let clock = Arc::new(VirtualClock::starting_at(Timestamp::from_micros(1_900_000_000_000_000)));
    let store =
        Arc::new(MysqlStore::open(&database.url(), config(Arc::clone(&clock) as Arc<dyn Clock>)).await.unwrap());
    let info = |name: &str| WorkerInfo { name: name.to_owned(), slots: 8 };
    let lost = store.register(info("lost"), LEASE).await.unwrap();
    crate::stand::enqueue(&*store, 1).await;
    assert_eq!(store.claim(lost, any(1)).await.unwrap().tasks.len(), 1);
    clock.advance(LEASE * 2);
    let rescuer = store.register(info("rescuer"), LEASE).await.unwrap();

    let mut other = database.connection().await;
    other.query_drop("START TRANSACTION").await.unwrap();
    let held: Vec<i64> = other.query("SELECT id FROM punctual_claim FOR UPDATE").await.unwrap();
    assert_eq!(held.len(), 1);
    let rescue = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.rescue(rescuer).await.unwrap() }
    });
    let waits = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST
         WHERE DB = '{}' AND INFO LIKE '%FROM punctual_claim%' AND INFO LIKE '%FOR UPDATE'",
        database.name()
    );
    while database.number(&waits).await == 0 {
        assert!(!rescue.is_finished(), "the rescue left the tasks behind");
    }
    other.query_drop("ROLLBACK").await.unwrap();
    assert_eq!(rescue.await.unwrap(), Rescue { workers: 1, requeued: 1, ..Rescue::default() });
}
