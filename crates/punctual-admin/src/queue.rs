//! Queues.

/// One queue.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueLine {
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
    pub oldest: Option<String>,
}

/// What an act did to one queue.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueAct {
    /// Its name.
    pub name: String,
    /// Whether claims are paused now.
    pub paused: bool,
    /// Whether the act changed that.
    pub changed: bool,
}
