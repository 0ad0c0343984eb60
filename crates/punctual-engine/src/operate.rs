//! What operators do, where the engine adds something to the store's part: its own loops are told at once.

use crate::Error;
use crate::shared::Shared;
use punctual_task::{CancelOutcome, RetryOutcome, ScheduleCommand, Steered, TaskId};

impl Shared {
    pub(crate) async fn cancel(&self, tasks: Vec<TaskId>) -> Result<Vec<CancelOutcome>, Error> {
        let outcomes = self.store.cancel(tasks.clone()).await?;
        let running: Vec<TaskId> = tasks
            .into_iter()
            .zip(&outcomes)
            .filter(|(_, outcome)| **outcome == CancelOutcome::Requested)
            .map(|(task, _)| task)
            .collect();
        self.cancel_held(&running);
        // A cancelled occurrence makes room for the next.
        self.sweeps.now();
        Ok(outcomes)
    }

    pub(crate) async fn retry(&self, tasks: Vec<TaskId>) -> Result<Vec<RetryOutcome>, Error> {
        let outcomes = self.store.retry(tasks).await?;
        self.claims.due_now();
        Ok(outcomes)
    }

    pub(crate) async fn pause_queue(&self, queue: String, paused: bool) -> Result<bool, Error> {
        let changed = self.store.pause_queue(queue, paused).await?;
        if !paused {
            self.claims.due_now();
        }
        Ok(changed)
    }

    pub(crate) async fn steer(&self, schedule: String, command: ScheduleCommand) -> Result<Steered, Error> {
        let steered = self.store.steer(schedule, command).await?;
        self.forget_zones();
        self.sweeps.now();
        self.claims.due_now();
        Ok(steered)
    }

    pub(crate) async fn trigger(&self, schedule: String, force: bool) -> Result<Steered, Error> {
        let id = self.ids.take(&*self.store).await?;
        self.steer(schedule, ScheduleCommand::Trigger { id, force }).await
    }
}
