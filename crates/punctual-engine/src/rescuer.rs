//! Looks for workers whose lease has ended, fences them off and lets their tasks run again.
//!
//! Only a worker that has itself renewed without a break for one lease length may judge others: after the database was
//! away, every lease looks ended.

use crate::pacing::jittered;
use crate::shared::{Phase, Shared};
use punctual_task::StoreErrorKind;
use std::sync::Arc;

/// A sweep that found dead workers is repeated at once, at most this often: each takes a few at a time.
const REPEATS_MAX: u32 = 100;

/// Runs until the engine drains.
pub(crate) async fn run(shared: Arc<Shared>) {
    while shared.sleep(jittered(shared.config.rescue, &*shared.entropy), Phase::Draining).await {
        for _ in 0..REPEATS_MAX {
            let Some(worker) = shared.lease.judge(shared.clock.now(), shared.config.lease) else { break };
            match shared.store.rescue(worker).await {
                Ok(rescue) => {
                    if rescue.workers == 0 && rescue.requeued == 0 && rescue.failed == 0 {
                        break;
                    }
                    tracing::warn!(
                        workers = rescue.workers,
                        requeued = rescue.requeued,
                        failed = rescue.failed,
                        "dead workers were fenced off"
                    );
                    shared.stats.workers_rescued.add(usize::try_from(rescue.workers).unwrap_or_default());
                    let tasks = u64::from(rescue.requeued) + u64::from(rescue.failed);
                    shared.stats.tasks_rescued.add(usize::try_from(tasks).unwrap_or_default());
                    shared.claims.due_now();
                    shared.sweeps.now();
                }
                Err(error) => {
                    shared.store_failed("looking for dead workers", &error);
                    if error.kind() == StoreErrorKind::Fenced {
                        shared.lease.refused(worker);
                    }
                    break;
                }
            }
        }
    }
}
