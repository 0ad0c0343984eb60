//! Pauses schedules whose tasks fail again and again, where their definition asks for that.
//!
//! Whoever records a failure names the schedule; a loop of its own then looks at the store, which holds the truth for all
//! hosts: whether the occurrences that ended last have all failed. Two hosts that pause one schedule do no harm, and a host
//! that dies in between leaves it to the next failure.

use crate::pacing::Pace;
use crate::shared::{Phase, Shared};
use punctual_task::{ScheduleCommand, ScheduleState, SlotEnd, StoreError, StoreErrorKind, TaskId};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// So many schedules wait to be looked at. The failure of one more is passed over: its next one names it again.
const WAITING_MAX: usize = 10_000;

/// The ends of so many of a schedule's newest slots are looked at: several times the most failures that a definition may
/// allow, since occurrences that run beside each other end in another order than their slots'.
const LOOKED_AT: u32 = 500;

/// Schedules whose tasks have failed since they were looked at.
#[derive(Debug, Default)]
pub(crate) struct Failing {
    names: Mutex<BTreeSet<String>>,
    added: Notify,
}

impl Failing {
    /// A task of this schedule has failed for good.
    pub(crate) fn add(&self, schedule: &str) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() < WAITING_MAX {
            names.insert(schedule.to_owned());
            self.added.notify_one();
        }
    }

    fn first(&self) -> Option<String> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).first().cloned()
    }

    fn remove(&self, schedule: &str) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).remove(schedule);
    }
}

/// Runs until the engine drains.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut pace = Pace::default();
    while shared.phase() < Phase::Draining {
        let Some(schedule) = shared.failing.first() else {
            tokio::select! {
                biased;
                () = shared.reached(Phase::Draining) => return,
                () = shared.failing.added.notified() => continue,
            }
        };
        // Before the look: a failure that comes meanwhile is looked at again.
        shared.failing.remove(&schedule);
        if let Err(error) = look(&shared, &schedule).await {
            shared.store_failed("looking at a schedule that fails", &error);
            if error.is_retryable() {
                shared.failing.add(&schedule);
                if !shared.sleep(pace.failed(&*shared.entropy), Phase::Draining).await {
                    return;
                }
            }
        } else {
            pace.succeeded();
        }
    }
}

/// Pauses the schedule if as many of the occurrences that ended last failed as its definition allows.
async fn look(shared: &Shared, schedule: &str) -> Result<(), StoreError> {
    let Some(view) = shared.store.schedule(schedule.to_owned()).await? else { return Ok(()) };
    let Some(most) = view.spec.pause_after.filter(|_| view.position.state == ScheduleState::Active) else {
        return Ok(());
    };
    let ends = shared.store.slot_ends(schedule.to_owned(), LOOKED_AT).await?;
    let Some(last) = in_a_row(ends, most) else { return Ok(()) };
    let note = format!("{most} tasks failed in a row, the last of them task {last}");
    match shared.store.steer(schedule.to_owned(), ScheduleCommand::Pause { note: note.clone() }).await {
        Ok(_) => {
            tracing::warn!(schedule, %note, "a schedule was paused");
            Ok(())
        }
        // It has ended, or was cancelled, meanwhile.
        Err(error) if error.kind() == StoreErrorKind::Refused => Ok(()),
        Err(error) => Err(error),
    }
}

/// The last of `most` failures with no success between them or after them, if that is how it ended lately.
fn in_a_row(mut ends: Vec<SlotEnd>, most: u32) -> Option<TaskId> {
    ends.sort_by_key(|end| Reverse((end.ended, end.task)));
    let last = ends.get(..most as usize)?;
    last.iter().all(|end| end.failed).then(|| last.first().map(|end| end.task)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_clock::Timestamp;

    fn end(id: i64, ended: i64, failed: bool) -> SlotEnd {
        SlotEnd { task: TaskId(id), ended: Timestamp::from_secs(ended), failed }
    }

    /// What counts is when occurrences ended, whichever slots and ids they have.
    #[test]
    fn failures_are_counted_in_the_order_of_their_ends() {
        let ends = |good| vec![end(2_003, 3, true), end(2_002, 2, true), end(1_004, 5, true), end(1_002, good, false)];
        assert_eq!(in_a_row(ends(1), 3), Some(TaskId(1_004)));
        assert_eq!(in_a_row(ends(4), 3), None, "a success in between, although its id is smaller");
        assert_eq!(in_a_row(ends(4), 1), Some(TaskId(1_004)));
        assert_eq!(in_a_row(ends(6), 1), None, "a success after the last failure");
        assert_eq!(in_a_row(ends(1), 4), None, "too few failures");
        assert_eq!(in_a_row(Vec::new(), 1), None);
    }
}
