//! An attempt: one physical try of a task, from claim to finish.

use crate::error::StoreError;
use crate::id::{TaskId, WorkerId};
use crate::policy::TaskOptions;
use crate::task::{ERROR_BYTES_MAX, Occurrence, PAYLOAD_BYTES_MAX, TaskState};
use bytes::Bytes;
use punctual_clock::Timestamp;
use serde::{Deserialize, Serialize};

/// What a worker asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// Only from this queue; `None` means any queue that is not paused.
    pub queue: Option<String>,
    /// Only these methods: a worker never takes what it cannot run.
    pub methods: Vec<String>,
    /// At most this many, from 1.
    pub limit: u32,
    /// Also tasks that a dead worker held (suspects). A worker asks for them only while it runs none, and they come
    /// alone: at most one a claim.
    pub suspects: bool,
}

/// What a claim gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimBatch {
    /// The tasks, in the order in which they are to run.
    pub tasks: Vec<Claimed>,
    /// When the next task that still waits in these queues (paused ones aside), of these methods, suspects or not as
    /// asked, becomes or became due: a hint for the next poll.
    pub next_due: Option<Timestamp>,
}

/// A task that a worker now holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The task.
    pub task: TaskId,
    /// This attempt's number, from 1.
    pub n: u32,
    /// Attempts spent before this one: retries count, losses and snoozes do not.
    pub spent: u32,
    /// How often in a row a worker died holding it.
    pub losses: u32,
    /// `Service/method`.
    pub method: String,
    /// The queue.
    pub queue: String,
    /// The arguments as JSON.
    pub args: Bytes,
    /// The fingerprint of the method's schema when the arguments were written.
    pub schema: u64,
    /// What it overrides of its method's policy.
    pub options: TaskOptions,
    /// When it was written.
    pub created: Timestamp,
    /// When this attempt became due.
    pub due: Timestamp,
    /// The schedule's slot, for an occurrence.
    pub occurrence: Option<Occurrence>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The handler returned a result.
    Succeeded,
    /// The handler returned an error.
    Failed,
    /// The handler panicked.
    Panicked,
    /// The budget ended first.
    TimedOut,
    /// It was cancelled.
    Cancelled,
    /// It was not started in time.
    Expired,
    /// The handler asked for a later time without spending an attempt.
    Snoozed,
    /// Its worker died or lost its lease.
    Lost,
    /// It was handed back unrun or unfinished when its worker stopped.
    HandedBack,
}

impl Outcome {
    /// The lower-case name, as JSON writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Succeeded => "succeeded",
            Outcome::Failed => "failed",
            Outcome::Panicked => "panicked",
            Outcome::TimedOut => "timed_out",
            Outcome::Cancelled => "cancelled",
            Outcome::Expired => "expired",
            Outcome::Snoozed => "snoozed",
            Outcome::Lost => "lost",
            Outcome::HandedBack => "handed_back",
        }
    }
}

/// What becomes of the task after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It has ended in this state, which is a final one.
    Final(TaskState),
    /// It waits for another attempt.
    Again {
        /// When; the past means now.
        due: Timestamp,
        /// Attempts spent, this one included if it counts.
        spent: u32,
    },
}

/// An attempt to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finish {
    /// The task.
    pub task: TaskId,
    /// The attempt's number, as claimed.
    pub n: u32,
    /// When the handler started, by the worker's clock.
    pub started: Timestamp,
    /// When it ended, by the worker's clock.
    pub ended: Timestamp,
    /// How it ended.
    pub outcome: Outcome,
    /// The result as JSON on success; otherwise `{"message": .., "detail": ..}`.
    pub out: Bytes,
    /// What becomes of the task.
    pub next: Next,
}

/// The largest [`Finish::out`], in bytes: the largest detail beside the longest message, which JSON may write at six times
/// its length.
pub const OUT_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + 6 * ERROR_BYTES_MAX + 64;

impl Finish {
    /// Checks every limit, before the attempt joins a batch with others.
    ///
    /// # Errors
    /// Names the limit and the value.
    pub fn validate(&self) -> Result<(), StoreError> {
        if self.out.len() > OUT_BYTES_MAX {
            return Err(StoreError::refused(format!(
                "the result of task {} has {} bytes; the limit is {OUT_BYTES_MAX}: store it elsewhere and return a reference",
                self.task,
                self.out.len()
            )));
        }
        match self.next {
            Next::Final(state) if !state.is_final() => Err(StoreError::refused(format!(
                "task {} cannot end as {}, which is no end",
                self.task,
                state.as_str()
            ))),
            Next::Final(_) | Next::Again { .. } => Ok(()),
        }
    }
}

/// What a finish gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Finished {
    /// Recorded now.
    Applied,
    /// This worker had recorded this very attempt before: a resend after a lost reply.
    Already,
    /// Refused: the worker no longer holds the task. Nothing was written.
    Lost,
}

/// A recorded attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    /// Its number, from 1; 0 for an end without an attempt (cancelled or expired while waiting).
    pub n: u32,
    /// The worker, 0 where there was none.
    pub worker: i64,
    /// When the handler started.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// How it ended.
    pub outcome: Outcome,
    /// Result or error, as in [`Finish::out`].
    pub out: Bytes,
}

impl AttemptRecord {
    /// The record of a task that was cancelled before an attempt began.
    #[must_use]
    pub fn cancelled_waiting(now: Timestamp) -> Self {
        let out = message("cancelled before it ran");
        AttemptRecord { n: 0, worker: 0, started: now, ended: now, outcome: Outcome::Cancelled, out }
    }

    /// The record of attempt `n`, claimed at `claimed` by a worker that was found dead.
    #[must_use]
    pub fn lost(n: u32, worker: WorkerId, claimed: Timestamp, now: Timestamp) -> Self {
        let out = message(&format!("worker {} stopped renewing its lease", worker.0));
        AttemptRecord { n, worker: worker.0, started: claimed, ended: now, outcome: Outcome::Lost, out }
    }

    /// The error's text, for an attempt that ended in one: the `message` of [`AttemptRecord::out`], or all of it if it has
    /// none.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        match self.outcome {
            Outcome::Succeeded | Outcome::Snoozed | Outcome::HandedBack => None,
            Outcome::Failed
            | Outcome::Panicked
            | Outcome::TimedOut
            | Outcome::Cancelled
            | Outcome::Expired
            | Outcome::Lost => {
                #[derive(Deserialize)]
                struct Message {
                    message: String,
                }
                Some(match serde_json::from_slice::<Message>(&self.out) {
                    Ok(Message { message }) => message,
                    Err(_) => String::from_utf8_lossy(&self.out).into_owned(),
                })
            }
        }
    }
}

/// `text` in the form of [`AttemptRecord::out`].
fn message(text: &str) -> Bytes {
    serde_json::json!({ "message": text }).to_string().into()
}

/// What a cancel gave, by task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CancelOutcome {
    /// It was waiting and is cancelled now.
    Cancelled,
    /// It is running: its worker is told with its next renewal, and the end is what the handler returns.
    Requested,
    /// It had already ended in this state.
    Ended(TaskState),
    /// There is no such task.
    Unknown,
}

/// What a redrive gave, by task.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RetryOutcome {
    /// It waits again, due now, with its spent attempts and losses back at zero.
    Waiting,
    /// It has not ended: there is nothing to retry.
    NotEnded(TaskState),
    /// Its unique key is held by another task.
    KeyHeld(TaskId),
    /// It is an occurrence of a schedule that was cancelled for good.
    SeriesCancelled,
    /// There is no such task.
    Unknown,
}
