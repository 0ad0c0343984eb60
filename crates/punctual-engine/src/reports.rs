//! What running attempts say of themselves, on its way to the store: gathered from the lanes for a second and written in one
//! commit, never one commit each.
//!
//! What an attempt said last goes out before its end does, since the end takes the task from the worker: the completer and whoever
//! gives a task back send what waits here first.

use crate::pacing::Pace;
use crate::shared::{Phase, Shared};
use punctual_task::{REPORTS_MAX, Report, WorkerId};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// How long reports are gathered. Who looks at progress does not need it sooner, and a lost second of a checkpoint is cheap.
const GATHER: Duration = Duration::from_secs(1);

/// Reports that wait to be sent. One an attempt: a later one takes up an earlier one, so that they need no other bound.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    queue: Mutex<Vec<(WorkerId, Report)>>,
    /// Held while a batch is sent: who needs them sent waits for those that are under way.
    turn: tokio::sync::Mutex<()>,
    /// An attempt has said something.
    pub(crate) said: Notify,
}

impl Reports {
    fn queue(&self) -> MutexGuard<'_, Vec<(WorkerId, Report)>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one behind the others.
    pub(crate) fn push(&self, worker: WorkerId, mut report: Report) {
        let mut queue = self.queue();
        let same =
            |(holder, known): &(WorkerId, Report)| (*holder, known.task, known.n) == (worker, report.task, report.n);
        if let Some(at) = queue.iter().position(same) {
            report.follow(queue.remove(at).1);
        }
        queue.push((worker, report));
    }

    /// The first that share a fence.
    fn take(&self) -> Option<(WorkerId, Vec<Report>)> {
        let mut queue = self.queue();
        let worker = queue.first()?.0;
        let count = queue.iter().take(REPORTS_MAX).take_while(|(holder, _)| *holder == worker).count();
        Some((worker, queue.drain(..count).map(|(_, report)| report).collect()))
    }

    /// What could not be sent comes first again, behind nothing but what was said since.
    fn put_back(&self, worker: WorkerId, reports: Vec<Report>) {
        let later = std::mem::take(&mut *self.queue());
        for (worker, report) in reports.into_iter().map(|report| (worker, report)).chain(later) {
            self.push(worker, report);
        }
    }

    /// Sends all that waits, and waits for what is under way. `insists` goes on while the store is unavailable.
    pub(crate) async fn flush(&self, shared: &Shared, insists: bool) {
        let _turn = self.turn.lock().await;
        let mut pace = Pace::default();
        while let Some((worker, reports)) = self.take() {
            match shared.store.report(worker, reports.clone()).await {
                Ok(_) => {}
                Err(error) if error.is_retryable() => {
                    shared.store_failed("writing the progress of attempts", &error);
                    self.put_back(worker, reports);
                    if !insists {
                        self.said.notify_one();
                        return;
                    }
                    tokio::time::sleep(pace.failed(&*shared.entropy)).await;
                }
                // A dead worker's attempts say nothing more; and what was checked when it was said is refused for no other reason.
                Err(error) => tracing::warn!(reports = reports.len(), %error, "progress of attempts was refused"),
            }
        }
    }
}

/// Runs until the engine stops.
pub(crate) async fn run(shared: Arc<Shared>) {
    loop {
        shared.reports.said.notified().await;
        if !shared.sleep(GATHER, Phase::Stopped).await {
            return;
        }
        let now = shared.clock.timestamp();
        for lane in shared.work.lanes() {
            lane.report(&shared.reports, now);
        }
        shared.reports.flush(&shared, false).await;
    }
}
