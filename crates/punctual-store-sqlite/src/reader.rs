//! The readers: a few threads, each with a connection that cannot write, answering one snapshot each.

use crate::config::SqliteConfig;
use crate::connection::Db;
use crate::counters::Counters;
use crate::errors::Done;
use crate::location::Location;
use crate::writer::{gone, spawn};
use punctual_task::StoreError;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot};

type Job = Box<dyn FnOnce(&mut Reading) + Send>;

/// The callers' end.
#[derive(Debug)]
pub(crate) struct Readers {
    queue: mpsc::Sender<Job>,
    counters: Arc<Counters>,
    ended: mpsc::Receiver<()>,
}

/// One thread's connection, opened at its first read and again after a failure of the disk.
struct Reading {
    location: Location,
    config: SqliteConfig,
    db: Option<Db>,
}

impl Readers {
    /// Starts the threads. They open their connections when they are first asked.
    pub(crate) fn start(
        location: &Location,
        config: &SqliteConfig,
        counters: Arc<Counters>,
    ) -> Result<Self, StoreError> {
        let (queue, jobs) = mpsc::channel::<Job>(config.queue_max);
        let jobs = Arc::new(Mutex::new(jobs));
        let (ending, ended) = mpsc::channel(1);
        for _ in 0..config.readers {
            let (jobs, ending) = (jobs.clone(), ending.clone());
            let mut reading = Reading { location: location.clone(), config: config.clone(), db: None };
            spawn("punctual-sqlite-reader", move || {
                // Whoever holds the lock waits for the next job for all; the others queue for the lock.
                while let Some(job) = next(&jobs) {
                    job(&mut reading);
                }
                drop(ending);
            })?;
        }
        Ok(Readers { queue, counters, ended })
    }

    /// Reads in one snapshot.
    pub(crate) async fn run<T, F>(&self, read: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Db) -> Done<T> + Send + 'static,
        T: Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        self.counters.read();
        let job: Job = Box::new(move |reading| {
            let _ = caller.send(reading.run(read));
        });
        self.queue.send(job).await.map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Answers what is queued and closes the connections.
    pub(crate) async fn close(mut self) {
        drop(self.queue);
        // Nothing is ever sent: the channel closes with the last thread.
        let _ = self.ended.recv().await;
    }
}

fn next(jobs: &Mutex<mpsc::Receiver<Job>>) -> Option<Job> {
    jobs.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv()
}

impl Reading {
    fn run<T>(&mut self, read: impl FnOnce(&Db) -> Done<T>) -> Result<T, StoreError> {
        let db = match self.db.take() {
            Some(db) => db,
            None => Db::open_reader(&self.location, &self.config)?,
        };
        let outcome = snapshot(&db, read);
        // After a failure of the disk the connection is opened again for the next read.
        if !outcome.as_ref().is_err_and(|fault| fault.spoils_connection()) {
            self.db = Some(db);
        }
        outcome.map_err(|fault| fault.named(&self.location))
    }
}

fn snapshot<T>(db: &Db, read: impl FnOnce(&Db) -> Done<T>) -> Done<T> {
    db.sql("BEGIN")?.execute([])?;
    let outcome = read(db);
    // Nothing was written: how the transaction ends makes no difference, only that it ends.
    let ended = db.sql("COMMIT")?.execute([]);
    let value = outcome?;
    ended?;
    Ok(value)
}
