//! A clock that stands still until somebody moves it.

use crate::{Clock, Instant, Timestamp};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// The monotonic origin: no instant is zero.
const ORIGIN_NANOS: u64 = 1_000_000_000;

/// A clock that stands still until it is moved by hand, for tests of what reads time and does not wait. Share it in an `Arc`.
///
/// Timers do not follow it. What waits, a call for its deadline or an engine for its next slot, is tested with tokio's paused
/// time and [`TokioClock`](crate::TokioClock) (feature `tokio`).
#[derive(Debug)]
pub struct VirtualClock {
    nanos: AtomicU64,
    wall_micros: AtomicI64,
}

impl VirtualClock {
    /// Begins at the wall clock's `start`.
    #[must_use]
    pub fn starting_at(start: Timestamp) -> Self {
        VirtualClock { nanos: AtomicU64::new(ORIGIN_NANOS), wall_micros: AtomicI64::new(start.as_micros()) }
    }

    /// Moves both times on.
    pub fn advance(&self, by: Duration) {
        self.nanos.fetch_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX / 4), Ordering::SeqCst);
        self.wall_micros.fetch_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX / 4), Ordering::SeqCst);
    }

    /// Sets the wall clock, either way, as an operator or a time daemon does. The monotonic time stays.
    pub fn set_wall(&self, to: Timestamp) {
        self.wall_micros.store(to.as_micros(), Ordering::SeqCst);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.nanos.load(Ordering::SeqCst))
    }

    fn timestamp(&self) -> Timestamp {
        Timestamp::from_micros(self.wall_micros.load(Ordering::SeqCst))
    }
}
