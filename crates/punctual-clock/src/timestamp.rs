//! The wall clock's instant.

use std::time::Duration;

/// A UTC instant in microseconds since 1970-01-01T00:00:00Z, as the stores keep it.
///
/// Arithmetic saturates at the ends of the range (about 292,000 years either way).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Timestamp = Timestamp(0);
    /// Before every real instant.
    pub const MIN: Timestamp = Timestamp(i64::MIN);
    /// After every real instant.
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    /// From microseconds since the epoch.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Timestamp(micros)
    }

    /// From whole seconds since the epoch.
    #[must_use]
    pub const fn from_secs(seconds: i64) -> Self {
        Timestamp(seconds.saturating_mul(1_000_000))
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This instant plus `duration`.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Timestamp(self.0.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }

    /// This instant less `duration`.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Timestamp(self.0.saturating_sub(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)))
    }

    /// How long after `earlier` this is; zero if it is not.
    #[must_use]
    pub const fn since(self, earlier: Timestamp) -> Duration {
        let micros = self.0.saturating_sub(earlier.0);
        if micros <= 0 { Duration::ZERO } else { Duration::from_micros(micros.unsigned_abs()) }
    }
}
