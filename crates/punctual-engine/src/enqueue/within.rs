//! Storing calls in a transaction of the caller's: they are there if, and only if, it commits.

use super::{Enqueue, EnqueueMany, Task, not_enqueued};
use crate::shared::Shared;
use crate::{Error, ErrorKind, span};
use punctual_task::{BlockingTransactionOf, Due, Enqueued, NewTask, Store, TransactionOf};
use std::any::{Any, type_name};
use std::fmt;
use std::sync::Arc;
use tracing::{Instrument, Span};

/// Tells this engine, once the transaction is committed, that its tasks are there to be run.
///
/// A hint: without it they are found at the next poll, a second later at most. Dropping it is right after a rollback.
#[must_use = "fire it after the commit, or the tasks wait for the next poll"]
pub struct Wake {
    shared: Arc<Shared>,
    written: Vec<Enqueued>,
    soonest: Option<Due>,
}

impl Wake {
    /// The transaction was committed.
    pub fn fire(self) {
        self.shared.written(&self.written, self.soonest);
    }
}

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wake").field("written", &self.written).field("soonest", &self.soonest).finish_non_exhaustive()
    }
}

impl<C> Enqueue<'_, C> {
    /// Writes the task in a transaction of the caller's in the database of this engine's store, in place of awaiting it:
    /// `engine.enqueue(call).within(&mut tx).await?`.
    ///
    /// The transaction is a `tokio_postgres::Transaction`, a `mysql_async::Transaction` or, with a store in memory, a
    /// [`MemTransaction`](punctual_task::MemTransaction). The task is there once it is committed, and never if it is not: fire
    /// the [`Wake`] after the commit. A unique key holds as ever; who else asks for it waits until this transaction ends.
    /// Only the names of the queue and the method may stay after a rollback.
    ///
    /// ```
    /// # use punctual_engine::{Durable, Engine, Error};
    /// # use punctual_task::{MemStore, Policy, TransactionOf};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Charge { cents: u64 }
    /// # impl Durable for Charge {
    /// #     const METHOD: &'static str = "Billing/charge";
    /// #     const POLICY: Policy = Policy::DEFAULT;
    /// #     type Ok = ();
    /// #     type Err = ();
    /// #     fn schema_hash() -> u64 { 1 }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Error> {
    /// # let store = std::sync::Arc::new(MemStore::new(std::sync::Arc::new(punctual_clock::SystemClock)));
    /// # let engine = Engine::builder(store.clone()).start().await?;
    /// let mut tx = store.transaction();
    /// // ..what the task is about is written with `tx`, too..
    /// let (task, wake) = engine.enqueue(Charge { cents: 995 }).key("order 42").within(&mut tx).await?;
    /// tx.commit()?;
    /// wake.fire();
    /// # assert!(task.inserted && engine.outcome::<Charge>(task.id).await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As awaiting it; and `Config` where the transaction is of another kind of store than this engine's. After `Refused` and
    /// `Payload` nothing of the task is in the transaction, which can go on; after any other error it is to be rolled back.
    ///
    /// # Cancel safety
    /// Dropping it leaves the transaction in an unknown state: roll it back.
    pub async fn within<T, S>(self, tx: &mut T) -> Result<(Task<C>, Wake), Error>
    where
        T: TransactionOf<S>,
        S: Store,
    {
        let Enqueue { shared, mut task, .. } = self;
        let mut span = Span::none();
        if let Ok(task) = &mut task {
            (span, task.options.trace) = span::enqueue(task, 1, shared.propagator.as_deref());
        }
        let written = async {
            let task = task?;
            task.validate()?;
            write_within(shared, vec![task], tx).await
        };
        let written = written.instrument(span.clone()).await.and_then(one);
        span::enqueued(&span, written.as_ref().map(|(task, _): &(Task<C>, Wake)| task.id).map_err(|_| ()));
        written
    }

    /// The same for a transaction on a client that blocks: a `rusqlite::Transaction` of the caller's on the engine's file, or what
    /// a closure inside the SQLite store's own commit is given. Blocks this thread for the time of a few statements.
    ///
    /// # Errors
    /// As [`Enqueue::within`].
    pub fn within_blocking<T, S>(self, tx: &mut T) -> Result<(Task<C>, Wake), Error>
    where
        T: BlockingTransactionOf<S>,
        S: Store,
    {
        let Enqueue { shared, mut task, .. } = self;
        let mut span = Span::none();
        if let Ok(task) = &mut task {
            (span, task.options.trace) = span::enqueue(task, 1, shared.propagator.as_deref());
        }
        let write = || {
            let task = task?;
            task.validate()?;
            write_blocking(shared, vec![task], tx)
        };
        let written = span.in_scope(write).and_then(one);
        span::enqueued(&span, written.as_ref().map(|(task, _): &(Task<C>, Wake)| task.id).map_err(|_| ()));
        written
    }
}

impl<C> EnqueueMany<'_, C> {
    /// Writes the tasks in a transaction of the caller's, all or none: [`Enqueue::within`] of many.
    ///
    /// # Errors
    /// As [`Enqueue::within`].
    ///
    /// # Cancel safety
    /// Dropping it leaves the transaction in an unknown state: roll it back.
    pub async fn within<T, S>(self, tx: &mut T) -> Result<(Vec<Task<C>>, Wake), Error>
    where
        T: TransactionOf<S>,
        S: Store,
    {
        let shared = self.shared;
        let (span, tasks) = self.prepared()?;
        let (written, wake) = write_within(shared, tasks, tx).instrument(span).await?;
        Ok((written.into_iter().map(Task::new).collect(), wake))
    }

    /// The same for a transaction on a client that blocks: [`Enqueue::within_blocking`] of many.
    ///
    /// # Errors
    /// As [`Enqueue::within`].
    pub fn within_blocking<T, S>(self, tx: &mut T) -> Result<(Vec<Task<C>>, Wake), Error>
    where
        T: BlockingTransactionOf<S>,
        S: Store,
    {
        let shared = self.shared;
        let (span, tasks) = self.prepared()?;
        let (written, wake) = span.in_scope(|| write_blocking(shared, tasks, tx))?;
        Ok((written.into_iter().map(Task::new).collect(), wake))
    }

    /// The tasks, checked, within the span of their write.
    pub(super) fn prepared(mut self) -> Result<(Span, Vec<NewTask>), Error> {
        let count = self.args.as_ref().map_or(0, Vec::len);
        let (span, trace) = span::enqueue(&self.common, count, self.shared.propagator.as_deref());
        self.common.options.trace = trace;
        let tasks = self.args?.into_iter().map(|args| NewTask { args, ..self.common.clone() });
        let tasks = tasks.map(|task| task.validate().map(|()| task)).collect::<Result<Vec<_>, _>>()?;
        Ok((span, tasks))
    }
}

/// Draws ids beside the transaction, as every enqueue does, and writes in it.
async fn write_within<T, S>(
    shared: &Arc<Shared>,
    mut tasks: Vec<NewTask>,
    tx: &mut T,
) -> Result<(Vec<Enqueued>, Wake), Error>
where
    T: TransactionOf<S>,
    S: Store,
{
    let store = store_of::<S>(shared)?;
    shared.name(&mut tasks).await?;
    let (method, soonest) = (method_of(&tasks), shared.soonest(&tasks));
    let written = tx.enqueue(store, tasks).await.map_err(|error| not_written(&method, error))?;
    Ok(answer(shared, written, soonest))
}

fn write_blocking<T, S>(
    shared: &Arc<Shared>,
    mut tasks: Vec<NewTask>,
    tx: &mut T,
) -> Result<(Vec<Enqueued>, Wake), Error>
where
    T: BlockingTransactionOf<S>,
    S: Store,
{
    let store = store_of::<S>(shared)?;
    let (method, soonest) = (method_of(&tasks), shared.soonest(&tasks));
    let count = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
    let mut ids = tx.draw_ids(store, count).map_err(|error| not_written(&method, error))?;
    for task in &mut tasks {
        let bug = || Error::new(ErrorKind::Bug, "the store drew fewer ids than it was asked for");
        task.id = ids.take().ok_or_else(bug)?;
    }
    let written = tx.enqueue(store, tasks).map_err(|error| not_written(&method, error))?;
    Ok(answer(shared, written, soonest))
}

fn answer(shared: &Arc<Shared>, written: Vec<Enqueued>, soonest: Option<Due>) -> (Vec<Enqueued>, Wake) {
    let wake = Wake { shared: Arc::clone(shared), written: written.clone(), soonest };
    (written, wake)
}

fn one<C>((written, wake): (Vec<Enqueued>, Wake)) -> Result<(Task<C>, Wake), Error> {
    let bug = || Error::new(ErrorKind::Bug, "the store answered an enqueue of one task with none");
    written.into_iter().next().map(|enqueued| (Task::new(enqueued), wake)).ok_or_else(bug)
}

fn method_of(tasks: &[NewTask]) -> String {
    tasks.first().map(|task| task.method.clone()).unwrap_or_default()
}

/// Whatever became of the connection, nothing is there that was not committed.
fn not_written(method: &str, error: punctual_task::StoreError) -> Error {
    not_enqueued(method, None, error)
}

/// The engine's store as one of the kind that a transaction is of.
fn store_of<S: Store>(shared: &Shared) -> Result<&S, Error> {
    let store: &dyn Any = &*shared.store;
    store.downcast_ref().ok_or_else(|| {
        let text = format!(
            "the transaction is one of {}, and this engine's store is {} at {}: begin it in the engine's own database",
            type_name::<S>(),
            shared.store.info().kind,
            shared.store.info().location
        );
        Error::new(ErrorKind::Config, text)
    })
}
