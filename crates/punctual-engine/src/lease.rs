//! What this engine knows of its registration: the fence, and until when handlers may run under it.

use crate::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};
use punctual_clock::Instant;
use punctual_task::WorkerId;
use std::sync::PoisonError;
use std::time::Duration;
use tokio::sync::Notify;

/// No registration: the stores draw positive numbers.
const NONE: i64 = i64::MIN;

/// The registration.
#[derive(Debug)]
pub(crate) struct Lease {
    /// How long after sending a good renewal handlers may run.
    stop_after: Duration,
    state: Mutex<State>,
    /// The same as in `state`, for lanes, which ask before each attempt.
    worker: AtomicI64,
    valid_until: AtomicU64,
    /// Wakes the keeper: the fence was found to be refused.
    pub(crate) lost: Notify,
}

#[derive(Debug)]
struct State {
    worker: Option<WorkerId>,
    /// When the last good renewal was sent.
    sent: Instant,
    /// When the first of the unbroken good renewals was sent.
    unbroken_since: Instant,
    /// Whether handlers were stopped since the last good renewal.
    doubt: bool,
    /// A fence that somebody saw refused.
    refused: Option<WorkerId>,
}

/// Whether an attempt may start under a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Good,
    /// The last good renewal is too long ago. It may turn out to be good still.
    Doubtful,
    /// The engine has another registration, or none.
    Lost,
}

impl Lease {
    pub(crate) fn new(stop_after: Duration) -> Self {
        let never = Instant::from_nanos(0);
        Lease {
            stop_after,
            state: Mutex::new(State { worker: None, sent: never, unbroken_since: never, doubt: false, refused: None }),
            worker: AtomicI64::new(NONE),
            valid_until: AtomicU64::new(0),
            lost: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, state: &State) {
        let worker = state.worker.map_or(NONE, |worker| worker.0);
        if self.worker.load(Ordering::Relaxed) != worker {
            // Whoever sees the new validity sees that the old registration is over, too.
            self.worker.store(NONE, Ordering::Release);
        }
        self.valid_until.store(state.sent.after(self.stop_after).as_nanos(), Ordering::Release);
        self.worker.store(worker, Ordering::Release);
    }

    /// A registration was drawn by a request sent at `sent`.
    pub(crate) fn registered(&self, worker: WorkerId, sent: Instant) {
        let mut state = self.lock();
        *state = State { worker: Some(worker), sent, unbroken_since: sent, doubt: false, refused: None };
        self.publish(&state);
    }

    /// A renewal that was sent at `sent` was accepted. Gives whether the lease was in doubt.
    pub(crate) fn renewed(&self, worker: WorkerId, sent: Instant) -> bool {
        let mut state = self.lock();
        if state.worker != Some(worker) {
            return false;
        }
        // A process that was suspended sees one long gap and no error: that too breaks the run of renewals.
        if state.unbroken_since == Instant::FAR || sent.since(state.sent) > self.stop_after {
            state.unbroken_since = sent;
        }
        state.sent = sent;
        let doubt = std::mem::take(&mut state.doubt);
        self.publish(&state);
        doubt
    }

    /// A renewal failed: the run of unbroken ones begins anew with the next good one.
    pub(crate) fn renewal_failed(&self) {
        self.lock().unbroken_since = Instant::FAR;
    }

    /// Marks the lease as doubtful if it is time. Gives whether that is new.
    pub(crate) fn doubt(&self, now: Instant) -> bool {
        let mut state = self.lock();
        if state.worker.is_none() || state.doubt || now < state.sent.after(self.stop_after) {
            return false;
        }
        state.doubt = true;
        state.unbroken_since = Instant::FAR;
        true
    }

    /// When the lease comes into doubt without another renewal; `None` if it is, or if there is no registration.
    pub(crate) fn doubt_at(&self) -> Option<Instant> {
        let state = self.lock();
        (state.worker.is_some() && !state.doubt).then(|| state.sent.after(self.stop_after))
    }

    /// Somebody's write under `worker` was refused: tells the keeper.
    pub(crate) fn refused(&self, worker: WorkerId) {
        let mut state = self.lock();
        if state.worker == Some(worker) {
            state.refused = Some(worker);
            self.lost.notify_one();
        }
    }

    /// Whether the current registration was seen refused.
    pub(crate) fn is_refused(&self) -> bool {
        let state = self.lock();
        state.worker.is_some() && state.refused == state.worker
    }

    /// The registration is over. Gives whether it was the current one.
    pub(crate) fn forget(&self, worker: WorkerId) -> bool {
        let mut state = self.lock();
        if state.worker != Some(worker) {
            return false;
        }
        state.worker = None;
        self.publish(&state);
        true
    }

    /// The registration.
    pub(crate) fn worker(&self) -> Option<WorkerId> {
        self.lock().worker
    }

    /// The registration if claims may be made under it.
    pub(crate) fn claimable(&self, now: Instant) -> Option<WorkerId> {
        let state = self.lock();
        if state.doubt || now >= state.sent.after(self.stop_after) { None } else { state.worker }
    }

    /// The registration if its renewals have been good for `long` enough to judge others.
    pub(crate) fn judge(&self, now: Instant, long: Duration) -> Option<WorkerId> {
        let state = self.lock();
        let fresh = !state.doubt && now < state.sent.after(self.stop_after);
        if fresh && now >= state.unbroken_since.after(long) { state.worker } else { None }
    }

    /// Whether an attempt that was claimed under `worker` may start.
    pub(crate) fn standing(&self, worker: WorkerId, now: Instant) -> Standing {
        let is_current = || self.worker.load(Ordering::Acquire) == worker.0;
        if !is_current() {
            return Standing::Lost;
        }
        let valid_until = self.valid_until.load(Ordering::Acquire);
        // Asked again: the validity may be a later registration's.
        if !is_current() {
            Standing::Lost
        } else if now.as_nanos() >= valid_until {
            Standing::Doubtful
        } else {
            Standing::Good
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Instant {
        Instant::from_nanos(second * 1_000_000_000)
    }

    const LEASE: Duration = Duration::from_secs(15);

    fn lease() -> Lease {
        let lease = Lease::new(Duration::from_secs(10));
        lease.registered(WorkerId(1), at(100));
        lease
    }

    /// Handlers may run until ten seconds after the sending of the last good renewal, to the instant.
    #[test]
    fn the_lease_ends_by_the_sending_of_the_last_renewal() {
        let lease = lease();
        assert_eq!(lease.standing(WorkerId(1), at(109)), Standing::Good);
        assert_eq!(lease.standing(WorkerId(1), at(110)), Standing::Doubtful);
        assert_eq!(lease.standing(WorkerId(2), at(100)), Standing::Lost);
        assert!(!lease.renewed(WorkerId(1), at(103)));
        assert_eq!(lease.doubt_at(), Some(at(113)));
        assert!(!lease.doubt(at(112)));
        assert!(lease.doubt(at(113)));
        assert!(!lease.doubt(at(114)), "once");
        assert_eq!(lease.claimable(at(114)), None);
        assert!(lease.renewed(WorkerId(1), at(115)), "it was in doubt");
        assert_eq!(lease.claimable(at(115)), Some(WorkerId(1)));
    }

    /// Others are judged only after one lease length of unbroken renewals; a failure, a doubt and a gap each break them.
    #[test]
    fn judging_needs_unbroken_renewals() {
        let lease = lease();
        let renew = |second| lease.renewed(WorkerId(1), at(second));
        for second in [103, 106, 109, 112] {
            renew(second);
            assert_eq!(lease.judge(at(second), LEASE), None);
        }
        renew(115);
        assert_eq!(lease.judge(at(115), LEASE), Some(WorkerId(1)));
        lease.renewal_failed();
        assert_eq!(lease.judge(at(116), LEASE), None);
        for second in [118, 121, 124, 127, 130] {
            renew(second);
        }
        assert_eq!(lease.judge(at(132), LEASE), None);
        renew(133);
        assert_eq!(lease.judge(at(133), LEASE), Some(WorkerId(1)));
        renew(5000);
        assert_eq!(lease.judge(at(5000), LEASE), None, "a suspended process");
    }

    /// A refusal of an older fence says nothing about the current one.
    #[test]
    fn an_old_refusal_is_ignored() {
        let lease = lease();
        lease.registered(WorkerId(2), at(101));
        lease.refused(WorkerId(1));
        assert!(!lease.is_refused());
        assert!(!lease.forget(WorkerId(1)));
        lease.refused(WorkerId(2));
        assert!(lease.is_refused());
        assert!(lease.forget(WorkerId(2)));
        assert_eq!(lease.standing(WorkerId(2), at(101)), Standing::Lost);
    }
}
