//! The last events, in order, within a bound.
//!
//! Events of which there are very many lie in a ring of their own: a thousand tasks a second that succeed must not push out the one
//! that failed.

use super::Event;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// How many events of either ring are kept. One has some 300 bytes.
const EVENTS_MAX: usize = 4_096;

/// The last events.
#[derive(Debug)]
pub(in crate::http) struct Buffer {
    /// Names the process: numbers of another one mean nothing here.
    epoch: String,
    rings: Mutex<Rings>,
    /// The number of the newest event.
    latest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Rings {
    newest: u64,
    routine: Ring,
    notable: Ring,
}

#[derive(Debug, Default)]
struct Ring {
    events: VecDeque<(u64, Arc<Event>)>,
    /// The newest that is not kept any more.
    dropped: u64,
}

/// What a reader gets.
#[derive(Debug, PartialEq)]
pub(super) struct Batch {
    /// In order, each with its number.
    pub(super) events: Vec<(u64, Arc<Event>)>,
    /// Whether events that the reader had not seen were dropped; else only those of which there are very many may have been.
    pub(super) gap: bool,
    pub(super) routine_gap: bool,
}

/// Where a reader goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// After this number.
    After(u64),
    /// The identifier is of another process: all that is kept is new.
    Unknown,
}

impl Ring {
    fn push(&mut self, number: u64, event: Arc<Event>) {
        if self.events.len() >= EVENTS_MAX
            && let Some((dropped, _)) = self.events.pop_front()
        {
            self.dropped = dropped;
        }
        self.events.push_back((number, event));
    }

    fn after(&self, place: u64) -> impl Iterator<Item = &(u64, Arc<Event>)> {
        let begin = self.events.partition_point(|(number, _)| *number <= place);
        self.events.range(begin..)
    }
}

impl Buffer {
    /// Nothing yet, in a process of this name.
    pub(in crate::http) fn new(epoch: String) -> Self {
        Buffer { epoch, rings: Mutex::default(), latest: watch::Sender::new(0) }
    }

    pub(in crate::http) fn add(&self, event: Event) {
        let routine = event.is_routine();
        let event = Arc::new(event);
        let mut rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        rings.newest += 1;
        let number = rings.newest;
        let ring = if routine { &mut rings.routine } else { &mut rings.notable };
        ring.push(number, event);
        // Inside of the lock, so that it never goes back.
        self.latest.send_replace(number);
    }

    /// Up to `max` events after a place.
    pub(super) fn after(&self, place: u64, max: usize) -> Batch {
        let rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events: Vec<(u64, Arc<Event>)> =
            rings.routine.after(place).take(max).chain(rings.notable.after(place).take(max)).cloned().collect();
        events.sort_by_key(|(number, _)| *number);
        events.truncate(max);
        Batch { events, gap: rings.notable.dropped > place, routine_gap: rings.routine.dropped > place }
    }

    /// The number of the newest event.
    pub(super) fn newest(&self) -> u64 {
        *self.latest.borrow()
    }

    /// Tells of newer ones.
    pub(super) fn news(&self) -> watch::Receiver<u64> {
        self.latest.subscribe()
    }

    /// An event's identifier.
    pub(super) fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.epoch)
    }

    /// The place that an identifier names; none if it is no identifier.
    pub(super) fn place(&self, id: &str) -> Option<Place> {
        let (epoch, number) = id.rsplit_once('-')?;
        let number: u64 = number.parse().ok()?;
        let known = epoch == self.epoch && number <= self.newest();
        Some(if known { Place::After(number) } else { Place::Unknown })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual::clock::Timestamp;
    use serde_json::json;

    fn add(buffer: &Buffer, kind: &'static str, count: usize) {
        (0..count).for_each(|_| buffer.add(Event::new(kind, Timestamp::EPOCH, json!({}))));
    }

    fn numbers(batch: &Batch) -> Vec<u64> {
        batch.events.iter().map(|(number, _)| *number).collect()
    }

    /// A reader sees every event once and in order, of both rings, however it divides its reading.
    #[test]
    fn readers_go_on_where_they_were() {
        let buffer = Buffer::new("e".to_owned());
        for kind in ["task.succeeded", "task.failed", "task.failed", "task.succeeded", "worker.lost"] {
            add(&buffer, kind, 1);
        }
        assert_eq!(numbers(&buffer.after(0, 100)), [1, 2, 3, 4, 5]);
        let (mut place, mut seen) = (0, Vec::new());
        while place < buffer.newest() {
            let batch = buffer.after(place, 2);
            assert!(!batch.gap && !batch.routine_gap);
            place = *numbers(&batch).last().unwrap();
            seen.extend(numbers(&batch));
        }
        assert_eq!(seen, [1, 2, 3, 4, 5]);
    }

    /// Both rings are bounded; many that succeed push out no failure; who missed something is told what kind.
    #[test]
    fn failures_outlive_a_flood() {
        let buffer = Buffer::new("e".to_owned());
        add(&buffer, "task.failed", 1);
        add(&buffer, "task.succeeded", 3 * EVENTS_MAX);
        let batch = buffer.after(0, usize::MAX);
        assert_eq!(batch.events.len(), EVENTS_MAX + 1);
        assert_eq!(batch.events[0].1.kind, "task.failed");
        assert!(!batch.gap && batch.routine_gap);
        add(&buffer, "task.failed", EVENTS_MAX);
        assert!(buffer.after(0, 1).gap);
        assert!(!buffer.after(1, 1).gap, "the one that was dropped had been seen");
    }

    /// An identifier of this process names its place; one of another process, or of the future, names none.
    #[test]
    fn identifiers_name_places() {
        let buffer = Buffer::new("18-f".to_owned());
        add(&buffer, "task.failed", 2);
        assert_eq!(buffer.place(&buffer.id(1)), Some(Place::After(1)));
        for id in ["18-e-1", "18-f-3", "-1"] {
            assert_eq!(buffer.place(id), Some(Place::Unknown), "{id}");
        }
        for id in ["", "x", "18-f-", "18-f-x"] {
            assert_eq!(buffer.place(id), None, "{id}");
        }
    }
}
