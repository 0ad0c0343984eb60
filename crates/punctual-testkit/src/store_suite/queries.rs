//! What people see of tasks and queues.

use super::stand::*;
use punctual_task::{Due, NewTask, Next, Outcome, Page, QueueView, TaskFilter, TaskId, TaskState};

/// Tasks are listed newest first, page by page, without a hole or a repetition while others are written.
pub async fn tasks_are_listed_page_by_page(stand: Stand) {
    let ids = stand.enqueue(25).await;
    let mut seen: Vec<TaskId> = Vec::new();
    let mut before = None;
    loop {
        let page = stand.store.tasks(TaskFilter::default(), Page { before, limit: 10 }).await.unwrap();
        if page.is_empty() {
            break;
        }
        before = page.last().map(|task| task.id);
        seen.extend(page.iter().map(|task| task.id));
        stand.enqueue(3).await;
    }
    let expected: Vec<TaskId> = ids.into_iter().rev().collect();
    assert_eq!(seen, expected);
    assert!(stand.store.tasks(TaskFilter::default(), Page { before: None, limit: 0 }).await.unwrap().is_empty());
    let many = stand.store.tasks(TaskFilter::default(), Page { before: None, limit: u32::MAX }).await.unwrap();
    assert_eq!(many.len(), 34);
}

/// Filters restrict by state, queue, method and schedule, alone and together.
pub async fn filters_restrict(stand: Stand) {
    let put = async |queue: &str, method: &str, due: Due| {
        let task = NewTask { queue: queue.to_owned(), method: method.to_owned(), due, ..stand.new_task().await };
        stand.put(task.clone()).await;
        task.id
    };
    stand.declare(minutely("s")).await;
    let later = Due::After(secs(3_600));
    let waiting = put("a", "Demo/run", later).await;
    let failed = put("a", "Demo/other", Due::Now).await;
    let running = put("b", "Demo/run", Due::Now).await;
    let cancelled = put("b", "Demo/other", later).await;
    let ended = put("b", "Mail/send", Due::Now).await;
    let worker = stand.worker().await;
    let claimed = stand.claim(worker, 5).await;
    stand.finish(worker, &claimed[0], Outcome::Failed, Next::Final(TaskState::Failed)).await;
    stand.succeed(worker, &claimed[2]).await;
    stand.cancel(cancelled).await;
    stand.advance(60);
    let occurrence = stand.sweep().await.schedules[0].tasks[0];

    let find = async |filter: TaskFilter| stand.tasks(filter).await.iter().map(|task| task.id).collect::<Vec<TaskId>>();
    let all = TaskFilter::default;
    let state = |state| TaskFilter { state: Some(state), ..TaskFilter::default() };
    assert_eq!(find(all()).await.len(), 6);
    let mut expected = vec![waiting, occurrence];
    expected.sort_unstable();
    assert_eq!(find(state(TaskState::Waiting)).await, expected);
    for (wanted, id) in [
        (TaskState::Running, running),
        (TaskState::Failed, failed),
        (TaskState::Cancelled, cancelled),
        (TaskState::Succeeded, ended),
    ] {
        assert_eq!(find(state(wanted)).await, [id], "{wanted:?}");
        assert_eq!(stand.detail(id).await.view.state, wanted);
    }
    assert!(find(state(TaskState::Expired)).await.is_empty());
    assert!(find(state(TaskState::Parked)).await.is_empty());
    assert_eq!(find(TaskFilter { queue: Some("a".to_owned()), ..all() }).await, [waiting, failed]);
    let mut expected = vec![waiting, running, occurrence];
    expected.sort_unstable();
    assert_eq!(find(TaskFilter { method: Some("Demo/run".to_owned()), ..all() }).await, expected);
    assert_eq!(find(TaskFilter { schedule: Some("s".to_owned()), ..all() }).await, [occurrence]);
    let both = TaskFilter { queue: Some("b".to_owned()), method: Some("Demo/other".to_owned()), ..all() };
    assert_eq!(find(TaskFilter { state: Some(TaskState::Cancelled), ..both.clone() }).await, [cancelled]);
    assert!(find(TaskFilter { state: Some(TaskState::Waiting), ..both }).await.is_empty());
    for nobody in ["nobody", "'; DROP TABLE task; --", "%", "a\0b"] {
        let text = Some(nobody.to_owned());
        assert!(find(TaskFilter { queue: text.clone(), ..all() }).await.is_empty());
        assert!(find(TaskFilter { method: text.clone(), ..all() }).await.is_empty());
        assert!(find(TaskFilter { schedule: text, ..all() }).await.is_empty());
    }
    assert_eq!(stand.store.task(TaskId(i64::MAX)).await, Ok(None));
    assert_eq!(stand.store.task(TaskId(-1)).await, Ok(None));
}

/// A queue shows how much of it is due, comes later and runs, since when the oldest is due, and whether it is paused.
pub async fn queues_show_what_they_hold(stand: Stand) {
    assert!(stand.store.queues().await.unwrap().is_empty());
    for (queue, due) in [("b", 0u64), ("b", 10), ("b", 20), ("b", 99), ("a", 5)] {
        let task = NewTask { queue: queue.to_owned(), due: Due::At(at(due)), ..stand.new_task().await };
        stand.put(task).await;
    }
    stand.store.pause_queue("c".to_owned(), true).await.unwrap();
    stand.advance(30);
    let worker = stand.worker().await;
    let held = stand.claim_one(worker).await;
    let empty = QueueView { name: String::new(), paused: false, due: 0, later: 0, running: 0, oldest: None };
    let view = |name: &str| QueueView { name: name.to_owned(), ..empty.clone() };
    assert_eq!(
        stand.store.queues().await.unwrap(),
        [
            QueueView { due: 1, oldest: Some(at(5)), ..view("a") },
            QueueView { due: 2, later: 1, running: 1, oldest: Some(at(10)), ..view("b") },
            QueueView { paused: true, ..view("c") },
        ]
    );
    stand.succeed(worker, &held).await;
    stand.drain().await;
    stand.store.pause_queue("c".to_owned(), false).await.unwrap();
    // A queue that held a task stays known.
    assert_eq!(stand.store.queues().await.unwrap(), [view("a"), QueueView { later: 1, ..view("b") }, view("c")]);
}
