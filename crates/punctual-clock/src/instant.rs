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
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// Nanoseconds since the clock's origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This instant plus `duration`, at most [`Instant::FAR`].
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Instant(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long after `earlier` this is; zero if it is not.
    #[must_use]
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}
