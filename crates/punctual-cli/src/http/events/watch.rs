//! What the engine does not push: schedules, queues and workers, compared with how they were a moment ago.
//!
//! A change is seen within [`EVERY`], and at once where it was made over HTTP here. Of schedules the first [`SCHEDULES_MAX`] by name are watched.

use super::{Buffer, Event};
use crate::http::app::stopped;
use crate::text::show_instant;
use punctual::clock::Timestamp;
use punctual::engine::Engine;
use punctual::task::{LossReason, Page, QueueView, ScheduleState, ScheduleView, Store, StoreError, WorkerView};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// How often the store is asked.
const EVERY: Duration = Duration::from_secs(5);
/// How long it rests between two looks, however many writes there are.
const PAUSE: Duration = Duration::from_millis(250);
/// The most schedules that are watched.
const SCHEDULES_MAX: usize = 10_000;

/// Wakes the loop before its time.
#[derive(Debug, Default)]
pub(in crate::http) struct Watch(Notify);

/// How everything was before the first client could change it.
#[derive(Debug)]
pub(in crate::http) struct Begun(Option<Seen>);

/// What was seen.
#[derive(Debug, Clone, Default, PartialEq)]
struct Seen {
    schedules: BTreeMap<String, Schedule>,
    /// Whether each is paused.
    queues: BTreeMap<String, bool>,
    workers: BTreeMap<i64, Worker>,
}

#[derive(Debug, Clone, PartialEq)]
struct Schedule {
    state: ScheduleState,
    note: String,
    version: u32,
    lost: Vec<(LossReason, u64)>,
    next: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
struct Worker {
    name: String,
    alive: bool,
    holds: u32,
}

impl Watch {
    /// Something was changed: look now.
    pub(in crate::http) fn now(&self) {
        self.0.notify_one();
    }

    /// The first look: what changes from here on is told.
    pub(in crate::http) async fn begin(engine: &Engine) -> Begun {
        Begun(look(engine.store()).await.ok().map(|(_, seen)| seen))
    }

    /// Looks until the daemon stops.
    pub(in crate::http) async fn run(
        self: Arc<Self>,
        engine: Engine,
        buffer: Arc<Buffer>,
        Begun(mut before): Begun,
        mut stopping: watch::Receiver<bool>,
    ) {
        let mut lost = false;
        loop {
            let looked = tokio::select! {
                biased;
                () = stopped(&mut stopping) => return,
                looked = look(engine.store()) => looked,
            };
            match looked {
                Ok((now, after)) => {
                    if std::mem::take(&mut lost) {
                        buffer.add(Event::new("store.back", now, json!({})));
                    }
                    if let Some(before) = &before {
                        changes(before, &after, now).into_iter().for_each(|event| buffer.add(event));
                    }
                    before = Some(after);
                }
                Err(error) if !lost => {
                    lost = true;
                    tracing::warn!(%error, "the database cannot be watched");
                    let now = punctual::clock::Clock::timestamp(&punctual::clock::SystemClock);
                    buffer.add(Event::new("store.lost", now, json!({})));
                }
                Err(_) => {}
            }
            let rest = async {
                tokio::time::sleep(PAUSE).await;
                // Whether it is a write or the time that ends the rest, it is over.
                let _ = tokio::time::timeout(EVERY, self.0.notified()).await;
            };
            tokio::select! {
                biased;
                () = stopped(&mut stopping) => return,
                () = rest => {}
            }
        }
    }
}

async fn look(store: &Arc<dyn Store>) -> Result<(Timestamp, Seen), StoreError> {
    let now = store.now().await?;
    let mut seen = Seen::default();
    seen.queues.extend(store.queues().await?.into_iter().map(|QueueView { name, paused, .. }| (name, paused)));
    let worker = |WorkerView { id, name, alive, holds, .. }| (id.0, Worker { name, alive, holds });
    seen.workers.extend(store.workers().await?.into_iter().map(worker));
    let mut after = None;
    while seen.schedules.len() < SCHEDULES_MAX {
        let page = store.schedules(after.take(), Page::LIMIT_MAX).await?;
        let full = page.len() == usize::try_from(Page::LIMIT_MAX).unwrap_or(usize::MAX);
        after = page.last().map(|last| last.spec.name.clone());
        seen.schedules.extend(page.into_iter().map(schedule));
        if !full {
            break;
        }
    }
    Ok((now, seen))
}

fn schedule(view: ScheduleView) -> (String, Schedule) {
    let position = view.position;
    let schedule = Schedule {
        state: position.state,
        note: position.note,
        version: position.version,
        lost: view.lost,
        next: position.cursor.map(|slot| slot.at),
    };
    (view.spec.name, schedule)
}

/// What became of the one since the other.
fn changes(before: &Seen, after: &Seen, now: Timestamp) -> Vec<Event> {
    let mut events = Vec::new();
    for (name, schedule) in &after.schedules {
        schedule_changes(name, before.schedules.get(name), schedule, now, &mut events);
    }
    for (name, paused) in &after.queues {
        if before.queues.get(name).copied().unwrap_or(false) != *paused {
            let kind = if *paused { "queue.paused" } else { "queue.resumed" };
            events.push(Event::new(kind, now, json!({"queue": name})));
        }
    }
    let told = |kind, id: i64, worker: &Worker| {
        Event::new(kind, now, json!({"worker": id, "name": worker.name, "held": worker.holds}))
    };
    for (id, worker) in &after.workers {
        match before.workers.get(id) {
            None if worker.alive => events.push(told("worker.joined", *id, worker)),
            Some(was) if was.alive && !worker.alive => events.push(told("worker.lost", *id, was)),
            _ => {}
        }
    }
    for (id, was) in before.workers.iter().filter(|(id, was)| was.alive && !after.workers.contains_key(id)) {
        events.push(told("worker.left", *id, was));
    }
    events
}

fn schedule_changes(name: &str, before: Option<&Schedule>, after: &Schedule, now: Timestamp, events: &mut Vec<Event>) {
    let next = after.next.map(show_instant);
    let Some(before) = before else {
        events.push(Event::new("schedule.created", now, json!({"schedule": name, "next": next})));
        return;
    };
    if before.version != after.version {
        let fields = json!({"schedule": name, "version": after.version, "next": next});
        events.push(Event::new("schedule.changed", now, fields));
    }
    if before.state != after.state {
        let kind = match after.state {
            ScheduleState::Active => "schedule.active",
            ScheduleState::Paused => "schedule.paused",
            ScheduleState::Halted => "schedule.halted",
            ScheduleState::Ended => "schedule.ended",
            ScheduleState::Cancelled => "schedule.cancelled",
        };
        let fields = json!({"schedule": name, "was": before.state.as_str(), "note": after.note, "next": next});
        events.push(Event::new(kind, now, fields));
    }
    for (reason, count) in &after.lost {
        let was = before.lost.iter().find(|(known, _)| known == reason).map_or(0, |(_, count)| *count);
        if let Some(missed @ 1..) = count.checked_sub(was) {
            let fields = json!({"schedule": name, "reason": reason.as_str(), "count": missed});
            events.push(Event::new("schedule.missed", now, fields));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        let schedule = Schedule {
            state: ScheduleState::Active,
            note: String::new(),
            version: 1,
            lost: vec![(LossReason::Age, 2)],
            next: None,
        };
        let worker = Worker { name: "w".to_owned(), alive: true, holds: 3 };
        Seen {
            schedules: [("s".to_owned(), schedule)].into(),
            queues: [("q".to_owned(), false)].into(),
            workers: [(7, worker)].into(),
        }
    }

    fn told(change: impl FnOnce(&mut Seen)) -> Vec<(&'static str, serde_json::Value)> {
        let mut after = seen();
        change(&mut after);
        let events = changes(&seen(), &after, Timestamp::EPOCH);
        events.into_iter().map(|event| (event.kind, serde_json::from_str(&event.data).unwrap())).collect()
    }

    /// Each change is one event of its own type, with what a reader needs to go and look; what stays the same is none.
    #[test]
    fn each_change_is_told_once() {
        assert_eq!(told(|_| ()), []);
        let schedule = |after: &mut Seen, change: fn(&mut Schedule)| after.schedules.values_mut().for_each(change);
        let events = told(|after| {
            schedule(after, |schedule| {
                schedule.state = ScheduleState::Halted;
                schedule.note = "too many".to_owned();
                schedule.lost = vec![(LossReason::Age, 2), (LossReason::Cap, 5)];
            });
        });
        assert_eq!(events.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), ["schedule.halted", "schedule.missed"]);
        assert_eq!((&events[0].1["note"], &events[0].1["was"]), (&json!("too many"), &json!("active")));
        assert_eq!((&events[1].1["reason"], &events[1].1["count"]), (&json!("cap"), &json!(5)));
        assert_eq!((&events[0].1["v"], &events[0].1["type"]), (&json!(1), &json!("schedule.halted")));
        assert_eq!(told(|after| schedule(after, |schedule| schedule.version = 2))[0].0, "schedule.changed");
        assert_eq!(told(|after| after.queues.values_mut().for_each(|paused| *paused = true))[0].0, "queue.paused");
        let lost =
            told(|after| after.workers.values_mut().for_each(|worker| (worker.alive, worker.holds) = (false, 0)));
        assert_eq!((lost[0].0, &lost[0].1["held"]), ("worker.lost", &json!(3)));
        assert_eq!(told(|after| after.workers.clear())[0].0, "worker.left");
        let again = told(|after| {
            let worker = after.workers[&7].clone();
            after.workers.insert(8, worker);
        });
        assert_eq!((again.len(), again[0].0), (1, "worker.joined"));
    }
}
