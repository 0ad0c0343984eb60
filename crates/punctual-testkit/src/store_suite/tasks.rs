//! Tasks: written, cancelled, made to wait again.

use super::stand::*;
use punctual_task::{
    CancelOutcome, Due, Enqueued, NewTask, Next, Outcome, PAYLOAD_BYTES_MAX, RetryOutcome, StoreErrorKind, TaskFilter,
    TaskId, TaskOptions, TaskState, TaskTrace, UniqueKey,
};
use std::sync::Arc;

/// Many tasks are written in one request, and the replies are in its order.
pub async fn a_batch_is_written_in_one_request(stand: Stand) {
    let mut tasks = Vec::new();
    for _ in 0..1_200 {
        tasks.push(stand.new_task().await);
    }
    tasks.reverse();
    let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
    let replies = stand.store.enqueue(tasks).await.unwrap();
    let expected: Vec<Enqueued> = ids.iter().map(|id| Enqueued { id: *id, inserted: true }).collect();
    assert_eq!(replies, expected);
    assert_eq!(stand.tasks(TaskFilter::default()).await.len(), 1_200);
    assert_eq!(stand.store.enqueue(Vec::new()).await, Ok(Vec::new()));
    let detail = stand.detail(ids[7]).await;
    assert_eq!(detail.view.state, TaskState::Waiting);
    assert_eq!((detail.view.attempts, detail.view.level), (0, 1));
    assert_eq!((detail.view.created, detail.view.due), (START, START));
    assert_eq!((&detail.args[..], detail.attempts.len()), (&b"{\"a\":1}"[..], 0));
    assert!(detail.view.occurrence.is_none() && detail.view.error.is_none() && detail.key.is_none());
}

/// A batch with one task that is out of its limits writes none of them.
pub async fn a_batch_is_all_or_none(stand: Stand) {
    let good = stand.new_task().await;
    let wrong = NewTask { level: 9, ..stand.new_task().await };
    let late = stand.new_task().await;
    let batch = vec![good.clone(), wrong, late.clone()];
    assert_eq!(kind(stand.store.enqueue(batch).await), StoreErrorKind::Refused);
    assert!(stand.tasks(TaskFilter::default()).await.is_empty());
    stand.store.enqueue(vec![good, late]).await.unwrap();
    assert_eq!(stand.tasks(TaskFilter::default()).await.len(), 2);
}

/// A batch sent again after its reply was lost is recognised by its ids; an id with another content is refused.
pub async fn a_resent_batch_is_recognised(stand: Stand) {
    let one = NewTask { due: Due::After(secs(60)), key: Some(UniqueKey::new("k")), ..stand.new_task().await };
    let two = stand.new_task().await;
    let batch = vec![one.clone(), two.clone()];
    let first = stand.store.enqueue(batch.clone()).await.unwrap();
    stand.advance(10);
    assert_eq!(stand.store.enqueue(batch.clone()).await.unwrap(), first);
    // Also after it ran: nothing runs twice.
    stand.drain().await;
    assert_eq!(stand.store.enqueue(batch).await.unwrap(), first);
    assert!(stand.drain().await.is_empty());
    assert_eq!(stand.detail(one.id).await.view.due, at(60));
    let other = NewTask { args: "{\"a\":2}".into(), ..two };
    assert_eq!(kind(stand.store.enqueue(vec![stand.new_task().await, other]).await), StoreErrorKind::Refused);
    assert_eq!(stand.tasks(TaskFilter::default()).await.len(), 2);
}

/// Limits are named by field before anything is written, and what lies just inside them is stored unharmed.
pub async fn limits_are_named(stand: Stand) {
    let base = stand.new_task().await;
    let with = |change: fn(&mut NewTask)| {
        let mut task = base.clone();
        change(&mut task);
        task
    };
    let key = |text: &str| Some(UniqueKey::new(text));
    let wrong = [
        ("method", with(|task| task.method = "m".repeat(201))),
        ("method", with(|task| task.method.clear())),
        ("queue", with(|task| task.queue = "q\0".to_owned())),
        ("priority", with(|task| task.level = 4)),
        ("arguments", with(|task| task.args = vec![b'1'; PAYLOAD_BYTES_MAX + 1].into())),
        ("attempt", with(|task| task.options.attempts = Some(0))),
        ("key", NewTask { key: key(""), ..base.clone() }),
        ("key", NewTask { key: key(&"k".repeat(256)), ..base.clone() }),
        ("key", NewTask { key: key("nul\0"), ..base.clone() }),
    ];
    for (field, task) in wrong {
        let error = stand.store.enqueue(vec![task]).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Refused);
        assert!(error.to_string().contains(field), "{error} does not name the {field}");
        assert!(!error.is_retryable());
    }
    assert!(stand.tasks(TaskFilter::default()).await.is_empty());
    let options = TaskOptions {
        attempts: Some(u32::MAX),
        backoff: Some(one_second()),
        timeout: Some(secs(90)),
        start_by: Some(at(5).as_micros()),
        finish_by: Some(at(9).as_micros()),
        trace: Some(TaskTrace { parent: "00-\"'; DROP".to_owned(), state: "ü=\u{1}".to_owned() }),
    };
    let large = NewTask {
        method: "ü".repeat(100),
        queue: "'; DROP TABLE task; --".to_owned(),
        level: 3,
        args: vec![b'1'; PAYLOAD_BYTES_MAX].into(),
        schema: u64::MAX,
        options: options.clone(),
        key: key(&"k".repeat(255)),
        ..base
    };
    stand.put(large.clone()).await;
    let detail = stand.detail(large.id).await;
    assert_eq!(detail.args, large.args);
    assert_eq!(detail.options, options);
    assert_eq!(detail.key.as_ref(), large.key.as_ref().map(|key| &key.text));
    assert_eq!((detail.view.method, detail.view.queue, detail.view.level), (large.method.clone(), large.queue, 3));
    let worker = stand.worker().await;
    let request = punctual_task::ClaimRequest { methods: vec![large.method], ..any(1) };
    let claimed = stand.store.claim(worker, request).await.unwrap().tasks.remove(0);
    assert_eq!((claimed.args, claimed.schema, claimed.options), (large.args, u64::MAX, options));
}

/// A task becomes due at its instant by the database's clock, one in the past at once.
pub async fn tasks_wait_until_they_are_due(stand: Stand) {
    let base = stand.new_task().await;
    let mut ids = Vec::new();
    for due in [Due::Now, Due::After(secs(10)), Due::At(at(20)), Due::At(START.before(secs(99))), Due::After(secs(0))] {
        let id = stand.id().await;
        stand.put(NewTask { id, due, ..base.clone() }).await;
        ids.push(id);
    }
    let dues = [at(0), at(10), at(20), at(0), at(0)];
    for (id, due) in ids.iter().zip(dues) {
        assert_eq!(stand.detail(*id).await.view.due, due);
    }
    let ran = |tasks: Vec<punctual_task::Claimed>| tasks.iter().map(|task| task.task).collect::<Vec<_>>();
    assert_eq!(ran(stand.drain().await), [ids[0], ids[3], ids[4]]);
    stand.clock.advance(secs(10) - std::time::Duration::from_micros(1));
    assert!(stand.drain().await.is_empty());
    stand.clock.advance(std::time::Duration::from_micros(1));
    assert_eq!(ran(stand.drain().await), [ids[1]]);
    stand.advance(100);
    assert_eq!(ran(stand.drain().await), [ids[2]]);
    // The longest wait neither overflows nor runs.
    stand.put(NewTask { id: stand.id().await, due: Due::After(std::time::Duration::MAX), ..base }).await;
    assert!(stand.drain().await.is_empty());
}

/// A waiting task is cancelled at once and leaves a record; nothing claims it any more.
pub async fn a_waiting_task_is_cancelled_at_once(stand: Stand) {
    let ids = stand.enqueue(2).await;
    stand.advance(5);
    let replies = stand.store.cancel(vec![ids[1], TaskId(i64::MAX), ids[1]]).await.unwrap();
    let expected = [CancelOutcome::Cancelled, CancelOutcome::Unknown, CancelOutcome::Ended(TaskState::Cancelled)];
    assert_eq!(replies, expected);
    let detail = stand.detail(ids[1]).await;
    assert_eq!((detail.view.state, detail.view.attempts), (TaskState::Cancelled, 0));
    let record = &detail.attempts[0];
    assert_eq!((record.n, record.worker, record.outcome, record.ended), (0, 0, Outcome::Cancelled, at(5)));
    let ran = stand.drain().await;
    assert_eq!(ran.iter().map(|task| task.task).collect::<Vec<_>>(), [ids[0]]);
    assert_eq!(stand.cancel(ids[0]).await, CancelOutcome::Ended(TaskState::Succeeded));
}

/// A running task is asked: its worker hears of it with each renewal, and the end is what the handler returned. Success
/// stays success; anything else, a retry too, is cancelled.
pub async fn a_running_task_is_asked_to_stop(stand: Stand) {
    let ends = [
        (Outcome::Succeeded, Next::Final(TaskState::Succeeded), TaskState::Succeeded),
        (Outcome::Cancelled, Next::Final(TaskState::Cancelled), TaskState::Cancelled),
        (Outcome::Failed, Next::Final(TaskState::Failed), TaskState::Cancelled),
        (Outcome::Failed, Next::Again { due: START, spent: 1 }, TaskState::Cancelled),
        (Outcome::TimedOut, Next::Again { due: at(99), spent: 1 }, TaskState::Cancelled),
    ];
    let ids = stand.enqueue(ends.len() as u32).await;
    let worker = stand.worker().await;
    let claimed = stand.claim(worker, 10).await;
    assert!(stand.store.renew(worker, LEASE).await.unwrap().cancel.is_empty());
    for id in &ids {
        assert_eq!(stand.cancel(*id).await, CancelOutcome::Requested);
        assert_eq!(stand.cancel(*id).await, CancelOutcome::Requested);
    }
    for _ in 0..2 {
        assert_eq!(stand.store.renew(worker, LEASE).await.unwrap().cancel, ids);
    }
    for (task, (outcome, next, state)) in claimed.iter().zip(ends) {
        assert_eq!(stand.state(task.task).await, TaskState::Running);
        stand.finish(worker, task, outcome, next).await;
        assert_eq!(stand.state(task.task).await, state, "{outcome:?}");
        assert_eq!(stand.detail(task.task).await.attempts[0].outcome, outcome);
    }
    assert!(stand.store.renew(worker, LEASE).await.unwrap().cancel.is_empty());
}

/// Ended tasks wait again when asked: due now, attempts and losses spent at zero, numbers going on.
pub async fn ended_tasks_can_be_retried(stand: Stand) {
    let worker = stand.worker().await;
    let ids = stand.enqueue(3).await;
    let claimed = stand.claim(worker, 2).await;
    stand.finish(worker, &claimed[0], Outcome::Failed, Next::Final(TaskState::Failed)).await;
    stand.advance(30);
    let replies = stand.store.retry(vec![ids[0], ids[1], ids[2], TaskId(i64::MAX)]).await.unwrap();
    let expected = [
        RetryOutcome::Waiting,
        RetryOutcome::NotEnded(TaskState::Running),
        RetryOutcome::NotEnded(TaskState::Waiting),
        RetryOutcome::Unknown,
    ];
    assert_eq!(replies, expected);
    let view = stand.detail(ids[0]).await.view;
    assert_eq!((view.state, view.due, view.attempts), (TaskState::Waiting, at(30), 1));
    assert_eq!(view.error.as_deref(), Some("it broke"));
    assert_eq!(stand.claim_one(worker).await.task, ids[2]);
    let again = stand.claim_one(worker).await;
    assert_eq!((again.task, again.n, again.spent, again.losses), (ids[0], 2, 0, 0));
    stand.succeed(worker, &again).await;
    let detail = stand.detail(ids[0]).await;
    assert_eq!((detail.view.state, detail.view.attempts, detail.view.error), (TaskState::Succeeded, 2, None));
    assert_eq!(detail.attempts.iter().map(|attempt| attempt.n).collect::<Vec<_>>(), [1, 2]);
    // A success can be repeated too, and a cancel before an attempt leaves no number behind.
    assert_eq!(stand.store.retry(vec![ids[0]]).await.unwrap(), [RetryOutcome::Waiting]);
    stand.cancel(ids[0]).await;
    stand.advance(1);
    stand.store.retry(vec![ids[0]]).await.unwrap();
    stand.cancel(ids[0]).await;
    let detail = stand.detail(ids[0]).await;
    assert_eq!(detail.attempts.iter().map(|attempt| attempt.n).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!((detail.attempts[0].ended, detail.view.attempts), (at(31), 2));
    stand.store.retry(vec![ids[0]]).await.unwrap();
    assert_eq!(stand.claim_one(worker).await.n, 3);
}

/// A retry by hand forgets the attempts that were spent, not those that were made.
pub async fn a_retry_by_hand_begins_anew(stand: Stand) {
    let task = stand.enqueue(1).await[0];
    let worker = stand.worker().await;
    let first = stand.claim_one(worker).await;
    stand.finish(worker, &first, Outcome::Failed, Next::Again { due: START, spent: 1 }).await;
    let second = stand.claim_one(worker).await;
    assert_eq!((second.n, second.spent), (2, 1));
    stand.finish(worker, &second, Outcome::Failed, Next::Final(TaskState::Failed)).await;
    stand.store.retry(vec![task]).await.unwrap();
    let third = stand.claim_one(worker).await;
    assert_eq!((third.n, third.spent, third.losses), (3, 0, 0));
}

/// A retried occurrence counts as live again, and ends as any other.
pub async fn a_retried_occurrence_is_live_again(stand: Stand) {
    stand.declare(punctual_task::ScheduleSpec { max_pending: 1, ..minutely("s") }).await;
    stand.advance(60);
    stand.sweep().await;
    let ran = stand.drain().await;
    assert_eq!(stand.view("s").await.live, 0);
    stand.store.retry(vec![ran[0].task]).await.unwrap();
    assert_eq!(stand.view("s").await.live, 1);
    stand.advance(60);
    stand.sweep_all(500).await;
    assert_eq!(stand.runs("s").await, minutes([1], 1));
    stand.drain().await;
    stand.sweep_all(500).await;
    assert_eq!(stand.runs("s").await, minutes([1, 2], 1));
}

/// A cancelled schedule is cancelled for good: none of its occurrences is brought back.
pub async fn a_cancelled_schedules_task_stays_ended(stand: Stand) {
    stand.declare(minutely("s")).await;
    stand.advance(120);
    stand.sweep().await;
    let worker = stand.worker().await;
    let ran = stand.claim_one(worker).await;
    stand.succeed(worker, &ran).await;
    stand.steer("s", punctual_task::ScheduleCommand::Cancel).await.unwrap();
    let tasks: Vec<TaskId> = stand.tasks(TaskFilter::default()).await.iter().map(|task| task.id).collect();
    assert_eq!(stand.store.retry(tasks).await.unwrap(), [RetryOutcome::SeriesCancelled, RetryOutcome::SeriesCancelled]);
    assert_eq!(stand.view("s").await.live, 0);
    assert!(stand.claim(worker, 5).await.is_empty());
}

/// Ids are given to one caller each, however many ask at once.
pub async fn ids_are_drawn_once(stand: Stand) {
    let draws: Vec<_> = (0..8)
        .map(|_| {
            let store = Arc::clone(&stand.store);
            tokio::spawn(async move {
                let mut ids = Vec::new();
                for count in [1, 7, 100] {
                    let mut block = store.draw_ids(count).await.unwrap();
                    assert_eq!(block.left(), count);
                    ids.extend(std::iter::from_fn(|| block.take()));
                }
                ids
            })
        })
        .collect();
    let mut all = Vec::new();
    for draw in draws {
        let ids = draw.await.unwrap();
        assert!(ids.is_sorted(), "one caller's ids grow");
        all.extend(ids);
    }
    assert!(all.iter().all(|id| id.0 > 0));
    all.sort_unstable();
    let count = all.len();
    all.dedup();
    assert_eq!((all.len(), count), (8 * 108, 8 * 108));
}

/// The store's time is the database's, and everything that it stamps comes from there.
pub async fn the_database_has_the_clock(stand: Stand) {
    assert_eq!(stand.store.now().await, Ok(START));
    stand.advance(5);
    assert_eq!(stand.store.now().await, Ok(at(5)));
    stand.clock.set_wall(at(3));
    assert_eq!(stand.store.now().await, Ok(at(3)));
    let info = stand.store.info();
    assert!(!info.kind.is_empty() && !info.version.is_empty(), "{info:?}");
}
