//! Stopping in order.

use crate::calls::{Oops, Step, on};
use crate::world::{Ledger, SECOND, World, pass};
use punctual_clock::Clock;
use punctual_context::{CancelReason, Context};
use punctual_engine::TaskEnd;
use punctual_task::{Store, StoreErrorKind, TaskState};
use punctual_testkit::{Fault, Op};
use std::sync::Arc;
use std::time::Duration;

/// What ends within the grace is recorded; what does not is cancelled and given back, not failed; what waited is given
/// back at once; the worker is retired, so that another engine goes on without waiting for a lease.
#[tokio::test(start_paused = true)]
async fn a_shutdown_hands_back() {
    let world = World::new();
    let handler = on(|step: Step| async move {
        if step.n == 0 {
            pass(SECOND * 2).await;
            return Ok(0);
        }
        let context = Context::current().expect("a handler has a context");
        let reason = context.cancelled().await;
        assert_eq!(reason, CancelReason::Shutdown);
        Err(Oops::new(1))
    });
    let engine = world.builder_with(|config| config.slots = 2).serve(handler).start().await.unwrap();
    let tasks = engine.enqueue_many((0..5).map(|n| Step { n })).await.unwrap();
    pass(SECOND).await;
    let report = engine.shutdown(SECOND * 5).await;
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(world.seconds(), 6, "the grace, and no more for a handler that heeds its token");
    assert_eq!(engine.outcome::<Step>(tasks[0].id).await.unwrap(), Some(TaskEnd::Succeeded(0)));
    for task in &tasks[1..] {
        let detail = world.detail(task.id).await;
        assert_eq!(detail.view.state, TaskState::Waiting);
        assert!(detail.attempts.is_empty(), "nothing was spent: {detail:?}");
    }
    assert!(world.store.workers().await.unwrap().is_empty());
    let ledger = Arc::new(Ledger::default());
    let ran = Arc::clone(&ledger);
    let handler = on(move |step: Step| {
        ran.add(step.n);
        async { Ok(1) }
    });
    let heir = world.builder().serve(handler).start().await.unwrap();
    assert_eq!(heir.wait(&tasks[4]).await.unwrap(), TaskEnd::Succeeded(1));
    assert_eq!(ledger.entries(), [1, 2, 3, 4]);
    assert_eq!(world.seconds(), 6);
}

/// An idle engine stops at once, also when asked twice; it can still enqueue afterwards and runs nothing.
#[tokio::test(start_paused = true)]
async fn an_idle_engine_stops_at_once() {
    let world = World::new();
    let engine = world.builder().serve(on(|_: Step| async { Ok(1) })).start().await.unwrap();
    assert!(engine.shutdown(SECOND * 60).await.is_clean());
    assert!(engine.shutdown(SECOND * 60).await.is_clean());
    assert!(world.seconds() == 0, "{}", world.seconds());
    let claims = world.store.calls(Op::Claim);
    let task = engine.enqueue(Step { n: 1 }).await.unwrap();
    pass(SECOND * 60).await;
    assert_eq!(world.state(task.id).await, TaskState::Waiting);
    assert_eq!(world.store.calls(Op::Claim), claims);
}

/// With the store away, a shutdown ends within its bounds and says what it could not do.
#[tokio::test(start_paused = true)]
async fn a_shutdown_is_bounded_without_the_store() {
    let world = World::new();
    let handler = on(|step: Step| async move {
        pass(SECOND * 3).await;
        Ok(step.n)
    });
    let engine = world.builder().serve(handler).start().await.unwrap();
    engine.enqueue(Step { n: 1 }).await.unwrap();
    pass(SECOND).await;
    for fault in [Op::Finish, Op::HandBack, Op::Retire, Op::Renew, Op::Claim] {
        world.store.fail_all(&[fault], Fault::Hang);
    }
    let report = engine.shutdown(SECOND * 4).await;
    assert_eq!((report.unrecorded, report.retired), (1, false));
    assert!(!report.is_clean());
    assert!(world.seconds() <= 1 + 4 + 3 + 5 + 3, "{}", world.seconds());
}

/// A store that is only slow to come back is waited for: what ended during a shutdown is recorded.
#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_the_records() {
    let world = World::new();
    let engine = world.builder().serve(on(|step: Step| async move { Ok(step.n) })).start().await.unwrap();
    world.store.fail_next(Op::Finish, Fault::After(StoreErrorKind::Unavailable), 3);
    let task = engine.enqueue(Step { n: 4 }).await.unwrap();
    tokio::task::yield_now().await;
    let report = engine.shutdown(SECOND).await;
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(engine.outcome::<Step>(task.id).await.unwrap(), Some(TaskEnd::Succeeded(4)));
}

/// A handler that blocks its thread cannot be stopped: the shutdown ends all the same and names it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stuck_handler_is_named() {
    use punctual_clock::SystemClock;
    use punctual_engine::{Engine, EngineConfig};
    use punctual_task::MemStore;

    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let (entered, has_entered) = tokio::sync::oneshot::channel::<()>();
    let (blocked, entered) = (std::sync::Mutex::new(blocked), std::sync::Mutex::new(Some(entered)));
    let handler = on(move |step: Step| {
        if let Some(entered) = entered.lock().unwrap().take() {
            entered.send(()).unwrap();
        }
        // Until the test ends: no token reaches a thread that waits like this.
        let _ = blocked.lock().unwrap().recv();
        async move { Ok(step.n) }
    });
    let mut config = EngineConfig::default();
    config.stop_grace = Duration::from_millis(1);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let engine = Engine::builder(Arc::new(MemStore::new(clock))).config(config).serve(handler).start().await.unwrap();
    let task = engine.enqueue(Step { n: 1 }).await.unwrap();
    has_entered.await.unwrap();
    let report = engine.shutdown(Duration::from_millis(1)).await;
    assert_eq!(report.stuck, [(task.id, "Test/step".to_owned())]);
    assert!(!report.retired, "what it holds is rescued once the lease has ended");
    release.send(()).unwrap();
}

/// After its shutdown an engine still enqueues and waits, at the pace of before: a wait that nothing holds up would look
/// at the store as fast as it can.
#[tokio::test(start_paused = true)]
async fn waits_after_a_shutdown_are_paced() {
    let world = World::new();
    let engine = world.builder_with(|config| config.enqueue_wait = SECOND * 30).start().await.unwrap();
    assert!(engine.shutdown(SECOND).await.is_clean());
    let task = engine.enqueue(Step { n: 1 }).delay(SECOND * 20).await.unwrap();
    let other = world.builder().serve(on(|step: Step| async move { Ok(step.n) })).start().await.unwrap();
    let looked = world.store.calls(Op::Task);
    assert_eq!(engine.wait(&task).await.unwrap(), TaskEnd::Succeeded(1));
    assert!(world.store.calls(Op::Task) - looked < 40, "{}", world.store.calls(Op::Task) - looked);
    assert!(other.shutdown(SECOND).await.is_clean());

    world.store.fail_all(&[Op::DrawIds, Op::Enqueue], Fault::Before(StoreErrorKind::Unavailable));
    let began = world.seconds();
    engine.enqueue(Step { n: 2 }).await.expect_err("the store is away");
    assert!((30..40).contains(&(world.seconds() - began)), "{}", world.seconds() - began);
}
