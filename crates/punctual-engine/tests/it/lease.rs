//! Losing the store, the lease or the process: nothing runs twice at once, nothing is lost, late finishes are refused.

use crate::calls::{Oops, Step, on};
use crate::world::{Ledger, SECOND, World, pass};
use punctual_clock::Clock;
use punctual_context::{CancelReason, Context};
use punctual_engine::{Engine, Handlers, OnDoubt, TaskEnd};
use punctual_task::{Outcome, Store, StoreErrorKind, TaskState};
use punctual_testkit::{Fault, Op};
use std::sync::Arc;

/// All that an engine asks of its store: what a cut connection stops.
const EVERYTHING: [Op; 12] = [
    Op::Now,
    Op::DrawIds,
    Op::Enqueue,
    Op::Claim,
    Op::Finish,
    Op::Renew,
    Op::Register,
    Op::Holdings,
    Op::HandBack,
    Op::Retire,
    Op::Rescue,
    Op::Materialise,
];

/// Runs for `seconds` and says when it began and how it ended.
fn runs_for(seconds: u32, ledger: &Arc<Ledger>) -> impl Handlers + use<> {
    let ledger = Arc::clone(ledger);
    on(move |step: Step| {
        ledger.add(step.n);
        async move {
            pass(SECOND * seconds).await;
            Ok(step.n)
        }
    })
}

/// Heeds its token, and says with which reason it came.
fn heeds(ledger: &Arc<Ledger>, world: &World) -> impl Handlers + use<> {
    let (ledger, clock) = (Arc::clone(ledger), Arc::clone(&world.clock));
    on(move |_: Step| {
        let (ledger, clock) = (Arc::clone(&ledger), Arc::clone(&clock));
        async move {
            let context = Context::current().expect("a handler has a context");
            let reason = context.cancelled().await;
            assert_eq!(reason, CancelReason::Disconnected);
            ledger.add(clock.timestamp().since(crate::world::START).as_secs());
            Err(Oops::new(1))
        }
    })
}

async fn until(mut reached: impl FnMut() -> bool) {
    while !reached() {
        pass(SECOND / 10).await;
    }
}

/// A worker that cannot renew stops its handlers 10 s after the sending of the last good renewal, starts nothing more, and
/// gives the tasks back once the store answers again: they are not failed, and no attempt is spent.
#[tokio::test(start_paused = true)]
async fn handlers_stop_before_the_lease_ends() {
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let engine = world.builder().serve(heeds(&ledger, &world)).start().await.unwrap();
    let worker = engine.worker();
    let task = engine.enqueue(Step { n: 1 }).await.unwrap();
    pass(SECOND * 4).await;
    // The last good renewal was sent at 3 s.
    world.store.fail_all(&[Op::Renew], Fault::Before(StoreErrorKind::Unavailable));
    pass(SECOND * 10).await;
    assert_eq!(ledger.entries(), [13]);
    let second = engine.enqueue(Step { n: 2 }).await.unwrap();
    pass(SECOND * 2).await;
    assert_eq!(world.state(second.id).await, TaskState::Waiting, "nothing starts in doubt");
    assert_eq!(engine.stats().doubts, 1);
    world.store.heal();
    pass(SECOND * 2).await;
    assert_eq!(engine.worker(), worker, "nobody declared it dead");
    assert_eq!(world.state(task.id).await, TaskState::Running, "it was given back and claimed again");
    let detail = world.detail(task.id).await;
    assert!(detail.attempts.is_empty(), "nothing was spent or recorded: {detail:?}");
    assert_eq!(engine.stats().leases_lost, 0);
}

/// The same when renewals hang without an error, as on a connection that is dead and does not know it.
#[tokio::test(start_paused = true)]
async fn renewals_that_hang_count_as_failed() {
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let engine = world.builder().serve(heeds(&ledger, &world)).start().await.unwrap();
    engine.enqueue(Step { n: 1 }).await.unwrap();
    pass(SECOND * 4).await;
    world.store.fail_all(&[Op::Renew], Fault::Hang);
    pass(SECOND * 10).await;
    assert_eq!(ledger.entries(), [13]);
    assert!(world.store.calls(Op::Renew) >= 4, "each hanging try is given up for another");
}

/// By choice, handlers go on while the lease is in doubt, and their result counts if the worker was not declared dead.
#[tokio::test(start_paused = true)]
async fn handlers_may_finish_in_doubt() {
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let builder = world.builder_with(|config| config.on_doubt = OnDoubt::Finish);
    let engine = builder.serve(runs_for(20, &ledger)).start().await.unwrap();
    let task = engine.enqueue(Step { n: 1 }).await.unwrap();
    pass(SECOND * 4).await;
    world.store.fail_all(&EVERYTHING, Fault::Before(StoreErrorKind::Unavailable));
    pass(SECOND * 20).await;
    world.store.heal();
    assert_eq!(engine.wait(&task).await.unwrap(), TaskEnd::Succeeded(1));
    assert_eq!(ledger.entries(), [1]);
}

/// A worker that is cut off is declared dead by another, which runs its task again; the first one's finish is refused,
/// and it comes back under a new registration.
#[tokio::test(start_paused = true)]
async fn a_late_finish_is_refused() {
    let world = World::new();
    let (first_ran, second_ran) = (Arc::new(Ledger::default()), Arc::new(Ledger::default()));
    let line = world.connection();
    // It insists on finishing, so that its finish comes late.
    let zombie = world
        .builder_on(&line, |config| config.on_doubt = OnDoubt::Finish)
        .serve(runs_for(30, &first_ran))
        .start()
        .await
        .unwrap();
    let task = zombie.enqueue(Step { n: 1 }).timeout(SECOND * 300).await.unwrap();
    pass(SECOND).await;
    let other = world.builder().serve(runs_for(40, &second_ran)).start().await.unwrap();
    let fence = zombie.worker();
    line.fail_all(&EVERYTHING, Fault::Before(StoreErrorKind::Unavailable));
    until(|| !second_ran.entries().is_empty()).await;
    assert!(world.seconds() <= 31, "rescued within the bound: {}", world.seconds());
    // The first handler has ended meanwhile; its line comes back while the second still runs.
    pass(SECOND * 20).await;
    line.heal();
    pass(SECOND * 5).await;
    assert_eq!(world.state(task.id).await, TaskState::Running, "the second one's");
    assert_eq!(zombie.stats().refused, 1);
    assert_eq!(zombie.stats().leases_lost, 1);
    assert!(zombie.worker() > fence, "a new fence");
    assert_eq!(other.wait(&task).await.unwrap(), TaskEnd::Succeeded(1));
    let attempts = world.detail(task.id).await.attempts;
    let told: Vec<_> = attempts.iter().map(|attempt| (attempt.n, attempt.outcome)).collect();
    assert_eq!(told, [(1, Outcome::Lost), (2, Outcome::Succeeded)]);
    assert_eq!((first_ran.entries().len(), second_ran.entries().len()), (1, 1));
    // The one that came back works again.
    let next = zombie.enqueue(Step { n: 2 }).await.unwrap();
    zombie.wait(&next).await.unwrap();
}

/// A process that was suspended for longer than its lease starts nothing that it had claimed ahead, even before its own
/// timers have told it anything; another worker runs all of it.
#[tokio::test(start_paused = true)]
async fn a_suspended_worker_starts_nothing() {
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let (ran, clock) = (Arc::clone(&ledger), Arc::clone(&world.clock));
    let handler = on(move |step: Step| {
        ran.add(step.n);
        let clock = Arc::clone(&clock);
        async move {
            // Quick ones first, so that the engine claims ahead; then one in whose middle the process is suspended.
            if step.n == 100 {
                pass(SECOND / 10).await;
                clock.suspend(SECOND * 20);
            }
            Ok(step.n)
        }
    });
    let sleeper = world.builder_with(|config| config.slots = 1).serve(handler).start().await.unwrap();
    let tasks = sleeper.enqueue_many((0..200).map(|n| Step { n })).await.unwrap();
    pass(SECOND / 5).await;
    assert_eq!(ledger.entries().last(), Some(&100));
    assert_eq!(world.state(tasks[150].id).await, TaskState::Running, "claimed ahead");
    let judge = world.store.register(info("judge"), SECOND * 15).await.unwrap();
    assert!(world.store.rescue(judge).await.unwrap().requeued >= 99);
    pass(SECOND * 4).await;
    assert_eq!(sleeper.stats().leases_lost, 1);
    while world.state(tasks[199].id).await != TaskState::Succeeded {
        pass(SECOND).await;
    }
    assert_eq!(ledger.counts().len(), 200);
    assert!(ledger.counts().into_iter().all(|(n, count)| count == 1 || n == 100), "{:?}", ledger.counts());
}

fn info(name: &str) -> punctual_task::WorkerInfo {
    punctual_task::WorkerInfo { name: name.to_owned(), slots: 1 }
}

/// An engine that is dropped without a shutdown holds its tasks until its lease ends; another rescues and runs them
/// within the stated bound of 30 s.
#[tokio::test(start_paused = true)]
async fn a_dropped_engine_is_rescued() {
    let world = World::new();
    let (lost, ran) = (Arc::new(Ledger::default()), Arc::new(Ledger::default()));
    let other = world.builder().start().await.unwrap();
    let engine = world.builder().serve(runs_for(1_000, &lost)).start().await.unwrap();
    let task = other.enqueue(Step { n: 1 }).await.unwrap();
    until(|| !lost.entries().is_empty()).await;
    let died = world.seconds();
    drop(engine);
    pass(SECOND / 10).await;
    let heir: Engine = world.builder().serve(runs_for(1, &ran)).start().await.unwrap();
    until(|| !ran.entries().is_empty()).await;
    assert!(world.seconds() - died <= 30, "{}", world.seconds() - died);
    assert_eq!(heir.wait(&task).await.unwrap(), TaskEnd::Succeeded(1));
    assert_eq!((heir.stats().workers_rescued, heir.stats().tasks_rescued), (1, 1));
}

/// After an outage of the store every lease looks ended. The worker that is back first kills nobody, since it has not
/// itself renewed without a break; all go on under their old registrations.
#[tokio::test(start_paused = true)]
async fn an_outage_kills_nobody() {
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let lines: Vec<_> = (0..3).map(|_| world.connection()).collect();
    let mut engines = Vec::new();
    for line in &lines {
        engines.push(world.builder_on(line, |_| {}).serve(runs_for(1, &ledger)).start().await.unwrap());
    }
    pass(SECOND * 60).await;
    let fences: Vec<_> = engines.iter().map(Engine::worker).collect();
    for line in &lines {
        line.fail_all(&EVERYTHING, Fault::Before(StoreErrorKind::Unavailable));
    }
    pass(SECOND * 300).await;
    for line in &lines {
        line.heal();
        pass(SECOND * 7).await;
    }
    pass(SECOND * 60).await;
    assert_eq!(engines.iter().map(Engine::worker).collect::<Vec<_>>(), fences);
    assert!(engines.iter().all(|engine| engine.stats().workers_rescued == 0 && engine.stats().leases_lost == 0));
    let task = engines[0].enqueue(Step { n: 9 }).await.unwrap();
    assert_eq!(engines[1].wait(&task).await.unwrap(), TaskEnd::Succeeded(9));
}
