//! Clocks that a test owns, beside the two that everybody has: one that runs and can be set forward, one that counts its
//! reads.

use punctual_clock::{Clock, Instant, SystemClock, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The monotonic origin: no instant of a test is zero.
const ORIGIN_NANOS: u64 = 1_000_000_000;

/// A clock that runs, and that the test can set forward: for tests on real threads, where a clock that stands still would
/// stop whatever waits for a short time to pass.
#[derive(Debug)]
pub struct SteppedClock {
    start: Instant,
    wall: Timestamp,
    stepped_micros: AtomicU64,
}

impl SteppedClock {
    /// Begins at the wall clock's `start`, now.
    #[must_use]
    pub fn starting_at(start: Timestamp) -> Self {
        SteppedClock { start: SystemClock.now(), wall: start, stepped_micros: AtomicU64::new(0) }
    }

    /// Moves both times on.
    pub fn advance(&self, by: Duration) {
        self.stepped_micros.fetch_add(u64::try_from(by.as_micros()).unwrap_or(u64::MAX / 4), Ordering::SeqCst);
    }

    fn passed(&self) -> Duration {
        SystemClock.now().since(self.start) + Duration::from_micros(self.stepped_micros.load(Ordering::SeqCst))
    }
}

impl Clock for SteppedClock {
    fn now(&self) -> Instant {
        Instant::from_nanos(ORIGIN_NANOS).after(self.passed())
    }

    fn timestamp(&self) -> Timestamp {
        self.wall.after(self.passed())
    }
}

/// A clock that counts how often it is read. Share it in an `Arc`.
#[derive(Debug)]
pub struct CountingClock {
    inner: Arc<dyn Clock>,
    reads: AtomicU64,
}

impl CountingClock {
    /// Counts the reads of `inner` through this handle.
    #[must_use]
    pub fn over(inner: Arc<dyn Clock>) -> Self {
        CountingClock { inner, reads: AtomicU64::new(0) }
    }

    /// Reads of the monotonic instant so far.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::SeqCst)
    }
}

impl Clock for CountingClock {
    fn now(&self) -> Instant {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.inner.now()
    }

    fn timestamp(&self) -> Timestamp {
        self.inner.timestamp()
    }
}
