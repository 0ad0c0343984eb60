//! Tasks in transactions of a caller's own connection: what the caller finds on it before and after.

use crate::server::Database;
use crate::stand::{open, task};
use mysql_async::prelude::Queryable;
use mysql_async::{IsolationLevel, TxOpts};
use punctual_task::{Enqueued, KeyMode, NewTask, Store, StoreErrorKind, TaskId, TransactionOf, UniqueKey};

fn keyed(id: TaskId, mode: KeyMode) -> NewTask {
    NewTask { key: Some(UniqueKey { mode, ..UniqueKey::new("k") }), ..task(id) }
}

/// The caller's variables hold before and after, with and without unique keys, also after a refusal, which leaves the
/// transaction usable.
#[tokio::test]
async fn the_callers_session_is_left_as_it_was() {
    let database = Database::new();
    let store = open(&database).await;
    let mut ids = store.draw_ids(9).await.unwrap();
    let mut next = || ids.take().unwrap();
    let mut connection = database.connection().await;
    connection.query_drop("CREATE TABLE orders (task BIGINT) ENGINE = InnoDB; SET @now = 'mine'").await.unwrap();
    let mut tx = connection.start_transaction(TxOpts::default()).await.unwrap();
    tx.query_drop("INSERT INTO orders VALUES (1)").await.unwrap();
    tx.enqueue(&store, vec![task(next())]).await.unwrap();
    tx.enqueue(&store, vec![keyed(next(), KeyMode::Keep), task(next())]).await.unwrap();
    let refused = tx.enqueue(&store, vec![task(next()), keyed(next(), KeyMode::Reject)]).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Refused);
    let now: Option<String> = tx.query_first("SELECT @now").await.unwrap();
    assert_eq!(now.as_deref(), Some("mine"));
    tx.query_drop("INSERT INTO orders VALUES (2)").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(database.number("SELECT COUNT(*) FROM orders").await, 2);
    assert_eq!(database.number("SELECT COUNT(*) FROM punctual_task").await, 3);
    assert_eq!(database.number("SELECT COUNT(*) FROM punctual_ready").await, 3);
    assert_eq!(database.number("SELECT COUNT(*) FROM punctual_unique_key").await, 1);
}

/// A key that was taken after the transaction's snapshot is seen all the same.
#[tokio::test]
async fn a_key_taken_after_the_snapshot_is_seen() {
    let database = Database::new();
    let store = open(&database).await;
    let mut ids = store.draw_ids(2).await.unwrap();
    let (first, second) = (ids.take().unwrap(), ids.take().unwrap());
    let mut connection = database.connection().await;
    let mut options = TxOpts::default();
    options.with_isolation_level(IsolationLevel::RepeatableRead).with_consistent_snapshot(true);
    let mut tx = connection.start_transaction(options).await.unwrap();
    store.enqueue(vec![keyed(first, KeyMode::Keep)]).await.unwrap();
    let given = tx.enqueue(&store, vec![keyed(second, KeyMode::Keep)]).await.unwrap();
    assert_eq!(given, [Enqueued { id: first, inserted: false }]);
    tx.commit().await.unwrap();
    assert_eq!(store.task(second).await, Ok(None));
}

/// A transaction in another database, with a store's tables or without, is refused, with and without keys, and nothing is
/// written there.
#[tokio::test]
async fn transactions_elsewhere_are_refused() {
    let (database, elsewhere, empty) = (Database::new(), Database::new(), Database::new());
    let (store, _other) = (open(&database).await, open(&elsewhere).await);
    let id = store.draw_ids(1).await.unwrap().take().unwrap();
    for database in [&elsewhere, &empty] {
        for task in [task(id), keyed(id, KeyMode::Keep)] {
            let mut connection = database.connection().await;
            let mut tx = connection.start_transaction(TxOpts::default()).await.unwrap();
            let error = tx.enqueue(&store, vec![task]).await.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
            assert!(error.to_string().contains("not in the store's database"), "{error}");
            tx.commit().await.unwrap();
        }
    }
    for table in ["task", "ready", "unique_key"] {
        assert_eq!(elsewhere.number(&format!("SELECT COUNT(*) FROM punctual_{table}")).await, 0, "{table}");
    }
}
