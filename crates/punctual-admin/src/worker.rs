//! Workers.

/// One worker.
#[punctual::message]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerLine {
    /// Its registration: the fence.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// How many tasks it runs at once.
    pub slots: u32,
    /// Tasks that it holds now.
    pub holds: u32,
    /// When its lease ends.
    pub lease_until: String,
    /// Whether it is alive, as far as the store knows.
    pub alive: bool,
}
