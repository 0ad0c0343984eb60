//! One pass of a sweep over one schedule.

use super::{Plan, Snapshot, Walk};
use crate::schedule::{RuleError, SlotKey};

/// Decides the due slots of one schedule.
///
/// `taken` are the keys of the walk's slots that have a task, in key order; other keys between do no harm. `live` is how
/// many occurrences, triggered ones included, have not ended.
#[must_use]
pub fn plan(snapshot: &Snapshot<'_>, walk: &Walk, taken: &[SlotKey], live: u32) -> Plan {
    let _ = (snapshot, walk, taken, live);
    unreachable!("being written")
}

/// Halts a schedule whose stored rule cannot be compiled here, such as one in a zone that this build does not know.
#[must_use]
pub fn plan_broken(position: &crate::series::Position, error: &RuleError) -> Plan {
    let _ = (position, error);
    unreachable!("being written")
}
