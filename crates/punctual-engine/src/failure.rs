//! How a handler's attempt fails, and what the failure asks for.

use bytes::Bytes;
pub use punctual_task::decide::Verdict;
use std::fmt;
use std::time::Duration;

/// A failed attempt as the engine records it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong, for people. Cut to 16 KiB when recorded.
    pub message: String,
    /// The error as JSON, for [`Durable::Err`](crate::Durable::Err); empty if there is none.
    pub detail: Bytes,
    /// What becomes of the task.
    pub verdict: Verdict,
}

impl Failure {
    /// A failure that is retried as the policy says.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Failure { message: message.into(), detail: Bytes::new(), verdict: Verdict::Retry }
    }

    /// A failure that no further attempt can mend.
    #[must_use]
    pub fn dead_letter(message: impl Into<String>) -> Self {
        Self::new(message).with_verdict(Verdict::DeadLetter)
    }

    /// A failure after which the task waits for so long without an attempt being spent.
    #[must_use]
    pub fn snooze(message: impl Into<String>, wait: Duration) -> Self {
        Self::new(message).with_verdict(Verdict::Snooze(wait))
    }

    /// A failure after which the task ends as cancelled: it is of no use any more.
    #[must_use]
    pub fn cancel(message: impl Into<String>) -> Self {
        Self::new(message).with_verdict(Verdict::Cancel)
    }

    /// The same with another verdict.
    #[must_use]
    pub fn with_verdict(mut self, verdict: Verdict) -> Self {
        self.verdict = verdict;
        self
    }

    /// The same with the error's JSON form.
    #[must_use]
    pub fn with_detail(mut self, detail: Bytes) -> Self {
        self.detail = detail;
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
