//! What an operator's command does to a schedule.

use super::{Change, Snapshot, Walk};
use crate::error::StoreError;
use crate::schedule::SlotKey;
use crate::series::{ScheduleCommand, Steered};

/// What a command does.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandPlan {
    /// What to write.
    pub change: Change,
    /// What to answer, once written.
    pub answer: Steered,
}

/// Decides a command.
///
/// `taken` and `live` as for [`plan`](super::plan).
///
/// # Errors
/// If the schedule's state does not allow it ([`Refused`](crate::StoreErrorKind::Refused)), if an edit is invalid
/// (`Refused`) or was made against another version ([`Conflict`](crate::StoreErrorKind::Conflict)).
pub fn decide_command(
    snapshot: &Snapshot<'_>,
    command: &ScheduleCommand,
    walk: &Walk,
    taken: &[SlotKey],
    live: u32,
) -> Result<CommandPlan, StoreError> {
    let _ = (snapshot, command, walk, taken, live);
    unreachable!("being written")
}
