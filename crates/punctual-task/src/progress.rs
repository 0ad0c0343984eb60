//! What a running attempt says of itself: how far it is, and where the next attempt may go on.

use crate::error::StoreError;
use crate::id::TaskId;
use bytes::Bytes;
use punctual_clock::Timestamp;

/// The longest message of a report, in bytes: a line or two for people.
pub const PROGRESS_MESSAGE_BYTES_MAX: usize = 1 << 10;
/// The largest checkpoint, in bytes: a place to go on from, not the work itself.
pub const CHECKPOINT_BYTES_MAX: usize = 64 << 10;
/// How many reports one call may have.
pub const REPORTS_MAX: usize = 10_000;

/// What an attempt says while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The task.
    pub task: TaskId,
    /// The attempt's number, as claimed.
    pub n: u32,
    /// When it was said, by the worker's clock.
    pub at: Timestamp,
    /// How far it is, 0 to 100, if it knows.
    pub percent: Option<u8>,
    /// What it does, for people; may be empty.
    pub message: String,
    /// Where the next attempt may go on, as JSON. `None` leaves what is kept, also by an earlier attempt.
    pub checkpoint: Option<Bytes>,
}

impl Report {
    /// Checks every limit, before the report joins a batch with others.
    ///
    /// # Errors
    /// Names the field, the limit and the value.
    pub fn validate(&self) -> Result<(), StoreError> {
        let refuse = |text: String| Err(StoreError::refused(text));
        if let Some(percent) = self.percent.filter(|percent| *percent > 100) {
            return refuse(format!("task {} is {percent} percent done; the limit is 100", self.task));
        }
        if self.message.len() > PROGRESS_MESSAGE_BYTES_MAX || self.message.contains('\0') {
            return refuse(format!(
                "the message of task {} has {} bytes or a NUL; the limit is {PROGRESS_MESSAGE_BYTES_MAX}, without one",
                self.task,
                self.message.len()
            ));
        }
        match &self.checkpoint {
            Some(checkpoint) if checkpoint.len() > CHECKPOINT_BYTES_MAX => refuse(format!(
                "the checkpoint of task {} has {} bytes; the limit is {CHECKPOINT_BYTES_MAX}: store it elsewhere and keep a reference",
                self.task,
                checkpoint.len()
            )),
            _ => Ok(()),
        }
    }

    /// Takes up what came before it, of the same task.
    pub fn follow(&mut self, earlier: Report) {
        self.checkpoint = self.checkpoint.take().or(earlier.checkpoint);
    }

    /// Checks all of a call.
    ///
    /// # Errors
    /// Names the field, the limit and the value.
    pub fn validate_all(reports: &[Report]) -> Result<(), StoreError> {
        if reports.len() > REPORTS_MAX {
            let count = reports.len();
            return Err(StoreError::refused(format!(
                "{count} reports in one call are more than the limit of {REPORTS_MAX}; send them in parts"
            )));
        }
        reports.iter().try_for_each(Report::validate)
    }
}

/// What is kept of a task's reports: the last one, and the last checkpoint of any attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The attempt that said it.
    pub n: u32,
    /// When, by its worker's clock.
    pub at: Timestamp,
    /// How far it was, 0 to 100, if it knew.
    pub percent: Option<u8>,
    /// What it did.
    pub message: String,
    /// Where the next attempt may go on, as JSON.
    pub checkpoint: Option<Bytes>,
}
