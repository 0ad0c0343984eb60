//! Schedules through the engine: slots run, missed ones are decided, operators steer.

use crate::calls::{Oops, Step, on};
use crate::world::{Ledger, SECOND, START, World, pass};
use punctual_clock::Clock;
use punctual_context::{Context, SlotScope};
use punctual_engine::Handlers;
use punctual_task::schedule::{Cron, Every};
use punctual_task::{
    Declared, LossReason, Missed, Overflow, Overlap, Resume, ScheduleCommand, ScheduleState, Steered, Store,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// Keeps the slot that each run served.
fn keeping(slots: &Arc<Mutex<Vec<SlotScope>>>) -> impl Handlers + use<> {
    let slots = Arc::clone(slots);
    on(move |_: Step| {
        let scope = Context::current().expect("a handler has a context").task().and_then(|task| task.slot.clone());
        slots.lock().unwrap().push(scope.expect("of an occurrence"));
        async { Ok(0) }
    })
}

/// Each slot runs once, on time, in order, and the handler knows which it serves: instant, wall time, run number.
#[tokio::test(start_paused = true)]
async fn each_slot_runs_once() {
    let world = World::new();
    let slots = Arc::new(Mutex::new(Vec::new()));
    let engine = world.builder().serve(keeping(&slots)).start().await.unwrap();
    let rule = Cron::parse("*/15 * * * *").unwrap().zone("Europe/Rome");
    let declared = engine.schedule("quarter", rule, Step { n: 1 }).await.unwrap();
    assert_eq!(declared, Declared::Created);
    pass(MINUTE * 61).await;
    let slots = slots.lock().unwrap().clone();
    let told: Vec<_> =
        slots.iter().map(|slot| (slot.at.since(START).as_secs() / 60, slot.run, slot.catch_up)).collect();
    assert_eq!(told, [(15, 1, false), (30, 2, false), (45, 3, false), (60, 4, false)]);
    assert_eq!(slots[0].local, "2027-01-15T09:15:00+01:00[Europe/Rome]");
    assert_eq!(slots[0].schedule, "quarter");
    assert!(slots.iter().all(|slot| slot.late < Duration::from_millis(10)), "{slots:?}");
    assert_eq!(engine.stats().slots_created, 4);
}

/// Declaring the same again changes nothing; another definition changes it.
#[tokio::test(start_paused = true)]
async fn declarations_are_idempotent() {
    let world = World::new();
    let engine = world.builder().start().await.unwrap();
    let declare =
        |seconds: u32, revision| engine.schedule("s", Every::new(SECOND * seconds), Step { n: 1 }).revision(revision);
    assert_eq!(declare(60, 1).await.unwrap(), Declared::Created);
    assert_eq!(declare(60, 1).await.unwrap(), Declared::Unchanged);
    assert_eq!(declare(30, 2).await.unwrap(), Declared::Updated { rule: true });
    assert_eq!(declare(60, 1).await.unwrap(), Declared::OlderRevision);
    let refused = engine.schedule("s2", Every::new(SECOND), Step { n: 1 }).max_pending(0).await.unwrap_err();
    assert!(refused.to_string().contains("max_pending"), "{refused}");
}

/// After a downtime the missed policy decides: the latest slot only, or all of them within bounds; the handler knows that
/// it catches up.
#[tokio::test(start_paused = true)]
async fn a_downtime_is_caught_up_by_policy() {
    let world = World::new();
    let slots = Arc::new(Mutex::new(Vec::new()));
    let producer = world.builder().start().await.unwrap();
    let every = || Every::new(MINUTE);
    producer.schedule("latest", every(), Step { n: 1 }).await.unwrap();
    let all = Missed::All { max_count: 5, max_age: MINUTE * 60, overflow: Overflow::SkipOldest };
    producer.schedule("all", every(), Step { n: 2 }).missed(all).max_pending(10).await.unwrap();
    producer.schedule("skip", every(), Step { n: 3 }).missed(Missed::Skip).await.unwrap();
    pass(MINUTE * 10 + SECOND * 30).await;
    let engine = world.builder().serve(keeping(&slots)).start().await.unwrap();
    pass(SECOND * 10).await;
    let taken: Vec<_> = slots
        .lock()
        .unwrap()
        .iter()
        .map(|slot| (slot.schedule.clone(), slot.at.since(START).as_secs() / 60, slot.catch_up))
        .collect();
    let of = |name: &str| -> Vec<u64> {
        taken.iter().filter(|(schedule, ..)| schedule == name).map(|(_, minute, _)| *minute).collect()
    };
    assert_eq!(of("latest"), [10]);
    assert_eq!(of("all"), [6, 7, 8, 9, 10]);
    assert_eq!(of("skip"), [0; 0]);
    assert!(taken.iter().all(|(.., catch_up)| *catch_up));
    let lost: Vec<_> = world.store.losses("all".to_owned(), 10).await.unwrap();
    assert_eq!(lost.iter().map(|loss| (loss.reason, loss.count)).collect::<Vec<_>>(), [(LossReason::Cap, 5)]);
    pass(MINUTE).await;
    assert_eq!(engine.store().schedule("skip".to_owned()).await.unwrap().unwrap().position.runs, 1);
}

/// A slot that is due while the last occurrence still runs waits for it, and begins as soon as that ends.
#[tokio::test(start_paused = true)]
async fn occurrences_are_serial() {
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let (clock, ran) = (Arc::clone(&world.clock), Arc::clone(&ledger));
    let handler = on(move |_: Step| {
        ran.add(clock.timestamp().since(START).as_secs());
        async {
            pass(SECOND * 25).await;
            Ok(0)
        }
    });
    let engine = world.builder().serve(handler).start().await.unwrap();
    engine
        .schedule("slow", Every::new(SECOND * 10), Step { n: 1 })
        .missed(Missed::all(100, MINUTE * 60))
        .await
        .unwrap();
    pass(SECOND * 80).await;
    assert_eq!(ledger.entries(), [10, 35, 60]);
}

/// With overlap `skip` the slots in between are lost, and recorded as such.
#[tokio::test(start_paused = true)]
async fn overlapping_slots_can_be_skipped() {
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let (clock, ran) = (Arc::clone(&world.clock), Arc::clone(&ledger));
    let handler = on(move |_: Step| {
        ran.add(clock.timestamp().since(START).as_secs());
        async {
            pass(SECOND * 25).await;
            Ok(0)
        }
    });
    let engine = world.builder().serve(handler).start().await.unwrap();
    engine.schedule("slow", Every::new(SECOND * 10), Step { n: 1 }).overlap(Overlap::Skip).await.unwrap();
    pass(SECOND * 75).await;
    assert_eq!(ledger.entries(), [10, 40, 70]);
    let view = world.store.schedule("slow".to_owned()).await.unwrap().unwrap();
    assert_eq!(view.lost, [(LossReason::Overlap, 4)]);
    assert_eq!(engine.stats().slots_lost, 4);
}

/// A window of many missed slots is created in few commits and refilled at half, not one by one.
#[tokio::test(start_paused = true)]
async fn a_window_is_refilled_in_batches() {
    use punctual_testkit::Op;
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let producer = world.builder().start().await.unwrap();
    producer
        .schedule("many", Every::new(SECOND), Step { n: 1 })
        .missed(Missed::all(10_000, MINUTE * 600))
        .max_pending(100)
        .await
        .unwrap();
    pass(SECOND * 2_000).await;
    let ran = Arc::clone(&ledger);
    let handler = on(move |_: Step| {
        ran.add(1);
        async {
            pass(SECOND / 100).await;
            Ok(0)
        }
    });
    let _engine = world.builder_with(|config| config.slots = 20).serve(handler).start().await.unwrap();
    pass(SECOND * 5).await;
    assert!(ledger.entries().len() >= 2_000, "{}", ledger.entries().len());
    let sweeps = world.store.calls(Op::Materialise);
    assert!(sweeps <= 60, "2,000 slots in windows of 100, refilled at half: {sweeps} sweeps");
}

/// Pause stops slots, resume goes on by policy, and a trigger runs beside the slots, at once.
#[tokio::test(start_paused = true)]
async fn operators_steer() {
    let world = World::new();
    let slots = Arc::new(Mutex::new(Vec::new()));
    let engine = world.builder().serve(keeping(&slots)).start().await.unwrap();
    engine.schedule("s", Every::new(MINUTE), Step { n: 1 }).await.unwrap();
    pass(SECOND * 90).await;
    let runs = || slots.lock().unwrap().iter().map(|slot| slot.run).collect::<Vec<_>>();
    assert_eq!(runs(), [1]);
    let pause = ScheduleCommand::Pause { note: "later".to_owned() };
    assert_eq!(engine.steer("s", pause).await.unwrap(), Steered::Applied);
    pass(MINUTE * 5).await;
    assert_eq!(runs(), [1]);
    assert!(matches!(engine.trigger("s", false).await.unwrap(), Steered::Triggered(_)));
    pass(SECOND).await;
    assert_eq!(runs(), [1, 0], "a trigger spends no run number");
    engine.steer("s", ScheduleCommand::Resume(Resume::FromNow)).await.unwrap();
    pass(MINUTE).await;
    assert_eq!(runs(), [1, 0, 2]);
    engine.steer("s", ScheduleCommand::Cancel).await.unwrap();
    pass(MINUTE * 5).await;
    assert_eq!(runs(), [1, 0, 2]);
    let view = world.store.schedule("s".to_owned()).await.unwrap().unwrap();
    assert_eq!(view.position.state, ScheduleState::Cancelled);
}

/// Two engines sweep one schedule: each slot is still created and run once.
#[tokio::test(start_paused = true)]
async fn two_engines_create_each_slot_once() {
    let world = World::new();
    let slots = Arc::new(Mutex::new(Vec::new()));
    let first = world.builder().serve(keeping(&slots)).start().await.unwrap();
    let _second = world.builder().serve(keeping(&slots)).start().await.unwrap();
    for name in ["a", "b", "c"] {
        first.schedule(name, Every::new(SECOND * 7), Step { n: 1 }).await.unwrap();
    }
    pass(SECOND * 71).await;
    let mut slots: Vec<_> = slots.lock().unwrap().iter().map(|slot| (slot.schedule.clone(), slot.at)).collect();
    slots.sort();
    let count = slots.len();
    slots.dedup();
    assert_eq!((slots.len(), count), (30, 30));
}

/// As many failures in a row as a schedule allows pause it, with a note that says so; a success between them begins the count
/// anew, and other schedules go on.
#[tokio::test(start_paused = true)]
async fn failures_in_a_row_pause_a_schedule() {
    let world = World::new();
    let ledger = Arc::new(Ledger::default());
    let ran = Arc::clone(&ledger);
    // The schedule with arguments 1 succeeds in its third run only, the other one never.
    let handler = on(move |step: Step| {
        ran.add(step.n);
        let good = step.n == 1 && ran.counts().get(&1) == Some(&3);
        async move { if good { Ok(0) } else { Err(Oops::new(1)) } }
    });
    let engine = world.builder().serve(handler).start().await.unwrap();
    engine.schedule("breaks", Every::new(MINUTE), Step { n: 1 }).attempts(1).pause_after(3).await.unwrap();
    engine.schedule("goes on", Every::new(MINUTE), Step { n: 2 }).attempts(1).await.unwrap();
    let state = async || {
        let view = engine.store().schedule("breaks".to_owned()).await.unwrap().unwrap();
        (view.position.state, view.position.note)
    };
    pass(MINUTE * 5 + SECOND * 30).await;
    assert_eq!(state().await.0, ScheduleState::Active, "two failures, a success, two failures");
    pass(MINUTE * 5).await;
    let (paused, note) = state().await;
    assert_eq!(paused, ScheduleState::Paused);
    assert!(note.contains("3 tasks failed in a row"), "{note}");
    assert_eq!((ledger.counts()[&1], ledger.counts()[&2]), (6, 10));

    // Whoever resumes it without mending it sees it paused by the next failure.
    engine.steer("breaks", ScheduleCommand::Resume(Resume::FromNow)).await.unwrap();
    pass(MINUTE * 3).await;
    assert_eq!((state().await.0, ledger.counts()[&1]), (ScheduleState::Paused, 7));
}
