//! Retention.

use super::stand::*;
use punctual_task::{KeyHold, Next, Outcome, Pruned, Retention, TaskFilter, TaskId, TaskState};

/// Tasks are pruned by how they ended and how long ago, live ones never.
pub async fn retention_goes_by_end_and_age(stand: Stand) {
    let tasks = stand.enqueue(5).await;
    let worker = stand.worker().await;
    let held = stand.claim(worker, 3).await;
    stand.succeed(worker, &held[0]).await;
    stand.finish(worker, &held[1], Outcome::Failed, Next::Final(TaskState::Failed)).await;
    stand.cancel(tasks[3]).await;
    let left = async || stand.tasks(TaskFilter::default()).await.iter().map(|task| task.id).collect::<Vec<TaskId>>();
    let day = 86_400;
    let retention = Retention { ended: Some(secs(day)), failed: Some(secs(2 * day)) };
    let prune = async |limit| stand.store.prune(retention, limit).await.unwrap();
    stand.advance(day - 1);
    assert_eq!(prune(100).await, Pruned { tasks: 0, more: false });
    assert_eq!(left().await, tasks);
    stand.advance(1);
    assert_eq!(prune(1).await, Pruned { tasks: 1, more: true });
    assert_eq!(prune(100).await, Pruned { tasks: 1, more: false });
    assert_eq!(left().await, [tasks[1], tasks[2], tasks[4]]);
    assert_eq!(stand.store.task(tasks[0]).await, Ok(None));
    stand.advance(day);
    let forever = Retention { ended: None, failed: None };
    assert_eq!(stand.store.prune(forever, 100).await.unwrap(), Pruned { tasks: 0, more: false });
    assert_eq!(prune(100).await, Pruned { tasks: 1, more: false });
    assert_eq!(left().await, [tasks[2], tasks[4]]);
    assert_eq!([stand.state(tasks[2]).await, stand.state(tasks[4]).await], [TaskState::Running, TaskState::Waiting]);
}

/// A pruned task is unknown to every operation, and its id and key are no obstacle to others.
pub async fn a_pruned_task_is_gone(stand: Stand) {
    let task = stand.keyed("k", KeyHold::Finished).await;
    stand.put(task.clone()).await;
    stand.drain().await;
    stand.advance(10);
    let retention = Retention { ended: Some(secs(5)), failed: None };
    assert_eq!(stand.store.prune(retention, 10).await.unwrap().tasks, 1);
    assert_eq!(stand.cancel(task.id).await, punctual_task::CancelOutcome::Unknown);
    assert_eq!(stand.store.retry(vec![task.id]).await.unwrap(), [punctual_task::RetryOutcome::Unknown]);
    assert!(stand.put(stand.keyed("k", KeyHold::Finished).await).await.inserted);
    assert!(stand.id().await > task.id);
}

/// A retried task counts from its new end.
pub async fn a_retried_task_ages_anew(stand: Stand) {
    let task = stand.enqueue(1).await[0];
    stand.drain().await;
    stand.advance(100);
    stand.store.retry(vec![task]).await.unwrap();
    let retention = Retention { ended: Some(secs(50)), failed: Some(secs(50)) };
    assert_eq!(stand.store.prune(retention, 10).await.unwrap().tasks, 0);
    stand.drain().await;
    assert_eq!(stand.store.prune(retention, 10).await.unwrap().tasks, 0);
    stand.advance(50);
    assert_eq!(stand.store.prune(retention, 10).await.unwrap().tasks, 1);
}
