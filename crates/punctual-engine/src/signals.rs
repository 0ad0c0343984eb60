//! What tells the claimer and the materialiser that there is something to do before their next poll.
//!
//! All of these are hints: a lost one costs one poll, never a task.

use crate::job::Job;
use punctual_clock::Timestamp;
use punctual_task::{ScheduleId, TaskId, WorkerId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// So many schedules with a half-used window are watched. Beyond them, each finished occurrence asks for a sweep.
const WATCHED_MAX: usize = 100_000;

/// What the claimer is told.
#[derive(Debug)]
pub(crate) struct ClaimSignals {
    pub(crate) wake: Notify,
    /// The store has work that is due.
    look: AtomicBool,
    /// Memory and store may differ: compare them.
    reconcile: AtomicBool,
    /// When a task of this engine's own becomes due, in microseconds.
    due: AtomicI64,
    /// Tasks that go back to the store: task, attempt, fence.
    give_back: Mutex<Vec<(TaskId, u32, WorkerId)>>,
}

impl Default for ClaimSignals {
    fn default() -> Self {
        ClaimSignals {
            wake: Notify::new(),
            look: AtomicBool::new(false),
            reconcile: AtomicBool::new(false),
            due: AtomicI64::new(i64::MAX),
            give_back: Mutex::default(),
        }
    }
}

impl ClaimSignals {
    /// Something is due.
    pub(crate) fn due_now(&self) {
        self.look.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Something becomes due then.
    pub(crate) fn due_at(&self, at: Timestamp) {
        if self.due.fetch_min(at.as_micros(), Ordering::AcqRel) > at.as_micros() {
            self.wake.notify_one();
        }
    }

    /// Memory and store may differ.
    pub(crate) fn reconcile(&self) {
        self.reconcile.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// A task is to be given back. The claimer does it, between claims, so that it never gives back what it just claimed.
    pub(crate) fn give_back(&self, job: &Job) {
        let entry = (job.claimed.task, job.claimed.n, job.worker);
        self.give_back.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        self.wake.notify_one();
    }

    pub(crate) fn take_look(&self) -> bool {
        self.look.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn take_reconcile(&self) -> bool {
        self.reconcile.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn take_due(&self) -> Option<Timestamp> {
        let due = self.due.swap(i64::MAX, Ordering::AcqRel);
        (due != i64::MAX).then_some(Timestamp::from_micros(due))
    }

    /// What is to be given back, still in the list.
    pub(crate) fn to_give_back(&self) -> Vec<(TaskId, u32, WorkerId)> {
        self.give_back.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The list's first `count` entries are dealt with.
    pub(crate) fn given_back(&self, count: usize) {
        let mut list = self.give_back.lock().unwrap_or_else(PoisonError::into_inner);
        let count = count.min(list.len());
        list.drain(..count);
    }
}

/// What the materialiser is told.
#[derive(Debug, Default)]
pub(crate) struct SweepSignals {
    pub(crate) wake: Notify,
    /// Occurrences that ended here since the last sweep.
    ended: Mutex<BTreeMap<ScheduleId, u32>>,
}

impl SweepSignals {
    /// A schedule may be due.
    pub(crate) fn now(&self) {
        self.wake.notify_one();
    }

    /// A sweep has looked at a schedule.
    pub(crate) fn swept(&self, schedule: ScheduleId) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).remove(&schedule);
    }

    /// An occurrence ended, which may make room for the next. Asks for a sweep when half of `window`, the most that may
    /// be live, has ended: a sweep after each would create them one by one.
    pub(crate) fn ended(&self, schedule: ScheduleId, window: u32) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let watched = ended.len() < WATCHED_MAX || ended.contains_key(&schedule);
        let count = ended.get(&schedule).map_or(1, |count| count + 1);
        if !watched || count >= window.div_ceil(2) {
            ended.remove(&schedule);
            self.wake.notify_one();
        } else {
            ended.insert(schedule, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Poll, Waker};

    fn woken(notify: &Notify) -> bool {
        let mut told = std::pin::pin!(notify.notified());
        matches!(told.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()))
    }

    /// A window is refilled when half of it has ended, so that batching survives the steady state.
    #[test]
    fn a_refill_waits_for_half_the_window() {
        let signals = SweepSignals::default();
        let schedule = ScheduleId(1);
        signals.ended(schedule, 4);
        assert!(!woken(&signals.wake));
        signals.ended(schedule, 4);
        assert!(woken(&signals.wake));
        signals.ended(schedule, 4);
        signals.swept(schedule);
        signals.ended(schedule, 4);
        assert!(!woken(&signals.wake), "the sweep has taken the first into account");
        signals.ended(ScheduleId(2), 1);
        assert!(woken(&signals.wake), "a window of one is refilled at once");
    }

    /// Of several due times the earliest counts, and only an earlier one wakes.
    #[test]
    fn the_earliest_due_time_counts() {
        let signals = ClaimSignals::default();
        signals.due_at(Timestamp::from_secs(5));
        assert!(woken(&signals.wake));
        signals.due_at(Timestamp::from_secs(9));
        assert!(!woken(&signals.wake));
        assert_eq!(signals.take_due(), Some(Timestamp::from_secs(5)));
        assert_eq!(signals.take_due(), None);
    }
}
