//! What running attempts say of themselves.

use super::stand::*;
use bytes::Bytes;
use punctual_task::{
    CHECKPOINT_BYTES_MAX, Claimed, Next, Outcome, PROGRESS_MESSAGE_BYTES_MAX, Progress, Report, Retention,
    StoreErrorKind, TaskState,
};

/// A report of a claimed task's attempt, said now.
fn report(stand: &Stand, task: &Claimed, percent: u8, checkpoint: Option<&'static str>) -> Report {
    Report {
        task: task.task,
        n: task.n,
        at: stand.now(),
        percent: Some(percent),
        message: format!("at {percent} \u{2026}"),
        checkpoint: checkpoint.map(Bytes::from),
    }
}

fn kept(report: &Report) -> Progress {
    let Report { n, at, percent, message, checkpoint, .. } = report.clone();
    Progress { n, at, percent, message, checkpoint }
}

/// The last report is shown, while the attempt runs and after it; a checkpoint stays until the next one, through a retry, a loss
/// and a hand-back, and the attempt that comes then finds it.
pub async fn progress_stays_with_its_task(stand: Stand) {
    let worker = stand.worker().await;
    let [task, quiet] = <[_; 2]>::try_from(stand.enqueue(2).await).unwrap();
    let claimed = stand.claim(worker, 2).await;
    let first = report(&stand, &claimed[0], 10, Some("[1]"));
    assert_eq!(stand.store.report(worker, vec![first.clone()]).await, Ok(vec![true]));
    assert_eq!(stand.detail(task).await.progress, Some(kept(&first)));
    assert_eq!(stand.detail(quiet).await.progress, None);
    stand.advance(1);
    // The later of two in one call counts, and what the earlier one keeps is kept.
    let later = Report { percent: None, message: String::new(), ..report(&stand, &claimed[0], 0, None) };
    let both = vec![report(&stand, &claimed[0], 20, Some("[2]")), later.clone()];
    assert_eq!(stand.store.report(worker, both).await, Ok(vec![true, true]));
    let second = Progress { checkpoint: Some(Bytes::from_static(b"[2]")), ..kept(&later) };
    assert_eq!(stand.detail(task).await.progress, Some(second.clone()));
    stand.finish(worker, &claimed[0], Outcome::Failed, Next::Again { due: START, spent: 1 }).await;
    assert_eq!(stand.detail(task).await.progress, Some(second));
    let again = stand.claim_one(worker).await;
    let third = report(&stand, &again, 30, None);
    assert_eq!(stand.store.report(worker, vec![third.clone()]).await, Ok(vec![true]));
    let third = Progress { checkpoint: Some(Bytes::from_static(b"[2]")), ..kept(&third) };
    assert_eq!(stand.detail(task).await.progress, Some(third.clone()));
    stand.store.hand_back(worker, vec![task]).await.unwrap();
    assert_eq!(stand.detail(task).await.progress, Some(third.clone()));
    stand.claim_one(worker).await;
    stand.advance(LEASE.as_secs() + 1);
    let rescuer = stand.worker().await;
    stand.store.rescue(rescuer).await.unwrap();
    assert_eq!(stand.detail(task).await.progress, Some(third));
}

/// What an attempt says is kept only while its worker holds it: not of another worker's, not of another attempt, not after its end, and
/// of a dead worker nothing at all.
pub async fn reports_need_the_lease(stand: Stand) {
    let (worker, other) = (stand.worker().await, stand.worker().await);
    let ids = stand.enqueue(2).await;
    let claimed = stand.claim(worker, 2).await;
    let good = report(&stand, &claimed[0], 1, Some("1"));
    let ahead = Report { n: 2, ..good.clone() };
    let unknown = Report { task: punctual_task::TaskId(i64::MAX), ..good.clone() };
    assert_eq!(stand.store.report(other, vec![good.clone()]).await, Ok(vec![false]));
    let mixed = vec![ahead, good.clone(), unknown];
    assert_eq!(stand.store.report(worker, mixed).await, Ok(vec![false, true, false]));
    stand.succeed(worker, &claimed[0]).await;
    let late = Report { percent: Some(99), ..good.clone() };
    assert_eq!(stand.store.report(worker, vec![late]).await, Ok(vec![false]));
    assert_eq!(stand.detail(ids[0]).await.progress, Some(kept(&good)));
    assert_eq!(stand.store.report(worker, Vec::new()).await, Ok(Vec::new()));
    stand.advance(LEASE.as_secs() + 1);
    let rescuer = stand.worker().await;
    stand.store.rescue(rescuer).await.unwrap();
    let dead = report(&stand, &claimed[1], 1, None);
    assert_eq!(kind(stand.store.report(worker, vec![dead]).await), StoreErrorKind::Fenced);
    assert_eq!(stand.detail(ids[1]).await.progress, None);
}

/// What is over a limit refuses the whole call; what is at it is kept whole.
pub async fn reports_have_limits(stand: Stand) {
    let worker = stand.worker().await;
    let id = stand.enqueue(1).await[0];
    let task = stand.claim_one(worker).await;
    let good = report(&stand, &task, 100, None);
    let wrong = [
        Report { percent: Some(101), ..good.clone() },
        Report { message: "m".repeat(PROGRESS_MESSAGE_BYTES_MAX + 1), ..good.clone() },
        Report { message: "a\0b".to_owned(), ..good.clone() },
        Report { checkpoint: Some(vec![b'1'; CHECKPOINT_BYTES_MAX + 1].into()), ..good.clone() },
    ];
    for wrong in wrong {
        assert_eq!(kind(stand.store.report(worker, vec![good.clone(), wrong]).await), StoreErrorKind::Refused);
    }
    assert_eq!(stand.detail(id).await.progress, None);
    let full = Report {
        message: "\u{1f980}".repeat(PROGRESS_MESSAGE_BYTES_MAX / 4),
        checkpoint: Some(vec![b'1'; CHECKPOINT_BYTES_MAX].into()),
        ..good
    };
    assert_eq!(stand.store.report(worker, vec![full.clone()]).await, Ok(vec![true]));
    assert_eq!(stand.detail(id).await.progress, Some(kept(&full)));
}

/// Progress goes with its task: one that is written under the same number later has none.
pub async fn pruned_progress_is_gone(stand: Stand) {
    let worker = stand.worker().await;
    let new = stand.new_task().await;
    stand.put(new.clone()).await;
    let task = stand.claim_one(worker).await;
    stand.store.report(worker, vec![report(&stand, &task, 5, Some("5"))]).await.unwrap();
    stand.succeed(worker, &task).await;
    stand.advance(10);
    let retention = Retention { ended: Some(secs(5)), failed: Some(secs(5)) };
    assert_eq!(stand.store.prune(retention, 10).await.unwrap().tasks, 1);
    assert_eq!(stand.store.task(task.task).await, Ok(None));
    stand.put(new).await;
    let detail = stand.detail(task.task).await;
    assert_eq!((detail.view.state, detail.progress), (TaskState::Waiting, None));
}
