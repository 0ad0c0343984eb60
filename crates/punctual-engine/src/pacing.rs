//! Waits between tries, and the jitter that keeps many engines from moving in step.

use punctual_clock::Entropy;
use punctual_task::Backoff;
use std::time::Duration;

/// How long a loop waits after the store failed: 50 ms doubling to 2 s, so that a short outage costs little and a long
/// one is not hammered.
const AFTER_STORE_ERROR: Backoff = Backoff::exponential(Duration::from_millis(50), Duration::from_secs(2));

/// The waits of one loop between failing tries.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    failures: u32,
}

impl Pace {
    /// The wait after one more failure.
    pub(crate) fn failed(&mut self, entropy: &dyn Entropy) -> Duration {
        self.failures = self.failures.saturating_add(1);
        AFTER_STORE_ERROR.wait(self.failures, entropy)
    }

    /// A try succeeded: the next failure begins anew.
    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
    }
}

/// `period` plus or minus up to 20 %.
pub(crate) fn jittered(period: Duration, entropy: &dyn Entropy) -> Duration {
    let nanos = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX / 2).min(u64::MAX / 2);
    let span = nanos / 5;
    Duration::from_nanos(nanos - span + entropy.below(span * 2 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_clock::SeededEntropy;

    /// Jitter stays within 20 % on both sides, and failing tries slow down to the cap.
    #[test]
    fn waits_are_bounded() {
        let entropy = SeededEntropy::new(3);
        for _ in 0..1000 {
            let wait = jittered(Duration::from_secs(1), &entropy).as_millis();
            assert!((800..=1200).contains(&wait), "{wait}");
        }
        let mut pace = Pace::default();
        let first = pace.failed(&entropy);
        assert!(first <= Duration::from_millis(60), "{first:?}");
        let last = (0..40).map(|_| pace.failed(&entropy)).last().unwrap_or_default();
        assert!(last >= Duration::from_millis(1600) && last <= Duration::from_secs(2), "{last:?}");
        pace.succeeded();
        assert!(pace.failed(&entropy) <= Duration::from_millis(60));
    }
}
