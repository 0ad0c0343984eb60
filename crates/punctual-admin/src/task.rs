//! Tasks.

/// Which tasks a list shows. Empty fields do not restrict.
#[punctual::message]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskQuery {
    /// `waiting`, `parked`, `running`, `succeeded`, `failed`, `cancelled` or `expired`.
    #[serde(default)]
    pub state: Option<String>,
    /// Only in this queue.
    #[serde(default)]
    pub queue: Option<String>,
    /// Only of this method (`Service/method`).
    #[serde(default)]
    pub method: Option<String>,
    /// Only occurrences of this schedule.
    #[serde(default)]
    pub schedule: Option<String>,
    /// Only older than this task: the last one of the page before.
    #[serde(default)]
    pub before: Option<String>,
    /// At most this many, 1 to 1,000; 0 means 50.
    #[serde(default)]
    pub limit: u32,
}

/// One line of a task list.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskLine {
    /// The task.
    pub id: String,
    /// `Service/method`.
    pub method: String,
    /// The queue.
    pub queue: String,
    /// 0 (first) to 3 (last).
    pub priority: u8,
    /// Where it is.
    pub state: String,
    /// When it was written.
    pub created: String,
    /// When it is or was due.
    pub due: String,
    /// Attempts begun so far.
    pub attempts: u32,
    /// The schedule, for an occurrence.
    pub schedule: Option<String>,
    /// The nominal instant, for an occurrence.
    pub slot: Option<String>,
    /// The last attempt's error, if it failed.
    pub error: Option<String>,
}

/// All that is kept of one task.
#[punctual::message]
#[derive(Debug, Clone, PartialEq)]
pub struct TaskReport {
    /// The list's line.
    pub task: TaskLine,
    /// The arguments.
    pub args: serde_json::Value,
    /// The unique key, while it is held.
    pub key: Option<String>,
    /// The run number within the schedule, for an occurrence that spent one.
    pub run: Option<u64>,
    /// Every finished attempt, in order.
    pub attempts: Vec<AttemptLine>,
    /// What its attempts said of themselves last, if they said anything.
    #[serde(default)]
    pub progress: Option<ProgressLine>,
}

/// What an attempt said of itself.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgressLine {
    /// The attempt's number.
    pub attempt: u32,
    /// When it said so.
    pub at: String,
    /// How far it was, 0 to 100, if it knew.
    pub percent: Option<u8>,
    /// What it did.
    pub message: String,
    /// The size of the checkpoint that the next attempt finds, in bytes; absent where there is none.
    pub checkpoint_bytes: Option<u64>,
}

/// One attempt.
#[punctual::message]
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptLine {
    /// Its number, from 1; 0 for an end without an attempt.
    pub n: u32,
    /// The worker's registration, 0 where there was none.
    pub worker: i64,
    /// When the handler started.
    pub started: String,
    /// When it ended.
    pub ended: String,
    /// `succeeded`, `failed`, `panicked`, `timed_out`, `cancelled`, `expired`, `snoozed`, `lost` or `handed_back`.
    pub outcome: String,
    /// The result, or the error: `{"message": .., "detail": ..}`.
    pub out: serde_json::Value,
}

/// A task to be stored.
#[punctual::message]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskDraft {
    /// `Service/method`.
    pub method: String,
    /// The arguments as JSON text.
    pub args: String,
    /// The queue; the service's name if absent.
    #[serde(default)]
    pub queue: Option<String>,
    /// A unique key among tasks of the method, up to 255 bytes, held until the task has ended.
    #[serde(default)]
    pub key: Option<String>,
    /// How long to wait before the first attempt (`10m`), instead of `at`.
    #[serde(default)]
    pub delay: Option<String>,
    /// When the first attempt is due (RFC 3339); the past means now.
    #[serde(default)]
    pub at: Option<String>,
    /// Its level in the queue, 0 (first) to 3 (last); 1 if absent.
    #[serde(default)]
    pub priority: Option<u8>,
    /// How many attempts may be spent in all.
    #[serde(default)]
    pub attempts: Option<u32>,
    /// The budget of one attempt (`30s`).
    #[serde(default)]
    pub timeout: Option<String>,
}

/// A task that is stored.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTask {
    /// The task: the new one, or the holder of its key.
    pub id: String,
    /// Whether it is new; otherwise the holder of its key was there already.
    pub inserted: bool,
    /// Its queue.
    pub queue: String,
}

/// What an act did to one task.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskAct {
    /// The task.
    pub id: String,
    /// Of a cancel: `cancelled`, `requested` (it runs, and its handler is asked to stop), `ended` (before) or `unknown`.
    /// Of a retry: `waiting`, `not_ended`, `key_held` (by another task), `series_cancelled` or `unknown`.
    pub outcome: String,
    /// The outcome in words.
    pub detail: String,
}
