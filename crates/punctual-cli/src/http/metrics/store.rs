//! What lies in the store: queues, workers and schedules, of all hosts that share it.

use super::text::{Kind, Text};
use punctual::clock::Timestamp;
use punctual::task::{LossReason, Page, QueueView, ScheduleState, ScheduleView, Store, StoreError, WorkerView};
use std::sync::Arc;

/// The most queues, and the most schedules, that have labels of their own: the first by name. How many have none is told.
const LABELLED_MAX: usize = 1_000;

/// What a scrape read.
#[derive(Debug)]
pub(super) struct Readings {
    now: Timestamp,
    queues: Vec<QueueView>,
    workers: Vec<WorkerView>,
    schedules: Vec<ScheduleView>,
}

impl Readings {
    pub(super) async fn read(store: &Arc<dyn Store>) -> Result<Self, StoreError> {
        let now = store.now().await?;
        let (queues, workers) = (store.queues().await?, store.workers().await?);
        let schedules = store.schedules(None, Page::LIMIT_MAX).await?;
        Ok(Readings { now, queues, workers, schedules })
    }
}

/// Every family is there in every scrape, with samples as far as the store has told.
pub(super) fn write(text: &mut Text, readings: Option<&Readings>) {
    text.family("punctual_store_up", Kind::Gauge, "1 if the database told this scrape what it holds");
    text.count(&[], u64::from(readings.is_some()));
    queues(text, readings);
    workers(text, readings);
    schedules(text, readings);
}

/// A gauge of a queue: its name, what it says, and where it stands.
type Row = (&'static str, &'static str, fn(&QueueView) -> u64);

fn queues(text: &mut Text, readings: Option<&Readings>) {
    let all = || readings.into_iter().flat_map(|readings| readings.queues.iter().take(LABELLED_MAX));
    let counts: [Row; 4] = [
        ("due", "Tasks that are due and wait, by queue: its depth", |queue| queue.due),
        ("later", "Tasks that become due later", |queue| queue.later),
        ("running", "Tasks that run", |queue| queue.running),
        ("paused", "1 while claims are paused", |queue| u64::from(queue.paused)),
    ];
    for (name, help, read) in counts {
        text.family(&format!("punctual_queue_{name}"), Kind::Gauge, help);
        all().for_each(|queue| text.count(&[("queue", &queue.name)], read(queue)));
    }
    text.family(
        "punctual_queue_oldest_age_seconds",
        Kind::Gauge,
        "How long the oldest due task has been due; 0 without one",
    );
    for queue in all() {
        let age = readings.zip(queue.oldest).map(|(readings, oldest)| readings.now.since(oldest));
        text.number(&[("queue", &queue.name)], age.unwrap_or_default().as_secs_f64());
    }
}

fn workers(text: &mut Text, readings: Option<&Readings>) {
    let of = |alive: bool| readings.map(|readings| readings.workers.iter().filter(move |worker| worker.alive == alive));
    text.family("punctual_workers", Kind::Gauge, "Workers that are alive, and those found dead within the last hour");
    for (state, alive) in [("alive", true), ("dead", false)] {
        if let Some(workers) = of(alive) {
            text.count(&[("state", state)], workers.count() as u64);
        }
    }
    text.family("punctual_worker_slots", Kind::Gauge, "How many tasks all workers alive run at once");
    if let Some(workers) = of(true) {
        text.count(&[], workers.map(|worker| u64::from(worker.slots)).sum());
    }
    text.family("punctual_worker_holds", Kind::Gauge, "How many tasks they hold");
    if let Some(workers) = of(true) {
        text.count(&[], workers.map(|worker| u64::from(worker.holds)).sum());
    }
}

fn schedules(text: &mut Text, readings: Option<&Readings>) {
    let all = || readings.into_iter().flat_map(|readings| readings.schedules.iter().take(LABELLED_MAX));
    let states = [
        ScheduleState::Active,
        ScheduleState::Paused,
        ScheduleState::Halted,
        ScheduleState::Ended,
        ScheduleState::Cancelled,
    ];
    text.family("punctual_schedules", Kind::Gauge, "Schedules, by state, of those that are read");
    if readings.is_some() {
        for state in states {
            let count = all().filter(|schedule| schedule.position.state == state).count();
            text.count(&[("state", state.as_str())], count as u64);
        }
    }
    text.family(
        "punctual_schedules_unread",
        Kind::Gauge,
        "1 if there may be more schedules than the 1000 that are read",
    );
    if let Some(readings) = readings {
        text.count(&[], u64::from(readings.schedules.len() >= LABELLED_MAX));
    }
    text.family(
        "punctual_schedule_lateness_seconds",
        Kind::Gauge,
        "How long the next slot of an active schedule has been due without a decision",
    );
    for schedule in all().filter(|schedule| schedule.position.state == ScheduleState::Active) {
        let due = schedule.position.cursor.as_ref().map(|slot| slot.at);
        let late = readings.zip(due).map(|(readings, due)| readings.now.since(due));
        text.number(&[("schedule", &schedule.spec.name)], late.unwrap_or_default().as_secs_f64());
    }
    text.family("punctual_schedule_halted", Kind::Gauge, "1 while an operator must decide about missed slots");
    for schedule in all() {
        let halted = schedule.position.state == ScheduleState::Halted;
        text.count(&[("schedule", &schedule.spec.name)], u64::from(halted));
    }
    text.family("punctual_schedule_live", Kind::Gauge, "Occurrences that have not ended");
    all().for_each(|schedule| text.count(&[("schedule", &schedule.spec.name)], u64::from(schedule.live)));
    text.family("punctual_schedule_created", Kind::Counter, "Occurrences created, over all eras");
    all().for_each(|schedule| text.count(&[("schedule", &schedule.spec.name)], schedule.position.runs));
    text.family("punctual_schedule_missed", Kind::Counter, "Slots that were decided not to run, by reason");
    for schedule in all() {
        for reason in LossReason::ALL {
            let count = schedule.lost.iter().find(|(lost, _)| *lost == reason).map_or(0, |(_, count)| *count);
            let labels = [("schedule", schedule.spec.name.as_str()), ("reason", reason.as_str())];
            text.count(&labels, count);
        }
    }
}
