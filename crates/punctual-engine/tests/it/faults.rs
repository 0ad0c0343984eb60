//! A store that fails before a write, after it, or by chance: nothing is lost and nothing is done twice.

use crate::calls::{Step, on};
use crate::world::{Ledger, SECOND, World, pass};
use punctual_engine::{ErrorKind, Handlers, TaskEnd};
use punctual_task::{Page, Store, StoreErrorKind, TaskFilter, TaskState};
use punctual_testkit::{Fault, Op};
use std::sync::Arc;

const UNAVAILABLE: StoreErrorKind = StoreErrorKind::Unavailable;

fn counting(ledger: &Arc<Ledger>) -> impl Handlers + use<> {
    let ledger = Arc::clone(ledger);
    on(move |step: Step| {
        ledger.add(step.n);
        async move { Ok(step.n) }
    })
}

/// An enqueue into a store that is away fails with an error that says whether the task may be there; by choice it waits,
/// and a write whose reply was lost is not written twice.
#[tokio::test(start_paused = true)]
async fn enqueues_fail_clearly_or_wait() {
    let world = World::new();
    let engine = world.builder().start().await.unwrap();
    engine.enqueue(Step { n: 0 }).await.unwrap();
    world.store.fail_next(Op::Enqueue, Fault::Before(UNAVAILABLE), 1);
    let error = engine.enqueue(Step { n: 1 }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.is_retryable() && error.to_string().contains("look for task"), "{error}");
    world.store.fail_next(Op::Enqueue, Fault::Before(StoreErrorKind::Full), 1);
    let error = engine.enqueue(Step { n: 1 }).await.unwrap_err();
    assert!(error.to_string().contains("was not enqueued"), "{error}");

    let patient = world.builder_with(|config| config.enqueue_wait = SECOND * 30).start().await.unwrap();
    world.store.fail_next(Op::DrawIds, Fault::Before(UNAVAILABLE), 2);
    world.store.fail_next(Op::Enqueue, Fault::After(UNAVAILABLE), 3);
    let task = patient.enqueue(Step { n: 2 }).await.unwrap();
    assert!(task.inserted);
    let all = world.store.tasks(TaskFilter::default(), Page::default()).await.unwrap();
    assert_eq!(all.len(), 2);

    world.store.fail_all(&[Op::Enqueue], Fault::Before(UNAVAILABLE));
    let before = world.seconds();
    patient.enqueue(Step { n: 3 }).await.unwrap_err();
    assert_eq!(world.seconds() - before, 30, "it waits as long as it was told, and no longer");
}

/// A claim whose reply was lost holds tasks that nobody knows: they are given back and run, once.
#[tokio::test(start_paused = true)]
async fn a_lost_claim_is_given_back() {
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let engine = world.builder().serve(counting(&ledger)).start().await.unwrap();
    world.store.fail_next(Op::Claim, Fault::After(UNAVAILABLE), 3);
    let tasks = engine.enqueue_many((0..50).map(|n| Step { n })).await.unwrap();
    for task in &tasks {
        engine.wait(task).await.unwrap();
    }
    assert_eq!(ledger.counts().len(), 50);
    assert!(ledger.counts().into_values().all(|count| count == 1));
    assert!(engine.stats().handed_back >= 50, "{:?}", engine.stats());
    assert!(world.seconds() < 2, "without waiting for a lease: {}", world.seconds());
}

/// A finish whose reply was lost is sent again and counts once; one that was not written is not lost.
#[tokio::test(start_paused = true)]
async fn finishes_are_sent_until_answered() {
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let engine = world.builder().serve(counting(&ledger)).start().await.unwrap();
    world.store.fail_next(Op::Finish, Fault::After(UNAVAILABLE), 2);
    world.store.fail_next(Op::Finish, Fault::Before(StoreErrorKind::Full), 2);
    world.store.fail_next(Op::Finish, Fault::After(StoreErrorKind::Busy), 1);
    let tasks = engine.enqueue_many((0..10).map(|n| Step { n })).await.unwrap();
    for (n, task) in tasks.iter().enumerate() {
        assert_eq!(engine.wait(task).await.unwrap(), TaskEnd::Succeeded(u64::try_from(n).unwrap()));
        assert_eq!(world.detail(task.id).await.attempts.len(), 1);
    }
    pass(SECOND * 60).await;
    assert_eq!(ledger.entries().len(), 10);
    assert_eq!(engine.stats().refused, 0);
}

/// A hand-back whose reply was lost does not take away what was claimed again meanwhile.
#[tokio::test(start_paused = true)]
async fn a_lost_hand_back_is_harmless() {
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let engine = world.builder().serve(counting(&ledger)).start().await.unwrap();
    world.store.fail_next(Op::Claim, Fault::After(UNAVAILABLE), 1);
    world.store.fail_next(Op::Holdings, Fault::After(UNAVAILABLE), 2);
    world.store.fail_next(Op::HandBack, Fault::After(UNAVAILABLE), 2);
    let tasks = engine.enqueue_many((0..20).map(|n| Step { n })).await.unwrap();
    for task in &tasks {
        engine.wait(task).await.unwrap();
    }
    assert!(ledger.counts().into_values().all(|count| count == 1), "{:?}", ledger.counts());
}

/// A sweep whose reply was lost creates no slot twice and its occurrences run.
#[tokio::test(start_paused = true)]
async fn a_lost_sweep_creates_nothing_twice() {
    use punctual_task::schedule::Every;
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let engine = world.builder().serve(counting(&ledger)).start().await.unwrap();
    engine.schedule("each", Every::new(SECOND * 10), Step { n: 3 }).await.unwrap();
    pass(SECOND).await;
    world.store.fail_next(Op::Materialise, Fault::After(UNAVAILABLE), 40);
    pass(SECOND * 100).await;
    assert_eq!(ledger.entries().len(), 10);
}

/// By chance, one call in ten fails, half of these after the write: every task still runs to one recorded end, and each
/// runs once, since no lease was lost.
#[tokio::test(start_paused = true)]
async fn random_faults_lose_nothing() {
    for seed in 0..10 {
        let world = World::new();
        let ledger = Arc::new(Ledger::default());
        let builder = world.builder_with(|config| {
            config.enqueue_wait = SECOND * 600;
            config.slots = 8;
        });
        let engine = builder.serve(counting(&ledger)).start().await.unwrap();
        world.store.fail_by_chance(seed, 100);
        for chunk in 0..10 {
            engine.enqueue_many((0..30).map(|n| Step { n: chunk * 30 + n })).await.unwrap();
            pass(SECOND).await;
        }
        pass(SECOND * 30).await;
        world.store.heal();
        pass(SECOND * 60).await;
        let ended = TaskFilter { state: Some(TaskState::Succeeded), ..TaskFilter::default() };
        let page = Page { before: None, limit: Page::LIMIT_MAX };
        let ended = world.store.tasks(ended, page).await.unwrap();
        let all = world.store.tasks(TaskFilter::default(), page).await.unwrap();
        assert_eq!((all.len(), ended.len()), (300, 300), "seed {seed}");
        let counts = ledger.counts();
        assert_eq!(counts.len(), 300, "seed {seed}");
        assert!(counts.values().all(|count| *count == 1), "seed {seed}: {counts:?}");
        assert!(world.store.holdings(engine.worker().unwrap()).await.unwrap().is_empty(), "seed {seed}");
    }
}

/// A panic while ends are recorded loses none of them: they go back to the queue and are recorded by the next try.
#[tokio::test(start_paused = true)]
async fn a_panic_loses_no_record() {
    let world = World::new();
    let ledger = Arc::default();
    let engine = world.builder().serve(counting(&ledger)).start().await.unwrap();
    world.store.fail_next(Op::Finish, Fault::Panic, 1);
    let tasks = engine.enqueue_many((0..5).map(|n| Step { n })).await.unwrap();
    for (n, task) in (0..).zip(&tasks) {
        assert_eq!(engine.wait(task).await.unwrap(), TaskEnd::Succeeded(n));
    }
    assert_eq!(ledger.entries().len(), 5, "each ran once");
    assert!(engine.shutdown(SECOND * 5).await.is_clean());
}
