//! What people see.

use super::State;
use super::keys::KeyName;
use super::tasks::{Place, TaskRow};
use crate::error::StoreError;
use crate::id::TaskId;
use crate::queue::QueueView;
use crate::schedule::SlotKey;
use crate::series::{Loss, ScheduleView, SlotEnd};
use crate::task::{Page, TaskDetail, TaskFilter, TaskState, TaskView, check_name};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;

impl State {
    pub(super) fn task_detail(&self, id: TaskId) -> Option<TaskDetail> {
        let row = self.tasks.get(&id)?;
        let held = KeyName::of(row).is_some_and(|name| self.key_holder(&name) == Some(id));
        Some(TaskDetail {
            view: view(id, row),
            args: row.args.clone(),
            options: row.options.clone(),
            key: row.key.as_ref().filter(|_| held).map(|key| key.text.clone()),
            progress: row.progress.clone(),
            attempts: row.attempts.clone(),
        })
    }

    pub(super) fn task_page(&self, filter: &TaskFilter, page: Page) -> Vec<TaskView> {
        let before = page.before.map_or(Bound::Unbounded, Bound::Excluded);
        let matches = |row: &TaskRow| {
            filter.state.is_none_or(|state| state == row.state())
                && filter.queue.as_ref().is_none_or(|queue| *queue == row.queue)
                && filter.method.as_ref().is_none_or(|method| *method == row.method)
                && filter
                    .schedule
                    .as_ref()
                    .is_none_or(|name| row.occurrence.as_ref().is_some_and(|occurrence| occurrence.name == *name))
        };
        self.tasks
            .range((Bound::Unbounded, before))
            .rev()
            .filter(|(_, row)| matches(row))
            .take(page.limit.min(Page::LIMIT_MAX) as usize)
            .map(|(id, row)| view(*id, row))
            .collect()
    }

    pub(super) fn queue_views(&self) -> Vec<QueueView> {
        let mut views: BTreeMap<&str, QueueView> = self
            .queues
            .iter()
            .map(|(name, paused)| {
                let view =
                    QueueView { name: name.clone(), paused: *paused, due: 0, later: 0, running: 0, oldest: None };
                (name.as_str(), view)
            })
            .collect();
        for row in self.tasks.values() {
            let Some(view) = views.get_mut(row.queue.as_str()) else { continue };
            match row.place {
                Place::Waiting { due } if due <= self.now => {
                    view.due += 1;
                    view.oldest = Some(view.oldest.map_or(due, |oldest| oldest.min(due)));
                }
                Place::Waiting { .. } => view.later += 1,
                Place::Running { .. } => view.running += 1,
                Place::Ended { .. } => {}
            }
        }
        views.into_values().collect()
    }

    pub(super) fn pause_queue(&mut self, queue: String, paused: bool) -> Result<bool, StoreError> {
        check_name("queue", &queue)?;
        if !paused && !self.queues.contains_key(&queue) {
            return Ok(false);
        }
        Ok(self.queues.insert(queue, paused).unwrap_or(false) != paused)
    }

    pub(super) fn schedule_view(&self, name: &str) -> Option<ScheduleView> {
        let row = self.schedules.get(self.names.get(name)?)?;
        Some(ScheduleView {
            spec: row.spec.clone(),
            position: row.position.clone(),
            created: row.created,
            live: row.live(),
            live_backfilled: row.live_backfilled(),
            lost: row.lost.iter().map(|(reason, count)| (*reason, *count)).collect(),
        })
    }

    pub(super) fn schedule_page(&self, after: Option<&str>, limit: u32) -> Vec<ScheduleView> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.names
            .range::<str, _>((after, Bound::Unbounded))
            .take(limit.min(Page::LIMIT_MAX) as usize)
            .filter_map(|(name, _)| self.schedule_view(name))
            .collect()
    }

    pub(super) fn losses(&self, name: &str, limit: u32) -> Result<Vec<Loss>, StoreError> {
        let id = self.schedule_id(name)?;
        let losses = self.schedules.get(&id).map(|row| row.losses.as_slice()).unwrap_or_default();
        Ok(losses.iter().rev().take(limit.min(Page::LIMIT_MAX) as usize).cloned().collect())
    }

    pub(super) fn slot_ends(&self, name: &str, limit: u32) -> Result<Vec<SlotEnd>, StoreError> {
        self.schedule_id(name)?;
        let mut ends: Vec<_> = self.tasks.iter().filter_map(|(id, row)| slot_end(*id, row, name)).collect();
        ends.sort_unstable_by_key(|(slot, _)| Reverse(*slot));
        ends.truncate(limit.min(Page::LIMIT_MAX) as usize);
        Ok(ends.into_iter().map(|(_, end)| end).collect())
    }
}

/// The era, slot and pass of an occurrence of this schedule, and how it ended.
fn slot_end(id: TaskId, row: &TaskRow, schedule: &str) -> Option<((u32, SlotKey, u32), SlotEnd)> {
    let failed = match row.state() {
        TaskState::Failed => true,
        TaskState::Succeeded => false,
        _ => return None,
    };
    let occurrence = row.occurrence.as_ref().filter(|occurrence| occurrence.name == schedule)?;
    let end = SlotEnd { task: id, ended: row.attempts.last()?.ended, failed };
    Some(((row.era, occurrence.slot?, occurrence.pass), end))
}

fn view(id: TaskId, row: &TaskRow) -> TaskView {
    let recorded = row.attempts.last().map_or(0, |attempt| attempt.n);
    let (due, attempts) = match row.place {
        Place::Waiting { due } => (due, row.n.saturating_sub(1)),
        Place::Running { .. } => (row.first_due, row.n),
        Place::Ended { .. } => (row.first_due, recorded),
    };
    TaskView {
        id,
        method: row.method.clone(),
        queue: row.queue.clone(),
        level: row.level,
        state: row.state(),
        created: row.created,
        due,
        attempts,
        occurrence: row.occurrence.clone(),
        error: row.attempts.last().and_then(crate::AttemptRecord::error),
    }
}
