//! Removes old ended tasks, a few at a time, so that claims never wait for it.

use crate::pacing::jittered;
use crate::shared::{Phase, Shared};
use std::sync::Arc;
use std::time::Duration;

/// How many tasks one commit removes.
const BATCH: u32 = 500;
/// The pause between two commits of one pass: the store's writer belongs to the claims.
const PAUSE: Duration = Duration::from_millis(50);
/// How many commits one pass makes; what is left waits for the next.
const BATCHES_MAX: u32 = 200;

/// Runs until the engine drains.
pub(crate) async fn run(shared: Arc<Shared>) {
    let Some(retention) = shared.config.retention else { return };
    while shared.sleep(jittered(shared.config.prune_every, &*shared.entropy), Phase::Draining).await {
        for _ in 0..BATCHES_MAX {
            match shared.store.prune(retention, BATCH).await {
                Ok(pruned) => {
                    shared.stats.pruned.add(usize::try_from(pruned.tasks).unwrap_or_default());
                    if !pruned.more || !shared.sleep(PAUSE, Phase::Draining).await {
                        break;
                    }
                }
                Err(error) => {
                    shared.store_failed("removing old tasks", &error);
                    break;
                }
            }
        }
    }
}
