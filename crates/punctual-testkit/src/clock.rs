//! Clocks that a test owns: one moved by hand, one that runs and can be set forward, one that follows tokio's paused time,
//! one that counts its reads.

use punctual_clock::{Clock, Instant, SystemClock, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// The monotonic origin of both clocks: no instant of a test is zero.
const ORIGIN_NANOS: u64 = 1_000_000_000;

/// A clock that stands still until the test moves it. Share it in an `Arc`.
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
