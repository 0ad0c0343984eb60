//! Follow-ups: tasks that are written with the end of another, in one commit, so that a crash can neither lose nor double them.

use crate::attempt::Next;
use crate::error::StoreError;
use crate::id::TaskId;
use crate::task::{KeyMode, NewTask, TaskState};

/// How many follow-ups one attempt may leave.
pub const FOLLOW_UPS_MAX: usize = 100;

/// Which end of its task a follow-up waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FollowOn {
    /// The task succeeded.
    Success,
    /// It failed for good, with this attempt.
    Failure,
}

impl FollowOn {
    /// Whether what became of the task is the end that is waited for.
    #[must_use]
    pub const fn follows(self, next: Next) -> bool {
        match self {
            FollowOn::Success => matches!(next, Next::Final(TaskState::Succeeded)),
            FollowOn::Failure => matches!(next, Next::Final(TaskState::Failed)),
        }
    }
}

/// A task that is written with the end of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowUp {
    /// The task that it follows.
    pub task: TaskId,
    /// The attempt whose finish it comes with.
    pub n: u32,
    /// Which end it waits for.
    pub on: FollowOn,
    /// What is written, with a fresh id. Its unique key, if it has one, keeps its holder.
    pub then: NewTask,
}

impl FollowUp {
    /// Checks every limit.
    ///
    /// # Errors
    /// Names the field, the limit and the value. A key in mode [`Reject`](KeyMode::Reject) is refused: a task that has ended
    /// cannot be told of it.
    pub fn validate(&self) -> Result<(), StoreError> {
        if let Some(key) = self.then.key.as_ref().filter(|key| key.mode == KeyMode::Reject) {
            return Err(StoreError::refused(format!(
                "the follow-up's unique key {:?} would refuse the end of its task; use the mode `Keep`",
                key.text
            )));
        }
        self.then.validate()
    }
}
