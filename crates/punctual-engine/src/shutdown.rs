//! Stopping in order, within bounds, and saying what could not be stopped.

use crate::shared::{Phase, Shared};
use punctual_context::CancelReason;
use punctual_task::TaskId;
use std::time::Duration;

/// How long the store may take to record what has ended and take back what has not.
const FLUSH_MAX: Duration = Duration::from_secs(5);
/// How long it may take to retire the worker.
const RETIRE_MAX: Duration = Duration::from_secs(3);
/// What a handler may need, beyond its grace, until its lane has dropped it.
const DROP_SLACK: Duration = Duration::from_secs(1);
/// How often the flush is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// What a shutdown did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Tasks that were given back: they wait again, and nothing was spent.
    pub handed_back: u64,
    /// Tasks whose handlers block their thread and could not be stopped. They run on, and are rescued by others once the
    /// lease has ended.
    pub stuck: Vec<(TaskId, String)>,
    /// Attempts that had ended and could not be recorded in time. They are lost with the lease, and run again.
    pub unrecorded: usize,
    /// Whether the worker was retired. If not, its lease runs out by itself.
    pub retired: bool,
}

impl ShutdownReport {
    /// Whether nothing is left behind.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.stuck.is_empty() && self.unrecorded == 0 && self.retired
    }
}

impl Shared {
    pub(crate) async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        if self.methods.is_empty() {
            self.enter(Phase::Stopped);
            return ShutdownReport { retired: true, ..ShutdownReport::default() };
        }
        let given_back = self.stats.handed_back.get();
        // The claimer takes over what waits; lanes end when they have nothing to run.
        self.enter(Phase::Draining);
        for job in self.work.close() {
            self.claims.give_back(&job);
        }
        let _ = tokio::time::timeout(grace, self.work.quiet()).await;
        self.stop_running(|_| true, CancelReason::Shutdown, self.config.stop_grace);
        let _ = tokio::time::timeout(self.config.stop_grace + DROP_SLACK, self.work.quiet()).await;
        let stuck: Vec<(TaskId, String)> = self
            .work
            .lanes()
            .iter()
            .filter_map(|lane| lane.job())
            .map(|job| (job.claimed.task, job.claimed.method.clone()))
            .collect();
        for (task, method) in &stuck {
            tracing::error!(%task, method, "a handler blocks its thread and could not be stopped");
        }
        let _ = tokio::time::timeout(FLUSH_MAX, self.flushed()).await;
        let unrecorded = self.completions.len();
        let retired = stuck.is_empty() && unrecorded == 0 && self.retire().await;
        let handed_back = self.stats.handed_back.get() - given_back;
        self.stop_abruptly();
        let report = ShutdownReport { handed_back, stuck, unrecorded, retired };
        tracing::info!(?report, "the engine has stopped");
        report
    }

    /// Resolves once the store has all that ended and all that is given back.
    async fn flushed(&self) {
        self.completions.emptied().await;
        while !self.claims.to_give_back().is_empty() {
            self.claims.wake.notify_one();
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn retire(&self) -> bool {
        let Some(worker) = self.lease.worker() else { return true };
        match tokio::time::timeout(RETIRE_MAX, self.store.retire(worker)).await {
            Ok(Ok(())) => {
                self.lease.forget(worker);
                true
            }
            Ok(Err(error)) => {
                self.store_failed("retiring the worker", &error);
                false
            }
            Err(_) => false,
        }
    }
}
