//! Workers: registered, renewed, retired, rescued.

use super::State;
use super::tasks::Place;
use crate::attempt::{AttemptRecord, Next};
use crate::decide::{decide_loss, settle};
use crate::error::{StoreError, StoreErrorKind};
use crate::id::{TaskId, WorkerId};
use crate::task::{TaskState, check_name};
use crate::worker::{DEAD_SHOWN, Renewal, Rescue, WorkerInfo, WorkerView};
use punctual_clock::{Instant, Timestamp};
use std::collections::BTreeSet;
use std::time::Duration;

/// A registration that has not retired.
#[derive(Debug)]
pub(super) struct WorkerRow {
    info: WorkerInfo,
    /// When its lease ends, by the monotonic clock: a jump of the wall clock ends no lease.
    until: Instant,
    /// When it was marked dead.
    dead: Option<Timestamp>,
    pub(super) holds: BTreeSet<TaskId>,
}

impl State {
    /// Refuses a worker that was never registered, has retired, or was marked dead.
    pub(super) fn live_worker(&mut self, worker: WorkerId) -> Result<&mut WorkerRow, StoreError> {
        self.workers.get_mut(&worker).filter(|row| row.dead.is_none()).ok_or_else(|| {
            StoreError::new(
                StoreErrorKind::Fenced,
                format!("worker {} is no longer registered: what it held belongs to others; register anew", worker.0),
            )
        })
    }

    pub(super) fn register(&mut self, info: WorkerInfo, lease: Duration) -> Result<WorkerId, StoreError> {
        check_name("worker's name", &info.name)?;
        let id = WorkerId(self.next_worker);
        self.next_worker = self.next_worker.saturating_add(1);
        let row = WorkerRow { info, until: self.instant.after(lease), dead: None, holds: BTreeSet::new() };
        self.workers.insert(id, row);
        Ok(id)
    }

    pub(super) fn renew(&mut self, worker: WorkerId, lease: Duration) -> Result<Renewal, StoreError> {
        let until = self.instant.after(lease);
        let row = self.live_worker(worker)?;
        row.until = until;
        let holds = row.holds.clone();
        let cancel =
            holds.into_iter().filter(|id| self.tasks.get(id).is_some_and(|task| task.cancel_requested)).collect();
        Ok(Renewal { cancel })
    }

    pub(super) fn holdings(&mut self, worker: WorkerId) -> Result<Vec<(TaskId, u32)>, StoreError> {
        let holds = self.live_worker(worker)?.holds.clone();
        Ok(holds.into_iter().filter_map(|id| self.tasks.get(&id).map(|row| (id, row.n))).collect())
    }

    pub(super) fn retire(&mut self, worker: WorkerId) -> Result<(), StoreError> {
        if let Ok(row) = self.live_worker(worker) {
            let holds: Vec<TaskId> = row.holds.iter().copied().collect();
            self.give_back(worker, &holds);
            self.workers.remove(&worker);
        }
        Ok(())
    }

    pub(super) fn rescue(&mut self, by: WorkerId) -> Result<Rescue, StoreError> {
        self.live_worker(by)?;
        let now = self.now;
        let mut rescue = Rescue::default();
        let mut orphans = Vec::new();
        for (id, row) in &mut self.workers {
            if *id != by && row.dead.is_none() && row.until <= self.instant {
                row.dead = Some(now);
                rescue.workers += 1;
                orphans.extend(row.holds.iter().map(|task| (*id, *task)));
            }
        }
        for (worker, task) in orphans {
            self.lose(worker, task, &mut rescue);
        }
        rescue.failing.sort();
        Ok(rescue)
    }

    /// Records that a dead worker lost a task, and makes it wait or end.
    fn lose(&mut self, worker: WorkerId, task: TaskId, rescue: &mut Rescue) {
        let Some(row) = self.tasks.get_mut(&task) else { return };
        let Place::Running { claimed, .. } = row.place else { return };
        let n = row.n;
        let series = row.occurrence.as_ref().map(|occurrence| occurrence.name.clone());
        row.record(AttemptRecord::lost(n, worker, claimed, self.now));
        let next = match decide_loss(row.losses) {
            Some(losses) => {
                row.losses = losses;
                Next::Again { due: self.now, spent: row.spent }
            }
            None => Next::Final(TaskState::Failed),
        };
        match settle(next, row.cancel_requested) {
            Next::Again { due, .. } => {
                rescue.requeued += 1;
                self.wait(task, n.saturating_add(1), due);
            }
            Next::Final(state) => {
                rescue.failed += u32::from(state == TaskState::Failed);
                if let Some(name) = series.filter(|name| state == TaskState::Failed && !rescue.failing.contains(name)) {
                    rescue.failing.push(name);
                }
                self.end(task, state);
            }
        }
    }

    pub(super) fn worker_views(&self) -> Vec<WorkerView> {
        let shown = |row: &&WorkerRow| row.dead.is_none_or(|at| self.now.since(at) < DEAD_SHOWN);
        let view = |(id, row): (&WorkerId, &WorkerRow)| WorkerView {
            id: *id,
            name: row.info.name.clone(),
            slots: row.info.slots,
            holds: u32::try_from(row.holds.len()).unwrap_or(u32::MAX),
            until: self.now.after(row.until.since(self.instant)).before(self.instant.since(row.until)),
            alive: row.dead.is_none(),
        };
        self.workers.iter().filter(|(_, row)| shown(row)).map(view).collect()
    }

    /// Forgets dead workers that are no longer shown.
    pub(super) fn forget_workers(&mut self) {
        let now = self.now;
        self.workers.retain(|_, row| row.dead.is_none_or(|at| now.since(at) < DEAD_SHOWN));
    }
}
