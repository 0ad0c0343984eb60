//! A task: what is written when it is enqueued, and what can be seen of it later.

use crate::attempt::AttemptRecord;
use crate::error::StoreError;
use crate::id::{ScheduleId, TaskId};
use crate::policy::{Policy, TaskOptions};
use crate::progress::Progress;
use crate::schedule::SlotKey;
use bytes::Bytes;
use punctual_clock::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The largest arguments or result, in bytes: as much as one message of the RPC half.
pub const PAYLOAD_BYTES_MAX: usize = 4 << 20;
/// The longest queue, method, schedule or worker name, in bytes: it fits an index on every database.
pub const NAME_BYTES_MAX: usize = 200;
/// The longest unique key, in bytes.
pub const KEY_BYTES_MAX: usize = 255;
/// The longest error text kept with an attempt, in bytes.
pub const ERROR_BYTES_MAX: usize = 16 << 10;
/// How much older a task must be to come before one of the level above: the ageing that keeps low levels from starving.
pub const LEVEL_AGE: Duration = Duration::from_secs(30);

/// When a task becomes due. The database's clock decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// At once.
    Now,
    /// This long after the write.
    After(Duration),
    /// At an instant; one in the past means now.
    At(Timestamp),
}

/// Where a unique key counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyScope {
    /// Among tasks of the same method.
    Method,
    /// Among tasks of the same queue.
    Queue,
}

/// How long a unique key is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyHold {
    /// Until the first attempt is claimed.
    Waiting,
    /// Until the task has ended in any way.
    Finished,
    /// Until this long after it ended.
    FinishedPlus(Duration),
}

/// What an enqueue into a taken key gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyMode {
    /// The holder's id, and that it was already there.
    Keep,
    /// An error that names the holder.
    Reject,
}

/// At most one live task holds a key in its scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueKey {
    /// The key, 1 to 255 bytes, no NUL.
    pub text: String,
    /// Where it counts.
    pub scope: KeyScope,
    /// How long it is held.
    pub hold: KeyHold,
    /// What the second enqueue gets.
    pub mode: KeyMode,
}

impl UniqueKey {
    /// `text` among tasks of the method, until finished, keeping the first.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        UniqueKey { text: text.into(), scope: KeyScope::Method, hold: KeyHold::Finished, mode: KeyMode::Keep }
    }
}

/// A task to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTask {
    /// Drawn before the write.
    pub id: TaskId,
    /// `Service/method`.
    pub method: String,
    /// The queue.
    pub queue: String,
    /// 0 (first) to 3 (last).
    pub level: u8,
    /// When it becomes due.
    pub due: Due,
    /// The arguments as JSON.
    pub args: Bytes,
    /// The fingerprint of the method's schema when the arguments were written.
    pub schema: u64,
    /// What it overrides of the method's policy.
    pub options: TaskOptions,
    /// Its unique key, if it has one.
    pub key: Option<UniqueKey>,
}

impl NewTask {
    /// Checks every limit, before the task joins a batch with others.
    ///
    /// # Errors
    /// Names the field, the limit and the value.
    pub fn validate(&self) -> Result<(), StoreError> {
        check_name("method", &self.method)?;
        check_name("queue", &self.queue)?;
        if self.level > Policy::LEVEL_MAX {
            return Err(StoreError::refused(format!("the priority {} is not 0 to {}", self.level, Policy::LEVEL_MAX)));
        }
        check_payload(&self.args)?;
        if self.options.attempts == Some(0) {
            return Err(StoreError::refused("a task needs at least 1 attempt"));
        }
        if let Some(key) = &self.key {
            check_text("unique key", &key.text, KEY_BYTES_MAX)?;
        }
        Ok(())
    }
}

/// Checks a queue, method, schedule or worker name: 1 to 200 bytes, no control characters.
///
/// # Errors
/// Names the field and the limit.
pub fn check_name(field: &str, name: &str) -> Result<(), StoreError> {
    check_text(field, name, NAME_BYTES_MAX)
}

/// Checks arguments: at most [`PAYLOAD_BYTES_MAX`].
///
/// # Errors
/// Names the limit and the size.
pub fn check_payload(args: &Bytes) -> Result<(), StoreError> {
    if args.len() > PAYLOAD_BYTES_MAX {
        return Err(StoreError::refused(format!(
            "the arguments have {} bytes; the limit is {PAYLOAD_BYTES_MAX}: store the data elsewhere and pass a reference",
            args.len()
        )));
    }
    Ok(())
}

fn check_text(field: &str, text: &str, bytes_max: usize) -> Result<(), StoreError> {
    if text.is_empty() || text.len() > bytes_max {
        return Err(StoreError::refused(format!(
            "the {field} has {} bytes; it must have 1 to {bytes_max}",
            text.len()
        )));
    }
    if text.chars().any(char::is_control) {
        return Err(StoreError::refused(format!("the {field} {text:?} has a control character")));
    }
    Ok(())
}

/// What an enqueue gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enqueued {
    /// The new task, or the holder of the unique key.
    pub id: TaskId,
    /// Whether the task was inserted; otherwise it was already there.
    pub inserted: bool,
}

/// Where a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Due now or later.
    Waiting,
    /// Held by a limit, a dependency or a missing handler.
    Parked,
    /// Claimed by a worker.
    Running,
    /// Ended well.
    Succeeded,
    /// Ended for good after its last attempt: a dead letter.
    Failed,
    /// Cancelled.
    Cancelled,
    /// Not started in time.
    Expired,
}

impl TaskState {
    /// Whether the task has ended.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, TaskState::Succeeded | TaskState::Failed | TaskState::Cancelled | TaskState::Expired)
    }

    /// The lower-case name, as filters and JSON write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            TaskState::Waiting => "waiting",
            TaskState::Parked => "parked",
            TaskState::Running => "running",
            TaskState::Succeeded => "succeeded",
            TaskState::Failed => "failed",
            TaskState::Cancelled => "cancelled",
            TaskState::Expired => "expired",
        }
    }
}

/// The schedule's slot that a task was created for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occurrence {
    /// The schedule.
    pub schedule: ScheduleId,
    /// Its name.
    pub name: String,
    /// The slot's identity; `None` for a trigger.
    pub slot: Option<SlotKey>,
    /// The nominal instant.
    pub at: Timestamp,
    /// The run number from 1; 0 where none was spent.
    pub run: u64,
    /// Whether the slot was already late when it was decided.
    pub catch_up: bool,
    /// The number of the backfill that created it; 0 for the series itself and for a trigger.
    pub pass: u32,
}

/// One line of a task list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskView {
    /// The task.
    pub id: TaskId,
    /// `Service/method`.
    pub method: String,
    /// The queue.
    pub queue: String,
    /// 0 (first) to 3 (last).
    pub level: u8,
    /// Where it is.
    pub state: TaskState,
    /// When it was written.
    pub created: Timestamp,
    /// When it is or was due: of the next attempt while it waits, else of the first.
    pub due: Timestamp,
    /// Attempts begun so far.
    pub attempts: u32,
    /// The schedule's slot, for an occurrence.
    pub occurrence: Option<Occurrence>,
    /// The last attempt's error text, if it failed: [`AttemptRecord::error`] of the one with the highest number.
    pub error: Option<String>,
}

/// All that is kept of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskDetail {
    /// The list's line.
    pub view: TaskView,
    /// The arguments as JSON.
    pub args: Bytes,
    /// What it overrides of its method's policy.
    pub options: TaskOptions,
    /// The unique key, while it is held.
    pub key: Option<String>,
    /// What its attempts said of themselves last, if they said anything.
    pub progress: Option<Progress>,
    /// Every finished attempt, in order.
    pub attempts: Vec<AttemptRecord>,
}

/// Which tasks a list shows. Empty fields do not restrict.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskFilter {
    /// Only in this state.
    pub state: Option<TaskState>,
    /// Only in this queue.
    pub queue: Option<String>,
    /// Only of this method.
    pub method: Option<String>,
    /// Only occurrences of the schedule with this name.
    pub schedule: Option<String>,
}

/// One page of a list, by key: newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Only ids below this one.
    pub before: Option<TaskId>,
    /// At most this many rows, up to [`Page::LIMIT_MAX`].
    pub limit: u32,
}

impl Page {
    /// The longest page.
    pub const LIMIT_MAX: u32 = 1000;
}

impl Default for Page {
    fn default() -> Self {
        Page { before: None, limit: 50 }
    }
}
