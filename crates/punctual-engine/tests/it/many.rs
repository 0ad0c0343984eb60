//! Many tasks, and more than one engine.

use crate::calls::{Step, on};
use crate::world::{Ledger, SECOND, World, pass};
use punctual_clock::Clock;
use punctual_engine::{Engine, Handlers};
use punctual_task::{Store, TaskFilter, TaskState};
use punctual_testkit::Op;
use std::sync::Arc;
use std::time::Duration;

fn counting(ledger: &Arc<Ledger>, takes: Duration) -> impl Handlers + use<> {
    let ledger = Arc::clone(ledger);
    on(move |step: Step| {
        ledger.add(step.n);
        async move {
            if !takes.is_zero() {
                pass(takes).await;
            }
            Ok(step.n)
        }
    })
}

async fn drained(world: &World, engine: &Engine, count: u64) {
    while engine.stats().finished < count {
        pass(SECOND / 100).await;
    }
    let left = TaskFilter { state: Some(TaskState::Waiting), ..TaskFilter::default() };
    assert!(world.store.tasks(left, punctual_task::Page::default()).await.unwrap().is_empty());
}

/// A backlog is claimed and finished in batches: the number of store calls is a small share of the tasks, and each task
/// runs once.
#[tokio::test(start_paused = true)]
async fn a_backlog_drains_in_batches() {
    const TASKS: u64 = 20_000;
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let producer = world.builder().start().await.unwrap();
    producer.enqueue_many((0..TASKS).map(|n| Step { n })).await.unwrap();
    assert_eq!(world.store.calls(Op::Enqueue), TASKS / 1_000);
    let engine = world.builder().serve(counting(&ledger, Duration::ZERO)).start().await.unwrap();
    drained(&world, &engine, TASKS).await;
    assert_eq!(ledger.entries().len(), 20_000);
    assert!(ledger.counts().into_values().all(|count| count == 1));
    let (claims, finishes) = (world.store.calls(Op::Claim), world.store.calls(Op::Finish));
    assert!(claims <= 60, "{claims} claims");
    assert!(finishes <= 60, "{finishes} finishes");
    let stats = engine.stats();
    assert_eq!((stats.claimed, stats.finished, stats.succeeded), (TASKS, TASKS, TASKS));
}

/// Slots that wait for others are all in use: tasks of 10 ms on 16 slots take the time that 16 slots need.
#[tokio::test(start_paused = true)]
async fn waiting_tasks_fill_the_slots() {
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let producer = world.builder().start().await.unwrap();
    producer.enqueue_many((0..1_600).map(|n| Step { n })).await.unwrap();
    let begun = world.clock.now();
    let engine =
        world.builder_with(|config| config.slots = 16).serve(counting(&ledger, SECOND / 100)).start().await.unwrap();
    drained(&world, &engine, 1_600).await;
    let took = world.clock.now().since(begun);
    assert!(took <= Duration::from_millis(1_150), "ideal is 1 s, it took {took:?}");
    assert!(world.store.calls(Op::Claim) <= 30, "{}", world.store.calls(Op::Claim));
}

/// Slow tasks are not hoarded: what one engine cannot begin soon is left to the other.
#[tokio::test(start_paused = true)]
async fn slow_tasks_are_shared() {
    let world = World::new();
    let (left, right) = (Arc::new(Ledger::default()), Arc::new(Ledger::default()));
    let first =
        world.builder_with(|config| config.slots = 2).serve(counting(&left, SECOND * 10)).start().await.unwrap();
    first.enqueue_many((0..8).map(|n| Step { n })).await.unwrap();
    pass(SECOND).await;
    assert_eq!(first.stats().claimed, 2);
    let second =
        world.builder_with(|config| config.slots = 2).serve(counting(&right, SECOND * 10)).start().await.unwrap();
    pass(SECOND * 25).await;
    assert_eq!((left.entries().len() + right.entries().len(), right.entries().len() >= 3), (8, true));
    assert_eq!(second.stats().refused, 0);
}

/// A fast backlog that turns slow is given back, so that an idle engine takes it over.
#[tokio::test(start_paused = true)]
async fn a_backlog_that_turns_slow_is_given_back() {
    let world = World::new();
    let handler = |ledger: &Arc<Ledger>| {
        let ledger = Arc::clone(ledger);
        on(move |step: Step| {
            ledger.add(step.n);
            async move {
                if step.n >= 500 {
                    pass(SECOND * 20).await;
                }
                Ok(0)
            }
        })
    };
    let (left, right) = (Arc::new(Ledger::default()), Arc::new(Ledger::default()));
    let producer = world.builder().start().await.unwrap();
    producer.enqueue_many((0..600).map(|n| Step { n })).await.unwrap();
    let first = world.builder_with(|config| config.slots = 4).serve(handler(&left)).start().await.unwrap();
    pass(SECOND * 5).await;
    assert_eq!(left.entries().len(), 504);
    assert!(first.stats().handed_back > 0, "{:?}", first.stats());
    let _second = world.builder_with(|config| config.slots = 64).serve(handler(&right)).start().await.unwrap();
    pass(SECOND * 5).await;
    assert_eq!(right.entries().len(), 64);
}

/// Two engines on one store never run a task twice, and both work.
#[tokio::test(start_paused = true)]
async fn two_engines_share_without_doubling() {
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let producer = world.builder().start().await.unwrap();
    let mut engines = Vec::new();
    for _ in 0..2 {
        let handlers = counting(&ledger, SECOND / 1_000);
        engines.push(world.builder_with(|config| config.slots = 8).serve(handlers).start().await.unwrap());
    }
    for chunk in 0..20 {
        producer.enqueue_many((0..100).map(|n| Step { n: chunk * 100 + n })).await.unwrap();
        pass(SECOND / 10).await;
    }
    pass(SECOND * 5).await;
    assert_eq!(ledger.entries().len(), 2_000);
    assert!(ledger.counts().into_values().all(|count| count == 1));
    let shares: Vec<u64> = engines.iter().map(|engine| engine.stats().finished).collect();
    assert_eq!(shares.iter().sum::<u64>(), 2_000);
    assert!(shares.iter().all(|share| *share > 200), "{shares:?}");
}
