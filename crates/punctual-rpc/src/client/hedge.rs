//! Hedging: a call that takes long is made once more, and the first result counts.

use crate::client::attempts::{Resendable, attempt};
use crate::client::config::ChannelConfig;
use crate::client::connection::Connection;
use crate::client::reply::Answer;
use crate::client::timer::sleep_until;
use crate::transport::BoxFuture;
use punctual_proto::codec::Args;
use punctual_proto::session::{Refusal, Reply};
use punctual_proto::status::{CallError, Status};
use serde::Serialize;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// The most attempts of one hedged call. More would make the tail shorter at the price of everybody's.
pub const HEDGES_MAX: u32 = 5;

/// How a call to an idempotent unary method that takes long is made once more, beside the first (Dean and Barroso, "The
/// tail at scale", 2013).
///
/// The first result counts, and so does the first failure that another attempt would not mend; the other attempts are then
/// cancelled. A failure that may pass counts only where it is the last, and the next attempt follows it at once. All share
/// the call's deadline, and each but the first takes a token of the channel's [`RetryBudget`](crate::RetryBudget). Where
/// several endpoints are alive, an attempt goes to one that none of the attempts before went to, while there is such a one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HedgePolicy {
    /// Attempts in all. 2; 2 to [`HEDGES_MAX`].
    pub attempts: u32,
    /// How long each attempt has before the next one joins it. 100 ms; at least 1 ms. About the 95th percentile of the
    /// method's latency makes a twentieth more calls.
    pub delay: Duration,
}

impl Default for HedgePolicy {
    fn default() -> Self {
        HedgePolicy { attempts: 2, delay: Duration::from_millis(100) }
    }
}

impl HedgePolicy {
    /// Another attempt after each `delay`, `attempts` in all.
    #[must_use]
    pub fn new(attempts: u32, delay: Duration) -> Self {
        HedgePolicy { attempts, delay }
    }

    /// Refuses settings that make no sense.
    ///
    /// # Errors
    /// The first one, with what to set instead.
    pub fn validate(&self) -> Result<(), Status> {
        if !(2..=HEDGES_MAX).contains(&self.attempts) {
            let text = format!("a hedging policy's attempts are {}; set 2 to {HEDGES_MAX}", self.attempts);
            return Err(Status::invalid_argument(text));
        }
        if self.delay < Duration::from_millis(1) {
            let text = format!("a hedging policy's delay is {:?}; set at least 1 ms", self.delay);
            return Err(Status::invalid_argument(text));
        }
        Ok(())
    }
}

/// What ends a wait.
enum Event<T, E> {
    /// The attempt at this index is over.
    Over(usize, Result<T, CallError<E>>),
    /// It takes long.
    Due,
}

/// Makes the call by its policy.
pub(crate) async fn hedged<A, T, E>(
    call: &Resendable<A>,
    policy: &HedgePolicy,
    settings: &ChannelConfig,
    refused: Option<(Arc<Connection>, Refusal)>,
    read: fn(Reply, &[u8]) -> Answer<T, E>,
) -> Result<T, CallError<E>>
where
    A: Args + Serialize + Send,
{
    let clock = call.channel.clock();
    let due = || Box::pin(sleep_until(clock, clock.now().after(policy.delay)));
    let mut attempts: Vec<BoxFuture<'_, Result<T, CallError<E>>>> = Vec::with_capacity(policy.attempts as usize);
    attempts.push(Box::pin(attempt(call, refused, read)));
    let mut sent = 1;
    let mut timer = Some(due());
    loop {
        let event = poll_fn(|cx| {
            for (at, running) in attempts.iter_mut().enumerate() {
                if let Poll::Ready(result) = running.as_mut().poll(cx) {
                    return Poll::Ready(Event::Over(at, result));
                }
            }
            match &mut timer {
                Some(timer) => timer.as_mut().poll(cx).map(|()| Event::Due),
                None => Poll::Pending,
            }
        });
        match event.await {
            // The others are cancelled by being dropped.
            Event::Over(_, Ok(value)) => return Ok(value),
            Event::Over(at, Err(error)) => {
                drop(attempts.swap_remove(at));
                // A failure that says when to come back is no reason to come at once.
                let status = error.status().filter(|status| status.is_retryable() && status.retry_after().is_none());
                let passes = status.is_some();
                if attempts.is_empty() && !(passes && may_send(call, policy, settings, sent)) {
                    return Err(error);
                }
                if !error.is_retryable() {
                    return Err(error);
                }
                if !attempts.is_empty() {
                    continue;
                }
            }
            Event::Due if !may_send(call, policy, settings, sent) => {
                timer = None;
                continue;
            }
            Event::Due => {}
        }
        sent += 1;
        call.channel.counters().count_hedge();
        attempts.push(Box::pin(attempt(call, None, read)));
        timer = Some(due());
    }
}

/// Whether another attempt may join; its token is then taken.
fn may_send<A>(call: &Resendable<A>, policy: &HedgePolicy, settings: &ChannelConfig, sent: u32) -> bool {
    sent < policy.attempts && call.channel.tokens().withdraw(&settings.retry_budget)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settings that make no sense are refused with what to set.
    #[test]
    fn senseless_settings_are_refused() {
        for (attempts, millis, why) in [(1, 100, "2 to 5"), (6, 100, "2 to 5"), (2, 0, "at least 1 ms")] {
            let error = HedgePolicy::new(attempts, Duration::from_millis(millis)).validate().unwrap_err();
            assert!(error.message().contains(why), "{error}");
        }
        assert!(HedgePolicy::default().validate().is_ok());
    }
}
