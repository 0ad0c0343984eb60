//! Tasks in transactions of a caller's own connection: what the caller finds on it before and after.

use crate::stand::{Database, Place, connect, task};
use punctual_task::{KeyMode, NewTask, Store, StoreErrorKind, TaskId, TransactionOf, UniqueKey};

fn keyed(id: TaskId, mode: KeyMode) -> NewTask {
    NewTask { key: Some(UniqueKey { mode, ..UniqueKey::new("k") }), ..task(id) }
}

/// The caller's search path holds before and after, with and without unique keys, also after a refusal, and the caller's own
/// savepoints are left alone.
#[tokio::test]
async fn the_callers_session_is_left_as_it_was() {
    let place = Place::new();
    let store = place.open().await;
    let mut ids = store.draw_ids(9).await.unwrap();
    let mut next = || ids.take().unwrap();
    let mut client = connect(&place.database.url()).await;
    client.batch_execute("CREATE SCHEMA mine; CREATE TABLE mine.orders (task bigint)").await.unwrap();
    client.batch_execute("SET search_path TO mine, public").await.unwrap();
    let mut tx = client.transaction().await.unwrap();
    let add = "INSERT INTO orders SELECT 1";
    tx.batch_execute("SAVEPOINT punctual").await.unwrap();
    tx.execute(add, &[]).await.unwrap();
    tx.enqueue(&store, vec![task(next())]).await.unwrap();
    tx.execute(add, &[]).await.unwrap();
    let first = next();
    tx.enqueue(&store, vec![keyed(first, KeyMode::Keep), task(next())]).await.unwrap();
    tx.execute(add, &[]).await.unwrap();
    let refused = tx.enqueue(&store, vec![task(next()), keyed(next(), KeyMode::Reject)]).await.unwrap_err();
    assert_eq!(refused.kind(), StoreErrorKind::Refused);
    tx.execute(add, &[]).await.unwrap();
    let mut inner = tx.transaction().await.unwrap();
    inner.enqueue(&store, vec![task(next())]).await.unwrap();
    inner.rollback().await.unwrap();
    tx.batch_execute("RELEASE SAVEPOINT punctual").await.unwrap();
    tx.commit().await.unwrap();
    let path: String = client.query_one("SHOW search_path", &[]).await.unwrap().get(0);
    assert_eq!(path, "mine, public");
    let count = async |sql: &str| client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
    assert_eq!(count("SELECT count(*) FROM orders").await, 4);
    assert_eq!(count("SELECT count(*) FROM punctual.task").await, 3);
    assert_eq!(count("SELECT count(*) FROM punctual.ready").await, 3);
    assert_eq!(count("SELECT count(*) FROM punctual.unique_key").await, 1);
}

/// A transaction in another database, with a store's tables or without, is refused, with and without keys, and nothing is
/// written there.
#[tokio::test]
async fn transactions_elsewhere_are_refused() {
    let (place, elsewhere, empty) = (Place::new(), Place::new(), Database::new());
    let (store, _other) = (place.open().await, elsewhere.open().await);
    let id = store.draw_ids(1).await.unwrap().take().unwrap();
    for database in [&elsewhere.database, &empty] {
        for task in [task(id), keyed(id, KeyMode::Keep)] {
            let mut client = connect(&database.url()).await;
            let mut tx = client.transaction().await.unwrap();
            let error = tx.enqueue(&store, vec![task]).await.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
            assert!(error.to_string().contains("not in the store's database"), "{error}");
            tx.commit().await.unwrap();
        }
    }
    let left = elsewhere.database.connect().await;
    for table in ["task", "ready", "unique_key"] {
        let rows: i64 = left.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.unwrap().get(0);
        assert_eq!(rows, 0, "{table}");
    }
}

/// A transaction that has failed before says so, and an id that is there already is a conflict.
#[tokio::test]
async fn failed_transactions_say_so() {
    let place = Place::new();
    let store = place.open().await;
    let id = store.draw_ids(1).await.unwrap().take().unwrap();
    let mut client = connect(&place.database.url()).await;
    for task in [task(id), keyed(id, KeyMode::Keep)] {
        let mut tx = client.transaction().await.unwrap();
        tx.batch_execute("SELECT 1 / 0").await.unwrap_err();
        let error = tx.enqueue(&store, vec![task]).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
        assert!(error.to_string().contains("has failed before"), "{error}");
        tx.rollback().await.unwrap();
    }
    store.enqueue(vec![task(id)]).await.unwrap();
    let mut tx = client.transaction().await.unwrap();
    assert_eq!(tx.enqueue(&store, vec![task(id)]).await.unwrap_err().kind(), StoreErrorKind::Conflict);
}
