//! What operators do, where the engine adds something to the store's part: its own loops are told at once.

use crate::Error;
use crate::shared::Shared;
use punctual_task::{
    BackfillPreview, BackfillRequest, CancelOutcome, Page, RetryOutcome, ScheduleCommand, Steered, StoreError,
    StoreErrorKind, TaskId,
};

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

    pub(crate) async fn backfill(&self, schedule: String, mut request: BackfillRequest) -> Result<u32, Error> {
        if request.pass == 0 {
            let view = self.store.schedule(schedule.clone()).await?;
            let last = view.and_then(|view| view.position.backfill);
            request.pass = last.map_or(0, |last| last.request.pass).saturating_add(1);
        }
        match self.steer(schedule, ScheduleCommand::Backfill(request)).await? {
            Steered::Backfilling(pass) => Ok(pass),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) async fn preview_backfill(
        &self,
        schedule: String,
        request: BackfillRequest,
    ) -> Result<BackfillPreview, Error> {
        let answer = self.store.steer(schedule.clone(), ScheduleCommand::PreviewBackfill(request)).await?;
        let Steered::Preview(mut preview) = answer else { return Err(unexpected(&answer)) };
        preview.recognise(&self.store.losses(schedule, Page::LIMIT_MAX).await?);
        Ok(*preview)
    }
}

fn unexpected(answer: &Steered) -> Error {
    StoreError::new(StoreErrorKind::Bug, format!("the store answered {answer:?} to another command")).into()
}
