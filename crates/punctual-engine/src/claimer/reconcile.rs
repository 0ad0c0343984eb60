//! What the claimer settles between claims: tasks to be given back, and differences between memory and store.
//!
//! A claim whose reply was lost may have been written: the store then holds tasks for this worker that no lane knows.
//! They are given back. The other way round, a task in memory that the store no longer holds for this worker was taken
//! from it: if it waits it is dropped, and if it runs it is stopped.

use super::Claimer;
use crate::job::Job;
use crate::shared::{Phase, Shared};
use punctual_context::CancelReason;
use punctual_task::{StoreError, TaskId, WorkerId};
use std::collections::BTreeSet;

impl Claimer {
    /// Gives back what is to be given back, and compares if asked to. Until it succeeds, nothing is claimed.
    pub(super) async fn settle(&mut self, shared: &Shared, worker: WorkerId) -> Result<(), StoreError> {
        if shared.phase() >= Phase::Draining {
            for job in shared.work.take_waiting(|_| true) {
                shared.claims.give_back(&job);
            }
        }
        give_back_listed(shared, worker).await?;
        if shared.claims.take_reconcile()
            && let Err(error) = reconcile(shared, worker).await
        {
            shared.claims.reconcile();
            return Err(error);
        }
        Ok(())
    }
}

async fn give_back_listed(shared: &Shared, worker: WorkerId) -> Result<(), StoreError> {
    let list = shared.claims.to_give_back();
    if list.is_empty() {
        return Ok(());
    }
    // What was claimed under an older fence is no longer this worker's to give.
    let tasks: Vec<TaskId> = list.iter().filter(|(.., fence)| *fence == worker).map(|(task, ..)| *task).collect();
    if !tasks.is_empty() {
        let given = shared.store.hand_back(worker, tasks).await?;
        shared.stats.handed_back.add(usize::try_from(given).unwrap_or_default());
        if shared.phase() < Phase::Draining {
            shared.claims.due_now();
        }
    }
    shared.claims.given_back(list.len());
    Ok(())
}

async fn reconcile(shared: &Shared, worker: WorkerId) -> Result<(), StoreError> {
    // Memory before the store: nothing is claimed meanwhile, so what the store holds and memory did not is unknown here;
    // and what finishes meanwhile is gone from both.
    let before = memory(shared, worker);
    let holdings: BTreeSet<(TaskId, u32)> = shared.store.holdings(worker).await?.into_iter().collect();
    let unknown: Vec<TaskId> = holdings.difference(&before).map(|(task, _)| *task).collect();
    if !unknown.is_empty() {
        tracing::warn!(
            tasks = unknown.len(),
            "the store holds tasks for this worker that it does not know; given back"
        );
        let given = shared.store.hand_back(worker, unknown).await?;
        shared.stats.handed_back.add(usize::try_from(given).unwrap_or_default());
        shared.claims.due_now();
    }
    let taken: BTreeSet<(TaskId, u32)> = before.difference(&holdings).copied().collect();
    if !taken.is_empty() {
        // By attempt: an earlier one of the same task, whose finish is not yet acknowledged, is no longer held either.
        let is_taken = |job: &Job| job.worker == worker && taken.contains(&(job.claimed.task, job.claimed.n));
        let dropped = shared.work.take_waiting(is_taken);
        if !dropped.is_empty() {
            tracing::warn!(tasks = dropped.len(), "waiting tasks had been taken from this worker; dropped");
        }
        shared.stop_running(is_taken, CancelReason::Disconnected, shared.config.stop_grace);
    }
    Ok(())
}

/// All that memory holds under `worker`, in the order in which tasks move, so that none is missed between two looks.
fn memory(shared: &Shared, worker: WorkerId) -> BTreeSet<(TaskId, u32)> {
    let mut held = shared.work.held();
    held.extend(shared.completions.held());
    held.extend(shared.claims.to_give_back());
    held.into_iter().filter(|(_, _, fence)| *fence == worker).map(|(task, n, _)| (task, n)).collect()
}
