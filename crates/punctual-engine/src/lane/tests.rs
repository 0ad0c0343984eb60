//! Tests of `lane`.

use super::*;
use crate::job::tests::job;
use punctual_context::Context;
use punctual_task::TaskId;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Wake;

#[derive(Debug, Default)]
struct HandClock(AtomicU64);

impl Clock for HandClock {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::SeqCst) * 1_000_000_000)
    }
    fn timestamp(&self) -> Timestamp {
        Timestamp::EPOCH
    }
}

#[derive(Debug, Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn second(n: u64) -> Instant {
    Instant::from_nanos(n * 1_000_000_000)
}

fn begin(lane: &Lane, deadline: u64) -> u64 {
    lane.assign(Arc::new(job(7)));
    lane.begin(second(deadline), Timestamp::EPOCH).expect("not asked to stop")
}

const GRACE: Duration = Duration::from_secs(2);

/// The deadline fires the token once, wakes those who wait for it, and has the future dropped after the grace.
#[test]
fn a_deadline_fires_then_drops() {
    let clock = Arc::new(HandClock::default());
    let lane = Arc::new(Lane::new(0, Arc::<HandClock>::clone(&clock)));
    let key = begin(&lane, 10);
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let mut cx = task::Context::from_waker(&waker);
    assert_eq!(lane.orders(&waker, GRACE), Orders::Wait(second(10)));
    assert_eq!(lane.poll_cancelled(key, &mut cx), Poll::Pending);
    clock.0.store(10, Ordering::SeqCst);
    assert_eq!(lane.orders(&waker, GRACE), Orders::Wait(second(12)));
    assert!(count.0.load(Ordering::SeqCst) > 0, "whoever waits for the token is woken");
    assert_eq!(lane.poll_cancelled(key, &mut cx), Poll::Ready(CancelReason::Deadline));
    clock.0.store(12, Ordering::SeqCst);
    assert_eq!(lane.orders(&waker, GRACE), Orders::Drop(CancelReason::Deadline));
    assert_eq!(lane.end(), Some(Some(CancelReason::Deadline)));
}

/// The first reason stays, the earliest drop counts, and an order for another attempt is not taken.
#[test]
fn orders_to_stop_add_up() {
    let clock = Arc::new(HandClock::default());
    let lane = Lane::new(0, Arc::<HandClock>::clone(&clock));
    let waker = Waker::noop();
    begin(&lane, 100);
    assert!(!lane.stop(|job| job.claimed.task == TaskId(8), CancelReason::User, GRACE));
    assert!(lane.stop(|job| job.claimed.task == TaskId(7), CancelReason::User, Duration::from_secs(10)));
    assert!(lane.stop(|_| true, CancelReason::Shutdown, GRACE));
    assert_eq!(lane.orders(waker, GRACE), Orders::Wait(second(2)));
    clock.0.store(2, Ordering::SeqCst);
    assert_eq!(lane.orders(waker, GRACE), Orders::Drop(CancelReason::User));
}

/// A context that outlives its attempt never takes the next attempt's cancellation for its own.
#[test]
fn an_old_key_is_not_cancelled() {
    let lane = Arc::new(Lane::new(0, Arc::new(HandClock::default())));
    let old = begin(&lane, 10);
    let context = Context::new(Arc::<Lane>::clone(&lane), old, second(10));
    assert_eq!(lane.end(), Some(None));
    let new = begin(&lane, 20);
    assert!(lane.stop(|_| true, CancelReason::User, GRACE));
    assert_eq!(context.cancel_reason(), None);
    assert_eq!(lane.cancel_reason(new), Some(CancelReason::User));
}

/// Whoever asks first after its handler is gone is told how it went, as is whoever waited: nobody waits for ever.
#[test]
fn a_context_that_outlives_its_attempt_is_told() {
    let lane = Arc::new(Lane::new(0, Arc::new(HandClock::default())));
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let mut cx = task::Context::from_waker(&waker);
    let stopped = begin(&lane, 10);
    assert!(lane.stop(|_| true, CancelReason::User, GRACE));
    assert_eq!(lane.end(), Some(Some(CancelReason::User)));
    let ended = begin(&lane, 10);
    assert_eq!(lane.poll_cancelled(stopped, &mut cx), Poll::Ready(CancelReason::User));
    assert_eq!(lane.poll_cancelled(ended, &mut cx), Poll::Pending);
    assert_eq!(lane.end(), Some(None));
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    assert_eq!(lane.poll_cancelled(ended, &mut cx), Poll::Ready(CancelReason::Ended));
    assert_eq!(lane.cancel_reason(ended), None);
}

/// A handler that blocks is given up once, at the bound and at the second look; its own end is then ignored.
#[test]
fn a_blocked_attempt_is_given_up_once() {
    let lane = Lane::new(0, Arc::new(HandClock::default()));
    begin(&lane, 10);
    let after = Duration::from_secs(300);
    assert!(lane.abandon(second(309), after).is_none());
    assert!(lane.abandon(second(310), after).is_none(), "the first look");
    assert!(lane.abandon(second(314), after).is_none(), "too soon after the first");
    assert_eq!(lane.abandon(second(315), after).map(|(job, _)| job.claimed.task), Some(TaskId(7)));
    assert!(lane.abandon(second(400), after).is_none());
    assert_eq!(lane.orders(Waker::noop(), GRACE), Orders::Abandoned);
    assert_eq!(lane.end(), None);
}

/// A process that was suspended finds its handlers far over their budget. One that is polled then is not blocked, and
/// neither is the next attempt of the same lane.
#[test]
fn a_handler_that_moves_is_not_given_up() {
    let clock = Arc::new(HandClock::default());
    let lane = Lane::new(0, Arc::<HandClock>::clone(&clock));
    begin(&lane, 10);
    clock.0.store(5_000, Ordering::SeqCst);
    let after = Duration::from_secs(300);
    assert!(lane.abandon(second(5_000), after).is_none());
    assert_eq!(lane.orders(Waker::noop(), GRACE), Orders::Wait(second(5_002)));
    assert!(lane.abandon(second(5_010), after).is_none());
    assert_eq!(lane.end(), Some(Some(CancelReason::Deadline)));
    begin(&lane, 4_000);
    assert!(lane.abandon(second(5_020), after).is_none());
    assert!(lane.abandon(second(5_021), after).is_none());
}

/// A stop that comes between the queue and the handler is not lost: the handler never begins.
#[test]
fn a_stop_before_the_start_is_kept() {
    let lane = Lane::new(0, Arc::new(HandClock::default()));
    lane.assign(Arc::new(job(7)));
    assert!(lane.stop(|_| true, CancelReason::User, GRACE));
    assert_eq!(lane.begin(second(10), Timestamp::EPOCH), Err(CancelReason::User));
    assert_eq!(lane.release().map(|job| job.claimed.task), Some(TaskId(7)));
    assert!(!lane.stop(|_| true, CancelReason::User, GRACE), "it holds nothing");
}
