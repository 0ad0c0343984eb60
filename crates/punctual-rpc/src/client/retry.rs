//! Retry: when a call is made again, after which wait, and out of which budget. Pure; the waiting is done elsewhere.

mod budget;
#[cfg(test)]
mod tests;

pub use budget::RetryBudget;
pub(crate) use budget::Tokens;

use punctual_clock::Entropy;
use punctual_proto::status::Status;
use std::time::Duration;

/// The share of a wait that is drawn by chance, so that callers that failed together do not come back in step: a fifth,
/// either way.
const JITTER_DIVISOR: u64 = 5;

/// The most attempts that a policy may name. More would hide an outage rather than a hiccup.
pub const ATTEMPTS_MAX: u32 = 10;

/// How a call to an idempotent unary method is made again after a failure that may pass by itself.
///
/// Those are the failures that [`Status::is_retryable`] names: the service is away, the connection was lost, or a limit was
/// hit that says when it will be free. An application's error never counts. All attempts share the call's one deadline, and
/// each but the first takes a token of the channel's [`RetryBudget`]. Where several endpoints are alive, an attempt goes to one
/// that none of the attempts before went to, while there is such a one.
///
/// ```no_run
/// use punctual_rpc::{Channel, MethodPolicy, RetryPolicy, Status};
///
/// # async fn connect() -> Result<Channel, Status> {
/// let channel = Channel::builder("tcp://127.0.0.1:7400").retry(RetryPolicy::default()).connect().await?;
/// // More for one method, and none for the others of its service.
/// channel.reconfigure(|config| {
///     config.methods.insert("Billing".to_owned(), MethodPolicy::default());
///     config.methods.insert("Billing/quote".to_owned(), MethodPolicy::default().retry(RetryPolicy::attempts(5)));
/// })?;
/// # Ok(channel)
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// Attempts in all, the first one included. 3; 1 to [`ATTEMPTS_MAX`].
    pub attempts: u32,
    /// The wait before the second attempt. 50 ms; at least 1 ms. Each further one doubles it. A fifth of each wait is by
    /// chance, either way; a longer `retry_after` of the failure replaces it.
    pub backoff_first: Duration,
    /// The longest wait. 200 ms; at least `backoff_first`.
    pub backoff_max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy { attempts: 3, backoff_first: Duration::from_millis(50), backoff_max: Duration::from_millis(200) }
    }
}

impl RetryPolicy {
    /// The default policy with this many attempts in all.
    #[must_use]
    pub fn attempts(attempts: u32) -> Self {
        RetryPolicy { attempts, ..RetryPolicy::default() }
    }

    /// Refuses settings that make no sense.
    ///
    /// # Errors
    /// The first one, with what to set instead.
    pub fn validate(&self) -> Result<(), Status> {
        if !(1..=ATTEMPTS_MAX).contains(&self.attempts) {
            return Err(Status::invalid_argument(format!(
                "a retry policy's attempts are {}; set 1 to {ATTEMPTS_MAX}",
                self.attempts
            )));
        }
        if self.backoff_first < Duration::from_millis(1) || self.backoff_max < self.backoff_first {
            return Err(Status::invalid_argument(format!(
                "a retry policy's backoff_first is {:?} and its backoff_max {:?}; set the first to at least 1 ms and the \
                 other not below it",
                self.backoff_first, self.backoff_max
            )));
        }
        Ok(())
    }

    /// The wait before another attempt once `made` have failed, the last one with `status`; `None` where there is to be no
    /// other.
    pub(crate) fn wait_after(&self, made: u32, status: &Status, entropy: &dyn Entropy) -> Option<Duration> {
        if made >= self.attempts || !status.is_retryable() {
            return None;
        }
        let doublings = made.saturating_sub(1).min(16);
        let wait = jittered(self.backoff_first.saturating_mul(1 << doublings).min(self.backoff_max), entropy);
        Some(status.retry_after().map_or(wait, |asked| asked.max(wait)))
    }
}

/// A wait around `mean`: a fifth of it is by chance, either way.
pub(crate) fn jittered(mean: Duration, entropy: &dyn Entropy) -> Duration {
    let nanos = u64::try_from(mean.as_nanos()).unwrap_or(u64::MAX / 2);
    let spread = nanos / JITTER_DIVISOR;
    Duration::from_nanos(nanos - spread + entropy.below(2 * spread + 1))
}
