//! The retry budget: what keeps the retries of all calls from burying a backend that fails.

use crate::sync::atomic::{AtomicU64, Ordering};
use punctual_proto::status::Status;

/// One token, in the unit that the bucket counts in: a hundredth, since a call brings a percentage.
const TOKEN: u64 = 100;

/// How many attempts beyond the first a channel's calls may make together.
///
/// A bucket of tokens that begins full: each call that has a policy brings `percent` hundredths of a token, each attempt
/// beyond its first takes one. However a backend fails, it so sees at most `tokens_max` and `percent` per cent more attempts
/// than there are calls. Where the bucket is empty, a call ends with the failure that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryBudget {
    /// Tokens that the bucket holds. 100; 1 to 1,000,000. It is the burst that an idle channel may retry.
    pub tokens_max: u32,
    /// What a call brings, in hundredths of a token. 20; 0 to 100.
    pub percent: u32,
}

impl Default for RetryBudget {
    fn default() -> Self {
        RetryBudget { tokens_max: 100, percent: 20 }
    }
}

impl RetryBudget {
    /// A bucket of this many tokens, into which a call brings `percent` hundredths of one.
    #[must_use]
    pub fn new(tokens_max: u32, percent: u32) -> Self {
        RetryBudget { tokens_max, percent }
    }

    /// Refuses settings outside their ranges.
    ///
    /// # Errors
    /// The first one, with what to set instead.
    pub fn validate(&self) -> Result<(), Status> {
        if !(1..=1_000_000).contains(&self.tokens_max) || self.percent > 100 {
            return Err(Status::invalid_argument(format!(
                "a retry budget of {} tokens and {} percent is out of range; set 1 to 1,000,000 tokens and 0 to 100 \
                 percent",
                self.tokens_max, self.percent
            )));
        }
        Ok(())
    }

    fn max(&self) -> u64 {
        u64::from(self.tokens_max) * TOKEN
    }
}

/// The tokens of one channel. The bucket's size comes with each use, since it can be changed live.
#[derive(Debug)]
pub(crate) struct Tokens(AtomicU64);

impl Tokens {
    pub(crate) fn full(budget: &RetryBudget) -> Self {
        Tokens(AtomicU64::new(budget.max()))
    }

    /// A call begins.
    pub(crate) fn deposit(&self, budget: &RetryBudget) {
        let added = |held: u64| Some(held.saturating_add(u64::from(budget.percent)).min(budget.max()));
        // It always gives a value.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
    }

    /// A further attempt is to be made; false where it may not.
    pub(crate) fn withdraw(&self, budget: &RetryBudget) -> bool {
        let taken = |held: u64| held.min(budget.max()).checked_sub(TOKEN);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }
}
