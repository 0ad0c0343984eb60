//! The monotonic instant.

use std::time::Duration;

/// A point on a process's monotonic clock, in nanoseconds since an arbitrary origin.
///
/// Comparable only with instants of the same clock. Arithmetic saturates: [`Instant::FAR`] is "no deadline".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// Later than every real instant: stands for "never" in a deadline index.
    pub const FAR: Instant = Instant(u64::MAX);

    /// From nanoseconds since the clock's origin.
    #[must_use]
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// Nanoseconds since the clock's origin.
    #[must_use]
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This instant plus `duration`, at most [`Instant::FAR`].
    #[must_use]
    #[inline]
    pub const fn after(self, duration: Duration) -> Self {
        let nanos = duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos() as u64);
        Instant(self.0.saturating_add(nanos))
    }

    /// How long after `earlier` this is; zero if it is not.
    #[must_use]
    #[inline]
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}
