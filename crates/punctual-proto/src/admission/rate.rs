//! How many calls begin in a time, by the generic cell rate algorithm (ITU-T I.371): one instant is all that it remembers.

use punctual_clock::Instant;
use std::time::Duration;

/// So many calls in so much time, evenly spread, and so many at once after a rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Calls.
    pub calls: u32,
    /// In this time.
    pub per: Duration,
    /// Of them at once.
    pub burst: u32,
}

impl Rate {
    /// So many calls a second, and as many at once after a rest of that long.
    #[must_use]
    pub const fn per_second(calls: u32) -> Self {
        Rate { calls, per: Duration::from_secs(1), burst: calls }
    }

    /// The same with so many at once.
    #[must_use]
    pub const fn burst(mut self, calls: u32) -> Self {
        self.burst = calls;
        self
    }

    fn interval(self) -> Duration {
        self.per / self.calls.max(1)
    }

    fn tolerance(self) -> Duration {
        self.interval().saturating_mul(self.burst.saturating_sub(1))
    }
}

/// What a rate remembers: when the last call that was let in would have come at the even pace.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace(Instant);

impl Pace {
    pub(super) const fn rested() -> Self {
        Pace(Instant::from_nanos(0))
    }

    /// How long until the next one; zero for now.
    pub(super) fn wait(self, rate: Rate, now: Instant) -> Duration {
        self.0.since(now).saturating_sub(rate.tolerance())
    }

    pub(super) fn take(&mut self, rate: Rate, now: Instant) {
        self.0 = self.0.max(now).after(rate.interval());
    }

    /// Whether nothing would change if all were forgotten.
    pub(super) fn is_rested(self, now: Instant) -> bool {
        self.0 <= now
    }
}
