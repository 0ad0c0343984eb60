//! Tests of `conclude`.

use super::*;
use crate::Failure;
use punctual_clock::SeededEntropy;
use punctual_task::{Next, Policy, TaskId, TaskOptions, TaskState};

const NOW: Timestamp = Timestamp::from_secs(100);

fn claimed() -> Claimed {
    Claimed {
        task: TaskId(1),
        n: 2,
        spent: 1,
        losses: 0,
        method: "Billing/charge".to_owned(),
        queue: "Billing".to_owned(),
        args: Bytes::new(),
        schema: 0,
        options: TaskOptions::default(),
        created: NOW,
        due: NOW,
        occurrence: None,
    }
}

fn told(ended: Ended, reason: Option<CancelReason>) -> Option<(Outcome, Next)> {
    let claimed = claimed();
    let terms = Terms { policy: &Policy::DEFAULT, options: &claimed.options };
    let times = Times { started: NOW, ended: NOW, store_now: NOW };
    match conclude(&claimed, terms, ended, reason, times, &SeededEntropy::new(1)) {
        Conclusion::Finish(finish) => {
            assert_eq!((finish.task, finish.n), (TaskId(1), 2));
            Some((finish.outcome, finish.next))
        }
        Conclusion::HandBack => None,
    }
}

const REASONS: [Option<CancelReason>; 5] = [
    None,
    Some(CancelReason::User),
    Some(CancelReason::Deadline),
    Some(CancelReason::Disconnected),
    Some(CancelReason::Shutdown),
];

/// Work that was done is never undone by what was asked meanwhile.
#[test]
fn success_stays_success() {
    for reason in REASONS {
        let told = told(Ended::Returned(Ok(Bytes::from_static(b"1"))), reason);
        assert_eq!(told, Some((Outcome::Succeeded, Next::Final(TaskState::Succeeded))), "{reason:?}");
    }
}

/// A task whose worker lost its lease or stops has not failed: it is given back, whether the handler heeded the token or
/// was dropped.
#[test]
fn a_stopped_worker_fails_nothing() {
    for reason in [CancelReason::Disconnected, CancelReason::Shutdown] {
        assert_eq!(told(Ended::Returned(Err(Failure::dead_letter("x"))), Some(reason)), None);
        assert_eq!(told(Ended::Dropped(reason), Some(reason)), None);
    }
}

/// An operator's cancel ends the task as cancelled, whatever error the handler returned and also if it had to be dropped.
#[test]
fn a_cancel_ends_as_cancelled() {
    let cancelled = Some((Outcome::Cancelled, Next::Final(TaskState::Cancelled)));
    assert_eq!(told(Ended::Returned(Err(Failure::new("x"))), Some(CancelReason::User)), cancelled);
    assert_eq!(told(Ended::Dropped(CancelReason::User), Some(CancelReason::User)), cancelled);
    assert_eq!(told(Ended::Returned(Err(Failure::new("x").with_verdict(Verdict::Cancel))), None), cancelled);
}

/// Timeouts and panics spend an attempt and are retried.
#[test]
fn timeouts_and_panics_are_retried() {
    let again = |told: Option<(Outcome, Next)>| match told {
        Some((outcome, Next::Again { spent: 2, .. })) => outcome,
        other => panic!("{other:?}"),
    };
    assert_eq!(again(told(Ended::Dropped(CancelReason::Deadline), Some(CancelReason::Deadline))), Outcome::TimedOut);
    let late = Ended::Returned(Err(Failure::dead_letter("gave up")));
    assert_eq!(again(told(late, Some(CancelReason::Deadline))), Outcome::TimedOut);
    assert_eq!(again(told(Ended::Panicked("oh".to_owned()), None)), Outcome::Panicked);
    assert_eq!(again(told(Ended::Returned(Err(Failure::new("x"))), None)), Outcome::Failed);
}

/// A handler that snoozes spends nothing.
#[test]
fn a_snooze_spends_nothing() {
    let snooze = Failure::new("later").with_verdict(Verdict::Snooze(Duration::from_secs(5)));
    let due = NOW.after(Duration::from_secs(5));
    assert_eq!(told(Ended::Returned(Err(snooze)), None), Some((Outcome::Snoozed, Next::Again { due, spent: 1 })));
}
