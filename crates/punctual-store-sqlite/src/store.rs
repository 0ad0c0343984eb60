//! The store itself: each operation of the trait handed to the writer or to the readers.

use crate::config::SqliteConfig;
use crate::connection::Db;
use crate::counters::{Counters, SqliteCounters};
use crate::errors::Done;
use crate::leases::BootTime;
use crate::location::Location;
use crate::migrations;
use crate::reader::Readers;
use crate::schedules::{commands, sweeps, views};
use crate::writer::Writer;
use crate::{attempts, cancels, claims, lists, progress, queues, retention, tasks, workers};
use punctual_clock::Timestamp;
use punctual_task::{
    CancelOutcome, ClaimBatch, ClaimRequest, Declaration, Declared, Enqueued, Finish, Finished, FollowUp, IdBlock,
    Loss, Materialised, NewTask, Page, Pruned, QueueView, Renewal, Reply, Report, Rescue, Retention, RetryOutcome,
    ScheduleCommand, ScheduleView, SlotEnd, Steered, Store, StoreError, StoreInfo, Sweep, SweepReport, TaskDetail,
    TaskFilter, TaskId, TaskView, Window, WorkerId, WorkerInfo, WorkerView, check_name,
};
use std::sync::Arc;
use std::time::Duration;

/// A [`Store`] in one SQLite file, or in memory.
///
/// All operations are safe from many tasks and threads at once, and a second process may open the same file. Writes of
/// concurrent callers share commits; each is answered after its commit has reached the disk.
#[derive(Debug)]
pub struct SqliteStore {
    writer: Writer,
    /// `None` in memory, where only the writer's connection sees the tables.
    readers: Option<Readers>,
    config: SqliteConfig,
    counters: Arc<Counters>,
    identity: String,
}

impl SqliteStore {
    /// Opens `sqlite://relative/path.db`, `sqlite:///absolute/path.db`, `sqlite::memory:` or a plain path. A file that is
    /// not there is created; tables are brought up to this build's version unless `config` says otherwise.
    ///
    /// # Errors
    /// One clear line that names the file and what to do. By [`StoreErrorKind`](punctual_task::StoreErrorKind): `Refused`
    /// for a wrong path or configuration, `NotFound` for a missing directory, `Unavailable` without the rights or on a file
    /// system that cannot lock, `Corrupt` for what is no database or another program's, `Version` for a database of a
    /// newer build (or one that needs a migration, if `config` forbids it), `Busy` if another process holds it for longer
    /// than the wait.
    ///
    /// # Cancel safety
    /// Dropping it leaves the file as it is found or as it was opened; both are whole.
    pub async fn open(location: &str, config: SqliteConfig) -> Result<Self, StoreError> {
        config.validate()?;
        let location = Location::parse(location)?;
        let counters = Arc::new(Counters::default());
        let writer = Writer::start(location.clone(), config.clone(), counters.clone()).await?;
        let readers = match location {
            Location::Memory => None,
            Location::File(_) => Some(Readers::start(&location, &config, counters.clone())?),
        };
        let identity = writer.run(|session| migrations::identity(&session.db)).await?;
        Ok(SqliteStore { writer, readers, config, counters, identity })
    }

    /// The random name that the database got when it was made, 32 hexadecimal digits. A copy of the file has the same.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// What the store has done since it was opened.
    #[must_use]
    pub fn counters(&self) -> SqliteCounters {
        self.counters.snapshot()
    }

    /// Finishes what was asked for, closes the file and waits until that is done. Dropping the store does the same
    /// without waiting.
    pub async fn close(self) {
        if let Some(readers) = self.readers {
            readers.close().await;
        }
        self.writer.close().await;
    }

    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    pub(crate) fn location(&self) -> &Location {
        self.writer.location()
    }

    /// The clock that decides what is due.
    pub(crate) fn now_here(&self) -> Timestamp {
        self.config.clock.timestamp()
    }

    async fn read<T, F>(&self, read: F) -> Result<T, StoreError>
    where
        F: Fn(&Db) -> Done<T> + Send + 'static,
        T: Send + 'static,
    {
        match &self.readers {
            Some(readers) => readers.run(read).await,
            None => self.writer.run(move |session| read(&session.db)).await,
        }
    }
}

impl Store for SqliteStore {
    fn info(&self) -> StoreInfo {
        StoreInfo {
            kind: "sqlite",
            location: self.writer.location().to_string(),
            version: rusqlite::version().to_owned(),
            schema_version: migrations::schema_version(),
        }
    }

    fn now(&self) -> Reply<'_, Timestamp> {
        Box::pin(async { Ok(self.config.clock.timestamp()) })
    }

    fn draw_ids(&self, count: u32) -> Reply<'_, IdBlock> {
        Box::pin(self.writer.run(move |session| tasks::draw_ids(session, count)))
    }

    fn enqueue(&self, tasks: Vec<NewTask>) -> Reply<'_, Vec<Enqueued>> {
        Box::pin(async move {
            tasks::check(&tasks)?;
            self.writer.run(move |session| tasks::enqueue(session, &tasks)).await
        })
    }

    fn claim(&self, worker: WorkerId, request: ClaimRequest) -> Reply<'_, ClaimBatch> {
        Box::pin(self.writer.run(move |session| claims::claim(session, worker, &request)))
    }

    fn finish_then(
        &self,
        worker: WorkerId,
        finishes: Vec<Finish>,
        follow_ups: Vec<FollowUp>,
    ) -> Reply<'_, Vec<Finished>> {
        Box::pin(async move {
            attempts::check(&finishes)?;
            follow_ups.iter().try_for_each(FollowUp::validate)?;
            self.writer.run(move |session| attempts::finish(session, worker, &finishes, &follow_ups)).await
        })
    }

    fn report(&self, worker: WorkerId, reports: Vec<Report>) -> Reply<'_, Vec<bool>> {
        Box::pin(async move {
            Report::validate_all(&reports)?;
            self.writer.run(move |session| progress::report(session, worker, &reports)).await
        })
    }

    fn cancel(&self, tasks: Vec<TaskId>) -> Reply<'_, Vec<CancelOutcome>> {
        Box::pin(async move {
            cancels::check(&tasks)?;
            self.writer.run(move |session| cancels::cancel(session, &tasks)).await
        })
    }

    fn retry(&self, tasks: Vec<TaskId>) -> Reply<'_, Vec<RetryOutcome>> {
        Box::pin(async move {
            cancels::check(&tasks)?;
            self.writer.run(move |session| cancels::retry(session, &tasks)).await
        })
    }

    fn task(&self, id: TaskId) -> Reply<'_, Option<TaskDetail>> {
        let clock = self.config.clock.clone();
        Box::pin(self.read(move |db| lists::detail(db, id, clock.timestamp())))
    }

    fn tasks(&self, filter: TaskFilter, page: Page) -> Reply<'_, Vec<TaskView>> {
        Box::pin(self.read(move |db| lists::page(db, &filter, page)))
    }

    fn queues(&self) -> Reply<'_, Vec<QueueView>> {
        let clock = self.config.clock.clone();
        Box::pin(self.read(move |db| queues::list(db, clock.timestamp())))
    }

    fn pause_queue(&self, queue: String, paused: bool) -> Reply<'_, bool> {
        Box::pin(async move {
            check_name("queue", &queue)?;
            self.writer.run(move |session| queues::pause(session, &queue, paused)).await
        })
    }

    fn register(&self, info: WorkerInfo, lease: Duration) -> Reply<'_, WorkerId> {
        Box::pin(async move {
            workers::check(&info)?;
            self.writer.run(move |session| workers::register(session, &info, lease)).await
        })
    }

    fn renew(&self, worker: WorkerId, lease: Duration) -> Reply<'_, Renewal> {
        Box::pin(self.writer.run(move |session| workers::renew(session, worker, lease)))
    }

    fn holdings(&self, worker: WorkerId) -> Reply<'_, Vec<(TaskId, u32)>> {
        Box::pin(self.writer.run(move |session| workers::holdings(session, worker)))
    }

    fn hand_back(&self, worker: WorkerId, tasks: Vec<TaskId>) -> Reply<'_, u32> {
        Box::pin(async move {
            cancels::check(&tasks)?;
            self.writer.run(move |session| workers::hand_back(session, worker, &tasks)).await
        })
    }

    fn retire(&self, worker: WorkerId) -> Reply<'_, ()> {
        Box::pin(self.writer.run(move |session| workers::retire(session, worker)))
    }

    fn rescue(&self, by: WorkerId) -> Reply<'_, Rescue> {
        Box::pin(self.writer.run(move |session| workers::rescue(session, by)))
    }

    fn workers(&self) -> Reply<'_, Vec<WorkerView>> {
        let (clock, boot) = (self.config.clock.clone(), self.config.boot.clone());
        Box::pin(self.read(move |db| workers::list(db, clock.timestamp(), &BootTime::read(&*boot))))
    }

    fn declare(&self, declaration: Declaration) -> Reply<'_, Declared> {
        Box::pin(self.writer.run(move |session| commands::declare(session, &declaration)))
    }

    fn steer(&self, name: String, command: ScheduleCommand) -> Reply<'_, Steered> {
        Box::pin(self.writer.run(move |session| commands::steer(session, &name, &command)))
    }

    fn materialise(&self, sweep: Sweep) -> Reply<'_, SweepReport> {
        Box::pin(self.writer.run(move |session| sweeps::materialise(session, sweep)))
    }

    fn apply(&self, window: Window) -> Reply<'_, Materialised> {
        Box::pin(self.writer.run(move |session| sweeps::apply(session, &window)))
    }

    fn schedule(&self, name: String) -> Reply<'_, Option<ScheduleView>> {
        Box::pin(self.read(move |db| views::one(db, &name)))
    }

    fn schedules(&self, after: Option<String>, limit: u32) -> Reply<'_, Vec<ScheduleView>> {
        Box::pin(self.read(move |db| views::page(db, after.as_deref(), limit)))
    }

    fn losses(&self, name: String, limit: u32) -> Reply<'_, Vec<Loss>> {
        Box::pin(self.read(move |db| views::losses(db, &name, limit)))
    }

    fn slot_ends(&self, name: String, limit: u32) -> Reply<'_, Vec<SlotEnd>> {
        Box::pin(self.read(move |db| views::ends(db, &name, limit)))
    }

    fn prune(&self, retention: Retention, limit: u32) -> Reply<'_, Pruned> {
        Box::pin(self.writer.run(move |session| retention::prune(session, retention, limit)))
    }
}
