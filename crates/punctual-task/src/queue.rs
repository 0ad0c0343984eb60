//! A queue as an operator sees it.

use punctual_clock::Timestamp;

/// One queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueView {
    /// Its name.
    pub name: String,
    /// Whether claims are paused.
    pub paused: bool,
    /// Tasks that are due now.
    pub due: u64,
    /// Tasks that become due later.
    pub later: u64,
    /// Tasks that run now.
    pub running: u64,
    /// Since when the oldest due task is due.
    pub oldest: Option<Timestamp>,
}
