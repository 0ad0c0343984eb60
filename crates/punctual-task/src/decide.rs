//! What becomes of a task: whether a claimed one may start, and what follows an attempt.
//!
//! The table of what follows; "left" means that fewer attempts were spent, this one included, than are allowed:
//!
//! | outcome | verdict | spends | left | none left |
//! |---|---|---|---|---|
//! | succeeded | – | – | succeeded | succeeded |
//! | failed | retry | 1 | again after the backoff | failed |
//! | failed | retry after d | 1 | again after d | failed |
//! | failed | dead letter | 1 | failed | failed |
//! | failed | cancel | 1 | cancelled | cancelled |
//! | failed, snoozed | snooze d | 0 | again after d | again after d |
//! | panicked, timed out | any | 1 | again after the backoff | failed |
//! | cancelled | any | – | cancelled | cancelled |
//! | expired | any | – | expired | expired |
//! | lost | any | 0 | again at once, up to the third loss in a row | the same |
//! | handed back | any | 0 | again at once | again at once |
//!
//! "Again" becomes *failed* where the next attempt would begin at or after the task's `finish_by`: it could not do anything.
//! A store turns every end but success into *cancelled* if a cancel was asked for meanwhile ([`settle`]).

use crate::attempt::{Next, Outcome};
use crate::policy::{Policy, TaskOptions};
use crate::task::TaskState;
use crate::worker::LOSSES_MAX;
use punctual_clock::{Entropy, Timestamp};
use std::time::Duration;

/// What a failed attempt asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Verdict {
    /// Another attempt after the policy's backoff, while attempts are left.
    #[default]
    Retry,
    /// Another attempt after this long, while attempts are left.
    RetryAfter(Duration),
    /// No further attempt: the task fails now.
    DeadLetter,
    /// No further attempt: the task ends as cancelled.
    Cancel,
    /// Another attempt after this long; this one is not spent.
    Snooze(Duration),
}

/// A method's policy and what its task overrides.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// The method's.
    pub policy: &'a Policy,
    /// The task's.
    pub options: &'a TaskOptions,
}

impl Terms<'_> {
    /// How many attempts may be spent in all, from 1.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.options.attempts.unwrap_or(self.policy.attempts).max(1)
    }

    /// The budget of one attempt, `finish_by` aside.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.options.timeout.or(self.policy.timeout).unwrap_or(Policy::TIMEOUT_DEFAULT)
    }

    /// The wait after `spent` attempts (from 1) were spent.
    #[must_use]
    pub fn backoff(&self, spent: u32, entropy: &dyn Entropy) -> Duration {
        self.options.backoff.unwrap_or(self.policy.backoff).wait(spent, entropy)
    }

    fn finish_by(&self) -> Option<Timestamp> {
        self.options.finish_by.map(Timestamp::from_micros)
    }
}

/// Whether a claimed task may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// It may run for so long.
    Run {
        /// The smaller of its timeout and what is left until `finish_by`; never zero.
        budget: Duration,
    },
    /// It is too late: its `start_by` or `finish_by` has passed. To be finished as [`Outcome::Expired`].
    Expired,
}

/// Decides whether attempt `n` may start `now`. `start_by` concerns the first attempt only: a task that has begun in time
/// may be retried later.
#[must_use]
pub fn decide_start(terms: Terms<'_>, n: u32, now: Timestamp) -> Start {
    let start_by = terms.options.start_by.map(Timestamp::from_micros);
    if n <= 1 && start_by.is_some_and(|by| now > by) {
        return Start::Expired;
    }
    let timeout = terms.timeout();
    match terms.finish_by() {
        Some(by) if now >= by => Start::Expired,
        Some(by) => Start::Run { budget: timeout.min(by.since(now)) },
        None => Start::Run { budget: timeout },
    }
}

/// Decides what follows an attempt that ended `now`, by the table above.
///
/// `spent` and `losses` are those of the claim, before this attempt. `verdict` counts only where the table names it.
#[must_use]
pub fn decide_next(
    terms: Terms<'_>,
    outcome: Outcome,
    verdict: Verdict,
    spent: u32,
    losses: u32,
    now: Timestamp,
    entropy: &dyn Entropy,
) -> Next {
    let spent_now = spent.saturating_add(1);
    let retry = |wait: Option<Duration>| {
        if spent_now >= terms.attempts() {
            return Next::Final(TaskState::Failed);
        }
        let wait = wait.unwrap_or_else(|| terms.backoff(spent_now, entropy));
        Next::Again { due: now.after(wait), spent: spent_now }
    };
    let next = match (outcome, verdict) {
        (Outcome::Succeeded, _) => Next::Final(TaskState::Succeeded),
        (Outcome::Cancelled, _) | (Outcome::Failed, Verdict::Cancel) => Next::Final(TaskState::Cancelled),
        (Outcome::Expired, _) => Next::Final(TaskState::Expired),
        (Outcome::Failed, Verdict::DeadLetter) => Next::Final(TaskState::Failed),
        (Outcome::Failed, Verdict::RetryAfter(wait)) => retry(Some(wait)),
        (Outcome::Failed | Outcome::Snoozed, Verdict::Snooze(wait)) => Next::Again { due: now.after(wait), spent },
        (Outcome::Snoozed, _) => Next::Again { due: now.after(terms.backoff(spent_now, entropy)), spent },
        (Outcome::Failed, Verdict::Retry) | (Outcome::Panicked | Outcome::TimedOut, _) => retry(None),
        (Outcome::Lost, _) => match decide_loss(losses) {
            Some(_) => Next::Again { due: now, spent },
            None => Next::Final(TaskState::Failed),
        },
        (Outcome::HandedBack, _) => Next::Again { due: now, spent },
    };
    match (next, terms.finish_by()) {
        (Next::Again { due, .. }, Some(by)) if due >= by => Next::Final(TaskState::Failed),
        _ => next,
    }
}

/// Decides what one more loss does to a task that was lost `losses` times in a row: the new count, or `None` when it fails.
#[must_use]
pub fn decide_loss(losses: u32) -> Option<u32> {
    let losses = losses.saturating_add(1);
    (losses < LOSSES_MAX).then_some(losses)
}

/// What a store writes for `next` when a cancel was asked for while the attempt ran: success came first, anything else is
/// cancelled.
#[must_use]
pub const fn settle(next: Next, cancel_requested: bool) -> Next {
    match next {
        Next::Final(TaskState::Succeeded) => next,
        Next::Final(_) | Next::Again { .. } if cancel_requested => Next::Final(TaskState::Cancelled),
        Next::Final(_) | Next::Again { .. } => next,
    }
}

#[cfg(test)]
mod tests;
