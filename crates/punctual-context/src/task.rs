//! What a handler may know about the durable attempt that it serves.

use punctual_clock::Timestamp;
use std::time::Duration;

/// One attempt of a durable task.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskScope {
    /// The task's id.
    pub id: u64,
    /// Which physical try this is, from 1.
    pub attempt: u32,
    /// How many tries the task may spend in all.
    pub attempts_max: u32,
    /// The queue that it was claimed from.
    pub queue: String,
    /// When the task was enqueued.
    pub created: Timestamp,
    /// The schedule's slot, for an occurrence.
    pub slot: Option<SlotScope>,
}

impl TaskScope {
    /// A scope without a slot.
    #[must_use]
    pub fn new(id: u64, attempt: u32, attempts_max: u32, queue: String, created: Timestamp) -> Self {
        TaskScope { id, attempt, attempts_max, queue, created, slot: None }
    }

    /// The same for an occurrence of a schedule.
    #[must_use]
    pub fn with_slot(mut self, slot: SlotScope) -> Self {
        self.slot = Some(slot);
        self
    }
}

/// The slot that an occurrence serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotScope {
    /// The schedule's name.
    pub schedule: String,
    /// The nominal instant, UTC; for a triggered run the instant of the trigger.
    pub at: Timestamp,
    /// The nominal instant as the schedule's zone wrote it, with offset (`2026-03-08T03:00:00-04:00[America/New_York]`).
    pub local: String,
    /// The run number within the schedule, from 1; 0 for a trigger or a backfill, which spend none.
    pub run: u64,
    /// How long after the nominal instant this attempt started.
    pub late: Duration,
    /// Whether the slot was already missed when it was decided.
    pub catch_up: bool,
}
