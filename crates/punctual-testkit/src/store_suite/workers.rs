//! Workers: the fence, leases, rescues.

use super::stand::*;
use punctual_task::{
    Claimed, Finished, Next, Outcome, Rescue, ScheduleCommand, StoreErrorKind, TaskId, TaskState, WorkerId, WorkerInfo,
};
use std::sync::Arc;

const NOTHING: Rescue = Rescue { workers: 0, requeued: 0, failed: 0, failing: Vec::new() };

/// Lets the leases of all but `by` end, with `by` renewing in between, and rescues.
async fn rescue_after_lease(stand: &Stand, by: WorkerId) -> Rescue {
    for _ in 0..4 {
        stand.advance(5);
        stand.store.renew(by, LEASE).await.unwrap();
    }
    stand.store.rescue(by).await.unwrap()
}

/// Claims with suspects.
async fn claim_suspects(stand: &Stand, worker: WorkerId, limit: u32) -> Vec<Claimed> {
    let request = punctual_task::ClaimRequest { suspects: true, ..any(limit) };
    stand.store.claim(worker, request).await.unwrap().tasks
}

/// Each registration draws a new fence above the older ones, under the name that it gave.
pub async fn each_registration_draws_a_fence(stand: Stand) {
    let info = WorkerInfo { name: "host:1".to_owned(), slots: 4 };
    let one = stand.store.register(info.clone(), LEASE).await.unwrap();
    let two = stand.store.register(info, secs(60)).await.unwrap();
    assert!(one.0 > 0 && two > one);
    let views = stand.store.workers().await.unwrap();
    assert_eq!(views.iter().map(|view| view.id).collect::<Vec<_>>(), [one, two]);
    assert_eq!((views[0].name.as_str(), views[0].slots, views[0].holds, views[0].alive), ("host:1", 4, 0, true));
    assert_eq!((views[0].until, views[1].until), (at(15), at(60)));
    let wrong = WorkerInfo { name: String::new(), slots: 1 };
    assert_eq!(kind(stand.store.register(wrong, LEASE).await), StoreErrorKind::Refused);
    stand.store.retire(two).await.unwrap();
    let three = stand.worker().await;
    assert!(three > two, "a fence is never drawn again");
}

/// A worker that renews lives; one whose lease has ended still lives until somebody marks it dead.
pub async fn a_late_renewal_succeeds_unless_marked_dead(stand: Stand) {
    let (one, two) = (stand.worker().await, stand.worker().await);
    stand.enqueue(2).await;
    let task = stand.claim_one(one).await;
    stand.advance(100);
    assert_eq!(stand.store.renew(one, LEASE).await.unwrap().cancel, []);
    assert_eq!(stand.store.workers().await.unwrap()[0].until, at(115));
    assert_eq!(stand.succeed(one, &task).await, Finished::Applied);
    // The rescuer itself is late too, and does not count itself.
    stand.advance(100);
    let rescue = stand.store.rescue(two).await.unwrap();
    assert_eq!(rescue, Rescue { workers: 1, ..NOTHING });
    assert_eq!(kind(stand.store.renew(one, LEASE).await), StoreErrorKind::Fenced);
    stand.store.renew(two, LEASE).await.unwrap();
}

/// A dead worker can neither claim nor finish, renew, rescue or hand back: what it held belongs to others.
pub async fn a_dead_worker_is_fenced(stand: Stand) {
    let tasks = stand.enqueue(3).await;
    let (dead, alive) = (stand.worker().await, stand.worker().await);
    let held = stand.claim(dead, 2).await;
    assert_eq!(rescue_after_lease(&stand, alive).await, Rescue { workers: 1, requeued: 2, ..NOTHING });
    let end = stand.ending(&held[0], Outcome::Succeeded, Next::Final(TaskState::Succeeded));
    assert_eq!(kind(stand.store.claim(dead, any(5)).await), StoreErrorKind::Fenced);
    assert_eq!(kind(stand.store.finish(dead, vec![end.clone()]).await), StoreErrorKind::Fenced);
    assert_eq!(kind(stand.store.renew(dead, LEASE).await), StoreErrorKind::Fenced);
    assert_eq!(kind(stand.store.holdings(dead).await), StoreErrorKind::Fenced);
    assert_eq!(kind(stand.store.hand_back(dead, vec![tasks[0]]).await), StoreErrorKind::Fenced);
    assert_eq!(kind(stand.store.rescue(dead).await), StoreErrorKind::Fenced);
    assert_eq!(stand.store.retire(dead).await, Ok(()));
    assert_eq!(kind(stand.store.claim(WorkerId(i64::MAX), any(5)).await), StoreErrorKind::Fenced);
    // Nor under another's name: the finish of attempt 1 is nobody's now.
    assert_eq!(stand.store.finish(alive, vec![end]).await.unwrap(), [Finished::Lost]);
    assert_eq!(stand.state(tasks[0]).await, TaskState::Waiting);
    assert_eq!(stand.claim(alive, 5).await.len(), 1);
    let views = stand.store.workers().await.unwrap();
    let view = views.iter().find(|view| view.id == dead).expect("a dead worker is shown for a while");
    assert_eq!((view.alive, view.holds), (false, 0));
    stand.advance(3_600);
    assert!(stand.store.workers().await.unwrap().iter().all(|view| view.id != dead));
    assert_eq!(kind(stand.store.renew(dead, LEASE).await), StoreErrorKind::Fenced);
}

/// What a dead worker held comes back within a sweep as suspect: one loss more, nothing spent, the loss on record.
pub async fn orphans_come_back_as_suspects(stand: Stand) {
    let tasks = stand.enqueue(2).await;
    let (dead, alive) = (stand.worker().await, stand.worker().await);
    stand.advance(2);
    let held = stand.claim(dead, 2).await;
    assert_eq!(held.len(), 2);
    assert_eq!(stand.store.rescue(alive).await.unwrap(), NOTHING);
    assert_eq!(rescue_after_lease(&stand, alive).await, Rescue { workers: 1, requeued: 2, ..NOTHING });
    assert_eq!(stand.store.rescue(alive).await.unwrap(), NOTHING);
    let detail = stand.detail(tasks[0]).await;
    assert_eq!((detail.view.state, detail.view.attempts, detail.view.due), (TaskState::Waiting, 1, at(22)));
    let attempt = &detail.attempts[0];
    assert_eq!((attempt.n, attempt.worker, attempt.outcome), (1, dead.0, Outcome::Lost));
    assert_eq!((attempt.started, attempt.ended), (at(2), at(22)));
    assert!(detail.view.error.is_some());

    // Suspects come only when asked for, and alone.
    let batch = stand.claim_batch(alive, 5).await;
    assert_eq!((batch.tasks.len(), batch.next_due), (0, None));
    let fresh = stand.enqueue(2).await;
    let batch = stand.claim_batch(alive, 5).await;
    assert_eq!(batch.tasks.iter().map(|task| task.task).collect::<Vec<_>>(), fresh);
    let fresh = stand.enqueue(2).await;
    let suspect = claim_suspects(&stand, alive, 5).await;
    assert_eq!(suspect.len(), 1);
    assert_eq!((suspect[0].task, suspect[0].n, suspect[0].spent, suspect[0].losses), (tasks[0], 2, 0, 1));
    // An attempt that ends with its worker alive clears it.
    stand.finish(alive, &suspect[0], Outcome::Failed, Next::Again { due: START, spent: 1 }).await;
    let rest = claim_suspects(&stand, alive, 5).await;
    let ids: Vec<TaskId> = rest.iter().map(|task| task.task).collect();
    assert_eq!(ids, [tasks[0], fresh[0], fresh[1]]);
    assert_eq!((rest[0].n, rest[0].spent, rest[0].losses), (3, 1, 0));
    let suspect = claim_suspects(&stand, alive, 5).await;
    assert_eq!(suspect.iter().map(|task| task.task).collect::<Vec<_>>(), [tasks[1]]);
}

/// A claim that may take suspects and finds others first takes those, without suspects in between.
pub async fn suspects_come_alone(stand: Stand) {
    let (dead, alive) = (stand.worker().await, stand.worker().await);
    let first = stand.enqueue(1).await;
    let middle = stand.enqueue(1).await[0];
    stand.claim(dead, 2).await;
    stand.store.hand_back(dead, first.clone()).await.unwrap();
    let last = stand.enqueue(1).await;
    rescue_after_lease(&stand, alive).await;
    let late = stand.enqueue(1).await;
    let order: Vec<TaskId> = claim_suspects(&stand, alive, 5).await.iter().map(|task| task.task).collect();
    assert_eq!(order, [first[0], last[0], late[0]]);
    let order: Vec<TaskId> = claim_suspects(&stand, alive, 5).await.iter().map(|task| task.task).collect();
    assert_eq!(order, [middle]);
}

/// A rescue names the schedules of which an occurrence failed by its last allowed loss, each once, and no others.
pub async fn a_rescue_names_the_schedules_that_fail(stand: Stand) {
    for name in ["b", "a", "other"] {
        stand.declare(minutely(name)).await;
    }
    stand.steer("other", ScheduleCommand::Pause { note: String::new() }).await.unwrap();
    stand.advance(120);
    stand.sweep_all(500).await;
    stand.enqueue(1).await;
    let rescuer = stand.worker().await;
    for loss in 1..=3 {
        // As suspects they come alone, so that each has a worker of its own.
        loop {
            let worker = stand.worker().await;
            if claim_suspects(&stand, worker, 10).await.is_empty() {
                break;
            }
        }
        let mut total = NOTHING;
        loop {
            let rescue = rescue_after_lease(&stand, rescuer).await;
            if rescue.workers == 0 {
                break;
            }
            total.failed += rescue.failed;
            total.failing.extend(rescue.failing);
        }
        let names: &[&str] = if loss < 3 { &[] } else { &["a", "b"] };
        assert_eq!(
            (total.failed, total.failing.iter().map(String::as_str).collect::<Vec<_>>().as_slice()),
            (if loss < 3 { 0 } else { 5 }, names)
        );
    }
}

/// A task that was lost three times in a row fails: it may be what kills its workers.
pub async fn the_third_loss_fails_a_task(stand: Stand) {
    let task = stand.enqueue(1).await[0];
    let rescuer = stand.worker().await;
    for loss in 1..=3u32 {
        let worker = stand.worker().await;
        let held = claim_suspects(&stand, worker, 1).await;
        assert_eq!((held[0].n, held[0].losses, held[0].spent), (loss, loss - 1, 0));
        let rescue = rescue_after_lease(&stand, rescuer).await;
        let (requeued, failed) = if loss < 3 { (1, 0) } else { (0, 1) };
        assert_eq!(rescue, Rescue { workers: 1, requeued, failed, ..NOTHING });
    }
    let detail = stand.detail(task).await;
    assert_eq!((detail.view.state, detail.view.attempts), (TaskState::Failed, 3));
    assert!(detail.attempts.iter().all(|attempt| attempt.outcome == Outcome::Lost));
    // An operator may try again, with all losses forgotten.
    stand.store.retry(vec![task]).await.unwrap();
    let worker = stand.worker().await;
    let again = stand.claim_one(worker).await;
    assert_eq!((again.n, again.losses), (4, 0));
}

/// A task whose cancel was asked for is not run again: neither after its worker died nor after it was given back.
pub async fn a_cancel_survives_its_worker(stand: Stand) {
    let tasks = stand.enqueue(3).await;
    let (dead, alive) = (stand.worker().await, stand.worker().await);
    stand.claim(dead, 2).await;
    stand.claim(alive, 1).await;
    for task in [tasks[0], tasks[2]] {
        stand.cancel(task).await;
    }
    assert_eq!(rescue_after_lease(&stand, alive).await, Rescue { workers: 1, requeued: 1, ..NOTHING });
    assert_eq!(stand.state(tasks[0]).await, TaskState::Cancelled);
    assert_eq!(stand.detail(tasks[0]).await.attempts[0].outcome, Outcome::Lost);
    assert_eq!(stand.store.hand_back(alive, vec![tasks[2]]).await, Ok(1));
    let detail = stand.detail(tasks[2]).await;
    assert_eq!((detail.view.state, detail.view.attempts), (TaskState::Cancelled, 0));
    assert_eq!(detail.attempts[0].outcome, Outcome::Cancelled);
    assert_eq!(claim_suspects(&stand, alive, 5).await.len(), 1);
}

/// Tasks handed back wait as before: same due time, same number, nothing spent, nothing recorded.
pub async fn handed_back_tasks_wait_as_before(stand: Stand) {
    let tasks = stand.enqueue(3).await;
    let (one, two) = (stand.worker().await, stand.worker().await);
    let held = stand.claim(one, 2).await;
    stand.advance(5);
    let asked = vec![tasks[0], tasks[2], TaskId(i64::MAX), tasks[0]];
    assert_eq!(stand.store.hand_back(one, asked.clone()).await, Ok(1));
    assert_eq!(stand.store.hand_back(one, asked).await, Ok(0));
    assert_eq!(stand.store.hand_back(two, vec![tasks[1]]).await, Ok(0));
    let detail = stand.detail(tasks[0]).await;
    assert_eq!((detail.view.state, detail.view.attempts, detail.view.due), (TaskState::Waiting, 0, START));
    assert!(detail.attempts.is_empty());
    assert_eq!(stand.store.holdings(one).await, Ok(vec![(tasks[1], 1)]));
    let again = stand.claim_one(two).await;
    assert_eq!((again.task, again.n, again.spent, again.due), (tasks[0], 1, 0, START));
    assert_eq!(stand.succeed(one, &held[0]).await, Finished::Lost);
    assert_eq!(stand.succeed(two, &again).await, Finished::Applied);
    assert_eq!(stand.succeed(one, &held[1]).await, Finished::Applied);
}

/// A worker that retires hands back what it holds, and is gone: its fence lets nothing through any more.
pub async fn a_retired_worker_leaves_nothing(stand: Stand) {
    let tasks = stand.enqueue(2).await;
    let (one, two) = (stand.worker().await, stand.worker().await);
    let held = stand.claim(one, 1).await;
    stand.store.retire(one).await.unwrap();
    stand.store.retire(one).await.unwrap();
    stand.store.retire(WorkerId(i64::MAX)).await.unwrap();
    assert_eq!(stand.store.workers().await.unwrap().iter().map(|view| view.id).collect::<Vec<_>>(), [two]);
    assert_eq!(kind(stand.store.renew(one, LEASE).await), StoreErrorKind::Fenced);
    let end = stand.ending(&held[0], Outcome::Succeeded, Next::Final(TaskState::Succeeded));
    assert_eq!(kind(stand.store.finish(one, vec![end]).await), StoreErrorKind::Fenced);
    let claimed = stand.claim(two, 5).await;
    assert_eq!(
        claimed.iter().map(|task| (task.task, task.n, task.losses)).collect::<Vec<_>>(),
        [(tasks[0], 1, 0), (tasks[1], 1, 0)]
    );
}

/// Many that rescue at once requeue each orphan once.
pub async fn rescues_at_once_requeue_once(stand: Stand) {
    stand.enqueue(60).await;
    let rescuers = [stand.worker().await, stand.worker().await, stand.worker().await, stand.worker().await];
    for _ in 0..6 {
        let dead = stand.worker().await;
        assert_eq!(stand.claim(dead, 10).await.len(), 10);
    }
    for _ in 0..4 {
        stand.advance(5);
        for worker in rescuers {
            stand.store.renew(worker, LEASE).await.unwrap();
        }
    }
    let sweeps = rescuers.map(|by| {
        let store = Arc::clone(&stand.store);
        tokio::spawn(async move { store.rescue(by).await.unwrap() })
    });
    let mut total = NOTHING;
    for sweep in sweeps {
        let Rescue { workers, requeued, failed, .. } = sweep.await.unwrap();
        total.workers += workers;
        total.requeued += requeued;
        total.failed += failed;
    }
    assert_eq!(total, Rescue { workers: 6, requeued: 60, ..NOTHING });
    let waiting = stand.tasks(punctual_task::TaskFilter::default()).await;
    assert!(waiting.iter().all(|task| (task.state, task.attempts) == (TaskState::Waiting, 1)));
}

/// A finish that races its worker's death is either applied or refused, never both applied and run again.
pub async fn a_finish_races_the_rescue(stand: Stand) {
    let rescuer = stand.worker().await;
    for _ in 0..20 {
        let task = stand.enqueue(1).await[0];
        let worker = stand.worker().await;
        let held = stand.claim_one(worker).await;
        for _ in 0..4 {
            stand.advance(5);
            stand.store.renew(rescuer, LEASE).await.unwrap();
        }
        let end = stand.ending(&held, Outcome::Succeeded, Next::Final(TaskState::Succeeded));
        let (one, two) = (Arc::clone(&stand.store), Arc::clone(&stand.store));
        let finish = tokio::spawn(async move { one.finish(worker, vec![end]).await });
        let rescue = tokio::spawn(async move { two.rescue(rescuer).await.unwrap() });
        let (finish, rescue) = (finish.await.unwrap(), rescue.await.unwrap());
        assert_eq!(rescue.workers, 1);
        match finish {
            Ok(replies) => {
                assert_eq!((replies, rescue.requeued), (vec![Finished::Applied], 0));
                assert_eq!(stand.state(task).await, TaskState::Succeeded);
            }
            Err(error) => {
                assert_eq!((error.kind(), rescue.requeued), (StoreErrorKind::Fenced, 1));
                assert_eq!(stand.state(task).await, TaskState::Waiting);
                stand.cancel(task).await;
            }
        }
    }
}
