//! From the end of a handler to what the store is told: a finish, or that the task is given back.

use crate::attempt::Ended;
use crate::record::write_error;
use bytes::Bytes;
use punctual_clock::{Entropy, Timestamp};
use punctual_context::CancelReason;
use punctual_task::decide::{Terms, Verdict, decide_next};
use punctual_task::{Claimed, Finish, Outcome};
use std::time::Duration;

/// What the store is told of an attempt.
#[derive(Debug)]
pub(crate) enum Conclusion {
    /// It ended.
    Finish(Finish),
    /// It did not: the task waits again, and nothing was spent.
    HandBack,
}

/// When an attempt began and ended by the worker's clock, and the store's time at its end, from which retries count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) started: Timestamp,
    pub(crate) ended: Timestamp,
    pub(crate) store_now: Timestamp,
}

/// Decides what the store is told. `reason` is why the attempt was asked to stop, if it was.
///
/// Success stays success whatever was asked meanwhile: the work is done. A handler that ended because its lease was in
/// doubt or its worker stops has not failed, so its task is given back.
pub(crate) fn conclude(
    claimed: &Claimed,
    terms: Terms<'_>,
    ended: Ended,
    reason: Option<CancelReason>,
    times: Times,
    entropy: &dyn Entropy,
) -> Conclusion {
    let (outcome, verdict, out) = match (ended, reason) {
        (Ended::Returned(Ok(out)), _) => (Outcome::Succeeded, Verdict::Retry, out),
        (Ended::Returned(Err(_)) | Ended::Dropped(_), Some(CancelReason::Disconnected | CancelReason::Shutdown)) => {
            return Conclusion::HandBack;
        }
        (Ended::Returned(Err(failure)), Some(CancelReason::Deadline)) => {
            (Outcome::TimedOut, Verdict::Retry, write_error(&failure.message, &failure.detail))
        }
        (Ended::Returned(Err(failure)), Some(_)) => {
            (Outcome::Cancelled, Verdict::Retry, write_error(&failure.message, &failure.detail))
        }
        (Ended::Returned(Err(failure)), None) => {
            let outcome = match failure.verdict {
                Verdict::Snooze(_) => Outcome::Snoozed,
                Verdict::Cancel => Outcome::Cancelled,
                _ => Outcome::Failed,
            };
            (outcome, failure.verdict, write_error(&failure.message, &failure.detail))
        }
        (Ended::Panicked(message), _) => {
            (Outcome::Panicked, Verdict::Retry, write_error(&format!("the handler panicked: {message}"), b""))
        }
        (Ended::Dropped(CancelReason::User | CancelReason::ConsumerGone), _) => {
            (Outcome::Cancelled, Verdict::Retry, write_error("cancelled while it ran", b""))
        }
        (Ended::Dropped(_) | Ended::Abandoned, _) => (Outcome::TimedOut, Verdict::Retry, timed_out(terms.timeout())),
    };
    let next = decide_next(terms, outcome, verdict, claimed.spent, claimed.losses, times.store_now, entropy);
    Conclusion::Finish(Finish {
        task: claimed.task,
        n: claimed.n,
        started: times.started,
        ended: times.ended,
        outcome,
        out,
        next,
    })
}

/// The record of an attempt whose budget ended.
pub(crate) fn timed_out(timeout: Duration) -> Bytes {
    write_error(&format!("the attempt did not end within its budget; its timeout is {timeout:?}"), b"")
}

/// The finish of a task that was claimed too late to be started.
pub(crate) fn expired(claimed: &Claimed, terms: Terms<'_>, times: Times, entropy: &dyn Entropy) -> Finish {
    unrun(claimed, terms, Outcome::Expired, "its start_by or finish_by had passed when it could begin", times, entropy)
}

/// The finish of a task whose cancel was asked for after its claim and before its start.
pub(crate) fn cancelled_unrun(claimed: &Claimed, terms: Terms<'_>, times: Times, entropy: &dyn Entropy) -> Finish {
    unrun(claimed, terms, Outcome::Cancelled, "cancelled before it began", times, entropy)
}

fn unrun(
    claimed: &Claimed,
    terms: Terms<'_>,
    outcome: Outcome,
    why: &str,
    times: Times,
    entropy: &dyn Entropy,
) -> Finish {
    let next = decide_next(terms, outcome, Verdict::Retry, claimed.spent, claimed.losses, times.store_now, entropy);
    Finish {
        task: claimed.task,
        n: claimed.n,
        started: times.started,
        ended: times.ended,
        outcome,
        out: write_error(why, b""),
        next,
    }
}

#[cfg(test)]
mod tests;
