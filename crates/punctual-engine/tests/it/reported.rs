//! What users of other systems reported: restarts, suspensions, changes of the clocks. Each a test.

use crate::calls::{Step, on};
use crate::world::{SECOND, World, pass};
use punctual_clock::{Clock, Entropy, SeededEntropy, Timestamp};
use punctual_context::Context;
use punctual_engine::{Engine, Handlers};
use punctual_task::schedule::{Cron, Every, Rule};
use punctual_task::{BackfillRequest, LossReason, Missed, Overflow, ScheduleCommand, Steered, Store};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// What ran: schedule, nominal instant, when it began.
type Runs = Arc<Mutex<Vec<(String, Timestamp, Timestamp)>>>;

fn keeping(runs: &Runs, world: &World) -> impl Handlers + use<> {
    let (runs, clock) = (Arc::clone(runs), Arc::clone(&world.clock));
    on(move |_: Step| {
        let scope = Context::current().expect("a handler has a context").task().and_then(|task| task.slot.clone());
        let slot = scope.expect("of an occurrence");
        runs.lock().unwrap().push((slot.schedule, slot.at, clock.timestamp()));
        async { Ok(0) }
    })
}

fn of(runs: &Runs, name: &str) -> Vec<Timestamp> {
    let runs = runs.lock().unwrap();
    let mut slots: Vec<_> = runs.iter().filter(|(schedule, ..)| schedule == name).map(|(_, at, _)| *at).collect();
    slots.sort_unstable();
    slots
}

fn all() -> Missed {
    Missed::All { max_count: 1_000, max_age: MINUTE * 600, overflow: Overflow::Halt }
}

/// Sets the wall clock before anything is stored.
fn begin_at(world: &World, at: Timestamp) {
    world.clock.step_wall(at.as_micros() - world.clock.timestamp().as_micros());
}

/// A minutely schedule, with engines that stop and start again fifty times at any phase of the minute: each slot runs once,
/// and none before its time. Once with one worker, once with two, once with eight.
#[tokio::test(start_paused = true)]
async fn fifty_restarts_at_any_phase() {
    for workers in [1, 2, 8] {
        let world = World::new();
        let runs = Runs::default();
        let chance = SeededEntropy::new(workers);
        let start = async || world.builder().serve(keeping(&runs, &world)).start().await.unwrap();
        let mut engines: Vec<Engine> = Vec::new();
        for _ in 0..workers {
            engines.push(start().await);
        }
        let began = world.clock.timestamp();
        engines[0].schedule("s", Every::new(MINUTE), Step { n: 1 }).missed(all()).max_pending(100).await.unwrap();
        for _ in 0..50 {
            pass(Duration::from_millis(chance.below(90_000))).await;
            let at = usize::try_from(chance.below(workers)).unwrap();
            let stopped = engines.swap_remove(at);
            if chance.below(2) == 0 {
                stopped.shutdown(SECOND).await;
            }
            drop(stopped);
            // With one worker this is downtime.
            pass(Duration::from_millis(chance.below(90_000))).await;
            engines.push(start().await);
        }
        // A worker that was dropped is found dead, and what it had claimed runs.
        pass(MINUTE).await;
        let minutes = world.clock.timestamp().since(began).as_secs() / 60;
        let expected: Vec<Timestamp> =
            (1..=minutes).map(|minute| began.after(MINUTE * u32::try_from(minute).unwrap())).collect();
        assert_eq!(of(&runs, "s"), expected, "{workers} workers");
        let early = runs.lock().unwrap().iter().filter(|(_, at, ran)| ran < at).count();
        assert_eq!(early, 0, "{workers} workers");
    }
}

/// A process that was suspended for 78 minutes treats them as downtime: the newest slot runs as a catch-up, the others are
/// recorded, and the next one runs on time.
#[tokio::test(start_paused = true)]
async fn a_suspension_is_downtime() {
    let world = World::new();
    let runs = Runs::default();
    let engine = world.builder().serve(keeping(&runs, &world)).start().await.unwrap();
    let began = world.clock.timestamp();
    engine.schedule("s", Every::new(MINUTE), Step { n: 1 }).await.unwrap();
    pass(MINUTE * 2 + SECOND * 30).await;
    world.clock.suspend(MINUTE * 78);
    pass(SECOND * 25).await;
    let minute = |slot: &Timestamp| slot.since(began).as_secs() / 60;
    assert_eq!(of(&runs, "s").iter().map(minute).collect::<Vec<_>>(), [1, 2, 80]);
    let view = world.store.schedule("s".to_owned()).await.unwrap().unwrap();
    assert_eq!(view.lost, [(LossReason::Policy, 77)]);
    pass(SECOND * 10).await;
    assert_eq!(of(&runs, "s").iter().map(minute).collect::<Vec<_>>(), [1, 2, 80, 81]);
}

/// Daily at 02:30 in New York over the night without a 02:30, beside a minutely schedule in UTC: one run, at the gap's end,
/// and the other is not disturbed.
#[tokio::test(start_paused = true)]
async fn a_gap_disturbs_nobody() {
    let world = World::new();
    // 2027-03-14T05:00:00Z; the gap is at 07:00Z.
    let began = Timestamp::from_secs(1_805_000_400);
    begin_at(&world, began);
    let runs = Runs::default();
    let engine = world.builder().serve(keeping(&runs, &world)).start().await.unwrap();
    let daily = Rule::from(Cron::parse("30 2 * * *").unwrap()).zone("America/New_York");
    engine.schedule("daily", daily, Step { n: 1 }).missed(all()).await.unwrap();
    engine.schedule("minutely", Cron::parse("* * * * *").unwrap(), Step { n: 2 }).missed(all()).await.unwrap();
    pass(MINUTE * 240 + SECOND).await;
    let second = |slot: &Timestamp| slot.since(began).as_secs();
    assert_eq!(of(&runs, "daily").iter().map(second).collect::<Vec<_>>(), [2 * 3_600]);
    let minutes: Vec<u64> = of(&runs, "minutely").iter().map(second).collect();
    assert_eq!(minutes, (1..=240).map(|minute| minute * 60).collect::<Vec<_>>());
    let late = runs.lock().unwrap().iter().filter(|(_, at, ran)| ran.since(*at) > SECOND).count();
    assert_eq!(late, 0);
}

/// Minutely in London over the hour that comes twice: a run each minute of real time.
#[tokio::test(start_paused = true)]
async fn a_fold_keeps_the_spacing() {
    let world = World::new();
    // 2026-10-25T00:00:00Z; 01:00 to 02:00 comes twice, until 02:00Z.
    let began = Timestamp::from_secs(1_792_886_400);
    begin_at(&world, began);
    let runs = Runs::default();
    let engine = world.builder().serve(keeping(&runs, &world)).start().await.unwrap();
    let minutely = Rule::from(Cron::parse("* * * * *").unwrap()).zone("Europe/London");
    engine.schedule("s", minutely, Step { n: 1 }).missed(all()).await.unwrap();
    pass(MINUTE * 180 + SECOND).await;
    let seconds: Vec<u64> = of(&runs, "s").iter().map(|slot| slot.since(began).as_secs()).collect();
    assert_eq!(seconds, (1..=180).map(|minute| minute * 60).collect::<Vec<_>>());
}

/// A backfill runs beside the schedule, one at a time and oldest first, without waiting for a poll between two; the
/// handler sees which slots they are.
#[tokio::test(start_paused = true)]
async fn a_backfill_runs_through() {
    let world = World::new();
    let runs = Runs::default();
    let producer = world.builder().start().await.unwrap();
    let began = world.clock.timestamp();
    let hourly = producer.schedule("s", Every::new(MINUTE * 60), Step { n: 1 }).missed(Missed::Skip).max_pending(500);
    hourly.await.unwrap();
    pass(MINUTE * 60 * 30 + MINUTE).await;
    let request = BackfillRequest::new(0, began, world.clock.timestamp());
    let engine = world.builder().serve(keeping(&runs, &world)).start().await.unwrap();
    pass(SECOND * 5).await;
    let preview = engine.preview_backfill("s", request).await.unwrap();
    assert_eq!(preview.slots.len(), 30);
    assert!(preview.slots.iter().all(|(_, what)| *what == punctual_task::BackfillSlot::Missed));
    let from = world.clock.timestamp();
    assert_eq!(engine.backfill("s", request).await.unwrap(), 1);
    assert!(engine.backfill("s", request).await.is_err(), "one at a time");
    pass(SECOND * 10).await;
    let slots: Vec<u64> = runs.lock().unwrap().iter().map(|(_, at, _)| at.since(began).as_secs() / 3_600).collect();
    assert_eq!(slots, (1..=30).collect::<Vec<_>>(), "in order, each once");
    let last = runs.lock().unwrap().last().map(|(_, _, ran)| ran.since(from));
    assert!(last.is_some_and(|last| last < SECOND * 5), "{last:?}: thirty of them did not wait for a poll each");
    assert_eq!(engine.backfill("s", BackfillRequest { limit: Some(2), ..request }).await.unwrap(), 2);
}

/// A cancelled schedule is declared again only as a new series.
#[tokio::test(start_paused = true)]
async fn a_new_series_is_asked_for() {
    let world = World::new();
    let engine = world.builder().start().await.unwrap();
    let declare = || engine.schedule("s", Every::new(MINUTE), Step { n: 1 });
    declare().await.unwrap();
    assert_eq!(engine.steer("s", ScheduleCommand::Cancel).await.unwrap(), Steered::Applied);
    assert_eq!(declare().await.unwrap(), punctual_task::Declared::Cancelled);
    assert_eq!(declare().new_series().await.unwrap(), punctual_task::Declared::Created);
    assert_eq!(declare().new_series().await.unwrap(), punctual_task::Declared::Unchanged);
    let view = world.store.schedule("s".to_owned()).await.unwrap().unwrap();
    assert_eq!((view.position.era, view.position.state), (2, punctual_task::ScheduleState::Active));
}
