//! Looks for workers whose lease has ended, fences them off and lets their tasks run again.
//!
//! Only a worker that has itself renewed without a break for one lease length, by its own monotonic clock, may judge others:
//! after the database was away, every lease looks ended. So it does after the machine slept: a store's leases go on meanwhile
//! (SQLite measures them with the time since boot, sleep included), the monotonic clock does not. A sleep is seen by the wall
//! clock, which then has gone further than the monotonic one.

use crate::pacing::jittered;
use crate::shared::{Phase, Shared};
use punctual_clock::{Clock, Instant, Timestamp};
use punctual_task::StoreErrorKind;
use std::sync::Arc;
use std::time::Duration;

/// A sweep that found dead workers is repeated at once, at most this often: each takes a few at a time.
const REPEATS_MAX: u32 = 100;

/// When both clocks were last read.
#[derive(Debug)]
struct Watch {
    wall: Timestamp,
    awake: Instant,
}

impl Watch {
    fn new(clock: &dyn Clock) -> Self {
        Watch { wall: clock.timestamp(), awake: clock.now() }
    }

    /// Whether the machine slept, or somebody set the wall clock forward, by more than `bound` since the last look. To be
    /// wrong about it costs one lease length before the next rescue.
    fn slept(&mut self, clock: &dyn Clock, bound: Duration) -> bool {
        let now = Watch::new(clock);
        let wall = now.wall.since(self.wall);
        let awake = now.awake.since(self.awake);
        *self = now;
        wall > awake.saturating_add(bound)
    }
}

/// Runs until the engine drains.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut watch = Watch::new(&*shared.clock);
    while shared.sleep(jittered(shared.config.rescue, &*shared.entropy), Phase::Draining).await {
        if watch.slept(&*shared.clock, shared.config.renewal) {
            tracing::info!("the machine slept or its clock was set; other workers are given time to renew");
            shared.lease.renewal_failed();
        }
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
                    rescue.failing.iter().for_each(|schedule| shared.failing.add(schedule));
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

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_testkit::VirtualClock;

    const BOUND: Duration = Duration::from_secs(3);

    /// A wall clock that goes on while the monotonic one stands is a sleep; both going on, or the wall clock set back, is not.
    #[test]
    fn a_sleep_is_seen_by_the_wall_clock() {
        let clock = VirtualClock::starting_at(Timestamp::from_secs(1_800_000_000));
        let mut watch = Watch::new(&clock);
        clock.advance(Duration::from_secs(5));
        assert!(!watch.slept(&clock, BOUND));
        clock.set_wall(clock.timestamp().after(Duration::from_secs(3_600)));
        clock.advance(Duration::from_secs(5));
        assert!(watch.slept(&clock, BOUND));
        clock.advance(Duration::from_secs(5));
        assert!(!watch.slept(&clock, BOUND), "each sleep once");
        clock.set_wall(clock.timestamp().before(Duration::from_secs(3_600)));
        assert!(!watch.slept(&clock, BOUND));
    }
}
