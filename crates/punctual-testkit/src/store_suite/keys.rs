//! Unique keys.

use super::stand::*;
use punctual_task::{
    Enqueued, KeyHold, KeyMode, KeyScope, NewTask, Next, Outcome, RetryOutcome, StoreErrorKind, TaskFilter, TaskState,
    UniqueKey,
};
use std::sync::Arc;

/// A taken key gives its holder's id, and the second task is not written.
pub async fn a_taken_key_keeps_its_holder(stand: Stand) {
    let first = stand.keyed("k", KeyHold::Finished).await;
    let second = stand.keyed("k", KeyHold::Finished).await;
    assert_eq!(stand.put(first.clone()).await, Enqueued { id: first.id, inserted: true });
    assert_eq!(stand.put(second.clone()).await, Enqueued { id: first.id, inserted: false });
    assert_eq!(stand.store.task(second.id).await, Ok(None));
    assert_eq!(stand.detail(first.id).await.key.as_deref(), Some("k"));
    assert_eq!(stand.drain().await.len(), 1);
    assert_eq!(stand.detail(first.id).await.key, None);
    assert_eq!(stand.put(second.clone()).await, Enqueued { id: second.id, inserted: true });
}

/// In mode `reject` a taken key refuses the whole batch and names the holder.
pub async fn a_rejecting_key_refuses_the_batch(stand: Stand) {
    let first = stand.keyed("k", KeyHold::Finished).await;
    stand.put(first.clone()).await;
    let mut second = stand.keyed("k", KeyHold::Finished).await;
    second.key.as_mut().unwrap().mode = KeyMode::Reject;
    let error = stand.store.enqueue(vec![stand.new_task().await, second.clone()]).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused);
    assert!(error.to_string().contains(&first.id.to_string()), "{error}");
    assert_eq!(stand.tasks(TaskFilter::default()).await.len(), 1);
    stand.drain().await;
    assert!(stand.put(second).await.inserted);
}

/// Keys of one text meet only in their scope: the method, or the queue.
pub async fn keys_meet_in_their_scope(stand: Stand) {
    let task = async |method: &str, queue: &str, scope: KeyScope| NewTask {
        method: method.to_owned(),
        queue: queue.to_owned(),
        key: Some(UniqueKey { scope, ..UniqueKey::new("k") }),
        ..stand.new_task().await
    };
    assert!(stand.put(task("Demo/run", "a", KeyScope::Method).await).await.inserted);
    assert!(!stand.put(task("Demo/run", "b", KeyScope::Method).await).await.inserted);
    assert!(stand.put(task("Demo/other", "a", KeyScope::Method).await).await.inserted);
    assert!(stand.put(task("Demo/run", "a", KeyScope::Queue).await).await.inserted);
    assert!(!stand.put(task("Mail/send", "a", KeyScope::Queue).await).await.inserted);
    assert!(stand.put(task("Demo/run", "b", KeyScope::Queue).await).await.inserted);
    // Texts are compared byte by byte.
    for text in ["K", "k ", "ｋ", "%", "_"] {
        let mut other = task("Demo/run", "a", KeyScope::Method).await;
        other.key.as_mut().unwrap().text = text.to_owned();
        assert!(stand.put(other).await.inserted, "{text:?}");
    }
}

/// A key is held while waiting only, until the end (however it comes), or for a time after it, as it says.
pub async fn keys_are_held_as_long_as_they_say(stand: Stand) {
    let worker = stand.worker().await;
    let taken = async |hold| {
        let probe = stand.keyed("k", hold).await;
        let reply = stand.put(probe.clone()).await;
        if reply.inserted {
            // A probe that got the key gives it back.
            stand.cancel(probe.id).await;
        }
        !reply.inserted
    };
    let ends = [
        (Outcome::Succeeded, TaskState::Succeeded),
        (Outcome::Failed, TaskState::Failed),
        (Outcome::Cancelled, TaskState::Cancelled),
    ];
    for (outcome, state) in ends {
        for hold in [KeyHold::Waiting, KeyHold::Finished, KeyHold::FinishedPlus(secs(60))] {
            stand.put(stand.keyed("k", hold).await).await;
            assert!(taken(KeyHold::Finished).await, "{hold:?}");
            let task = stand.claim_one(worker).await;
            assert_eq!(taken(KeyHold::Finished).await, hold != KeyHold::Waiting, "{hold:?} while running");
            stand.finish(worker, &task, Outcome::Failed, Next::Again { due: START, spent: 1 }).await;
            assert_eq!(taken(KeyHold::Finished).await, hold != KeyHold::Waiting, "{hold:?} while it waits again");
            let task = stand.claim_one(worker).await;
            stand.finish(worker, &task, outcome, Next::Final(state)).await;
            let plus = hold == KeyHold::FinishedPlus(secs(60));
            assert_eq!(taken(KeyHold::Finished).await, plus, "{hold:?} after {state:?}");
            assert_eq!(stand.detail(task.task).await.key.is_some(), plus);
            stand.advance(59);
            assert_eq!(taken(KeyHold::Finished).await, plus, "{hold:?} 59 s after {state:?}");
            stand.store.renew(worker, LEASE).await.unwrap();
            stand.advance(1);
            assert!(!taken(KeyHold::Finished).await, "{hold:?} 60 s after {state:?}");
        }
    }
    // Cancelled before it ran.
    let task = stand.keyed("k", KeyHold::Waiting).await;
    stand.put(task.clone()).await;
    stand.cancel(task.id).await;
    assert!(!taken(KeyHold::Finished).await);
}

/// In one batch the first of equal keys wins; the others are told of it, in order.
pub async fn keys_are_deduplicated_in_a_batch(stand: Stand) {
    let held = stand.keyed("held", KeyHold::Finished).await;
    stand.put(held.clone()).await;
    let mut batch = Vec::new();
    for text in ["a", "b", "a", "held", "b", "c"] {
        batch.push(stand.keyed(text, KeyHold::Finished).await);
    }
    batch.push(stand.new_task().await);
    let replies = stand.store.enqueue(batch.clone()).await.unwrap();
    let holders = [0, 1, 0, usize::MAX, 1, 5, 6].map(|index| batch.get(index).map_or(held.id, |task| task.id));
    assert_eq!(replies.iter().map(|reply| reply.id).collect::<Vec<_>>(), holders);
    let inserted: Vec<bool> = replies.iter().map(|reply| reply.inserted).collect();
    assert_eq!(inserted, [true, true, false, false, false, true, true]);
    assert_eq!(stand.tasks(TaskFilter::default()).await.len(), 5);
    let mut rejecting = vec![stand.keyed("x", KeyHold::Finished).await, stand.keyed("x", KeyHold::Finished).await];
    rejecting[1].key.as_mut().unwrap().mode = KeyMode::Reject;
    assert_eq!(kind(stand.store.enqueue(rejecting).await), StoreErrorKind::Refused);
    assert_eq!(stand.tasks(TaskFilter::default()).await.len(), 5);
}

/// Of many that want a key at once exactly one gets it, and all are told of the same holder.
pub async fn a_key_has_one_winner(stand: Stand) {
    for round in 0..20 {
        let mut racers = Vec::new();
        for _ in 0..6 {
            // Two keys in opposite orders: writers must not wait for each other for ever.
            let mut batch = Vec::new();
            for text in ["x", "y"] {
                batch.push(stand.keyed(&format!("{text}{round}"), KeyHold::Finished).await);
            }
            if racers.len() % 2 == 1 {
                batch.reverse();
            }
            let store = Arc::clone(&stand.store);
            racers.push(tokio::spawn(async move { (store.enqueue(batch.clone()).await.unwrap(), batch) }));
        }
        let mut winners = std::collections::BTreeMap::new();
        let mut inserted = 0;
        for racer in racers {
            let (replies, batch) = racer.await.unwrap();
            for (reply, task) in replies.into_iter().zip(batch) {
                let text = task.key.unwrap().text;
                assert_eq!(*winners.entry(text).or_insert(reply.id), reply.id);
                inserted += u32::from(reply.inserted);
            }
        }
        assert_eq!((inserted, winners.len()), (2, 2));
    }
    assert_eq!(stand.tasks(TaskFilter::default()).await.len(), 40);
}

/// A task that is retried takes its key again; if another task holds it, the retry is refused with that task's id.
pub async fn a_retry_needs_its_key(stand: Stand) {
    let first = stand.keyed("k", KeyHold::Finished).await;
    stand.put(first.clone()).await;
    stand.drain().await;
    let second = stand.keyed("k", KeyHold::Finished).await;
    stand.put(second.clone()).await;
    assert_eq!(stand.store.retry(vec![first.id]).await.unwrap(), [RetryOutcome::KeyHeld(second.id)]);
    assert_eq!(stand.state(first.id).await, TaskState::Succeeded);
    stand.drain().await;
    let both = stand.store.retry(vec![first.id, second.id]).await.unwrap();
    assert_eq!(both, [RetryOutcome::Waiting, RetryOutcome::KeyHeld(first.id)]);
    assert_eq!(stand.detail(first.id).await.key.as_deref(), Some("k"));
    let third = stand.keyed("k", KeyHold::Finished).await;
    assert_eq!(stand.put(third).await, Enqueued { id: first.id, inserted: false });
    // One that still holds its key after its end is no obstacle to itself.
    let plus = stand.keyed("p", KeyHold::FinishedPlus(secs(60))).await;
    stand.put(plus.clone()).await;
    stand.drain().await;
    assert_eq!(stand.store.retry(vec![plus.id]).await.unwrap(), [RetryOutcome::Waiting]);
    stand.advance(120);
    assert_eq!(stand.put(stand.keyed("p", KeyHold::Finished).await).await.id, plus.id);
}
