//! Group commit: callers that wait at the same time share commits, and one that is refused refuses nobody else.

use crate::stand::{Place, enqueue, task};
use bytes::Bytes;
use punctual_task::{NewTask, Store, StoreErrorKind};
use std::sync::Arc;

/// Two hundred callers need far fewer commits than one each, and everyone's task is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_share_commits() {
    let place = Place::new();
    let store = Arc::new(place.open().await);
    enqueue(&*store, 1).await;
    let before = store.counters();
    let mut ids = store.draw_ids(200).await.unwrap();
    let calls: Vec<_> = std::iter::from_fn(|| ids.take())
        .map(|id| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.enqueue(vec![task(id)]).await.unwrap() })
        })
        .collect();
    for call in calls {
        assert!(call.await.unwrap()[0].inserted);
    }
    let after = store.counters();
    assert!(after.commits - before.commits < 150, "{before:?} {after:?}");
    assert!(after.grouped > 0);
    let page = punctual_task::Page { before: None, limit: 1000 };
    assert_eq!(store.tasks(punctual_task::TaskFilter::default(), page).await.unwrap().len(), 201);
}

/// An id that is used for another content refuses its own caller only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_ones_own() {
    let place = Place::new();
    let store = Arc::new(place.open().await);
    let taken = enqueue(&*store, 1).await[0];
    let mut ids = store.draw_ids(40).await.unwrap();
    let good = std::iter::from_fn(|| ids.take()).map(task);
    let bad = NewTask { args: Bytes::from_static(b"\"other\""), ..task(taken) };
    let calls: Vec<_> = good
        .chain([bad])
        .map(|task| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { (task.id, store.enqueue(vec![task]).await) })
        })
        .collect();
    for call in calls {
        let (id, answer) = call.await.unwrap();
        match answer {
            Ok(given) => assert!(given[0].inserted && id != taken),
            Err(error) => assert_eq!((id, error.kind()), (taken, StoreErrorKind::Refused), "{error}"),
        }
    }
}
