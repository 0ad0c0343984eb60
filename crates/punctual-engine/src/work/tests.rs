//! Tests of `work`.

use super::*;
use crate::job::tests::{job, suspect};
use punctual_clock::SystemClock;
use std::task::Context;

const ASK: Ask = Ask { limit: 1, suspects: false };

fn work(slots: u32) -> Work {
    Work::new(slots, 1_000)
}

fn deliver(work: &Work, jobs: impl IntoIterator<Item = Job>, asked: Ask) -> Vec<Arc<Lane>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    work.deliver(jobs.into_iter().map(Arc::new).collect(), asked, &clock)
}

/// The task that a lane gets next, or `None` while it must wait.
fn next(work: &Work, lane: &Lane) -> Option<i64> {
    match work.poll_next(lane, &mut false, &mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(job)) => Some(job.claimed.task.0),
        _ => None,
    }
}

/// Lanes are made as jobs come, never more than there are slots, and jobs run in order.
#[test]
fn lanes_are_bounded_by_slots() {
    let work = work(2);
    let ask = work.ask(false).unwrap();
    assert_eq!(ask, Ask { limit: 2, suspects: true });
    let lanes = deliver(&work, [job(1), job(2), job(3)], ask);
    assert_eq!(lanes.len(), 2);
    assert_eq!([next(&work, &lanes[0]), next(&work, &lanes[1])], [Some(1), Some(2)]);
    assert!(deliver(&work, [job(4)], ASK).is_empty(), "both slots have a lane");
    assert_eq!(work.ask(false), None);
    assert_eq!([next(&work, &lanes[1]), next(&work, &lanes[0])], [Some(3), Some(4)]);
}

/// A slot that is reserved for a suspect takes nothing else, and is free again when none came.
#[test]
fn a_reserved_slot_waits_for_its_suspect() {
    let work = work(2);
    let ask = work.ask(false).unwrap();
    assert!(ask.suspects);
    let lanes = deliver(&work, [job(1), job(2), job(3)], ask);
    assert_eq!([next(&work, &lanes[0]), next(&work, &lanes[1])], [Some(1), Some(2)]);
    // All slots are busy: the next free one is kept.
    assert_eq!(work.ask(true), None);
    assert_eq!(next(&work, &lanes[0]), None, "the queue has one more, but the slot is kept");
    let ask = work.ask(true).unwrap();
    assert!(ask.suspects);
    deliver(&work, [suspect(9)], ask);
    assert_eq!(next(&work, &lanes[0]), Some(9));
    assert_eq!(next(&work, &lanes[1]), Some(3));
}

/// Two suspects never run at once, even if a store gives more than it was asked for.
#[test]
fn suspects_run_one_at_a_time() {
    let work = work(4);
    let ask = work.ask(false).unwrap();
    let lanes = deliver(&work, [suspect(1), suspect(2), job(3)], ask);
    assert_eq!([0, 1, 2].map(|lane| next(&work, &lanes[lane])), [Some(1), Some(3), None]);
    assert!(!work.ask(true).unwrap().suspects, "one runs");
    assert_eq!(next(&work, &lanes[0]), Some(2));
    assert!(!work.owes_suspects());
    assert_eq!(next(&work, &lanes[0]), None);
    assert!(work.owes_suspects(), "there may be more");
    assert!(work.ask(true).unwrap().suspects);
    assert!(!work.owes_suspects());
}

/// A paused gate starts nothing and loses nothing; a closed one gives back what waits and ends the lanes.
#[test]
fn gates_keep_or_return_jobs() {
    let work = work(1);
    let lanes = deliver(&work, [job(1), job(2)], ASK);
    assert_eq!(next(&work, &lanes[0]), Some(1));
    work.put_back(&lanes[0]);
    assert_eq!(next(&work, &lanes[0]), None, "paused by the job that came back");
    assert_eq!(work.ask(false), None);
    assert_eq!(work.held().len(), 2);
    work.resume();
    assert_eq!(next(&work, &lanes[0]), Some(1), "in its old place");
    assert_eq!(work.close().len(), 1);
    assert!(matches!(
        work.poll_next(&lanes[0], &mut false, &mut Context::from_waker(Waker::noop())),
        Poll::Ready(None)
    ));
    assert!(work.held().is_empty() && work.lanes().is_empty());
}

/// The queue in memory follows the speed: nothing for slow tasks, the configured bound for fast ones.
#[test]
fn prefetch_follows_the_speed() {
    let second = Duration::from_secs(1);
    assert_eq!(prefetch(0, second, 1_000), 0);
    assert_eq!(prefetch(9, second, 1_000), 0);
    assert_eq!(prefetch(640, second, 1_000), 64);
    assert_eq!(prefetch(u64::MAX, Duration::ZERO, 1_000), 1_000);
}

/// A queue that turned out to be slow is given back from its far end.
#[test]
fn a_surplus_is_given_back() {
    let work = work(1);
    work.set_speed(1_000, Duration::from_secs(1));
    deliver(&work, (0..100).map(job), ASK);
    assert!(work.take_surplus().is_empty());
    work.set_speed(40, Duration::from_secs(1));
    let surplus: Vec<i64> = work.take_surplus().iter().map(|job| job.claimed.task.0).collect();
    assert_eq!(surplus, (4..100).collect::<Vec<_>>());
}

/// Counts how often it was woken.
#[derive(Debug, Default)]
struct Woken(std::sync::atomic::AtomicUsize);

impl task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

/// A lane that took a job unasked is no longer idle: the wakes of further jobs go to lanes that can run them.
#[test]
fn a_lane_that_runs_is_not_woken() {
    let work = work(3);
    let lanes = deliver(&work, [job(1), job(2), job(3)], ASK);
    assert_eq!([0, 1, 2].map(|lane| next(&work, &lanes[lane])), [Some(1), Some(2), Some(3)]);
    let first = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&first));
    assert!(work.poll_next(&lanes[0], &mut false, &mut Context::from_waker(&waker)).is_pending());
    assert_eq!([1, 2].map(|lane| next(&work, &lanes[lane])), [None, None]);
    // The last lane is woken for it; another one is polled first.
    deliver(&work, [job(4)], ASK);
    assert_eq!([1, 2].map(|lane| next(&work, &lanes[lane])), [Some(4), None]);
    deliver(&work, [job(5), job(6)], ASK);
    assert_eq!(first.0.load(std::sync::atomic::Ordering::Relaxed), 1, "two lanes are free, two are woken");
}

/// While a slot is idle none is kept for a suspect: the job that is on its way to that slot starts.
#[test]
fn an_idle_slot_is_not_kept() {
    let work = work(2);
    let lanes = deliver(&work, [job(1), job(2)], ASK);
    assert_eq!(next(&work, &lanes[0]), Some(1));
    work.ask(true);
    assert_eq!(next(&work, &lanes[1]), Some(2));
}
