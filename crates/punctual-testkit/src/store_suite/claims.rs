//! Claims and finishes.

use super::stand::*;
use punctual_task::{ClaimRequest, Finished, NewTask, Next, Outcome, StoreErrorKind, TaskFilter, TaskId, TaskState};
use std::collections::BTreeSet;
use std::sync::Arc;

fn ids(tasks: &[punctual_task::Claimed]) -> Vec<TaskId> {
    tasks.iter().map(|task| task.task).collect()
}

/// A claim gives due tasks in order of due time, then of id, at most as many as asked for, and each once.
pub async fn claims_follow_due_time_then_id(stand: Stand) {
    let mut tasks = Vec::new();
    for due in [30u64, 10, 20, 10, 40] {
        let task = NewTask { due: punctual_task::Due::At(at(due)), ..stand.new_task().await };
        tasks.push(task.id);
        stand.put(task).await;
    }
    let worker = stand.worker().await;
    let batch = stand.claim_batch(worker, 10).await;
    assert_eq!((batch.tasks.len(), batch.next_due), (0, Some(at(10))));
    stand.advance(30);
    let batch = stand.claim_batch(worker, 2).await;
    assert_eq!((ids(&batch.tasks), batch.next_due), (vec![tasks[1], tasks[3]], Some(at(20))));
    let batch = stand.claim_batch(worker, 10).await;
    assert_eq!((ids(&batch.tasks), batch.next_due), (vec![tasks[2], tasks[0]], Some(at(40))));
    let batch = stand.claim_batch(worker, 10).await;
    assert_eq!((batch.tasks.len(), batch.next_due), (0, Some(at(40))));
    stand.advance(10);
    let batch = stand.claim_batch(worker, 10).await;
    assert_eq!((ids(&batch.tasks), batch.next_due), (vec![tasks[4]], None));
}

/// What a worker needs to run a task is in the claim; the task is running, its due time that of the attempt.
pub async fn a_claim_tells_all_that_a_worker_needs(stand: Stand) {
    let task = NewTask { due: punctual_task::Due::After(secs(5)), level: 2, ..stand.new_task().await };
    stand.put(task.clone()).await;
    stand.advance(8);
    let worker = stand.worker().await;
    let claimed = stand.claim_one(worker).await;
    assert_eq!((claimed.task, claimed.n, claimed.spent, claimed.losses), (task.id, 1, 0, 0));
    assert_eq!((&claimed.method, &claimed.queue), (&task.method, &task.queue));
    assert_eq!((&claimed.args, claimed.schema, &claimed.options), (&task.args, task.schema, &task.options));
    assert_eq!((claimed.created, claimed.due, claimed.occurrence), (START, at(5), None));
    let view = stand.detail(task.id).await.view;
    assert_eq!((view.state, view.attempts, view.due), (TaskState::Running, 1, at(5)));
    assert_eq!(stand.store.holdings(worker).await, Ok(vec![(task.id, 1)]));
}

/// A claim reads one level, the one whose head is the most urgent once each level has been aged by 30 s.
pub async fn levels_age(stand: Stand) {
    let mut put = Vec::new();
    for (level, due) in [(3u8, 0u64), (0, 50), (1, 20), (1, 55), (2, 40)] {
        let task = NewTask { level, due: punctual_task::Due::At(at(due)), ..stand.new_task().await };
        put.push(task.id);
        stand.put(task).await;
    }
    stand.advance(60);
    let worker = stand.worker().await;
    // Urgency: level 0 at 50, level 1 at 20 + 30 (the lower level wins the tie), level 3 at 90, level 2 at 100.
    assert_eq!(ids(&stand.claim(worker, 10).await), [put[1]]);
    assert_eq!(ids(&stand.claim(worker, 10).await), [put[2], put[3]]);
    assert_eq!(ids(&stand.claim(worker, 10).await), [put[0]]);
    assert_eq!(ids(&stand.claim(worker, 10).await), [put[4]]);
    assert!(stand.claim(worker, 10).await.is_empty());
}

/// A worker gets only what it can run, from the queues that it asks for; a task of an unknown method waits.
pub async fn claims_keep_to_queue_and_method(stand: Stand) {
    let mut put = Vec::new();
    for (queue, method) in [("a", "Demo/run"), ("b", "Demo/run"), ("a", "Demo/other"), ("a", "Nobody/knows")] {
        let task = NewTask { queue: queue.to_owned(), method: method.to_owned(), ..stand.new_task().await };
        put.push(task.id);
        stand.put(task).await;
    }
    let worker = stand.worker().await;
    let claim = async |queue: Option<&str>, methods: &[&str]| {
        let request = ClaimRequest {
            queue: queue.map(str::to_owned),
            methods: methods.iter().map(|method| (*method).to_owned()).collect(),
            ..any(10)
        };
        let batch = stand.store.claim(worker, request).await.unwrap();
        (ids(&batch.tasks), batch.next_due)
    };
    assert_eq!(claim(Some("c"), &["Demo/run"]).await, (vec![], None));
    assert_eq!(claim(Some("a"), &[]).await, (vec![], None));
    assert_eq!(claim(Some("b"), &["Demo/other"]).await, (vec![], None));
    assert_eq!(claim(Some("a"), &["Demo/run"]).await, (vec![put[0]], None));
    assert_eq!(claim(None, &METHODS).await, (vec![put[1], put[2]], None));
    assert_eq!(stand.state(put[3]).await, TaskState::Waiting);
    assert_eq!(claim(Some("a"), &["x", "Nobody/knows"]).await, (vec![put[3]], None));
}

/// A paused queue gives nothing and hints at nothing; what runs goes on; resumed, it gives all.
pub async fn a_paused_queue_gives_nothing(stand: Stand) {
    let worker = stand.worker().await;
    let tasks = stand.enqueue(3).await;
    let running = stand.claim_one(worker).await;
    assert_eq!(stand.store.pause_queue("Demo".to_owned(), true).await, Ok(true));
    assert_eq!(stand.store.pause_queue("Demo".to_owned(), true).await, Ok(false));
    for queue in [None, Some("Demo".to_owned())] {
        let batch = stand.store.claim(worker, ClaimRequest { queue, ..any(10) }).await.unwrap();
        assert_eq!((batch.tasks.len(), batch.next_due), (0, None));
    }
    assert_eq!(stand.succeed(worker, &running).await, Finished::Applied);
    let other = NewTask { queue: "other".to_owned(), ..stand.new_task().await };
    stand.put(other.clone()).await;
    assert_eq!(ids(&stand.claim(worker, 10).await), [other.id]);
    assert_eq!(stand.store.pause_queue("Demo".to_owned(), false).await, Ok(true));
    assert_eq!(ids(&stand.claim(worker, 10).await), tasks[1..]);
    // A queue can be paused before it has a task; one that nobody named is not paused, nor made by resuming it.
    assert_eq!(stand.store.pause_queue("new".to_owned(), true).await, Ok(true));
    assert_eq!(stand.store.pause_queue("none".to_owned(), false).await, Ok(false));
    stand.put(NewTask { queue: "new".to_owned(), ..stand.new_task().await }).await;
    assert!(stand.claim(worker, 10).await.is_empty());
    assert_eq!(kind(stand.store.pause_queue(String::new(), true).await), StoreErrorKind::Refused);
}

/// Workers that claim at once share no task, and between them they get all.
pub async fn claims_at_once_share_nothing(stand: Stand) {
    let all: BTreeSet<TaskId> = stand.enqueue(400).await.into_iter().collect();
    let mut claimers = Vec::new();
    for _ in 0..8 {
        let (store, worker) = (Arc::clone(&stand.store), stand.worker().await);
        claimers.push(tokio::spawn(async move {
            let mut mine = Vec::new();
            loop {
                let tasks = store.claim(worker, any(7)).await.unwrap().tasks;
                if tasks.is_empty() {
                    return mine;
                }
                mine.extend(ids(&tasks));
            }
        }));
    }
    let mut got = Vec::new();
    for claimer in claimers {
        got.extend(claimer.await.unwrap());
    }
    assert_eq!(got.len(), 400);
    assert_eq!(got.into_iter().collect::<BTreeSet<_>>(), all);
}

/// A finished attempt is kept as the worker told it, and the task ends.
pub async fn a_finish_records_the_attempt(stand: Stand) {
    let ends = [
        (Outcome::Succeeded, TaskState::Succeeded),
        (Outcome::Failed, TaskState::Failed),
        (Outcome::Panicked, TaskState::Failed),
        (Outcome::TimedOut, TaskState::Failed),
        (Outcome::Cancelled, TaskState::Cancelled),
        (Outcome::Expired, TaskState::Expired),
    ];
    stand.enqueue(ends.len() as u32).await;
    let worker = stand.worker().await;
    let claimed = stand.claim(worker, 10).await;
    stand.advance(9);
    let finishes: Vec<_> = claimed
        .iter()
        .zip(ends)
        .map(|(task, (outcome, state))| {
            let mut finish = stand.ending(task, outcome, Next::Final(state));
            finish.started = at(2);
            finish
        })
        .collect();
    let replies = stand.store.finish(worker, finishes.clone()).await.unwrap();
    assert_eq!(replies, [Finished::Applied; 6]);
    assert!(stand.store.holdings(worker).await.unwrap().is_empty());
    for (finish, (outcome, state)) in finishes.iter().zip(ends) {
        let detail = stand.detail(finish.task).await;
        assert_eq!((detail.view.state, detail.view.attempts), (state, 1));
        let attempt = &detail.attempts[0];
        assert_eq!((attempt.n, attempt.worker, attempt.outcome), (1, worker.0, outcome));
        assert_eq!((attempt.started, attempt.ended, &attempt.out), (at(2), at(9), &finish.out));
        let error = (outcome != Outcome::Succeeded).then_some("it broke");
        assert_eq!(detail.view.error.as_deref(), error);
        assert_eq!(detail.attempts.len(), 1);
    }
}

/// A retry is on the row: the next attempt has the next number, comes when it is due, and knows what was spent.
pub async fn a_retry_waits_on_the_row(stand: Stand) {
    let task = stand.enqueue(1).await[0];
    let worker = stand.worker().await;
    let first = stand.claim_one(worker).await;
    stand.finish(worker, &first, Outcome::Failed, Next::Again { due: at(10), spent: 1 }).await;
    let view = stand.detail(task).await.view;
    assert_eq!((view.state, view.due, view.attempts), (TaskState::Waiting, at(10), 1));
    assert_eq!(view.error.as_deref(), Some("it broke"));
    assert!(stand.claim(worker, 1).await.is_empty());
    stand.advance(10);
    let second = stand.claim_one(worker).await;
    assert_eq!((second.task, second.n, second.spent, second.due), (task, 2, 1, at(10)));
    // A snooze spends nothing, and a due time in the past means now.
    stand.finish(worker, &second, Outcome::Snoozed, Next::Again { due: START, spent: 1 }).await;
    assert_eq!(stand.detail(task).await.view.due, at(10));
    let third = stand.claim_one(worker).await;
    assert_eq!((third.n, third.spent, third.due), (3, 1, at(10)));
    stand.succeed(worker, &third).await;
    let detail = stand.detail(task).await;
    assert_eq!((detail.view.state, detail.view.attempts), (TaskState::Succeeded, 3));
    // Once it has ended, the list shows when its first attempt was due.
    assert_eq!((detail.view.due, detail.view.error), (START, None));
    let outcomes: Vec<_> = detail.attempts.iter().map(|attempt| (attempt.n, attempt.outcome)).collect();
    assert_eq!(outcomes, [(1, Outcome::Failed), (2, Outcome::Snoozed), (3, Outcome::Succeeded)]);
}

/// A finish sent again is known by task, number and worker; what another holds, or nobody, is refused alone.
pub async fn finishes_are_idempotent(stand: Stand) {
    let tasks = stand.enqueue(3).await;
    let (one, two) = (stand.worker().await, stand.worker().await);
    let mine = stand.claim(one, 2).await;
    let other = stand.claim_one(two).await;
    let end = |task: &punctual_task::Claimed| stand.ending(task, Outcome::Succeeded, Next::Final(TaskState::Succeeded));
    let again = stand.ending(&mine[1], Outcome::Failed, Next::Again { due: at(99), spent: 1 });
    let batch = vec![end(&mine[0]), again.clone(), end(&other)];
    let replies = stand.store.finish(one, batch.clone()).await.unwrap();
    assert_eq!(replies, [Finished::Applied, Finished::Applied, Finished::Lost]);
    stand.advance(100);
    let replies = stand.store.finish(one, batch).await.unwrap();
    assert_eq!(replies, [Finished::Already, Finished::Already, Finished::Lost]);
    assert_eq!(stand.state(tasks[2]).await, TaskState::Running);
    assert_eq!(stand.detail(tasks[1]).await.attempts.len(), 1);
    // The retry is claimed by the other: the first worker's finish of attempt 2 is not its to make.
    let retried = stand.claim_one(two).await;
    assert_eq!((retried.task, retried.n), (tasks[1], 2));
    assert_eq!(stand.succeed(one, &retried).await, Finished::Lost);
    assert_eq!(stand.store.finish(one, vec![again]).await.unwrap(), [Finished::Already]);
    assert_eq!(stand.succeed(two, &retried).await, Finished::Applied);
    let unknown = punctual_task::Finish { task: TaskId(i64::MAX), ..end(&retried) };
    assert_eq!(stand.store.finish(two, vec![unknown]).await.unwrap(), [Finished::Lost]);
    let ahead = punctual_task::Finish { n: 2, ..end(&other) };
    assert_eq!(stand.store.finish(two, vec![ahead]).await.unwrap(), [Finished::Lost]);
    assert_eq!(stand.state(tasks[2]).await, TaskState::Running);
}

/// A batch with a finish out of its limits changes nothing.
pub async fn wrong_finishes_are_refused(stand: Stand) {
    stand.enqueue(2).await;
    let worker = stand.worker().await;
    let claimed = stand.claim(worker, 2).await;
    let good = stand.ending(&claimed[0], Outcome::Succeeded, Next::Final(TaskState::Succeeded));
    let mut large = stand.ending(&claimed[1], Outcome::Succeeded, Next::Final(TaskState::Succeeded));
    large.out = vec![b'1'; punctual_task::OUT_BYTES_MAX + 1].into();
    let open = stand.ending(&claimed[1], Outcome::Failed, Next::Final(TaskState::Waiting));
    for wrong in [large, open] {
        let batch = vec![good.clone(), wrong];
        assert_eq!(kind(stand.store.finish(worker, batch).await), StoreErrorKind::Refused);
        assert_eq!(stand.store.holdings(worker).await.unwrap().len(), 2);
    }
    let filter = TaskFilter { state: Some(TaskState::Running), ..TaskFilter::default() };
    assert_eq!(stand.tasks(filter).await.len(), 2);
}
