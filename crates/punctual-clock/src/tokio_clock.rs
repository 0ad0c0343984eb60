//! A clock that follows tokio's timer.

use crate::{Clock, Instant, Timestamp};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// The monotonic origin: no instant is zero.
const ORIGIN_NANOS: u64 = 1_000_000_000;

/// A clock that follows tokio's timer, for tests under `#[tokio::test(start_paused = true)]`: timers and clock then
/// agree, and time passes by itself as soon as nothing else is left to do.
///
/// It is right only on the threads of the runtime that it was made on.
#[derive(Debug)]
pub struct TokioClock {
    start: tokio::time::Instant,
    wall_micros: AtomicI64,
    skipped_nanos: AtomicU64,
}

impl TokioClock {
    /// Begins at the wall clock's `start`, now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this clock is tokio's paused time")]
    pub fn starting_at(start: Timestamp) -> Self {
        TokioClock {
            start: tokio::time::Instant::now(),
            wall_micros: AtomicI64::new(start.as_micros()),
            skipped_nanos: AtomicU64::new(0),
        }
    }

    /// Moves the wall clock by `by` microseconds, either way. The monotonic time stays.
    pub fn step_wall(&self, by: i64) {
        self.wall_micros.fetch_add(by, Ordering::SeqCst);
    }

    /// Moves both times on without any timer being told: what a process sees that was suspended.
    pub fn suspend(&self, by: Duration) {
        self.skipped_nanos.fetch_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX / 4), Ordering::SeqCst);
    }

    #[expect(clippy::disallowed_methods, reason = "this clock is tokio's paused time")]
    fn passed(&self) -> Duration {
        let now = tokio::time::Instant::now();
        now.saturating_duration_since(self.start) + Duration::from_nanos(self.skipped_nanos.load(Ordering::SeqCst))
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Instant {
        Instant::from_nanos(ORIGIN_NANOS).after(self.passed())
    }

    fn timestamp(&self) -> Timestamp {
        Timestamp::from_micros(self.wall_micros.load(Ordering::SeqCst)).after(self.passed())
    }
}
