//! Claims: tasks taken by workers, finished, and given back.

use super::State;
use super::tasks::{Place, TaskRow};
use crate::attempt::{AttemptRecord, ClaimBatch, ClaimRequest, Claimed, Finish, Finished, Next};
use crate::decide::settle;
use crate::error::StoreError;
use crate::follow_up::FollowUp;
use crate::id::{TaskId, WorkerId};
use crate::policy::Policy;
use crate::progress::{Progress, Report};
use crate::task::{LEVEL_AGE, NewTask, TaskState};
use punctual_clock::Timestamp;

impl State {
    pub(super) fn claim(&mut self, worker: WorkerId, request: &ClaimRequest) -> Result<ClaimBatch, StoreError> {
        self.live_worker(worker)?;
        let mut chosen = Vec::new();
        if request.limit > 0
            && let Some(level) = self.claim_level(request)
        {
            for (id, row) in self.matching(level, request).take_while(|(_, row)| self.is_due(row)) {
                let suspect = row.losses > 0;
                if suspect && !chosen.is_empty() {
                    continue;
                }
                chosen.push(id);
                if suspect || chosen.len() >= request.limit as usize {
                    break;
                }
            }
        }
        let tasks = chosen.into_iter().filter_map(|id| self.take(id, worker)).collect();
        let next_due = (0..=Policy::LEVEL_MAX)
            .filter_map(|level| self.matching(level, request).next())
            .filter_map(|(_, row)| due(row))
            .min();
        Ok(ClaimBatch { tasks, next_due })
    }

    /// The level that this claim reads.
    fn claim_level(&self, request: &ClaimRequest) -> Option<u8> {
        (0..=Policy::LEVEL_MAX)
            .filter_map(|level| {
                let (_, head) = self.matching(level, request).next().filter(|(_, row)| self.is_due(row))?;
                Some((due(head)?.after(LEVEL_AGE.saturating_mul(u32::from(level))), level))
            })
            .min()
            .map(|(_, level)| level)
    }

    /// The waiting tasks of a level that a request asks for, in claim order, due or not.
    fn matching<'a>(
        &'a self,
        level: u8,
        request: &'a ClaimRequest,
    ) -> impl Iterator<Item = (TaskId, &'a TaskRow)> + 'a {
        self.waiting
            .range((level, Timestamp::MIN, TaskId(i64::MIN))..=(level, Timestamp::MAX, TaskId(i64::MAX)))
            .filter_map(|(_, _, id)| self.tasks.get(id).map(|row| (*id, row)))
            .filter(|(_, row)| {
                request.queue.as_ref().is_none_or(|queue| *queue == row.queue)
                    && !self.queues.get(&row.queue).copied().unwrap_or(false)
                    && request.methods.contains(&row.method)
                    && (request.suspects || row.losses == 0)
            })
    }

    fn is_due(&self, row: &TaskRow) -> bool {
        due(row).is_some_and(|due| due <= self.now)
    }

    /// Gives a waiting task to a worker.
    fn take(&mut self, id: TaskId, worker: WorkerId) -> Option<Claimed> {
        self.leave(id);
        let claimed = self.now;
        let row = self.tasks.get_mut(&id)?;
        let due = due(row)?;
        row.place = Place::Running { worker, claimed, due };
        let task = Claimed {
            task: id,
            n: row.n,
            spent: row.spent,
            losses: row.losses,
            method: row.method.clone(),
            queue: row.queue.clone(),
            args: row.args.clone(),
            schema: row.schema,
            options: row.options.clone(),
            created: row.created,
            due,
            occurrence: row.occurrence.clone(),
        };
        if let Some(worker) = self.workers.get_mut(&worker) {
            worker.holds.insert(id);
        }
        self.key_after_claim(id);
        Some(task)
    }

    pub(super) fn finish(
        &mut self,
        worker: WorkerId,
        finishes: Vec<Finish>,
        follow_ups: Vec<FollowUp>,
    ) -> Result<Vec<Finished>, StoreError> {
        follow_ups.iter().try_for_each(FollowUp::validate)?;
        self.live_worker(worker)?;
        finishes.iter().try_for_each(Finish::validate)?;
        let tasks: Vec<NewTask> = follow_ups.iter().map(|follow_up| follow_up.then.clone()).collect();
        self.decide_enqueue(&tasks)?;
        let mut followed = Vec::new();
        let given = finishes.into_iter().map(|finish| {
            let place = (finish.task, finish.n);
            let (finished, next) = self.finish_one(worker, finish);
            followed.extend(next.map(|next| (place, next)));
            finished
        });
        let given = given.collect();
        let follows = |follow_up: &FollowUp| {
            followed.iter().any(|(place, next)| *place == (follow_up.task, follow_up.n) && follow_up.on.follows(*next))
        };
        self.enqueue(follow_ups.into_iter().filter(follows).map(|follow_up| follow_up.then).collect())?;
        Ok(given)
    }

    /// What a finish gave, and what became of the task where it was applied.
    fn finish_one(&mut self, worker: WorkerId, finish: Finish) -> (Finished, Option<Next>) {
        let Some(row) = self.tasks.get_mut(&finish.task) else { return (Finished::Lost, None) };
        let held = matches!(row.place, Place::Running { worker: holder, .. } if holder == worker && row.n == finish.n);
        if !held {
            let mine = row.attempts.iter().any(|known| known.n == finish.n && known.worker == worker.0);
            return (if mine { Finished::Already } else { Finished::Lost }, None);
        }
        row.record(AttemptRecord {
            n: finish.n,
            worker: worker.0,
            started: finish.started,
            ended: finish.ended,
            outcome: finish.outcome,
            out: finish.out,
        });
        let next = settle(finish.next, row.cancel_requested);
        match next {
            Next::Final(state) => self.end(finish.task, state),
            Next::Again { due, spent } => {
                row.spent = spent;
                row.losses = 0;
                self.wait(finish.task, finish.n.saturating_add(1), due.max(self.now));
            }
        }
        (Finished::Applied, Some(next))
    }

    pub(super) fn report(&mut self, worker: WorkerId, reports: Vec<Report>) -> Result<Vec<bool>, StoreError> {
        Report::validate_all(&reports)?;
        self.live_worker(worker)?;
        Ok(reports.into_iter().map(|report| self.report_one(worker, report)).collect())
    }

    fn report_one(&mut self, worker: WorkerId, report: Report) -> bool {
        let Some(row) = self.tasks.get_mut(&report.task) else { return false };
        let held = matches!(row.place, Place::Running { worker: holder, .. } if holder == worker && row.n == report.n);
        if held {
            let Report { n, at, percent, message, checkpoint, .. } = report;
            let checkpoint = checkpoint.or_else(|| row.progress.take()?.checkpoint);
            row.progress = Some(Progress { n, at, percent, message, checkpoint });
        }
        held
    }

    pub(super) fn hand_back(&mut self, worker: WorkerId, tasks: &[TaskId]) -> Result<u32, StoreError> {
        self.live_worker(worker)?;
        Ok(self.give_back(worker, tasks))
    }

    /// Makes those of `tasks` that a worker holds wait as before.
    pub(super) fn give_back(&mut self, worker: WorkerId, tasks: &[TaskId]) -> u32 {
        let mut count = 0;
        for id in tasks {
            let Some(row) = self.tasks.get_mut(id) else { continue };
            let Place::Running { worker: holder, due, .. } = row.place else { continue };
            if holder != worker {
                continue;
            }
            count += 1;
            if row.cancel_requested {
                row.record(AttemptRecord::cancelled_waiting(self.now));
                self.end(*id, TaskState::Cancelled);
            } else {
                let n = row.n;
                self.wait(*id, n, due);
            }
        }
        count
    }
}

fn due(row: &TaskRow) -> Option<Timestamp> {
    match row.place {
        Place::Waiting { due } => Some(due),
        Place::Running { .. } | Place::Ended { .. } => None,
    }
}
