//! Who is told of the attempts that end in an engine: for events and metrics of whoever runs it.

use punctual_clock::Timestamp;
use punctual_task::{Next, Outcome, TaskId};
use std::fmt::Debug;

/// An attempt that ended in this engine, as the store recorded it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct AttemptEnd<'a> {
    /// The task.
    pub task: TaskId,
    /// The attempt's number, from 1.
    pub n: u32,
    /// `Service/method`.
    pub method: &'a str,
    /// The queue.
    pub queue: &'a str,
    /// The schedule, for an occurrence.
    pub schedule: Option<&'a str>,
    /// How it ended.
    pub outcome: Outcome,
    /// What becomes of the task. A cancel that came meanwhile may have the last word.
    pub next: Next,
    /// When it ended, by the worker's clock.
    pub ended: Timestamp,
}

/// Who is told. It is called in the loop that records attempts, after the store has answered: it should take no longer than
/// counting does, and must not wait. What it panics with is caught, and the engine goes on.
pub trait ObserveAttempts: Debug + Send + Sync + 'static {
    /// An attempt was recorded, once.
    fn ended(&self, end: &AttemptEnd<'_>);
}

/// What an observer wants to know of an attempt beside its record; kept only where there is one.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) queue: String,
    pub(crate) schedule: Option<String>,
}
