//! The readers: a few threads, each with a connection that cannot write, answering one snapshot each.

use crate::config::SqliteConfig;
use crate::connection::Db;
use crate::counters::Counters;
use crate::errors::{Done, caught};
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
        let outcome = caught(|| snapshot(&db, read));
        // After a failure of the disk, or a panic inside of the snapshot, the connection is opened again for the next read.
        if db.conn().is_autocommit() && !outcome.as_ref().is_err_and(|fault| fault.spoils_connection()) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Session;
    use punctual_task::StoreErrorKind;
    use tempfile::TempDir;

    /// A panic in a read is that read's error: the thread and its snapshot do not outlive it as a zombie.
    #[tokio::test]
    async fn a_panic_fails_one_read() {
        let dir = TempDir::new().expect("a directory");
        let location = Location::File(dir.path().join("r.db"));
        let config = SqliteConfig { readers: 1, ..SqliteConfig::default() };
        let mut session = Session::open(location.clone(), config.clone()).expect("opens");
        let readers = Readers::start(&location, &config, Arc::default()).expect("starts");
        let paused = |db: &Db| Ok(db.sql("SELECT count(*) FROM queue")?.query_row([], |row| row.get::<_, i64>(0))?);
        assert_eq!(readers.run(paused).await, Ok(0));
        let error = readers.run(|_| -> Done<()> { panic!("on purpose") }).await.expect_err("it panicked");
        assert_eq!(error.kind(), StoreErrorKind::Bug);
        assert!(error.to_string().contains("on purpose"), "{error}");
        session.begin().expect("begins");
        session.db.conn().execute("INSERT INTO queue (name) VALUES ('q')", []).expect("written");
        session.commit().expect("committed");
        assert_eq!(readers.run(paused).await, Ok(1), "a new snapshot");
    }
}
