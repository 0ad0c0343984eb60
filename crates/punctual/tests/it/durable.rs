//! The same handlers, reached through a store.

use crate::shop::{CornerShop, Receipt, ShopError, ShopServer, Surroundings, shop};
use punctual::engine::{Durable, Policy};
use punctual::{Engine, Failure, Status, Verdict};
use std::sync::atomic::Ordering;
use std::time::Duration;

async fn engine_with(shop: CornerShop) -> Engine {
    let engine = punctual::open("memory:").await.expect("memory is always there");
    engine.serve(ShopServer::new(shop)).start().await.expect("an engine starts")
}

async fn stop(engine: Engine) {
    assert!(engine.shutdown(Duration::from_secs(5)).await.is_clean());
}

/// A request is a task, and its result comes back typed.
#[tokio::test]
async fn a_method_is_a_task() {
    let engine = engine_with(CornerShop::new().0).await;
    let task = engine.enqueue(shop::Charge { order: 42, cents: 2_000 }).await.unwrap();
    let end = engine.wait(&task).await.unwrap();
    assert_eq!(end.succeeded(), Some(Receipt { order: 42, cents: 2_000 }));
    stop(engine).await;
}

/// A typed error is kept with the task, after as many attempts as the contract says; one that goes away is not seen.
#[tokio::test]
async fn errors_are_retried_and_kept() {
    let (shop, _pages) = CornerShop::new();
    shop.declined.store(2, Ordering::Relaxed);
    let engine = engine_with(shop).await;
    let task = engine.enqueue(shop::Charge { order: 42, cents: 1 }).await.unwrap();
    assert!(engine.wait(&task).await.unwrap().succeeded().is_some(), "the third attempt succeeds");

    let task = engine.enqueue(shop::Charge { order: 7, cents: 1 }).await.unwrap();
    let failed = engine.wait(&task).await.unwrap().failed().unwrap();
    assert_eq!(failed.error, Some(ShopError::UnknownOrder { order: 7 }));
    assert_eq!(failed.message, "there is no order 7");
    stop(engine).await;
}

/// The context of a task has no peer and knows its attempt and its budget.
#[tokio::test]
async fn the_context_is_the_task_s() {
    let engine = engine_with(CornerShop::new().0).await;
    let task = engine.enqueue(shop::Surroundings {}).timeout(Duration::from_secs(60)).await.unwrap();
    let seen: Surroundings = engine.wait(&task).await.unwrap().succeeded().unwrap();
    assert_eq!((seen.peer, seen.attempt, seen.tenant), (false, Some(1), None));
    assert!(seen.remaining.is_some_and(|left| left <= Duration::from_secs(60)), "{:?}", seen.remaining);
    stop(engine).await;
}

/// The contract's policy is the task's, and what it does not say is the engine's default.
#[test]
fn the_contract_s_policy() {
    let policy = <shop::Charge as Durable>::POLICY;
    assert_eq!((policy.queue, policy.attempts, policy.level), (Some("payments"), 3, Policy::LEVEL_DEFAULT));
    assert_eq!(policy.backoff, punctual::engine::Backoff::fixed(Duration::from_millis(1)));
    assert_eq!(<shop::Surroundings as Durable>::POLICY, Policy::DEFAULT);
    assert_eq!(<shop::Charge as Durable>::METHOD, "Shop/charge");
    assert_eq!(<shop::Charge as Durable>::schema_hash(), shop::DESCRIPTOR.methods[1].args_hash());
}

mod choosing {
    use super::{Failure, Status, Verdict};

    /// An error that says itself what becomes of the task.
    #[punctual::message]
    #[derive(Debug, PartialEq)]
    pub(super) enum Choice {
        Never,
    }

    impl From<&Choice> for Failure {
        fn from(choice: &Choice) -> Self {
            Failure::new(format!("{choice:?}")).with_verdict(Verdict::DeadLetter)
        }
    }

    #[punctual::service]
    pub(super) trait Choosing {
        #[rpc(durable, attempts = 1000, backoff = "fixed(1us)")]
        async fn never(&self) -> Result<(), Choice>;
        #[rpc(durable, attempts = 1000, backoff = "fixed(1us)")]
        async fn invalid(&self) -> Result<(), Status>;
    }

    pub(super) struct Chooser;

    impl Choosing for Chooser {
        async fn never(&self) -> Result<(), Choice> {
            Err(Choice::Never)
        }

        async fn invalid(&self) -> Result<(), Status> {
            Err(Status::invalid_argument("no later attempt would read it better"))
        }
    }
}

/// An error may choose what becomes of its task: these would have had a thousand attempts.
#[tokio::test]
async fn errors_choose() {
    let engine = punctual::open("memory:").await.unwrap();
    let engine = engine.serve(choosing::ChoosingServer::new(choosing::Chooser)).start().await.unwrap();
    let task = engine.enqueue(choosing::choosing::Never {}).await.unwrap();
    assert_eq!(engine.wait(&task).await.unwrap().failed().unwrap().error, Some(choosing::Choice::Never));
    let invalid = engine.enqueue(choosing::choosing::Invalid {}).await.unwrap();
    assert!(engine.wait(&invalid).await.unwrap().failed().is_some());
    for id in [task.id, invalid.id] {
        let detail = engine.store().task(id).await.unwrap().unwrap();
        assert_eq!(detail.attempts.len(), 1, "{detail:?}");
    }
    stop(engine).await;
}

/// The embedded store is reached by its URL, and what it holds outlives the engine.
#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_task_outlives_its_engine() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", directory.path().join("tasks.db").display());
    let before = punctual::open(&url).await.unwrap().start().await.unwrap();
    let task = before.enqueue(shop::Charge { order: 42, cents: 3_000 }).await.unwrap();
    stop(before).await;

    let engine = punctual::open(&url).await.unwrap().serve(ShopServer::new(CornerShop::new().0)).start().await.unwrap();
    let end = engine.wait(&task).await.unwrap();
    assert_eq!(end.succeeded(), Some(Receipt { order: 42, cents: 3_000 }));
    stop(engine).await;
}
