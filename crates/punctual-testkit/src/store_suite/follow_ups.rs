//! Follow-ups, and what else a handler's error asks for.

use super::stand::*;
use punctual_task::decide::{Terms, Verdict, decide_next};
use punctual_task::{
    Claimed, Enqueued, Finished, FollowOn, FollowUp, KeyHold, KeyMode, NewTask, Next, Outcome, Policy, StoreErrorKind,
    TaskFilter, TaskId, TaskState, WorkerId,
};

const SUCCESS: (Outcome, Next) = (Outcome::Succeeded, Next::Final(TaskState::Succeeded));
const FAILURE: (Outcome, Next) = (Outcome::Failed, Next::Final(TaskState::Failed));

/// Finishes a claimed task with follow-ups.
async fn finish_then(
    stand: &Stand,
    worker: WorkerId,
    task: &Claimed,
    (outcome, next): (Outcome, Next),
    follow_ups: &[(FollowOn, &NewTask)],
) -> Finished {
    let follow_up =
        |(on, then): &(FollowOn, &NewTask)| FollowUp { task: task.task, n: task.n, on: *on, then: (*then).clone() };
    let finishes = vec![stand.ending(task, outcome, next)];
    let follow_ups = follow_ups.iter().map(follow_up).collect();
    stand.store.finish_then(worker, finishes, follow_ups).await.unwrap().remove(0)
}

async fn is_there(stand: &Stand, task: &NewTask) -> bool {
    stand.store.task(task.id).await.unwrap().is_some()
}

/// A follow-up is there with the end that it waits for and never with another: success, failure, another attempt, a cancel that
/// came before the end. It waits as every new task does, and runs.
pub async fn follow_ups_come_with_their_end(stand: Stand) {
    let worker = stand.worker().await;
    let again = (Outcome::Failed, Next::Again { due: START, spent: 1 });
    let expired = (Outcome::Expired, Next::Final(TaskState::Expired));
    for (end, cancelled, comes) in [
        (SUCCESS, false, [true, false]),
        (FAILURE, false, [false, true]),
        (again, false, [false, false]),
        (expired, false, [false, false]),
        (SUCCESS, true, [true, false]),
        (FAILURE, true, [false, false]),
    ] {
        stand.enqueue(1).await;
        let task = stand.claim_one(worker).await;
        if cancelled {
            stand.cancel(task.task).await;
        }
        let good = NewTask { queue: "next".to_owned(), level: 0, ..stand.new_task().await };
        let bad = NewTask { method: "Mail/send".to_owned(), ..stand.new_task().await };
        let both = [(FollowOn::Success, &good), (FollowOn::Failure, &bad)];
        assert_eq!(finish_then(&stand, worker, &task, end, &both).await, Finished::Applied);
        assert_eq!([is_there(&stand, &good).await, is_there(&stand, &bad).await], comes, "{end:?}, cancel {cancelled}");
        for there in [&good, &bad].into_iter().zip(comes).filter(|(_, comes)| *comes).map(|(task, _)| task) {
            let view = stand.detail(there.id).await.view;
            assert_eq!((view.state, view.due, view.created), (TaskState::Waiting, stand.now(), stand.now()));
            assert_eq!((view.queue.as_str(), view.level), (there.queue.as_str(), there.level));
        }
        stand.drain().await;
        stand.advance(1);
    }
}

/// A finish that is sent again, by a worker that no longer holds the task, or as fenced, writes no follow-up: each is there once.
pub async fn follow_ups_are_written_once(stand: Stand) {
    let (worker, other) = (stand.worker().await, stand.worker().await);
    stand.enqueue(2).await;
    let (first, second) = (stand.claim_one(worker).await, stand.claim_one(worker).await);
    let (then, late) = (stand.new_task().await, stand.new_task().await);
    assert_eq!(finish_then(&stand, other, &first, SUCCESS, &[(FollowOn::Success, &late)]).await, Finished::Lost);
    assert_eq!(finish_then(&stand, worker, &first, SUCCESS, &[(FollowOn::Success, &then)]).await, Finished::Applied);
    assert_eq!(finish_then(&stand, worker, &first, SUCCESS, &[(FollowOn::Success, &then)]).await, Finished::Already);
    assert_eq!(finish_then(&stand, worker, &first, SUCCESS, &[(FollowOn::Success, &late)]).await, Finished::Already);
    let claimed = stand.claim_one(other).await;
    assert_eq!(claimed.task, then.id);
    assert_eq!(finish_then(&stand, worker, &first, SUCCESS, &[(FollowOn::Success, &then)]).await, Finished::Already);
    assert!(!is_there(&stand, &late).await);
    // In one call, follow-ups go with the attempt that they name.
    let ends = vec![stand.ending(&second, SUCCESS.0, SUCCESS.1), stand.ending(&first, SUCCESS.0, SUCCESS.1)];
    let of =
        |task: &Claimed, n, then: &NewTask| FollowUp { task: task.task, n, on: FollowOn::Success, then: then.clone() };
    let own = stand.new_task().await;
    let follow_ups = vec![of(&first, 1, &late), of(&second, 2, &late), of(&second, 1, &own), of(&claimed, 1, &late)];
    let given = stand.store.finish_then(worker, ends, follow_ups).await.unwrap();
    assert_eq!(given, [Finished::Applied, Finished::Already]);
    assert_eq!([is_there(&stand, &late).await, is_there(&stand, &own).await], [false, true]);
    // A dead worker's are not written.
    stand.enqueue(1).await;
    let orphan = stand.claim_one(worker).await;
    stand.advance(LEASE.as_secs() + 1);
    let rescuer = stand.worker().await;
    stand.store.rescue(rescuer).await.unwrap();
    let end = vec![stand.ending(&orphan, SUCCESS.0, SUCCESS.1)];
    let follow_ups = vec![of(&orphan, 1, &late)];
    assert_eq!(kind(stand.store.finish_then(worker, end, follow_ups).await), StoreErrorKind::Fenced);
    assert!(!is_there(&stand, &late).await);
}

/// A follow-up's key that another task holds keeps its holder; one that the ended task itself held is free for it; of
/// equal ones in one call the first is written.
pub async fn follow_ups_keep_unique_keys(stand: Stand) {
    let worker = stand.worker().await;
    let own = stand.keyed("own", KeyHold::Finished).await;
    stand.put(own.clone()).await;
    let task = stand.claim_one(worker).await;
    let held = stand.keyed("held", KeyHold::Finished).await;
    stand.put(held.clone()).await;
    let mut then = Vec::new();
    for text in ["own", "held", "fresh", "fresh"] {
        then.push(stand.keyed(text, KeyHold::Finished).await);
    }
    then.push(stand.new_task().await);
    let follow_ups: Vec<_> = then.iter().map(|task| (FollowOn::Success, task)).collect();
    assert_eq!(finish_then(&stand, worker, &task, SUCCESS, &follow_ups).await, Finished::Applied);
    let mut there = Vec::new();
    for task in &then {
        there.push(is_there(&stand, task).await);
    }
    assert_eq!(there, [true, false, true, false, true]);
    assert_eq!(stand.detail(then[0].id).await.key.as_deref(), Some("own"));
    let probe = stand.keyed("fresh", KeyHold::Finished).await;
    assert_eq!(stand.put(probe).await, Enqueued { id: then[2].id, inserted: false });
}

/// What cannot be a follow-up refuses the whole call before anything is written.
pub async fn wrong_follow_ups_are_refused(stand: Stand) {
    let worker = stand.worker().await;
    stand.enqueue(1).await;
    let task = stand.claim_one(worker).await;
    let mut rejecting = stand.keyed("k", KeyHold::Finished).await;
    rejecting.key.as_mut().unwrap().mode = KeyMode::Reject;
    let nameless = NewTask { method: String::new(), ..stand.new_task().await };
    for wrong in [rejecting, nameless] {
        let follow_ups = vec![FollowUp { task: task.task, n: task.n, on: FollowOn::Success, then: wrong }];
        let ends = vec![stand.ending(&task, SUCCESS.0, SUCCESS.1)];
        assert_eq!(kind(stand.store.finish_then(worker, ends, follow_ups).await), StoreErrorKind::Refused);
    }
    assert_eq!(stand.state(task.task).await, TaskState::Running);
    assert_eq!(stand.tasks(TaskFilter::default()).await.len(), 1);
    assert_eq!(stand.succeed(worker, &task).await, Finished::Applied);
}

/// What a handler's error asks for is what becomes of its task: a snooze waits and spends nothing, however often; a cancel and
/// a dead letter end it although attempts are left.
pub async fn errors_choose_what_follows(stand: Stand) {
    let worker = stand.worker().await;
    let entropy = punctual_clock::SeededEntropy::new(1);
    let policy = Policy { attempts: 2, ..Policy::DEFAULT };
    let next = |task: &Claimed, outcome, verdict| {
        let terms = Terms { policy: &policy, options: &task.options };
        decide_next(terms, outcome, verdict, task.spent, task.losses, stand.now(), &entropy)
    };
    let id: TaskId = stand.enqueue(1).await[0];
    for n in 1..=5 {
        let task = stand.claim_one(worker).await;
        assert_eq!((task.task, task.n, task.spent), (id, n, 0));
        let snoozed = next(&task, Outcome::Snoozed, Verdict::Snooze(secs(10)));
        assert_eq!(stand.finish(worker, &task, Outcome::Snoozed, snoozed).await, Finished::Applied);
        stand.advance(9);
        assert!(stand.claim(worker, 1).await.is_empty());
        stand.advance(1);
        stand.store.renew(worker, LEASE).await.unwrap();
    }
    let task = stand.claim_one(worker).await;
    let given_up = next(&task, Outcome::Failed, Verdict::DeadLetter);
    stand.finish(worker, &task, Outcome::Failed, given_up).await;
    let detail = stand.detail(id).await;
    assert_eq!((detail.view.state, detail.view.attempts), (TaskState::Failed, 6));
    let outcomes: Vec<Outcome> = detail.attempts.iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(outcomes, [[Outcome::Snoozed; 5].as_slice(), &[Outcome::Failed]].concat());
    assert_eq!(detail.view.error.as_deref(), Some("it broke"));
    let id = stand.enqueue(1).await[0];
    let task = stand.claim_one(worker).await;
    let cancelled = next(&task, Outcome::Cancelled, Verdict::Cancel);
    stand.finish(worker, &task, Outcome::Cancelled, cancelled).await;
    assert_eq!(stand.state(id).await, TaskState::Cancelled);
    assert!(stand.drain().await.is_empty());
}
