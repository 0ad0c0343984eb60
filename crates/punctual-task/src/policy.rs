//! How a task is retried, timed and bounded. A policy comes from the method, and a task may override parts of it.

use punctual_clock::Entropy;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The wait before the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct Backoff {
    /// How the wait grows with each spent attempt.
    pub growth: Growth,
    /// The wait after the first spent attempt.
    pub base: Duration,
    /// No wait is longer than this.
    pub cap: Duration,
    /// Up to this share of the wait, in percent, is taken off or added by chance; at most 100.
    pub jitter_percent: u8,
}

/// How waits grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Growth {
    /// Always the base.
    Fixed,
    /// The base times the number of spent attempts.
    Linear,
    /// Doubles with each spent attempt.
    Exponential,
}

impl Backoff {
    /// One second doubling to ten minutes, 20 % jitter.
    pub const DEFAULT: Backoff = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(600));

    /// `base` doubling to `cap`, 20 % jitter.
    #[must_use]
    pub const fn exponential(base: Duration, cap: Duration) -> Self {
        Backoff { growth: Growth::Exponential, base, cap, jitter_percent: 20 }
    }

    /// `base`, twice, three times the base … up to `cap`, 20 % jitter.
    #[must_use]
    pub const fn linear(base: Duration, cap: Duration) -> Self {
        Backoff { growth: Growth::Linear, base, cap, jitter_percent: 20 }
    }

    /// Always `wait`, without jitter.
    #[must_use]
    pub const fn fixed(wait: Duration) -> Self {
        Backoff { growth: Growth::Fixed, base: wait, cap: wait, jitter_percent: 0 }
    }

    /// The wait after `spent` attempts (from 1) were spent.
    #[must_use]
    pub fn wait(&self, spent: u32, entropy: &dyn Entropy) -> Duration {
        let spent = spent.max(1);
        let factor = match self.growth {
            Growth::Fixed => 1,
            Growth::Linear => spent,
            Growth::Exponential => 1u32.checked_shl(spent - 1).filter(|factor| *factor != 0).unwrap_or(u32::MAX),
        };
        let wait = self.base.checked_mul(factor).unwrap_or(self.cap).min(self.cap);
        let span = wait.as_nanos().saturating_mul(u128::from(self.jitter_percent.min(100))) / 100;
        let span = u64::try_from(span).unwrap_or(u64::MAX / 4).min(u64::MAX / 4);
        // From `wait - span` to `wait + span`, still under the cap.
        let off = Duration::from_nanos(entropy.below(span * 2 + 1));
        wait.saturating_sub(Duration::from_nanos(span)).saturating_add(off).min(self.cap)
    }
}

/// How a durable method's tasks are run unless a task says otherwise. Constructible in a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The queue; `None` means the one named like the service.
    pub queue: Option<&'static str>,
    /// 0 (first) to 3 (last).
    pub level: u8,
    /// How many attempts may be spent in all, from 1.
    pub attempts: u32,
    /// The waits between them.
    pub backoff: Backoff,
    /// The budget of one attempt; `None` means [`Policy::TIMEOUT_DEFAULT`].
    pub timeout: Option<Duration>,
}

impl Policy {
    /// Five attempts: with the default backoff the last one starts about 15 s after the first.
    pub const ATTEMPTS_DEFAULT: u32 = 5;
    /// An attempt without a stated timeout may take an hour: long enough for batch work, short enough that a stuck
    /// handler is seen the same day.
    pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(3600);
    /// The level of tasks that state none.
    pub const LEVEL_DEFAULT: u8 = 1;
    /// The last level.
    pub const LEVEL_MAX: u8 = 3;
    /// The defaults above.
    pub const DEFAULT: Policy = Policy {
        queue: None,
        level: Self::LEVEL_DEFAULT,
        attempts: Self::ATTEMPTS_DEFAULT,
        backoff: Backoff::DEFAULT,
        timeout: None,
    };
}

/// What one task overrides of its method's policy. All `None` takes no space in the store.
///
/// Unknown fields are passed over when it is read: while builds are replaced one by one, an older worker runs the tasks
/// of a newer one without the options that it cannot honour, instead of stopping at them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskOptions {
    /// How many attempts may be spent in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// The waits between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// The budget of one attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// Not started by this instant (microseconds, UTC): the task expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_by: Option<i64>,
    /// The handler's budget also ends at this instant (microseconds, UTC).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_by: Option<i64>,
    /// Where in which trace it was enqueued, where somebody traces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TaskTrace>,
}

/// A place in a trace, in the words of W3C trace context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskTrace {
    /// The `traceparent`.
    pub parent: String,
    /// The `tracestate`; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state: String,
}

impl TaskOptions {
    /// Whether nothing is overridden.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_clock::SeededEntropy;

    /// Waits grow as named, never beyond the cap, also where doubling would overflow.
    #[test]
    fn waits_grow_to_the_cap() {
        let entropy = SeededEntropy::new(1);
        let exponential = Backoff { jitter_percent: 0, ..Backoff::DEFAULT };
        let waits: Vec<u64> = [1, 2, 3, 10, 11, 40, u32::MAX].map(|n| exponential.wait(n, &entropy).as_secs()).into();
        assert_eq!(waits, [1, 2, 4, 512, 600, 600, 600]);
        let linear = Backoff { jitter_percent: 0, ..Backoff::linear(Duration::from_secs(2), Duration::from_secs(5)) };
        assert_eq!([1, 2, 3].map(|n| linear.wait(n, &entropy).as_secs()), [2, 4, 5]);
        assert_eq!(Backoff::fixed(Duration::from_secs(3)).wait(9, &entropy).as_secs(), 3);
    }

    /// Jitter stays within its share on both sides.
    #[test]
    fn jitter_is_bounded() {
        let entropy = SeededEntropy::new(2);
        for _ in 0..1000 {
            let wait = Backoff::DEFAULT.wait(4, &entropy);
            assert!((6_400..=9_600).contains(&wait.as_millis()), "{wait:?}");
        }
    }
}
