//! A schedule as a decision sees it.

use crate::schedule::CompiledRule;
use crate::series::{Position, ScheduleSpec};
use punctual_clock::Timestamp;

/// What a store has read of one schedule under its lock.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'a> {
    /// The current definition.
    pub spec: &'a ScheduleSpec,
    /// The definition's rule, compiled with `created`. Worth a cache by (schedule, version).
    pub rule: &'a CompiledRule,
    /// Where it stands.
    pub position: &'a Position,
    /// When the schedule was created.
    pub created: Timestamp,
}
