//! Tasks in a transaction of the caller's: in a closure that is a part of the writer's commit, or in a transaction of the caller's
//! own connection to the file.

use crate::connection::Sql;
use crate::definitions::Definitions;
use crate::errors::{Done, Fault};
use crate::names::Names;
use crate::sequence::Sequence;
use crate::session::Session;
use crate::store::SqliteStore;
use crate::tasks::{self, Memory};
use punctual_task::{BlockingTransactionOf, Enqueued, IdBlock, NewTask, StoreError};
use rusqlite::Connection;
use std::sync::{Arc, Mutex, PoisonError};

const IDENTITY: &str = "SELECT value FROM meta WHERE name = 'identity'";
const TABLES: &str = "SELECT count(*) FROM sqlite_schema WHERE name IN ('meta', 'task', 'ready')";

/// What a closure of [`SqliteStore::with_tx`] works with: a savepoint inside the writer's current group.
#[derive(Debug)]
pub struct SqliteTransaction<'a> {
    session: &'a mut Session,
}

impl SqliteTransaction<'_> {
    /// The writing connection, for statements on the caller's own tables in the same file. Foreign keys are not enforced on it.
    ///
    /// Whoever commits or rolls back on it, changes its settings or writes to this crate's tables breaks what others have in the
    /// same group.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        self.session.db.conn()
    }
}

impl SqliteStore {
    /// Runs `work` as one operation of the writer: what it writes to the caller's own tables in the same file, and the tasks that it
    /// enqueues, are committed together, and with them the work of others that wait at the same time. It is the cheapest
    /// transaction there is on SQLite, since many share one sync of the disk.
    ///
    /// If `work` returns an error or panics, nothing that it did stays. It may be run again when the group that it was in
    /// could not be committed, so what it does beside the database it must be able to do twice. Other writes wait
    /// while it runs: keep it short.
    ///
    /// ```
    /// # use punctual_store_sqlite::{SqliteConfig, SqliteStore};
    /// # use punctual_task::StoreError;
    /// # #[derive(Debug)]
    /// # enum Failed { Store(StoreError), Sql(rusqlite::Error) }
    /// # impl From<StoreError> for Failed { fn from(error: StoreError) -> Self { Failed::Store(error) } }
    /// # impl From<rusqlite::Error> for Failed { fn from(error: rusqlite::Error) -> Self { Failed::Sql(error) } }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Failed> {
    /// # let store = SqliteStore::open("sqlite::memory:", SqliteConfig::default()).await?;
    /// let orders = store
    ///     .with_tx(|tx| {
    ///         tx.connection().execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY)", [])?;
    ///         // ..and `engine.enqueue(call).within_blocking(tx)?`..
    ///         Ok::<_, Failed>(tx.connection().execute("INSERT INTO orders (id) VALUES (42)", [])?)
    ///     })
    ///     .await?;
    /// assert_eq!(orders, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What `work` returned; or the store's, as its own type of error.
    ///
    /// # Cancel safety
    /// Dropping it before it resolves leaves unknown whether `work` was done.
    pub async fn with_tx<T, E, F>(&self, mut work: F) -> Result<T, E>
    where
        F: FnMut(&mut SqliteTransaction<'_>) -> Result<T, E> + Send + 'static,
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let failed = Arc::new(Mutex::new(None));
        let told = Arc::clone(&failed);
        let keep = move |error: Option<E>| *told.lock().unwrap_or_else(PoisonError::into_inner) = error;
        let run = move |session: &mut Session| {
            // A second run may end otherwise than the first.
            keep(None);
            work(&mut SqliteTransaction { session }).map_err(|error| {
                keep(Some(error));
                Fault::Store(StoreError::refused("the caller's own part of the transaction failed"))
            })
        };
        self.writer().run(run).await.map_err(|error| {
            let own = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
            own.unwrap_or_else(|| E::from(error))
        })
    }

    fn check_identity(&self, connection: &Connection) -> Done<()> {
        let refuse = |what: &str| {
            Err(Fault::Store(StoreError::refused(format!(
                "{what}; begin the transaction on the file that the store has open, {}",
                self.location()
            ))))
        };
        if connection.is_autocommit() {
            return refuse("the transaction has ended");
        }
        let tables: i64 = connection.sql(TABLES)?.query_row([], |row| row.get(0))?;
        if tables < 3 {
            return refuse("the transaction is in another file, without the store's tables");
        }
        let identity: String = connection.sql(IDENTITY)?.query_row([], |row| row.get(0))?;
        if identity != self.identity() {
            return refuse("the transaction is in the file of another store");
        }
        Ok(())
    }

    /// Runs `work` so that its failure undoes its own writes only.
    fn step<T>(&self, connection: &Connection, work: impl FnOnce() -> Done<T>) -> Result<T, StoreError> {
        let step = || {
            self.check_identity(connection)?;
            connection.execute_batch("SAVEPOINT punctual")?;
            let outcome = work();
            connection.execute_batch(match &outcome {
                Ok(_) => "RELEASE punctual",
                Err(_) => "ROLLBACK TO punctual; RELEASE punctual",
            })?;
            outcome
        };
        step().map_err(|fault| fault.named(self.location()))
    }
}

impl BlockingTransactionOf<SqliteStore> for SqliteTransaction<'_> {
    fn draw_ids(&mut self, store: &SqliteStore, count: u32) -> Result<IdBlock, StoreError> {
        let draw = |session: &mut Session| tasks::draw_ids(session, count);
        let checked = store.check_identity(self.connection());
        checked.and_then(|()| self.session.step(draw)).map_err(|fault| fault.named(store.location()))
    }

    fn enqueue(&mut self, store: &SqliteStore, tasks: Vec<NewTask>) -> Result<Vec<Enqueued>, StoreError> {
        tasks::check(&tasks)?;
        let write = |session: &mut Session| tasks::enqueue(session, &tasks);
        let checked = store.check_identity(self.connection());
        checked.and_then(|()| self.session.step(write)).map_err(|fault| fault.named(store.location()))
    }
}

/// A transaction of the caller's own connection. It is best begun as
/// [`Immediate`](rusqlite::TransactionBehavior::Immediate): one that has read before it writes is refused as busy where another
/// wrote meanwhile. The store's own writes wait until it ends, for as long as their configured wait.
impl BlockingTransactionOf<SqliteStore> for rusqlite::Transaction<'_> {
    fn draw_ids(&mut self, store: &SqliteStore, count: u32) -> Result<IdBlock, StoreError> {
        store.step(self, || {
            let mut sequence = Sequence::default();
            let first = sequence.draw(&**self, count)?;
            sequence.flush(&**self)?;
            Ok(IdBlock::new(first, count))
        })
    }

    fn enqueue(&mut self, store: &SqliteStore, tasks: Vec<NewTask>) -> Result<Vec<Enqueued>, StoreError> {
        tasks::check(&tasks)?;
        store.step(self, || {
            let connection: &Connection = self;
            let mut memory = (Names::default(), Definitions::default(), Sequence::default());
            let (names, definitions, sequence) = (&mut memory.0, &mut memory.1, &mut memory.2);
            for task in &tasks {
                names.learn(connection, &task.queue, &task.method)?;
            }
            let given = tasks::write(connection, Memory { names, definitions, sequence }, &tasks, store.now_here())?;
            memory.2.flush(connection)?;
            Ok(given)
        })
    }
}
