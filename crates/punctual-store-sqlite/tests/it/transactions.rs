//! Tasks in closures that are a part of the writer's commit, and in transactions of a caller's own connection.

use crate::stand::{Place, any, enqueue, task};
use punctual_store_sqlite::{SqliteConfig, SqliteStore, SqliteTransaction};
use punctual_task::{
    BlockingTransactionOf, KeyMode, NewTask, Store, StoreError, StoreErrorKind, TaskId, UniqueKey, WorkerInfo,
};
use std::sync::Arc;
use std::time::Duration;

/// What a caller's own part fails with.
#[derive(Debug)]
enum Failed {
    Store(StoreError),
    Sql(rusqlite::Error),
    Mind,
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Failed::Store(error)
    }
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Failed::Sql(error)
    }
}

const ORDERS: &str = "CREATE TABLE IF NOT EXISTS orders (task INTEGER PRIMARY KEY)";

/// Writes an order and its task, both with an id drawn inside.
fn order(store: &SqliteStore, tx: &mut SqliteTransaction<'_>, key: Option<UniqueKey>) -> Result<TaskId, Failed> {
    let id = tx.draw_ids(store, 1)?.take().unwrap();
    tx.connection().execute("INSERT INTO orders (task) VALUES (?1)", [id.0])?;
    let answer = tx.enqueue(store, vec![NewTask { key, queue: "orders".to_owned(), ..task(id) }])?;
    Ok(answer[0].id)
}

fn orders(place: &Place) -> i64 {
    place.connection().query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).unwrap()
}

/// What a closure writes beside its tasks is committed with them; a closure that fails or panics leaves neither, gets its own
/// error back, and takes nothing from the others of its group.
#[tokio::test(flavor = "multi_thread")]
async fn a_closure_is_all_or_nothing() {
    let place = Place::new();
    let store = Arc::new(place.open().await);
    store.with_tx(|tx| Ok::<_, Failed>(tx.connection().execute_batch(ORDERS)?)).await.unwrap();
    let (first, second, third) = (Arc::clone(&store), Arc::clone(&store), Arc::clone(&store));
    let good = store.with_tx(move |tx| order(&first, tx, None));
    let failing = store.with_tx(move |tx| {
        order(&second, tx, Some(UniqueKey::new("k")))?;
        Err::<(), _>(Failed::Mind)
    });
    let panicking = store.with_tx(move |tx| {
        order(&third, tx, Some(UniqueKey::new("k")))?;
        if tx.connection().is_autocommit() { Ok(()) } else { panic!("as it must") }
    });
    let wrong = store.with_tx(|tx| Ok::<_, Failed>(tx.connection().execute("INSERT INTO nowhere VALUES (1)", [])?));
    let (good, failing, panicking, wrong, other) = tokio::join!(good, failing, panicking, wrong, enqueue(&*store, 1));
    assert!(matches!(failing, Err(Failed::Mind)), "{failing:?}");
    assert!(matches!(&panicking, Err(Failed::Store(error)) if error.kind() == StoreErrorKind::Bug), "{panicking:?}");
    assert!(matches!(&wrong, Err(Failed::Sql(error)) if error.to_string().contains("nowhere")), "{wrong:?}");
    let worker = store.register(WorkerInfo { name: "w".to_owned(), slots: 9 }, Duration::from_secs(15)).await.unwrap();
    let mut ran: Vec<TaskId> = store.claim(worker, any(10)).await.unwrap().tasks.iter().map(|task| task.task).collect();
    ran.sort_unstable();
    let mut expected = vec![good.unwrap(), other[0]];
    expected.sort_unstable();
    assert_eq!(ran, expected);
    assert_eq!(orders(&place), 1);
}

/// A key that is held refuses one enqueue inside a closure, which may go on without it.
#[tokio::test]
async fn a_refusal_inside_a_closure_undoes_itself_only() {
    let place = Place::new();
    let store = Arc::new(place.open().await);
    store.with_tx(|tx| Ok::<_, Failed>(tx.connection().execute_batch(ORDERS)?)).await.unwrap();
    let same = Arc::clone(&store);
    let key = || Some(UniqueKey { mode: KeyMode::Reject, ..UniqueKey::new("k") });
    let (first, second) = store
        .with_tx(move |tx| {
            let first = order(&same, tx, key())?;
            let ids = tx.draw_ids(&*same, 2)?;
            let refused = vec![
                task(TaskId(first.0 + 1)),
                NewTask { key: key(), queue: "orders".to_owned(), ..task(TaskId(first.0 + 2)) },
            ];
            assert_eq!(ids.left(), 2);
            assert_eq!(tx.enqueue(&*same, refused).unwrap_err().kind(), StoreErrorKind::Refused);
            Ok::<_, Failed>((first, order(&same, tx, None)?))
        })
        .await
        .unwrap();
    for (id, there) in [(first, true), (second, true), (TaskId(first.0 + 1), false), (TaskId(first.0 + 2), false)] {
        assert_eq!(store.task(id).await.unwrap().is_some(), there, "{id}");
    }
    assert_eq!(orders(&place), 2);
}

/// A transaction in another store's file, in a file of somebody else's, or one that has ended is refused, and nothing is
/// written there.
#[tokio::test]
async fn transactions_elsewhere_are_refused() {
    let (place, elsewhere) = (Place::new(), Place::new());
    let store = place.open().await;
    let other = elsewhere.open().await;
    let refused = |error: StoreError, word: &str| {
        assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    };
    let mut connection = elsewhere.connection();
    let mut tx = connection.transaction().unwrap();
    refused(tx.draw_ids(&store, 1).unwrap_err(), "another store");
    refused(tx.enqueue(&store, vec![task(TaskId(1))]).unwrap_err(), "another store");
    tx.commit().unwrap();
    let mut connection = rusqlite::Connection::open_in_memory().unwrap();
    let mut tx = connection.transaction().unwrap();
    refused(tx.enqueue(&store, vec![task(TaskId(1))]).unwrap_err(), "another file");
    drop(tx);
    let mut connection = place.connection();
    let mut tx = connection.transaction().unwrap();
    tx.execute_batch("COMMIT").unwrap();
    refused(tx.enqueue(&store, vec![task(TaskId(1))]).unwrap_err(), "ended");
    for store in [&store, &other] {
        assert_eq!(store.task(TaskId(1)).await, Ok(None));
    }
}

/// In memory, where nobody else has a connection, closures are the way.
#[tokio::test]
async fn closures_work_in_memory() {
    let store = Arc::new(SqliteStore::open("sqlite::memory:", SqliteConfig::default()).await.unwrap());
    store.with_tx(|tx| Ok::<_, Failed>(tx.connection().execute_batch(ORDERS)?)).await.unwrap();
    let same = Arc::clone(&store);
    let id = store.with_tx(move |tx| order(&same, tx, None)).await.unwrap();
    assert!(store.task(id).await.unwrap().is_some());
}
