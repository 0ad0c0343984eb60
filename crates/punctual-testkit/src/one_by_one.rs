//! A store without a bulk member: it decides one occurrence a transaction and inherits the rest of a sweep.

use punctual_clock::Timestamp;
use punctual_task::{
    CancelOutcome, ClaimBatch, ClaimRequest, Declaration, Declared, Enqueued, Finish, Finished, FollowUp, IdBlock,
    Loss, Materialised, NewTask, Page, Pruned, QueueView, Renewal, Reply, Report, Rescue, Retention, RetryOutcome,
    ScheduleCommand, ScheduleView, SlotEnd, Steered, Store, StoreInfo, Sweep, SweepReport, TaskDetail, TaskFilter,
    TaskId, TaskView, Window, WorkerId, WorkerInfo, WorkerView,
};
use std::sync::Arc;
use std::time::Duration;

/// Hands everything on but sweeps: of these it implements the step of one occurrence only.
#[derive(Debug)]
pub struct OneByOne(pub Arc<dyn Store>);

macro_rules! hand_on {
    ($($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(fn $name(&self, $($argument: $type),*) -> Reply<'_, $answer> {
            self.0.$name($($argument),*)
        })*
    };
}

impl Store for OneByOne {
    fn info(&self) -> StoreInfo {
        self.0.info()
    }

    fn materialise_next(&self) -> Reply<'_, SweepReport> {
        self.0.materialise(Sweep { schedules_max: 1, window_max: 1 })
    }

    hand_on! {
        now() -> Timestamp;
        draw_ids(count: u32) -> IdBlock;
        enqueue(tasks: Vec<NewTask>) -> Vec<Enqueued>;
        claim(worker: WorkerId, request: ClaimRequest) -> ClaimBatch;
        finish_then(worker: WorkerId, finishes: Vec<Finish>, follow_ups: Vec<FollowUp>) -> Vec<Finished>;
        report(worker: WorkerId, reports: Vec<Report>) -> Vec<bool>;
        cancel(tasks: Vec<TaskId>) -> Vec<CancelOutcome>;
        retry(tasks: Vec<TaskId>) -> Vec<RetryOutcome>;
        task(id: TaskId) -> Option<TaskDetail>;
        tasks(filter: TaskFilter, page: Page) -> Vec<TaskView>;
        queues() -> Vec<QueueView>;
        pause_queue(queue: String, paused: bool) -> bool;
        register(info: WorkerInfo, lease: Duration) -> WorkerId;
        renew(worker: WorkerId, lease: Duration) -> Renewal;
        holdings(worker: WorkerId) -> Vec<(TaskId, u32)>;
        hand_back(worker: WorkerId, tasks: Vec<TaskId>) -> u32;
        retire(worker: WorkerId) -> ();
        rescue(by: WorkerId) -> Rescue;
        workers() -> Vec<WorkerView>;
        declare(declaration: Declaration) -> Declared;
        steer(name: String, command: ScheduleCommand) -> Steered;
        apply(window: Window) -> Materialised;
        schedule(name: String) -> Option<ScheduleView>;
        schedules(after: Option<String>, limit: u32) -> Vec<ScheduleView>;
        losses(name: String, limit: u32) -> Vec<Loss>;
        slot_ends(name: String, limit: u32) -> Vec<SlotEnd>;
        prune(retention: Retention, limit: u32) -> Pruned;
    }
}

#[cfg(test)]
mod tests;
