//! The store itself: each operation of the trait as a transaction on one of its connections.

use crate::config::PostgresConfig;
use crate::connection::Connector;
use crate::counters::{Counters, PostgresCounters};
use crate::definitions::Definitions;
use crate::errors::{Done, Fault};
use crate::group::{Group, enqueue_in_group};
use crate::lease::LeaseThread;
use crate::location::Location;
use crate::migrations;
use crate::names::Names;
use crate::pool::Pool;
use crate::schedules::{commands, sweeps, views};
use crate::sequence::{DRAW_MAX, Sequence};
use crate::session::{Kind, Session};
use crate::{attempts, cancels, claims, enqueue, lists, progress, queues, retention, workers};
use punctual_clock::{Clock, Timestamp};
use punctual_task::rows::{ClaimRows, Floors};
use punctual_task::{
    CancelOutcome, ClaimBatch, ClaimRequest, Declaration, Declared, Enqueued, Finish, Finished, FollowUp, IdBlock,
    Loss, Materialised, NewTask, Page, Pruned, QueueView, Renewal, Reply, Report, Rescue, Retention, RetryOutcome,
    ScheduleCommand, ScheduleView, SlotEnd, Steered, Store, StoreError, StoreErrorKind, StoreInfo, Sweep, SweepReport,
    TaskDetail, TaskFilter, TaskId, TaskView, Window, WorkerId, WorkerInfo, WorkerView, check_name,
};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;

/// How often an operation is begun anew that met another one, or whose connection broke before its commit was sent.
const TRIES_MAX: u32 = 6;

/// A step of an operation: what it gives, or a failure.
pub(crate) type Doing<'a, T> = Pin<Box<dyn Future<Output = Done<T>> + Send + 'a>>;
/// The work of an operation on its input.
pub(crate) type Work<I, T> = for<'a> fn(&'a Shared, &'a mut Session, &'a I) -> Doing<'a, T>;

/// A [`Store`] in a schema of a PostgreSQL database.
///
/// All operations are safe from many tasks, threads and hosts at once. Once begun, an operation goes on when its reply is
/// dropped: no transaction is cut in the middle.
pub struct PostgresStore {
    shared: Arc<Shared>,
    lease: Arc<Shared>,
    identity: String,
    version: String,
    /// Ends behind what runs on it.
    _lease_thread: LeaseThread,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("location", self.shared.location()).finish_non_exhaustive()
    }
}

/// What all operations share.
pub(crate) struct Shared {
    pool: Arc<Pool>,
    clock: Option<Arc<dyn Clock>>,
    pub(crate) runtime: Handle,
    pub(crate) counters: Arc<Counters>,
    pub(crate) names: Names,
    pub(crate) definitions: Definitions,
    pub(crate) sequence: Sequence,
    pub(crate) group: Group,
    floors: Mutex<Floors>,
    sweep_floors: Mutex<Floors>,
    claim_rows: Mutex<ClaimRows>,
}

impl PostgresStore {
    /// Opens `postgres://user:password@host/database?schema=punctual`; see [`Location::parse`]. Tables are brought up to this
    /// build's version unless `config` says otherwise.
    ///
    /// # Errors
    /// One clear line that names the database, never the password. By [`StoreErrorKind`]: `Refused` for a wrong address,
    /// configuration, user or password, and for a server older than 13; `NotFound` for a database that is not there;
    /// `Unavailable` for a server that cannot be reached; `Version` for tables of a newer build (or that need a migration,
    /// if `config` forbids it).
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropping it leaves the database as it is found or as it was opened; both are whole.
    pub async fn open(location: &str, config: PostgresConfig) -> Result<Self, StoreError> {
        config.validate()?;
        let location = Location::parse(location)?;
        let connector = Connector::new(location.clone(), &config)?;
        let named = |fault: Fault| fault.named(&location);
        let mut connection = connector.connect().await.map_err(named)?;
        let version = connection.version(&location).await.map_err(named)?;
        migrations::prepare(&mut connection.client, &location, &config).await.map_err(named)?;
        let identity = migrations::identity(&connection.client).await.map_err(named)?;
        drop(connection);
        let lease_thread = LeaseThread::start()?;
        let counters = Arc::new(Counters::default());
        let shared = |connections: usize, runtime: Handle| {
            Arc::new(Shared {
                pool: Pool::new(connector.clone(), connections, config.lock_timeout),
                clock: config.clock.clone(),
                runtime,
                counters: counters.clone(),
                names: Names::default(),
                definitions: Definitions::default(),
                sequence: Sequence::default(),
                group: Group::new(config.lock_timeout),
                floors: Mutex::new(Floors::new(config.clock.is_some())),
                sweep_floors: Mutex::new(Floors::new(config.clock.is_some())),
                claim_rows: Mutex::default(),
            })
        };
        let lease = shared(1, lease_thread.handle().clone());
        let shared = shared(config.connections, Handle::current());
        Ok(PostgresStore { shared, lease, identity, version, _lease_thread: lease_thread })
    }

    /// The random name that the tables got when they were made, 32 hexadecimal digits. A copy of the database has the same.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// What the store has done since it was opened.
    #[must_use]
    pub fn counters(&self) -> PostgresCounters {
        self.shared.counters.snapshot()
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Closes the connections that are not in use, and takes no more work. Dropping the store does the same.
    pub fn close(self) {
        drop(self);
    }

    pub(crate) fn location(&self) -> &Location {
        self.shared.location()
    }

    /// The time that a test gives, if it owns the clock.
    pub(crate) fn own_now(&self) -> Option<Timestamp> {
        self.shared.own_now()
    }

    /// Runs an operation to its end, whether its reply is awaited or not.
    pub(crate) async fn run<I, T>(&self, input: I, work: Work<I, T>) -> Result<T, StoreError>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
    {
        spawned(&self.shared, input, work, Kind::Write).await
    }

    /// The same for what only reads, all of it as it was at one instant.
    async fn read<I, T>(&self, input: I, work: Work<I, T>) -> Result<T, StoreError>
    where
        I: Send + Sync + 'static,
        T: Send + 'static,
    {
        spawned(&self.shared, input, work, Kind::Read).await
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.shared.pool.close();
        self.lease.pool.close();
    }
}

async fn spawned<I, T>(shared: &Arc<Shared>, input: I, work: Work<I, T>, kind: Kind) -> Result<T, StoreError>
where
    I: Send + Sync + 'static,
    T: Send + 'static,
{
    let own = Arc::clone(shared);
    let task = shared.runtime.spawn(async move { own.perform_as(&input, work, kind).await });
    task.await.unwrap_or_else(|ended| {
        Err(if ended.is_panic() {
            Fault::bug(format!("an operation panicked: {ended}")).named(shared.location())
        } else {
            StoreError::new(StoreErrorKind::Unavailable, "the runtime that the store was opened on has ended")
        })
    })
}

impl Shared {
    pub(crate) fn location(&self) -> &Location {
        &self.pool.connector().location
    }

    /// Where claims begin to read. A panic under the lock leaves them whole.
    pub(crate) fn floors(&self) -> MutexGuard<'_, Floors> {
        self.floors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where sweeps begin to read.
    pub(crate) fn sweep_floors(&self) -> MutexGuard<'_, Floors> {
        self.sweep_floors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where what this process has claimed lies.
    pub(crate) fn claim_rows(&self) -> MutexGuard<'_, ClaimRows> {
        self.claim_rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time that a test gives, if it owns the clock.
    pub(crate) fn own_now(&self) -> Option<Timestamp> {
        self.clock.as_ref().map(|clock| clock.timestamp())
    }

    /// Runs a writing operation, again from its beginning if it met another one.
    pub(crate) async fn perform<I: Sync, T>(&self, input: &I, work: Work<I, T>) -> Result<T, StoreError> {
        self.perform_as(input, work, Kind::Write).await
    }

    async fn perform_as<I: Sync, T>(&self, input: &I, work: Work<I, T>, kind: Kind) -> Result<T, StoreError> {
        self.counters.operation();
        let mut tries = 0;
        loop {
            tries += 1;
            let fault = match self.try_once(input, work, kind).await {
                Ok(given) => return Ok(given),
                Err((fault, again)) => {
                    if !again || tries >= TRIES_MAX {
                        return Err(fault.named(self.location()));
                    }
                    fault
                }
            };
            self.counters.retry();
            tracing::debug!(?fault, tries, "an operation is begun anew");
            if tries > 1 {
                // Those that met each time go at different paces.
                tokio::time::sleep(Duration::from_millis(u64::from(tries * tries))).await;
            }
        }
    }

    /// One try. With a failure comes whether it is known that nothing was written and another try makes sense.
    async fn try_once<I: Sync, T>(&self, input: &I, work: Work<I, T>, kind: Kind) -> Result<T, (Fault, bool)> {
        // Who cannot connect is told at once: the caller knows better how long to wait.
        let lent = self.pool.lend().await.map_err(|fault| (fault, false))?;
        let mut session = Session::new(lent, kind, self.clock.clone(), self.counters.clone());
        match work(self, &mut session, input).await {
            Ok(given) => {
                session.end().await;
                Ok(given)
            }
            Err(fault) if fault.lost_connection() => {
                let again = !session.sent_commit() && !matches!(fault, Fault::Silent);
                session.abandon();
                Err((fault, again))
            }
            Err(fault) => {
                session.end().await;
                let again = fault.met_another();
                Err((fault, again))
            }
        }
    }
}

impl Store for PostgresStore {
    fn info(&self) -> StoreInfo {
        StoreInfo {
            kind: "postgres",
            location: self.shared.location().to_string(),
            version: self.version.clone(),
            schema_version: migrations::schema_version(),
        }
    }

    fn now(&self) -> Reply<'_, Timestamp> {
        Box::pin(self.read((), |_, session, ()| {
            Box::pin(async move {
                session.ask(Vec::new()).await?;
                session.now()
            })
        }))
    }

    fn draw_ids(&self, count: u32) -> Reply<'_, IdBlock> {
        Box::pin(async move {
            if count > DRAW_MAX {
                return Err(StoreError::refused(format!("{count} ids at once are more than the limit of {DRAW_MAX}")));
            }
            self.run(count, |shared, session, count| Box::pin(shared.sequence.draw(session, *count))).await
        })
    }

    fn enqueue(&self, tasks: Vec<NewTask>) -> Reply<'_, Vec<Enqueued>> {
        Box::pin(async move {
            enqueue::check(&tasks)?;
            // What refuses a whole batch must not refuse another caller's: keys go alone.
            if tasks.iter().all(|task| task.key.is_none()) {
                return enqueue_in_group(&self.shared, tasks).await;
            }
            self.run(tasks, |shared, session, tasks| Box::pin(enqueue::enqueue(shared, session, tasks))).await
        })
    }

    fn claim(&self, worker: WorkerId, request: ClaimRequest) -> Reply<'_, ClaimBatch> {
        Box::pin(self.run((worker, request), |shared, session, (worker, request)| {
            Box::pin(claims::claim(shared, session, *worker, request))
        }))
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
            let work: Work<_, _> = |shared, session, input: &(WorkerId, Vec<Finish>, Vec<FollowUp>)| {
                Box::pin(attempts::finish(shared, session, input.0, &input.1, &input.2))
            };
            self.run((worker, finishes, follow_ups), work).await
        })
    }

    fn report(&self, worker: WorkerId, reports: Vec<Report>) -> Reply<'_, Vec<bool>> {
        Box::pin(async move {
            Report::validate_all(&reports)?;
            let work: Work<_, _> =
                |_, session, input: &(WorkerId, Vec<Report>)| Box::pin(progress::report(session, input.0, &input.1));
            self.run((worker, reports), work).await
        })
    }

    fn cancel(&self, tasks: Vec<TaskId>) -> Reply<'_, Vec<CancelOutcome>> {
        Box::pin(async move {
            cancels::check(&tasks)?;
            self.run(tasks, |_, session, tasks| Box::pin(cancels::cancel(session, tasks))).await
        })
    }

    fn retry(&self, tasks: Vec<TaskId>) -> Reply<'_, Vec<RetryOutcome>> {
        Box::pin(async move {
            cancels::check(&tasks)?;
            self.run(tasks, |_, session, tasks| Box::pin(cancels::retry(session, tasks))).await
        })
    }

    fn task(&self, id: TaskId) -> Reply<'_, Option<TaskDetail>> {
        Box::pin(self.read(id, |shared, session, id| Box::pin(lists::detail(shared, session, *id))))
    }

    fn tasks(&self, filter: TaskFilter, page: Page) -> Reply<'_, Vec<TaskView>> {
        Box::pin(self.read((filter, page), |_, session, (filter, page)| Box::pin(lists::page(session, filter, *page))))
    }

    fn queues(&self) -> Reply<'_, Vec<QueueView>> {
        Box::pin(self.read((), |_, session, ()| Box::pin(queues::list(session))))
    }

    fn pause_queue(&self, queue: String, paused: bool) -> Reply<'_, bool> {
        Box::pin(async move {
            check_name("queue", &queue)?;
            let work: Work<_, _> =
                |_, session, input: &(String, bool)| Box::pin(queues::pause(session, &input.0, input.1));
            self.run((queue, paused), work).await
        })
    }

    fn register(&self, info: WorkerInfo, lease: Duration) -> Reply<'_, WorkerId> {
        Box::pin(async move {
            workers::check(&info)?;
            let work: Work<_, _> =
                |_, session, input: &(WorkerInfo, Duration)| Box::pin(workers::register(session, &input.0, input.1));
            self.run((info, lease), work).await
        })
    }

    fn renew(&self, worker: WorkerId, lease: Duration) -> Reply<'_, Renewal> {
        Box::pin(async move {
            let work: Work<_, _> =
                |_, session, input: &(WorkerId, Duration)| Box::pin(workers::renew(session, input.0, input.1));
            spawned(&self.lease, (worker, lease), work, Kind::Write).await
        })
    }

    fn holdings(&self, worker: WorkerId) -> Reply<'_, Vec<(TaskId, u32)>> {
        Box::pin(self.read(worker, |_, session, worker| Box::pin(workers::holdings(session, *worker))))
    }

    fn hand_back(&self, worker: WorkerId, tasks: Vec<TaskId>) -> Reply<'_, u32> {
        Box::pin(async move {
            cancels::check(&tasks)?;
            let work: Work<_, _> =
                |_, session, input: &(WorkerId, Vec<TaskId>)| Box::pin(workers::hand_back(session, input.0, &input.1));
            self.run((worker, tasks), work).await
        })
    }

    fn retire(&self, worker: WorkerId) -> Reply<'_, ()> {
        Box::pin(self.run(worker, |_, session, worker| Box::pin(workers::retire(session, *worker))))
    }

    fn rescue(&self, by: WorkerId) -> Reply<'_, Rescue> {
        Box::pin(self.run(by, |_, session, by| Box::pin(workers::rescue(session, *by))))
    }

    fn workers(&self) -> Reply<'_, Vec<WorkerView>> {
        Box::pin(self.read((), |_, session, ()| Box::pin(workers::list(session))))
    }

    fn declare(&self, declaration: Declaration) -> Reply<'_, Declared> {
        self.shared.sweep_floors().forget();
        Box::pin(
            self.run(declaration, |shared, session, declaration| {
                Box::pin(commands::declare(shared, session, declaration))
            }),
        )
    }

    fn steer(&self, name: String, command: ScheduleCommand) -> Reply<'_, Steered> {
        self.shared.sweep_floors().forget();
        Box::pin(self.run((name, command), |shared, session, (name, command)| {
            Box::pin(commands::steer(shared, session, name, command))
        }))
    }

    fn materialise(&self, sweep: Sweep) -> Reply<'_, SweepReport> {
        Box::pin(self.run(sweep, |shared, session, sweep| Box::pin(sweeps::materialise(shared, session, sweep))))
    }

    fn apply(&self, window: Window) -> Reply<'_, Materialised> {
        self.shared.sweep_floors().forget();
        Box::pin(self.run(window, |shared, session, window| Box::pin(sweeps::apply(shared, session, window))))
    }

    fn schedule(&self, name: String) -> Reply<'_, Option<ScheduleView>> {
        Box::pin(self.read(name, |_, session, name| Box::pin(views::one(session, name))))
    }

    fn schedules(&self, after: Option<String>, limit: u32) -> Reply<'_, Vec<ScheduleView>> {
        Box::pin(self.read((after, limit), |_, session, (after, limit)| {
            Box::pin(views::page(session, after.as_deref(), *limit))
        }))
    }

    fn losses(&self, name: String, limit: u32) -> Reply<'_, Vec<Loss>> {
        Box::pin(self.read((name, limit), |_, session, (name, limit)| Box::pin(views::losses(session, name, *limit))))
    }

    fn slot_ends(&self, name: String, limit: u32) -> Reply<'_, Vec<SlotEnd>> {
        Box::pin(self.read((name, limit), |_, session, (name, limit)| Box::pin(views::ends(session, name, *limit))))
    }

    fn prune(&self, retention: Retention, limit: u32) -> Reply<'_, Pruned> {
        Box::pin(self.run((retention, limit), |_, session, (retention, limit)| {
            Box::pin(retention::prune(session, *retention, *limit))
        }))
    }
}
