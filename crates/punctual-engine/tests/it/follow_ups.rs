//! What a handler says beside its result: what follows its task, and what its error means.

use crate::calls::{Oops, Step, on};
use crate::world::{SECOND, World};
use punctual_context::Context;
use punctual_engine::{Attempt, Engine, ErrorKind, TaskEnd, Verdict};
use punctual_task::{KeyMode, Outcome, Page, Store, StoreErrorKind, TaskFilter, TaskState, UniqueKey};
use punctual_testkit::{Fault, Op};
use std::sync::{Arc, OnceLock};

/// Where the handlers of these tests find the engine.
type Slot = Arc<OnceLock<Engine>>;

/// An engine whose handler of `n` below 10 has `n * 10` follow its success and `n * 10 + 1` its failure; 2 always fails.
async fn engine(world: &World) -> Engine {
    let slot = Slot::default();
    let own = Arc::clone(&slot);
    let handler = move |step: Step| {
        let slot = Arc::clone(&own);
        async move {
            if step.n < 10 {
                let engine = slot.get().unwrap();
                engine.enqueue(Step { n: step.n * 10 }).key(format!("good {}", step.n)).after_success().unwrap();
                engine.enqueue(Step { n: step.n * 10 + 1 }).delay(SECOND * 5).after_failure().unwrap();
            }
            if step.n == 2 { Err(Oops::new(2)) } else { Ok(step.n) }
        }
    };
    let engine = world.builder().serve(on(handler)).start().await.unwrap();
    assert!(slot.set(engine.clone()).is_ok());
    engine
}

/// The steps that are in the store, in order.
async fn steps(world: &World) -> Vec<u64> {
    let mut steps = Vec::new();
    for view in world.store.tasks(TaskFilter::default(), Page { before: None, limit: 1000 }).await.unwrap() {
        steps.push(serde_json::from_slice::<Step>(&world.detail(view.id).await.args).unwrap().n);
    }
    steps.sort_unstable();
    steps
}

async fn settled(world: &World) {
    loop {
        let waits = TaskFilter { state: Some(TaskState::Waiting), ..TaskFilter::default() };
        let runs = TaskFilter { state: Some(TaskState::Running), ..TaskFilter::default() };
        let page = Page::default();
        let (waits, runs) = (world.store.tasks(waits, page).await, world.store.tasks(runs, page).await);
        if waits.is_ok_and(|tasks| tasks.is_empty()) && runs.is_ok_and(|tasks| tasks.is_empty()) {
            return;
        }
        tokio::time::sleep(SECOND).await;
    }
}

/// What follows a success comes with it, what follows a failure only with the last attempt, and both run.
#[tokio::test(start_paused = true)]
async fn follow_ups_come_with_the_end() {
    let world = World::new();
    let engine = engine(&world).await;
    let good = engine.enqueue(Step { n: 1 }).await.unwrap();
    assert_eq!(engine.wait(&good).await.unwrap(), TaskEnd::Succeeded(1));
    assert_eq!(steps(&world).await, [1, 10]);
    let bad = engine.enqueue(Step { n: 2 }).await.unwrap();
    assert!(engine.wait(&bad).await.unwrap().failed().is_some());
    assert_eq!(world.detail(bad.id).await.attempts.len(), 3);
    settled(&world).await;
    assert_eq!(steps(&world).await, [1, 2, 10, 21]);
    assert_eq!(engine.stats().succeeded, 3);
}

/// A store whose replies are lost, or that fails before it writes, gets the same follow-ups again and has each once.
#[tokio::test(start_paused = true)]
async fn follow_ups_survive_lost_replies() {
    let world = World::new();
    let engine = engine(&world).await;
    world.store.fail_next(Op::Finish, Fault::After(StoreErrorKind::Unavailable), 2);
    world.store.fail_next(Op::Finish, Fault::Before(StoreErrorKind::Busy), 2);
    let tasks = engine.enqueue_many((3..9).map(|n| Step { n })).await.unwrap();
    for task in &tasks {
        assert!(engine.wait(task).await.unwrap().succeeded().is_some());
    }
    settled(&world).await;
    assert_eq!(steps(&world).await, [3, 4, 5, 6, 7, 8, 30, 40, 50, 60, 70, 80]);
    assert!(world.store.calls(Op::Finish) > 4);
}

/// What cannot follow is refused where it is said: outside of a handler, beyond the limit, with a key that would refuse the end,
/// and after the handler has ended.
#[tokio::test(start_paused = true)]
async fn wrong_follow_ups_are_refused_at_once() {
    let world = World::new();
    let slot = Slot::default();
    let (own, left) = (Arc::clone(&slot), Arc::new(OnceLock::new()));
    let context = Arc::clone(&left);
    let handler = move |step: Step| {
        let (slot, context) = (Arc::clone(&own), Arc::clone(&context));
        async move {
            let engine = slot.get().unwrap();
            let refused = |result: Result<(), punctual_engine::Error>| result.unwrap_err().kind();
            if step.n == 1 {
                let rejecting = UniqueKey { mode: KeyMode::Reject, ..UniqueKey::new("k") };
                assert_eq!(
                    refused(engine.enqueue(Step { n: 5 }).unique(rejecting).after_success()),
                    ErrorKind::Refused
                );
                assert_eq!(refused(engine.enqueue(Step { n: 5 }).queue("").after_success()), ErrorKind::Refused);
                let many = (0..101).map(|_| Step { n: 5 });
                assert_eq!(refused(engine.enqueue_many(many).after_failure()), ErrorKind::Refused);
                engine.enqueue_many((0..100).map(|_| Step { n: 6 })).after_failure().unwrap();
                assert_eq!(refused(engine.enqueue(Step { n: 5 }).after_success()), ErrorKind::Refused);
                drop(context.set(Context::current().unwrap()));
            }
            Ok(step.n)
        }
    };
    let engine = world.builder().serve(on(handler)).start().await.unwrap();
    assert!(slot.set(engine.clone()).is_ok());
    assert_eq!(engine.enqueue(Step { n: 5 }).after_success().unwrap_err().kind(), ErrorKind::Refused);
    assert!(Attempt::current().is_none());
    let task = engine.enqueue(Step { n: 1 }).await.unwrap();
    assert_eq!(engine.wait(&task).await.unwrap(), TaskEnd::Succeeded(1));
    let late = engine.clone();
    let after = left.get().unwrap().clone().scope(async move { late.enqueue(Step { n: 5 }).after_success() }).await;
    assert_eq!(after.unwrap_err().kind(), ErrorKind::Refused);
    assert!(!Attempt::of(left.get().unwrap()).unwrap().on_error(Verdict::Cancel));
    assert_eq!(steps(&world).await, [1]);
}

/// An attempt says what its error means where the error's type cannot: a snooze spends nothing, a dead letter and a cancel end
/// the task; of a result it changes nothing.
#[tokio::test(start_paused = true)]
async fn an_attempt_says_what_its_error_means() {
    let world = World::new();
    let handler = |step: Step| async move {
        let attempt = Attempt::current().unwrap();
        let n = Context::current().unwrap().task().unwrap().attempt;
        match step.n {
            1 if n <= 4 => assert!(attempt.on_error(Verdict::Snooze(SECOND * 3))),
            2 => assert!(attempt.on_error(Verdict::DeadLetter)),
            3 => assert!(attempt.on_error(Verdict::Snooze(SECOND)) && attempt.on_error(Verdict::Cancel)),
            _ => {
                assert!(attempt.on_error(Verdict::DeadLetter));
                return Ok(n.into());
            }
        }
        Err(Oops::new(1))
    };
    let engine = world.builder().serve(on(handler)).start().await.unwrap();
    let tasks = engine.enqueue_many((1..=3).map(|n| Step { n })).await.unwrap();
    assert_eq!(engine.wait(&tasks[0]).await.unwrap(), TaskEnd::Succeeded(5));
    assert_eq!(world.seconds(), 12);
    let outcomes: Vec<Outcome> =
        world.detail(tasks[0].id).await.attempts.iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(outcomes, [[Outcome::Snoozed; 4].as_slice(), &[Outcome::Succeeded]].concat());
    assert!(engine.wait(&tasks[1]).await.unwrap().failed().is_some());
    assert_eq!(world.detail(tasks[1].id).await.attempts.len(), 1);
    assert_eq!(engine.wait(&tasks[2]).await.unwrap(), TaskEnd::Cancelled);
}
