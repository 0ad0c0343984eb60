//! Retention.

use super::State;
use super::tasks::TaskRow;
use crate::id::TaskId;
use crate::retention::{Pruned, Retention};
use crate::task::TaskState;
use std::time::Duration;

impl State {
    pub(super) fn prune(&mut self, retention: Retention, limit: u32) -> Pruned {
        let old = |row: &TaskRow| {
            let keep = if row.state() == TaskState::Failed { retention.failed } else { retention.ended };
            matches!((row.ended(), keep), (Some(ended), Some(keep)) if self.now.since(ended) >= keep)
        };
        let doomed: Vec<TaskId> = self
            .tasks
            .iter()
            .filter(|(_, row)| old(row) && !self.guards_slot(row))
            .take(limit as usize)
            .map(|(id, _)| *id)
            .collect();
        for id in &doomed {
            let Some(row) = self.tasks.remove(id) else { continue };
            if let Some(occurrence) = row.occurrence
                && let Some(slot) = occurrence.slot
            {
                self.slots.remove(&(occurrence.schedule, row.era, slot.as_raw(), occurrence.pass));
                if let Some(schedule) = self.schedules.get_mut(&occurrence.schedule) {
                    // A backfill cannot tell any more that there was a task.
                    let after = occurrence.at.after(Duration::from_micros(1));
                    schedule.position.known_from = schedule.position.known_from.max(Some(after));
                }
            }
        }
        if let Some(keep) = retention.ended {
            let now = self.now;
            for row in self.schedules.values_mut() {
                row.losses.retain(|loss| now.since(loss.to) < keep);
            }
        }
        let now = self.now;
        self.keys.retain(|_, row| row.until.is_none_or(|until| until > now));
        self.forget_workers();
        let tasks = u32::try_from(doomed.len()).unwrap_or(u32::MAX);
        Pruned { tasks, more: tasks > 0 && tasks >= limit }
    }

    /// Whether a sweep would create the row's slot again if the row were not there.
    fn guards_slot(&self, row: &TaskRow) -> bool {
        let Some(occurrence) = row.occurrence.as_ref().filter(|occurrence| occurrence.slot.is_some()) else {
            return false;
        };
        let Some(schedule) = self.schedules.get(&occurrence.schedule) else { return false };
        let undecided = schedule.position.cursor.is_some_and(|cursor| occurrence.at >= cursor.at);
        schedule.position.era == row.era && undecided
    }
}
