//! Workers: registrations, leases, rescues.

use crate::id::{TaskId, WorkerId};
use punctual_clock::Timestamp;
use std::time::Duration;

/// How long a lease lasts without renewal.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(15);
/// How often a worker renews.
pub const RENEWAL_DEFAULT: Duration = Duration::from_secs(3);
/// How long after sending its last good renewal a worker stops its handlers.
pub const STOP_AFTER_DEFAULT: Duration = Duration::from_secs(10);
/// How often a worker looks for dead ones.
pub const RESCUE_DEFAULT: Duration = Duration::from_secs(5);
/// How long a worker that was marked dead is listed.
pub const DEAD_SHOWN: Duration = Duration::from_secs(3600);
/// From this loss in a row on a task fails instead of running again: it may be what kills its workers.
pub const LOSSES_MAX: u32 = 3;

/// What a worker says of itself when it registers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerInfo {
    /// A name for people: host and process, unless configured.
    pub name: String,
    /// How many tasks it runs at once.
    pub slots: u32,
}

/// What a renewal gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Renewal {
    /// Tasks of this worker whose cancel was asked for.
    pub cancel: Vec<TaskId>,
}

/// What a rescue sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rescue {
    /// Workers that were found dead and fenced off.
    pub workers: u32,
    /// Tasks that wait again as suspects.
    pub requeued: u32,
    /// Tasks that failed after their last allowed loss.
    pub failed: u32,
    /// Schedules of which an occurrence is among those that failed, by name, each once.
    pub failing: Vec<String>,
}

/// A worker as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerView {
    /// The registration.
    pub id: WorkerId,
    /// Its name.
    pub name: String,
    /// How many tasks it runs at once.
    pub slots: u32,
    /// Tasks that it holds now.
    pub holds: u32,
    /// When its lease ends.
    pub until: Timestamp,
    /// Whether it is alive, as far as the store knows.
    pub alive: bool,
}
