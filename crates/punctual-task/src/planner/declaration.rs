//! What a declaration does: at first, and each time a program starts again.

use super::{Change, Snapshot, Walk};
use crate::error::StoreError;
use crate::id::ScheduleId;
use crate::schedule::SlotKey;
use crate::series::{Declaration, Declared};
use punctual_clock::Timestamp;

/// What a declaration does.
#[derive(Debug, Clone, PartialEq)]
pub struct DeclarationPlan {
    /// What to write to the schedule; `None` leaves it as it is.
    pub change: Option<Change>,
    /// The declared definition's [`fingerprint`](crate::ScheduleSpec::fingerprint), to be kept with the schedule.
    pub hash: u64,
    /// The build's revision, to be kept with the schedule.
    pub revision: u64,
    /// What to answer, once written.
    pub answer: Declared,
}

/// Decides the first declaration of a name. The schedule is created `now`, with the definition that was declared.
///
/// # Errors
/// If the definition or its rule is invalid.
pub fn decide_creation(
    declaration: &Declaration,
    id: ScheduleId,
    now: Timestamp,
) -> Result<DeclarationPlan, StoreError> {
    let _ = (declaration, id, now);
    unreachable!("being written")
}

/// Decides the declaration of a schedule that exists. `hash` and `revision` are those kept with it.
///
/// # Errors
/// If the definition or its rule is invalid.
pub fn decide_declaration(
    snapshot: &Snapshot<'_>,
    hash: u64,
    revision: u64,
    declaration: &Declaration,
    walk: &Walk,
    taken: &[SlotKey],
) -> Result<DeclarationPlan, StoreError> {
    let _ = (snapshot, hash, revision, declaration, walk, taken);
    unreachable!("being written")
}
