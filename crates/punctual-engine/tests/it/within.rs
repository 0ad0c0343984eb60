//! Calls stored in a transaction of the caller's own.

use crate::calls::{Oops, Step, on};
use crate::world::{World, pass};
use punctual_engine::{Engine, ErrorKind, TaskEnd};
use punctual_store_sqlite::{SqliteConfig, SqliteStore};
use punctual_task::{MemStore, StoreError};
use punctual_testkit::TokioClock;
use std::sync::Arc;
use std::time::Duration;

/// An engine on a store in memory, in a world that has one.
async fn engine(world: &World) -> (Engine, Arc<MemStore>) {
    let store = Arc::new(MemStore::new(Arc::<TokioClock>::clone(&world.clock)));
    let mut config = punctual_engine::EngineConfig::default();
    config.lease_thread = false;
    let builder = Engine::builder(Arc::<MemStore>::clone(&store)).clock(Arc::<TokioClock>::clone(&world.clock));
    let served = on(|step: Step| async move { Ok::<u64, Oops>(step.n * 2) });
    (builder.config(config).serve(served).start().await.unwrap(), store)
}

/// What is enqueued in a transaction runs after the commit: at once if the wake is fired, at the next poll if it is not; and
/// never after a rollback.
#[tokio::test(start_paused = true)]
async fn a_task_runs_after_the_commit() {
    let world = World::new();
    let (engine, store) = engine(&world).await;
    pass(Duration::from_secs(5)).await;
    let mut tx = store.transaction();
    let (first, wake) = engine.enqueue(Step { n: 4 }).key("order 4").within(&mut tx).await.unwrap();
    assert!(first.inserted);
    pass(Duration::from_secs(5)).await;
    assert_eq!(engine.stats().claimed, 0, "it is not committed");
    tx.commit().unwrap();
    assert_eq!(engine.stats().enqueued, 0);
    let before = world.seconds();
    wake.fire();
    assert_eq!(engine.wait(&first).await.unwrap(), TaskEnd::Succeeded(8));
    assert_eq!((world.seconds(), engine.stats().enqueued), (before, 1));

    let mut tx = store.transaction();
    let calls = (1..=3).map(|n| Step { n });
    let (tasks, wake) = engine.enqueue_many(calls).queue("later").within(&mut tx).await.unwrap();
    tx.commit().unwrap();
    drop(wake);
    for task in &tasks {
        assert!(engine.wait(task).await.unwrap().succeeded().is_some());
    }

    let mut tx = store.transaction();
    let (gone, wake) = engine.enqueue(Step { n: 1 }).within(&mut tx).await.unwrap();
    tx.rollback();
    drop(wake);
    assert_eq!(engine.outcome::<Step>(gone.id).await.unwrap_err().kind(), ErrorKind::NotFound);
}

/// What cannot be stored is refused before anything is in the transaction, which can be committed without it.
#[tokio::test(start_paused = true)]
async fn a_refused_call_leaves_the_transaction() {
    let (engine, store) = engine(&World::new()).await;
    let mut tx = store.transaction();
    let error = engine.enqueue(Step { n: 1 }).queue("").within(&mut tx).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    let error = engine.enqueue_json("Test/step", "{oops").within(&mut tx).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Payload);
    let (task, wake) = engine.enqueue(Step { n: 1 }).within(&mut tx).await.unwrap();
    tx.commit().unwrap();
    wake.fire();
    assert_eq!(engine.wait(&task).await.unwrap(), TaskEnd::Succeeded(2));
}

/// A transaction of another kind of store than the engine's is refused by name.
#[tokio::test(start_paused = true)]
async fn a_transaction_of_another_store_is_refused() {
    let world = World::new();
    let engine = world.builder().start().await.unwrap();
    let store = MemStore::new(Arc::<TokioClock>::clone(&world.clock));
    let error = engine.enqueue(Step { n: 1 }).within(&mut store.transaction()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("MemStore"), "{error}");
    assert!(engine.store_as::<MemStore>().is_none());
}

/// On SQLite a closure is a part of the writer's own commit, and what it enqueues runs after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closure_on_sqlite_enqueues() {
    let store = Arc::new(SqliteStore::open("sqlite::memory:", SqliteConfig::default()).await.unwrap());
    let served = on(|step: Step| async move { Ok::<u64, Oops>(step.n * 2) });
    let engine = Engine::builder(store).serve(served).start().await.unwrap();
    let (inside, refused) = (engine.clone(), engine.clone());
    let sqlite = engine.store_as::<SqliteStore>().unwrap();
    let (task, many, wakes) = sqlite
        .with_tx(move |tx| {
            tx.connection().execute_batch("CREATE TABLE IF NOT EXISTS orders (id)").unwrap();
            let failed = |error: punctual_engine::Error| StoreError::refused(error.to_string());
            let (task, first) = inside.enqueue(Step { n: 4 }).key("order 4").within_blocking(tx).map_err(failed)?;
            let calls = [Step { n: 5 }, Step { n: 6 }];
            let (many, second) = inside.enqueue_many(calls).within_blocking(tx).map_err(failed)?;
            Ok::<_, StoreError>((task, many, [first, second]))
        })
        .await
        .unwrap();
    wakes.into_iter().for_each(punctual_engine::Wake::fire);
    assert_eq!(engine.wait(&task).await.unwrap(), TaskEnd::Succeeded(8));
    assert_eq!(engine.wait(&many[1]).await.unwrap(), TaskEnd::Succeeded(12));
    let gone = sqlite
        .with_tx(move |tx| {
            let (task, _wake) = refused.enqueue(Step { n: 1 }).within_blocking(tx).unwrap();
            Err::<(), _>(StoreError::not_found(task.id.to_string()))
        })
        .await
        .unwrap_err();
    let id = gone.to_string().parse().unwrap();
    assert_eq!(engine.outcome::<Step>(id).await.unwrap_err().kind(), ErrorKind::NotFound);
    engine.shutdown(Duration::from_secs(5)).await;
}
