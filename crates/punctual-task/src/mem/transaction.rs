//! A transaction of a caller's on the store in memory: what other stores give on their databases' own transactions.

use super::MemStore;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::Reply;
use crate::task::{Enqueued, NewTask};
use crate::transaction::TransactionOf;

/// A transaction on a [`MemStore`]. What is enqueued in it is there once it is committed; dropping it rolls it back.
///
/// It holds no lock. A unique key that was free when a task was enqueued here and is taken by another at the commit refuses the
/// commit, where a database would have let the other one wait.
#[derive(Debug)]
pub struct MemTransaction<'a> {
    store: &'a MemStore,
    /// What is to be written.
    tasks: Vec<NewTask>,
}

impl MemStore {
    /// Begins a transaction.
    #[must_use]
    pub fn transaction(&self) -> MemTransaction<'_> {
        MemTransaction { store: self, tasks: Vec::new() }
    }
}

impl MemTransaction<'_> {
    /// Writes all that was enqueued in it.
    ///
    /// # Errors
    /// `Conflict` where another task has taken a unique key meanwhile; nothing is written then.
    pub fn commit(self) -> Result<(), StoreError> {
        let MemTransaction { store, tasks } = self;
        store.at_once(|state| {
            if state.decide_enqueue(&tasks)?.0.iter().any(|answer| !answer.inserted) {
                let text = "a unique key was taken by another task before the commit; nothing was written, begin anew";
                return Err(StoreError::new(StoreErrorKind::Conflict, text));
            }
            state.enqueue(tasks).map(drop)
        })
    }

    /// Forgets all that was enqueued in it, as dropping it does.
    pub fn rollback(self) {
        drop(self);
    }
}

impl TransactionOf<MemStore> for MemTransaction<'_> {
    fn enqueue<'a>(&'a mut self, store: &'a MemStore, tasks: Vec<NewTask>) -> Reply<'a, Vec<Enqueued>> {
        Box::pin(async move {
            if !std::ptr::eq(self.store, store) {
                return Err(StoreError::refused("the transaction is one of another store; begin it on this one"));
            }
            let all: Vec<NewTask> = self.tasks.iter().cloned().chain(tasks.iter().cloned()).collect();
            let given = self.store.at_once(|state| state.decide_enqueue(&all))?.0.split_off(self.tasks.len());
            let inserted = tasks.into_iter().zip(&given).filter(|(_, answer)| answer.inserted);
            self.tasks.extend(inserted.map(|(task, _)| task));
            Ok(given)
        })
    }
}
