//! `/api/v1/events`: what happens, as it happens, as server-sent events.
//!
//! ```text
//!  engine (attempts that end here) ─┐
//!                                   ├─▶ buffer (bounded) ─▶ one reader for each client, at its own pace
//!  watch (polls the store) ─────────┘
//! ```
//! A client holds nothing but its place in the buffer, so that a slow one costs no memory: it is told of the gap. The identifier of
//! an event names its place, and `Last-Event-ID` goes on from there.

mod buffer;
mod stream;
mod watch;

pub(super) use buffer::Buffer;
pub(super) use stream::{Streams, answer};
pub(super) use watch::Watch;

use crate::text::show_instant;
use punctual::clock::Timestamp;
use punctual::engine::{AttemptEnd, ObserveAttempts};
use punctual::task::{Next, TaskState};
use serde_json::{Map, Value, json};

/// The version of what events hold. Fields are added under the same number; what would break a reader gets another.
const VERSION: u32 = 1;

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event {
    /// `task.failed`; `docs/http.md` has them all.
    pub(super) kind: &'static str,
    /// One object of JSON.
    pub(super) data: String,
}

/// Every type of an event, and whether there are so many of it that they must not push others out of the buffer.
pub(super) const KINDS: &[(&str, bool)] = &[
    ("task.succeeded", true),
    ("task.retried", true),
    ("task.snoozed", true),
    ("task.failed", false),
    ("task.cancelled", false),
    ("task.expired", false),
    ("schedule.created", false),
    ("schedule.changed", false),
    ("schedule.active", false),
    ("schedule.paused", false),
    ("schedule.halted", false),
    ("schedule.ended", false),
    ("schedule.cancelled", false),
    ("schedule.missed", false),
    ("queue.paused", false),
    ("queue.resumed", false),
    ("worker.joined", false),
    ("worker.left", false),
    ("worker.lost", false),
    ("store.lost", false),
    ("store.back", false),
];

impl Event {
    /// An event with these fields beside those that all have.
    pub(super) fn new(kind: &'static str, at: Timestamp, fields: Value) -> Self {
        let mut all = Map::new();
        all.insert("v".to_owned(), VERSION.into());
        all.insert("type".to_owned(), kind.into());
        all.insert("at".to_owned(), show_instant(at).into());
        if let Value::Object(fields) = fields {
            all.extend(fields);
        }
        Event { kind, data: Value::Object(all).to_string() }
    }

    fn is_routine(&self) -> bool {
        KINDS.iter().any(|(kind, routine)| *kind == self.kind && *routine)
    }
}

impl ObserveAttempts for Buffer {
    fn ended(&self, end: &AttemptEnd<'_>) {
        let kind = match end.next {
            Next::Final(TaskState::Succeeded) => "task.succeeded",
            Next::Final(TaskState::Cancelled) => "task.cancelled",
            Next::Final(TaskState::Expired) => "task.expired",
            Next::Final(_) => "task.failed",
            Next::Again { .. } if end.outcome == punctual::task::Outcome::Snoozed => "task.snoozed",
            Next::Again { .. } => "task.retried",
        };
        let next = match end.next {
            Next::Again { due, .. } => Some(show_instant(due)),
            Next::Final(_) => None,
        };
        // Neither arguments nor results nor error texts: events go to many readers, and those may hold secrets.
        let fields = json!({
            "task": end.task.to_string(),
            "method": end.method,
            "queue": end.queue,
            "schedule": end.schedule,
            "attempt": end.n,
            "outcome": end.outcome.as_str(),
            "next": next,
        });
        self.add(Event::new(kind, end.ended, fields));
    }
}
