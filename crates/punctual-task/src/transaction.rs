//! Transactions of the caller's own, in which a store writes tasks: what is enqueued there is there if, and only if, the caller
//! commits.
//!
//! Each store's crate says which transactions are its own, by implementing one of the traits here for a type of the SQL library
//! that it uses. They are generic over the store so that it may: the type and the trait are both somebody else's.

use crate::error::StoreError;
use crate::id::IdBlock;
use crate::store::{Reply, Store};
use crate::task::{Enqueued, NewTask};

/// A transaction of the caller's in the database of a store of kind `S`, on a client that answers later.
///
/// Implemented for `tokio_postgres::Transaction` and `mysql_async::Transaction` by their stores, and for
/// [`MemTransaction`](crate::MemTransaction).
pub trait TransactionOf<S: Store>: Send {
    /// Writes tasks in this transaction, all or none, as [`Store::enqueue`] does: limits and unique keys hold as they do there.
    /// Ids are to be drawn before from the same store, fresh for this call: here, none is looked up as a resend.
    ///
    /// A key that is taken here stays locked until the caller commits or rolls back: others who ask for it wait for so long.
    ///
    /// # Errors
    /// As [`Store::enqueue`]; and `Refused` where the transaction is not in the store's database. After an error of the kind
    /// `Refused` nothing of this call is in the transaction, which can go on; after any other it is to be rolled back.
    ///
    /// # Cancel safety
    /// Dropping it leaves the transaction in an unknown state: roll it back.
    fn enqueue<'a>(&'a mut self, store: &'a S, tasks: Vec<NewTask>) -> Reply<'a, Vec<Enqueued>>;
}

/// A transaction of the caller's in the database of a store of kind `S`, on a client that blocks.
///
/// Implemented for `rusqlite::Transaction` and for what a closure inside the SQLite store's own commit works with.
pub trait BlockingTransactionOf<S: Store> {
    /// Draws `count` ids in this transaction: drawn beside it they would wait for it to end.
    ///
    /// # Errors
    /// As [`Store::draw_ids`]; and `Refused` where the transaction is not in the store's database.
    fn draw_ids(&mut self, store: &S, count: u32) -> Result<IdBlock, StoreError>;

    /// Writes tasks in this transaction, all or none, as [`TransactionOf::enqueue`] does.
    ///
    /// # Errors
    /// As [`TransactionOf::enqueue`].
    fn enqueue(&mut self, store: &S, tasks: Vec<NewTask>) -> Result<Vec<Enqueued>, StoreError>;
}
