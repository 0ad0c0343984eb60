//! The table of the module, row by row.

use super::*;
use crate::policy::Backoff;
use punctual_clock::SeededEntropy;

const NOW: Timestamp = Timestamp::from_secs(1_000);
const SECOND: Duration = Duration::from_secs(1);

fn policy(attempts: u32) -> Policy {
    Policy { attempts, backoff: Backoff::fixed(Duration::from_secs(7)), ..Policy::DEFAULT }
}

fn next(outcome: Outcome, verdict: Verdict, spent: u32, losses: u32) -> Next {
    let terms = Terms { policy: &policy(3), options: &TaskOptions::default() };
    decide_next(terms, outcome, verdict, spent, losses, NOW, &SeededEntropy::new(1))
}

fn again(seconds: u64, spent: u32) -> Next {
    Next::Again { due: NOW.after(Duration::from_secs(seconds)), spent }
}

const VERDICTS: [Verdict; 5] = [
    Verdict::Retry,
    Verdict::RetryAfter(SECOND),
    Verdict::DeadLetter,
    Verdict::Cancel,
    Verdict::Snooze(Duration::from_secs(2)),
];

/// Every pair of an outcome and a verdict, with attempts left and on the last one, follows the written table.
#[test]
fn every_row_of_the_table_holds() {
    let failed = Next::Final(TaskState::Failed);
    let cancelled = Next::Final(TaskState::Cancelled);
    for verdict in VERDICTS {
        let (left, none) = match verdict {
            Verdict::Retry => (again(7, 1), failed),
            Verdict::RetryAfter(_) => (again(1, 1), failed),
            Verdict::DeadLetter => (failed, failed),
            Verdict::Cancel => (cancelled, cancelled),
            Verdict::Snooze(_) => (again(2, 0), again(2, 2)),
        };
        assert_eq!(next(Outcome::Failed, verdict, 0, 0), left, "{verdict:?}");
        assert_eq!(next(Outcome::Failed, verdict, 2, 0), none, "{verdict:?}");
        for outcome in [Outcome::Panicked, Outcome::TimedOut] {
            assert_eq!(next(outcome, verdict, 0, 0), again(7, 1), "{outcome:?} {verdict:?}");
            assert_eq!(next(outcome, verdict, 2, 0), failed, "{outcome:?} {verdict:?}");
        }
        for spent in [0, 2] {
            assert_eq!(next(Outcome::Succeeded, verdict, spent, 0), Next::Final(TaskState::Succeeded));
            assert_eq!(next(Outcome::Cancelled, verdict, spent, 0), cancelled);
            assert_eq!(next(Outcome::Expired, verdict, spent, 0), Next::Final(TaskState::Expired));
            assert_eq!(next(Outcome::HandedBack, verdict, spent, 2), again(0, spent));
            assert_eq!(next(Outcome::Lost, verdict, spent, 0), again(0, spent));
            assert_eq!(next(Outcome::Lost, verdict, spent, 1), again(0, spent));
            assert_eq!(next(Outcome::Lost, verdict, spent, 2), failed);
        }
    }
    assert_eq!(next(Outcome::Snoozed, Verdict::Snooze(SECOND), 2, 0), again(1, 2));
    assert_eq!(next(Outcome::Snoozed, Verdict::Retry, 2, 0), again(7, 2));
}

/// What a task overrides wins over its method's policy, and no count or wait overflows.
#[test]
fn a_task_overrides_its_policy() {
    let options = TaskOptions {
        attempts: Some(1),
        backoff: Some(Backoff::fixed(SECOND)),
        timeout: Some(Duration::from_secs(9)),
        ..TaskOptions::default()
    };
    let terms = Terms { policy: &policy(3), options: &options };
    let entropy = SeededEntropy::new(1);
    let next = |terms, spent| decide_next(terms, Outcome::Failed, Verdict::Retry, spent, 0, NOW, &entropy);
    assert_eq!(next(terms, 0), Next::Final(TaskState::Failed));
    assert_eq!(terms.timeout(), Duration::from_secs(9));
    let more = TaskOptions { attempts: Some(5), ..options.clone() };
    assert_eq!(next(Terms { options: &more, ..terms }, 3), again(1, 4));
    assert_eq!(next(Terms { options: &more, ..terms }, u32::MAX), Next::Final(TaskState::Failed));
    let far = decide_next(terms, Outcome::Failed, Verdict::Snooze(Duration::MAX), 0, 0, NOW, &entropy);
    assert_eq!(far, Next::Again { due: Timestamp::MAX, spent: 0 });
    let zero = Policy { attempts: 0, ..policy(3) };
    assert_eq!(Terms { policy: &zero, options: &TaskOptions::default() }.attempts(), 1);
}

/// No attempt is planned that could not do anything: its task fails at once instead of waiting to expire.
#[test]
fn nothing_is_retried_past_finish_by() {
    let options = TaskOptions { finish_by: Some(NOW.after(SECOND * 7).as_micros()), ..TaskOptions::default() };
    let next = |verdict| {
        let terms = Terms { policy: &policy(3), options: &options };
        decide_next(terms, Outcome::Failed, verdict, 0, 0, NOW, &SeededEntropy::new(1))
    };
    assert_eq!(next(Verdict::Retry), Next::Final(TaskState::Failed));
    assert_eq!(next(Verdict::RetryAfter(SECOND * 6)), again(6, 1));
    assert_eq!(next(Verdict::Snooze(SECOND * 8)), Next::Final(TaskState::Failed));
}

/// A task starts within both bounds or expires; its budget never reaches past `finish_by` and is never zero.
#[test]
fn starts_are_bounded() {
    let start = |start_by: Option<u64>, finish_by: Option<u64>, n| {
        let at = |seconds: u64| NOW.after(Duration::from_secs(seconds)).as_micros();
        let options =
            TaskOptions { start_by: start_by.map(at), finish_by: finish_by.map(at), ..TaskOptions::default() };
        let policy = Policy { timeout: Some(SECOND * 60), ..Policy::DEFAULT };
        decide_start(Terms { policy: &policy, options: &options }, n, NOW.after(SECOND * 10))
    };
    let run = |seconds| Start::Run { budget: SECOND * seconds };
    assert_eq!(start(None, None, 1), run(60));
    assert_eq!(start(Some(10), None, 1), run(60));
    assert_eq!(start(Some(9), None, 1), Start::Expired);
    assert_eq!(start(Some(9), None, 2), run(60));
    assert_eq!(start(None, Some(10), 2), Start::Expired);
    assert_eq!(start(None, Some(11), 1), run(1));
    assert_eq!(start(None, Some(500), 1), run(60));
    let policy = Policy::DEFAULT;
    let terms = Terms { policy: &policy, options: &TaskOptions::default() };
    assert_eq!(decide_start(terms, 1, NOW), Start::Run { budget: Policy::TIMEOUT_DEFAULT });
}

/// A cancel that came while the attempt ran wins over everything but success.
#[test]
fn a_cancel_wins_over_all_but_success() {
    for state in [TaskState::Failed, TaskState::Expired, TaskState::Cancelled] {
        assert_eq!(settle(Next::Final(state), true), Next::Final(TaskState::Cancelled));
        assert_eq!(settle(Next::Final(state), false), Next::Final(state));
    }
    assert_eq!(settle(again(3, 1), true), Next::Final(TaskState::Cancelled));
    assert_eq!(settle(again(3, 1), false), again(3, 1));
    for asked in [true, false] {
        assert_eq!(settle(Next::Final(TaskState::Succeeded), asked), Next::Final(TaskState::Succeeded));
    }
}
