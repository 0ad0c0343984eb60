//! Pauses schedules whose tasks fail again and again, where their definition asks for that.
//!
//! Whoever records a failure names the schedule; a loop of its own then looks at the store, which holds the truth for all
//! hosts: how many of the newest tasks failed since the last success. Two hosts that pause one schedule do no harm, and a host
//! that dies in between leaves it to the next failure. A task that failed because its workers died
//! counts, but makes nobody look.

use crate::pacing::Pace;
use crate::shared::{Phase, Shared};
use punctual_task::{
    Page, ScheduleCommand, ScheduleState, StoreError, StoreErrorKind, TaskFilter, TaskId, TaskState, TaskView,
};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// So many schedules wait to be looked at. The failure of one more is passed over: its next one names it again.
const WAITING_MAX: usize = 10_000;

/// So many of a schedule's newest tasks are looked at: several times the most failures that a definition may allow, since
/// they are read by id.
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

/// Pauses the schedule if as many of its newest tasks failed as its definition allows.
async fn look(shared: &Shared, schedule: &str) -> Result<(), StoreError> {
    let Some(view) = shared.store.schedule(schedule.to_owned()).await? else { return Ok(()) };
    let Some(most) = view.spec.pause_after.filter(|_| view.position.state == ScheduleState::Active) else {
        return Ok(());
    };
    let filter = TaskFilter { schedule: Some(schedule.to_owned()), ..TaskFilter::default() };
    let tasks = shared.store.tasks(filter, Page { before: None, limit: LOOKED_AT }).await?;
    let Some(last) = in_a_row(tasks, most) else { return Ok(()) };
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

/// The last of `most` failures with no success between them or after them, if that is how the newest tasks ended. Tasks that
/// have not ended, or ended otherwise, count neither way.
fn in_a_row(mut tasks: Vec<TaskView>, most: u32) -> Option<TaskId> {
    tasks.retain(|task| matches!(task.state, TaskState::Failed | TaskState::Succeeded));
    // Each host draws ids from a block of its own: between hosts they do not tell which task is newer.
    tasks.sort_by_key(|task| Reverse((task.created, task.id)));
    let most = most as usize;
    let failed = tasks.iter().take(most).filter(|task| task.state == TaskState::Failed).count();
    (most > 0 && failed == most).then(|| tasks.first().map(|task| task.id)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_clock::Timestamp;

    fn task(id: i64, created: i64, state: TaskState) -> TaskView {
        TaskView {
            id: TaskId(id),
            method: "Demo/run".to_owned(),
            queue: "Demo".to_owned(),
            level: 1,
            state,
            created: Timestamp::from_secs(created),
            due: Timestamp::from_secs(created),
            attempts: 1,
            occurrence: None,
            error: None,
        }
    }

    /// What counts is when tasks were created, on whichever host, and only failures and successes do.
    #[test]
    fn failures_are_counted_in_the_order_of_creation() {
        use TaskState::{Cancelled, Failed, Running, Succeeded};
        let tasks = |good| {
            vec![
                task(2_003, 3, Failed),
                task(2_002, 2, Failed),
                task(1_004, 5, Failed),
                task(1_003, 4, Cancelled),
                task(1_002, good, Succeeded),
                task(1_001, 6, Running),
            ]
        };
        assert_eq!(in_a_row(tasks(1), 3), Some(TaskId(1_004)));
        assert_eq!(in_a_row(tasks(4), 3), None, "a success in between, although its id is smaller");
        assert_eq!(in_a_row(tasks(4), 1), Some(TaskId(1_004)));
        assert_eq!(in_a_row(tasks(6), 1), None, "a success after the last failure");
        assert_eq!(in_a_row(tasks(1), 4), None, "too few failures");
    }
}
