//! Tasks in a transaction of the caller's own.

use super::stand::*;
use bytes::Bytes;
use punctual_task::{
    BlockingTransactionOf, Due, Enqueued, KeyHold, KeyMode, NewTask, PAYLOAD_BYTES_MAX, Store, StoreError,
    StoreErrorKind, TaskFilter, TaskState, TransactionOf,
};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

/// What is done in one transaction.
pub struct Transaction {
    /// Enqueues, one after another.
    pub batches: Vec<Vec<NewTask>>,
    /// What is awaited before the end.
    pub before_end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Whether it is committed; rolled back otherwise.
    pub commit: bool,
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("batches", &self.batches)
            .field("commit", &self.commit)
            .finish_non_exhaustive()
    }
}

/// What each of a transaction's enqueues gave; or why the transaction itself could not begin or be committed.
pub type Transacted = Result<Vec<Result<Vec<Enqueued>, StoreError>>, StoreError>;

/// Does all of a [`Transaction`] on a connection of the caller's own to the store's database. Given to the suite by the store's
/// crate, since which connection that is only it knows.
pub type Transact = Box<dyn Fn(Transaction) -> Pin<Box<dyn Future<Output = Transacted> + Send>> + Send + Sync>;

impl Transaction {
    /// One enqueue, committed.
    #[must_use]
    pub fn of(tasks: Vec<NewTask>) -> Self {
        Transaction { batches: vec![tasks], before_end: None, commit: true }
    }

    /// The same, rolled back.
    #[must_use]
    pub fn rolled_back(self) -> Self {
        Transaction { commit: false, ..self }
    }

    /// The same, awaiting `work` before the end.
    #[must_use]
    pub fn before_end(self, work: impl Future<Output = ()> + Send + 'static) -> Self {
        Transaction { before_end: Some(Box::pin(work)), ..self }
    }

    /// What is done between the beginning and the end, in `tx`.
    pub async fn inside<S: Store>(
        self,
        store: &S,
        tx: &mut impl TransactionOf<S>,
    ) -> Vec<Result<Vec<Enqueued>, StoreError>> {
        let mut answers = Vec::new();
        for tasks in self.batches {
            answers.push(tx.enqueue(store, tasks).await);
        }
        if let Some(work) = self.before_end {
            work.await;
        }
        answers
    }

    /// The same on a client that blocks. Must be called where a runtime's handle is entered.
    pub fn inside_blocking<S: Store>(
        self,
        store: &S,
        tx: &mut impl BlockingTransactionOf<S>,
    ) -> Vec<Result<Vec<Enqueued>, StoreError>> {
        let answers = self.batches.into_iter().map(|tasks| tx.enqueue(store, tasks)).collect();
        if let Some(work) = self.before_end {
            tokio::runtime::Handle::current().block_on(work);
        }
        answers
    }
}

fn inserted(tasks: &[NewTask]) -> Vec<Enqueued> {
    tasks.iter().map(|task| Enqueued { id: task.id, inserted: true }).collect()
}

/// What is enqueued in a transaction, in several calls, is there once it is committed, as every other task is, and runs.
pub async fn a_committed_transaction_writes_its_tasks(stand: Stand) {
    let large = NewTask {
        args: Bytes::from(format!("\"{}\"", "x".repeat(70_000))),
        queue: "fresh".to_owned(),
        due: Due::After(secs(60)),
        level: 0,
        ..stand.new_task().await
    };
    let keyed = stand.keyed("k", KeyHold::Finished).await;
    let (first, second) = (vec![stand.new_task().await, large.clone()], vec![keyed.clone(), stand.new_task().await]);
    let done = stand.transact(Transaction { batches: vec![first.clone(), second.clone()], ..Transaction::of(vec![]) });
    assert_eq!(done.await.unwrap(), [Ok(inserted(&first)), Ok(inserted(&second))]);
    assert_eq!(stand.detail(keyed.id).await.key.as_deref(), Some("k"));
    let there = stand.detail(large.id).await;
    assert_eq!((there.args, there.view.due, there.view.level), (large.args.clone(), at(60), 0));
    assert_eq!((there.view.queue.as_str(), there.view.created), ("fresh", START));
    let ran = stand.drain().await;
    assert_eq!(ran.len(), 3);
    assert!(ran.iter().all(|task| task.schema == 7 && task.task != large.id));
    stand.advance(60);
    assert_eq!(stand.drain().await.pop().map(|task| task.args), Some(large.args));
    assert!(stand.store.queues().await.unwrap().iter().any(|queue| queue.name == "fresh"));
}

/// Of a transaction that is rolled back nothing is there, and no key is held.
pub async fn a_rolled_back_transaction_writes_nothing(stand: Stand) {
    let tasks = vec![stand.new_task().await, stand.keyed("k", KeyHold::Finished).await];
    let done = stand.transact(Transaction::of(tasks.clone()).rolled_back()).await.unwrap();
    assert_eq!(done, [Ok(inserted(&tasks))]);
    assert_eq!(stand.tasks(TaskFilter::default()).await, []);
    assert!(stand.drain().await.is_empty());
    let next = stand.keyed("k", KeyHold::Finished).await;
    assert_eq!(stand.put(next.clone()).await, Enqueued { id: next.id, inserted: true });
}

/// Before it is committed nobody else sees a transaction's tasks, and no worker gets them.
pub async fn a_transaction_hides_its_tasks_until_it_commits(stand: Stand) {
    let outside = stand.enqueue(1).await;
    let worker = stand.worker().await;
    let task = stand.new_task().await;
    let (store, id) = (Arc::clone(&stand.store), task.id);
    let look = async move {
        assert_eq!(store.task(id).await, Ok(None));
        let all = store.tasks(TaskFilter::default(), punctual_task::Page::default()).await.unwrap();
        assert_eq!(all.iter().map(|task| task.id).collect::<Vec<_>>(), outside);
    };
    stand.transact(Transaction::of(vec![task]).before_end(look)).await.unwrap()[0].as_ref().unwrap();
    assert_eq!(stand.claim(worker, 10).await.len(), 2);
    assert_eq!(stand.state(id).await, TaskState::Running);
}

/// A key that another task holds, outside or in the same transaction, gives its holder; in mode `reject` it refuses that enqueue
/// alone, of which nothing stays, and the transaction goes on.
pub async fn keys_hold_in_transactions(stand: Stand) {
    let holder = stand.keyed("held", KeyHold::Finished).await;
    stand.put(holder.clone()).await;
    let expiring = stand.keyed("expired", KeyHold::FinishedPlus(secs(60))).await;
    stand.put(expiring.clone()).await;
    stand.cancel(expiring.id).await;
    stand.advance(61);
    let first = vec![
        stand.keyed("b", KeyHold::Finished).await,
        stand.keyed("held", KeyHold::Finished).await,
        stand.keyed("a", KeyHold::Finished).await,
        stand.keyed("b", KeyHold::Finished).await,
        stand.keyed("expired", KeyHold::Finished).await,
    ];
    let mut refused = vec![stand.keyed("c", KeyHold::Finished).await, stand.new_task().await];
    refused.push(stand.keyed("a", KeyHold::Finished).await);
    refused[2].key.as_mut().unwrap().mode = KeyMode::Reject;
    let last = vec![stand.keyed("a", KeyHold::Finished).await, stand.keyed("c", KeyHold::Finished).await];
    let batches = vec![first.clone(), refused, last.clone()];
    let done = stand.transact(Transaction { batches, ..Transaction::of(vec![]) }).await.unwrap();
    let holders = [(0, true), (usize::MAX, false), (2, true), (0, false), (4, true)];
    let expected: Vec<Enqueued> = holders
        .iter()
        .map(|(at, inserted)| Enqueued { id: first.get(*at).map_or(holder.id, |task| task.id), inserted: *inserted })
        .collect();
    assert_eq!(done[0], Ok(expected));
    let error = done[1].as_ref().unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused);
    assert!(error.to_string().contains(&first[2].id.to_string()), "{error}");
    assert_eq!(
        done[2],
        Ok(vec![Enqueued { id: first[2].id, inserted: false }, Enqueued { id: last[1].id, inserted: true }])
    );
    let mut there: Vec<_> = stand.tasks(TaskFilter::default()).await.iter().map(|task| task.id).collect();
    there.sort_unstable();
    let mut expected = vec![holder.id, expiring.id, first[0].id, first[2].id, first[4].id, last[1].id];
    expected.sort_unstable();
    assert_eq!(there, expected);
    assert!(!stand.put(stand.keyed("c", KeyHold::Finished).await).await.inserted);
}

/// What is over a limit is refused by name before anything is written, and the transaction goes on.
pub async fn limits_are_named_in_transactions(stand: Stand) {
    let large = NewTask { args: Bytes::from(vec![b'1'; PAYLOAD_BYTES_MAX + 1]), ..stand.new_task().await };
    let level = NewTask { level: 4, ..stand.new_task().await };
    let good = stand.new_task().await;
    let batches = vec![vec![stand.new_task().await, large], vec![level], vec![], vec![good.clone()]];
    let done = stand.transact(Transaction { batches, ..Transaction::of(vec![]) }).await.unwrap();
    let kinds: Vec<_> = done.iter().map(|answer| answer.as_ref().map_err(StoreError::kind)).collect();
    let refused = Err(StoreErrorKind::Refused);
    let (none, one) = (Vec::new(), inserted(std::slice::from_ref(&good)));
    assert_eq!(kinds, [refused, refused, Ok(&none), Ok(&one)]);
    assert_eq!(stand.tasks(TaskFilter::default()).await.len(), 1);
}

/// Of transactions that want a key at once, beside plain enqueues that do, exactly one gets it, also where the first that
/// took it is rolled back.
pub async fn transactions_at_once_share_a_key(stand: Stand) {
    for round in 0..4 {
        let mut racers = Vec::new();
        for racer in 0..8 {
            let text = format!("key {round}");
            let tasks = vec![stand.keyed(&text, KeyHold::Finished).await];
            let commit = racer % 4 != 0;
            if racer % 2 == 0 {
                let transacted = stand.transact(Transaction { commit, ..Transaction::of(tasks) });
                racers.push(tokio::spawn(async move {
                    let inserted = match transacted.await {
                        Ok(answers) => match &answers[0] {
                            Ok(given) => given[0].inserted,
                            // A server that saw a deadlock has undone the whole transaction; its caller would begin it again.
                            Err(error) if error.kind() == StoreErrorKind::Busy => false,
                            Err(error) => panic!("{error}"),
                        },
                        // In memory nobody waits for another's key.
                        Err(error) if error.kind() == StoreErrorKind::Conflict => false,
                        Err(error) => panic!("{error}"),
                    };
                    inserted && commit
                }));
            } else {
                let store = Arc::clone(&stand.store);
                racers.push(tokio::spawn(async move { store.enqueue(tasks).await.unwrap()[0].inserted }));
            }
        }
        let mut winners = 0;
        for racer in racers {
            winners += u32::from(racer.await.unwrap());
        }
        assert_eq!(winners, 1, "round {round}");
        assert_eq!(stand.tasks(TaskFilter::default()).await.len(), round + 1);
    }
}
