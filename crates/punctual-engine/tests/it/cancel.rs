//! Cancelling tasks.

use crate::calls::{Oops, Step, on};
use crate::world::{Ledger, SECOND, World, pass};
use punctual_context::{CancelReason, Context};
use punctual_engine::TaskEnd;
use punctual_task::{CancelOutcome, Outcome, TaskState};
use std::sync::Arc;

/// A waiting task is cancelled at once and never runs.
#[tokio::test(start_paused = true)]
async fn a_waiting_task_never_runs() {
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let ran = Arc::clone(&ledger);
    let handler = on(move |step: Step| {
        ran.add(step.n);
        async { Ok(0) }
    });
    let engine = world.builder().serve(handler).start().await.unwrap();
    let task = engine.enqueue(Step { n: 1 }).delay(SECOND * 10).await.unwrap();
    assert_eq!(engine.cancel(vec![task.id]).await.unwrap(), [CancelOutcome::Cancelled]);
    pass(SECOND * 60).await;
    assert_eq!(engine.wait(&task).await.unwrap(), TaskEnd::Cancelled);
    assert!(ledger.entries().is_empty());
}

/// A running handler's token fires; whatever error it then returns, the task ends as cancelled and is not retried.
#[tokio::test(start_paused = true)]
async fn a_running_handler_is_asked_to_stop() {
    let world = World::new();
    let handler = on(|_: Step| async {
        let context = Context::current().expect("a handler has a context");
        assert_eq!(context.cancelled().await, CancelReason::User);
        Err(Oops::new(1))
    });
    let engine = world.builder().serve(handler).start().await.unwrap();
    let task = engine.enqueue(Step { n: 1 }).await.unwrap();
    pass(SECOND).await;
    assert_eq!(world.state(task.id).await, TaskState::Running);
    assert_eq!(engine.cancel(vec![task.id]).await.unwrap(), [CancelOutcome::Requested]);
    assert_eq!(engine.wait(&task).await.unwrap(), TaskEnd::Cancelled);
    assert_eq!(world.seconds(), 1, "its own engine tells it at once");
    assert_eq!(world.detail(task.id).await.attempts.last().unwrap().outcome, Outcome::Cancelled);
}

/// The cancel came too late: success stays success.
#[tokio::test(start_paused = true)]
async fn success_stays_success() {
    let world = World::new();
    let handler = on(|_: Step| async {
        Context::current().expect("a handler has a context").cancelled().await;
        Ok(5)
    });
    let engine = world.builder().serve(handler).start().await.unwrap();
    let task = engine.enqueue(Step { n: 1 }).await.unwrap();
    pass(SECOND).await;
    engine.cancel(vec![task.id]).await.unwrap();
    assert_eq!(engine.wait(&task).await.unwrap(), TaskEnd::Succeeded(5));
}

/// A handler that ignores the token is dropped after the grace, and its slot is free again.
#[tokio::test(start_paused = true)]
async fn a_deaf_handler_is_dropped() {
    let world = World::new();
    let handler = on(|step: Step| async move {
        if step.n == 1 {
            std::future::pending::<()>().await;
        }
        Ok(step.n)
    });
    let engine = world.builder_with(|config| config.slots = 1).serve(handler).start().await.unwrap();
    let deaf = engine.enqueue(Step { n: 1 }).await.unwrap();
    pass(SECOND).await;
    let next = engine.enqueue(Step { n: 2 }).await.unwrap();
    engine.cancel(vec![deaf.id]).await.unwrap();
    assert_eq!(engine.wait(&deaf).await.unwrap(), TaskEnd::Cancelled);
    assert_eq!(world.seconds(), 11, "10 s of grace");
    assert_eq!(engine.wait(&next).await.unwrap(), TaskEnd::Succeeded(2));
}

/// A cancel through another process reaches the handler with its worker's next renewal.
#[tokio::test(start_paused = true)]
async fn a_cancel_from_elsewhere_arrives_with_a_renewal() {
    let world = World::new();
    let handler = on(|_: Step| async {
        Context::current().expect("a handler has a context").cancelled().await;
        Err(Oops::new(1))
    });
    let engine = world.builder().serve(handler).start().await.unwrap();
    let other = world.builder().start().await.unwrap();
    let task = engine.enqueue(Step { n: 1 }).await.unwrap();
    pass(SECOND).await;
    assert_eq!(other.cancel(vec![task.id]).await.unwrap(), [CancelOutcome::Requested]);
    assert_eq!(other.wait(&task).await.unwrap(), TaskEnd::Cancelled);
    assert!((3..=4).contains(&world.seconds()), "{}", world.seconds());
}

/// A task that was claimed and waits for a slot ends without having run.
#[tokio::test(start_paused = true)]
async fn a_claimed_task_that_waits_never_runs() {
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let ran = Arc::clone(&ledger);
    let handler = on(move |step: Step| {
        ran.add(step.n);
        async move {
            // Quick ones first, so that the engine claims ahead; then one that holds the only slot.
            if step.n == 100 {
                pass(SECOND / 2).await;
            }
            Ok(0)
        }
    });
    let engine = world.builder_with(|config| config.slots = 1).serve(handler).start().await.unwrap();
    let tasks = engine.enqueue_many((0..200).map(|n| Step { n })).await.unwrap();
    pass(SECOND / 10).await;
    let behind = tasks[150];
    assert_eq!(world.state(behind.id).await, TaskState::Running, "claimed ahead");
    assert_eq!(engine.cancel(vec![behind.id]).await.unwrap(), [CancelOutcome::Requested]);
    assert_eq!(engine.wait(&behind).await.unwrap(), TaskEnd::Cancelled);
    assert_eq!(engine.wait(&tasks[199]).await.unwrap(), TaskEnd::Succeeded(0));
    assert!(!ledger.entries().contains(&150));
}
