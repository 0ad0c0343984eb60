//! A lane: one slot, as others see it. It names its attempts to contexts, and takes the orders to stop them.
//!
//! A lane runs one attempt after another, each under a key of its own. A context that outlives its attempt asks with an
//! old key, and is told how that attempt ended.

use crate::current::Notes;
use crate::job::Job;
use crate::reports::Reports;
use crate::shared::Shared;
use punctual_clock::{Clock, Instant, Timestamp};
use punctual_context::{CancelReason, Host, Peer};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{self, Poll, Waker};
use std::time::Duration;

/// A lane.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) number: u64,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    shared: OnceLock<Weak<Shared>>,
}

#[derive(Debug, Default)]
struct State {
    /// The key of the current or last attempt.
    key: u64,
    /// What the lane holds: from the moment it leaves the queue until the completer or the claimer has it.
    job: Option<Arc<Job>>,
    /// When the running attempt's budget ends; `None` while none runs.
    deadline: Option<Instant>,
    /// When it began, for its record.
    started: Timestamp,
    /// Why the attempt was asked to stop, first reason first.
    reason: Option<CancelReason>,
    /// What the running handler has said.
    notes: Notes,
    /// Attempts that were asked to stop and have ended, the newest last: a context may outlive its handler.
    stopped: VecDeque<(u64, CancelReason)>,
    /// When its future is dropped.
    drop_at: Option<Instant>,
    /// The lane's own task, which drops the future.
    driver: Option<Waker>,
    /// Whoever waits in `Context::cancelled`. At most one entry a waiting task: a waker that would wake the same one
    /// is not kept twice.
    waiters: Vec<Waker>,
    /// How often the handler was polled to no end; with the key this tells a blocked handler from one that moves.
    polls: u64,
    /// When the handler was first seen far over its budget, and how far it was then.
    overdue: Option<Overdue>,
    /// Given up: the thread may still be inside the handler, whose end is no longer of interest.
    abandoned: bool,
}

/// A handler that may block its thread.
#[derive(Debug, Clone, Copy)]
struct Overdue {
    seen: Instant,
    key: u64,
    polls: u64,
}

/// An overdue handler is looked at twice, at least this far apart: a process that was suspended finds all its handlers
/// overdue at once, and they must have the time to be polled.
const OVERDUE_LOOK: Duration = Duration::from_secs(5);

/// Attempts that are remembered after they were asked to stop. Whoever waits for that asks as soon as it is woken, and of
/// an older one it is told that the handler has ended.
const STOPPED_MAX: usize = 64;

/// What a lane's own task is to do after its handler said that it is not ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Orders {
    /// Wait, at most until then.
    Wait(Instant),
    /// Drop the handler now.
    Drop(CancelReason),
    /// The attempt was given up; what becomes of it was said elsewhere.
    Abandoned,
}

impl Lane {
    pub(crate) fn new(number: u64, clock: Arc<dyn Clock>) -> Self {
        Lane { number, clock, state: Mutex::new(State::default()), shared: OnceLock::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a job from the queue. Called under the queue's lock, so that the job is always in one of the two.
    pub(crate) fn assign(&self, job: Arc<Job>) {
        let mut state = self.lock();
        state.key += 1;
        state.job = Some(job);
        state.deadline = None;
        state.reason = None;
        state.drop_at = None;
        state.notes = Notes::default();
    }

    /// Lets the handler of attempt `key` say something, if it still runs and was not given up.
    pub(crate) fn note<T>(&self, key: u64, say: impl FnOnce(&mut Notes) -> T) -> Option<T> {
        let mut state = self.lock();
        (state.runs(key) && !state.abandoned).then(|| say(&mut state.notes))
    }

    /// Hands on what the running handler said of itself since the last time. Under the lock, so that it is behind what its end
    /// hands on or before it, and never between the two.
    pub(crate) fn report(&self, reports: &Reports, now: Timestamp) {
        let mut state = self.lock();
        let Some(job) = state.job.clone().filter(|_| state.deadline.is_some() && !state.abandoned) else { return };
        if let Some(report) = state.notes.take_report(job.claimed.task, job.claimed.n, now) {
            reports.push(job.worker, report);
        }
    }

    /// The engine that runs it, from its first job on.
    pub(crate) fn belongs_to(&self, shared: &Arc<Shared>) {
        self.shared.get_or_init(|| Arc::downgrade(shared));
    }

    /// The engine that runs it, while there is one.
    pub(crate) fn shared(&self) -> Option<Arc<Shared>> {
        self.shared.get()?.upgrade()
    }

    /// What the handler has said. It can say nothing more once the attempt has ended.
    pub(crate) fn take_notes(&self) -> Notes {
        std::mem::take(&mut self.lock().notes)
    }

    /// Begins the attempt and gives its key.
    ///
    /// # Errors
    /// The reason, if it was asked to stop before it began.
    pub(crate) fn begin(&self, deadline: Instant, started: Timestamp) -> Result<u64, CancelReason> {
        let mut state = self.lock();
        if let Some(reason) = state.reason {
            return Err(reason);
        }
        state.deadline = Some(deadline);
        state.started = started;
        Ok(state.key)
    }

    /// Ends the attempt: gives why it was asked to stop, if it was, or `None` if it had been given up. The job stays until
    /// [`Lane::release`].
    pub(crate) fn end(&self) -> Option<Option<CancelReason>> {
        let mut state = self.lock();
        if state.abandoned {
            return None;
        }
        state.deadline = None;
        let reason = state.reason.take();
        if let Some(reason) = reason {
            if state.stopped.len() >= STOPPED_MAX {
                state.stopped.pop_front();
            }
            let key = state.key;
            state.stopped.push_back((key, reason));
        }
        state.driver = None;
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        wake_all(waiters);
        Some(reason)
    }

    /// Lets the job go: somebody else has it now.
    pub(crate) fn release(&self) -> Option<Arc<Job>> {
        self.lock().job.take()
    }

    /// The job that the lane holds.
    pub(crate) fn job(&self) -> Option<Arc<Job>> {
        self.lock().job.clone()
    }

    /// Asks the attempt to stop if `which` takes its job, and has it dropped after `grace`. The first reason stays; the
    /// earliest drop counts. Gives whether it was taken.
    pub(crate) fn stop(&self, which: impl FnOnce(&Job) -> bool, reason: CancelReason, grace: Duration) -> bool {
        let drop_at = self.clock.now().after(grace);
        let mut state = self.lock();
        if state.abandoned || !state.job.as_deref().is_some_and(which) {
            return false;
        }
        state.reason = state.reason.or(Some(reason));
        state.drop_at = Some(state.drop_at.map_or(drop_at, |already| already.min(drop_at)));
        let wakers = state.take_wakers();
        drop(state);
        wake_all(wakers);
        true
    }

    /// What the lane's own task is to do while the handler is not ready. Fires the deadline.
    pub(crate) fn orders(&self, driver: &Waker, stop_grace: Duration) -> Orders {
        let now = self.clock.now();
        let mut state = self.lock();
        if state.abandoned {
            return Orders::Abandoned;
        }
        state.polls += 1;
        let Some(deadline) = state.deadline else { return Orders::Abandoned };
        if !state.driver.as_ref().is_some_and(|known| known.will_wake(driver)) {
            state.driver = Some(driver.clone());
        }
        if state.reason.is_none() && now >= deadline {
            state.reason = Some(CancelReason::Deadline);
            state.drop_at = Some(now.after(stop_grace));
            let wakers = state.take_wakers();
            drop(state);
            wake_all(wakers);
            return Orders::Wait(now.after(stop_grace));
        }
        match (state.reason, state.drop_at) {
            (Some(reason), Some(drop_at)) if now >= drop_at => Orders::Drop(reason),
            (Some(_), Some(drop_at)) => Orders::Wait(drop_at),
            _ => Orders::Wait(deadline),
        }
    }

    /// Gives the attempt up if its budget ended more than `after` ago and its handler has not been polled between two
    /// looks since: one that yields would have been dropped, so this one blocks its thread. Gives the job and when it
    /// began; its finish is the caller's from now on.
    pub(crate) fn abandon(&self, now: Instant, after: Duration) -> Option<(Arc<Job>, Timestamp)> {
        let mut state = self.lock();
        if state.abandoned || now < state.deadline?.after(after) {
            return None;
        }
        let (key, polls) = (state.key, state.polls);
        match state.overdue {
            Some(overdue) if (overdue.key, overdue.polls) == (key, polls) => {
                if now < overdue.seen.after(OVERDUE_LOOK) {
                    return None;
                }
            }
            _ => {
                state.overdue = Some(Overdue { seen: now, key, polls });
                return None;
            }
        }
        state.abandoned = true;
        // The job stays here too, so that it is seen as held until its finish is.
        Some((state.job.clone()?, state.started))
    }
}

impl State {
    /// Why the attempt was asked to stop, or `None` where it was not, as far as it is remembered.
    fn reason_of(&self, key: u64) -> Option<CancelReason> {
        if self.runs(key) {
            return self.reason;
        }
        self.stopped.iter().rev().find(|(stopped, _)| *stopped == key).map(|(_, reason)| *reason)
    }

    fn runs(&self, key: u64) -> bool {
        self.key == key && self.deadline.is_some()
    }

    fn take_wakers(&mut self) -> Vec<Waker> {
        let mut wakers = std::mem::take(&mut self.waiters);
        wakers.extend(self.driver.take());
        wakers
    }
}

/// Outside of the lock: a waker may run other people's code.
fn wake_all(wakers: Vec<Waker>) {
    for waker in wakers {
        waker.wake();
    }
}

impl Host for Lane {
    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    fn peer(&self) -> Option<&Peer> {
        None
    }

    fn cancel_reason(&self, key: u64) -> Option<CancelReason> {
        self.lock().reason_of(key)
    }

    fn poll_cancelled(&self, key: u64, cx: &mut task::Context<'_>) -> Poll<CancelReason> {
        let mut state = self.lock();
        match state.reason_of(key) {
            Some(reason) => Poll::Ready(reason),
            None if !state.runs(key) => Poll::Ready(CancelReason::Ended),
            None => {
                if !state.waiters.iter().any(|known| known.will_wake(cx.waker())) {
                    state.waiters.push(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests;
