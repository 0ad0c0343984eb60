//! Tasks that a dead worker held: alone, never claimed ahead, and failed after the third loss.

use crate::calls::{Oops, Step, on};
use crate::world::{Ledger, SECOND, World, pass};
use punctual_engine::{Engine, TaskEnd};
use punctual_task::schedule::Every;
use punctual_task::{ClaimRequest, Outcome, ScheduleState, Store, Sweep, TaskId, WorkerInfo};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A worker that claims all there is and dies.
async fn die_holding(world: &World) -> u32 {
    let info = WorkerInfo { name: "dying".to_owned(), slots: 100 };
    let dying = world.store.register(info, SECOND).await.unwrap();
    let mut held = 0;
    loop {
        let request = ClaimRequest { queue: None, methods: vec!["Test/step".to_owned()], limit: 1_000, suspects: true };
        let claimed = world.store.claim(dying, request).await.unwrap().tasks.len();
        if claimed == 0 {
            break;
        }
        held += claimed;
    }
    pass(SECOND * 2).await;
    let info = WorkerInfo { name: "judge".to_owned(), slots: 1 };
    let judge = world.store.register(info, SECOND).await.unwrap();
    let rescue = world.store.rescue(judge).await.unwrap();
    world.store.retire(judge).await.unwrap();
    assert_eq!(usize::try_from(rescue.requeued + rescue.failed).unwrap(), held);
    rescue.requeued
}

/// Suspects run one at a time, beside other tasks, and all of them run.
#[tokio::test(start_paused = true)]
async fn suspects_run_one_at_a_time() {
    let world = World::new();
    let (busy, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let ledger = Arc::new(Ledger::default());
    let (now, peak, ran) = (Arc::clone(&busy), Arc::clone(&most), Arc::clone(&ledger));
    let handler = on(move |step: Step| {
        let (now, peak, ran) = (Arc::clone(&now), Arc::clone(&peak), Arc::clone(&ran));
        async move {
            ran.add(step.n);
            if step.n < 10 {
                peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                pass(SECOND).await;
                now.fetch_sub(1, Ordering::SeqCst);
            }
            Ok(step.n)
        }
    });
    let producer: Engine = world.builder().start().await.unwrap();
    producer.enqueue_many((0..10).map(|n| Step { n })).await.unwrap();
    assert_eq!(die_holding(&world).await, 10);
    let others = producer.enqueue_many((10..500).map(|n| Step { n })).await.unwrap();
    let engine = world.builder_with(|config| config.slots = 4).serve(handler).start().await.unwrap();
    assert_eq!(engine.wait(&others[489]).await.unwrap(), TaskEnd::Succeeded(499));
    assert!(world.seconds() < 10, "the others did not wait for the suspects: {}", world.seconds());
    while ledger.entries().len() < 500 {
        pass(SECOND / 10).await;
        let held = world.store.holdings(engine.worker().unwrap()).await.unwrap().len();
        assert!(held <= 1, "a suspect is never claimed ahead: {held} held");
    }
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

/// A worker whose slots are never idle still gets to its suspects.
#[tokio::test(start_paused = true)]
async fn a_busy_worker_keeps_a_slot_for_suspects() {
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let ran = Arc::clone(&ledger);
    let handler = on(move |step: Step| {
        let ran = Arc::clone(&ran);
        async move {
            ran.add(step.n);
            pass(SECOND / 2).await;
            Ok(step.n)
        }
    });
    let producer = world.builder().start().await.unwrap();
    producer.enqueue_many((0..3).map(|n| Step { n })).await.unwrap();
    assert_eq!(die_holding(&world).await, 3);
    producer.enqueue_many((10..200).map(|n| Step { n })).await.unwrap();
    let _engine = world.builder_with(|config| config.slots = 2).serve(handler).start().await.unwrap();
    pass(SECOND * 15).await;
    let entries = ledger.entries();
    assert!([0, 1, 2].iter().all(|n| entries.contains(n)), "{entries:?}");
    assert!(entries.len() < 100, "the backlog is still there");
}

/// A failure that a rescuer writes counts like any other: it pauses a schedule that allows no more.
#[tokio::test(start_paused = true)]
async fn a_failure_by_losses_pauses_a_schedule() {
    let world = World::new();
    let producer = world.builder().start().await.unwrap();
    let hourly = Every::new(SECOND * 3_600);
    producer.schedule("dies", hourly, Step { n: 1 }).pause_after(1).await.unwrap();
    pass(SECOND * 3_600).await;
    world.store.materialise(Sweep::default()).await.unwrap();
    assert_eq!(die_holding(&world).await, 1);
    assert_eq!(die_holding(&world).await, 1);
    let last = world.store.register(WorkerInfo { name: "last".to_owned(), slots: 1 }, SECOND).await.unwrap();
    let request = ClaimRequest { queue: None, methods: vec!["Test/step".to_owned()], limit: 1, suspects: true };
    assert_eq!(world.store.claim(last, request).await.unwrap().tasks.len(), 1);
    // This one finds it dead.
    let handler = on(|_: Step| async { Err(Oops::new(1)) });
    let engine = world.builder().serve(handler).start().await.unwrap();
    pass(SECOND * 60).await;
    let position = engine.store().schedule("dies".to_owned()).await.unwrap().unwrap().position;
    assert_eq!(position.state, ScheduleState::Paused);
    assert!(position.note.contains("1 tasks failed in a row"), "{}", position.note);
}

/// The third loss in a row fails the task: it may be what kills its workers. Losses spend no attempt.
#[tokio::test(start_paused = true)]
async fn the_third_loss_fails() {
    let world = World::new();
    let engine = world.builder().start().await.unwrap();
    let task = engine.enqueue(Step { n: 1 }).attempts(1).await.unwrap();
    assert_eq!(die_holding(&world).await, 1);
    assert_eq!(die_holding(&world).await, 1);
    assert_eq!(die_holding(&world).await, 0);
    let error = engine.wait(&task).await.unwrap().failed().unwrap();
    assert_eq!(error.outcome, Outcome::Lost);
    let attempts = world.detail(TaskId(task.id.0)).await.attempts;
    assert_eq!(attempts.len(), 3);
}
