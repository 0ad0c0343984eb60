//! The store itself: each operation of the trait handed to the connections of its kind.

use crate::address::Address;
use crate::config::MysqlConfig;
use crate::connection::Session;
use crate::counters::MysqlCounters;
use crate::groups::{self, Groups};
use crate::migrations;
use crate::schedules::{commands, sweeps, views};
use crate::script::Script;
use crate::shared::{Lanes, Running, Shared};
use crate::threads::Thread;
use crate::{attempts, cancels, claims, ids, lists, progress, queues, redrives, rescues, retention, tasks, workers};
use punctual_clock::Timestamp;
use punctual_task::{
    CancelOutcome, ClaimBatch, ClaimRequest, Declaration, Declared, Enqueued, Finish, Finished, FollowUp, IdBlock,
    Loss, Materialised, NewTask, Page, Pruned, QueueView, Renewal, Reply, Report, Rescue, Retention, RetryOutcome,
    ScheduleCommand, ScheduleView, SlotEnd, Steered, Store, StoreError, StoreErrorKind, StoreInfo, Sweep, SweepReport,
    TaskDetail, TaskFilter, TaskId, TaskView, Window, WorkerId, WorkerInfo, WorkerView, check_name,
};
use std::sync::Arc;
use std::time::Duration;

/// How long a renewal waits for the server: several of them fit into a lease.
const RENEWAL_ANSWER: Duration = Duration::from_secs(5);

/// A [`Store`] on MariaDB 10.6 or MySQL 8.0.1, or anything newer; tested on MariaDB 10.11.
///
/// All operations are safe from many tasks, threads and processes at once: row locks decide, and no process leads. Each is
/// answered after its commit; that the commit has reached the server's disk is the server's setting
/// (`innodb_flush_log_at_trx_commit = 1`, its default).
#[derive(Debug)]
pub struct MysqlStore {
    pub(crate) shared: Arc<Shared>,
    claims: Arc<Lanes>,
    finishes: Arc<Lanes>,
    pub(crate) writes: Arc<Lanes>,
    reads: Arc<Lanes>,
    leases: Arc<Lanes>,
    groups: Arc<Groups>,
    work: Thread,
    lease: Thread,
    identity: String,
}

impl MysqlStore {
    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Opens `mysql://user:password@host:port/database`, or the same with `mariadb://`. The database must be there; its tables,
    /// whose names begin with `punctual_`, are brought up to this build's version unless `config` says otherwise. `?require_ssl=true`
    /// asks for TLS, with `verify_ca`, `verify_identity` and `built_in_roots` beside it; `?socket=/path` for a Unix socket.
    ///
    /// # Errors
    /// One clear line that names the database, never its password, and what to do. By [`StoreErrorKind`]: `Refused`
    /// for a wrong URL or configuration, `NotFound` for a missing database, `Unavailable` if the server is not reached or
    /// refuses the user, `Corrupt` for another program's tables, `Version` for a server that is too old and for a database
    /// of a newer build (or one that needs a migration, if `config` forbids it), `Busy` while another process migrates.
    ///
    /// # Cancel safety
    /// Dropping it leaves the database as it was found or with a migration that the next opening goes on with.
    pub async fn open(url: &str, config: MysqlConfig) -> Result<Self, StoreError> {
        config.validate()?;
        let shared = Arc::new(Shared::new(Address::parse(url)?, config));
        let work = Thread::start("punctual-mysql")?;
        let lease = Thread::start("punctual-mysql-lease")?;
        let preparing = Arc::clone(&shared);
        let identity = work
            .run(async move { migrations::prepare(&preparing).await.map_err(|fault| fault.named(&preparing.address)) });
        let identity = identity.await?;
        let answer = shared.config.answer;
        let lanes = |connections: usize, answer: Duration| Arc::new(Lanes::new(connections, answer));
        Ok(MysqlStore {
            claims: lanes(1, answer),
            finishes: lanes(1, answer),
            writes: lanes(shared.config.writers, answer),
            reads: lanes(shared.config.readers, answer),
            leases: lanes(1, answer.min(RENEWAL_ANSWER)),
            groups: Arc::default(),
            shared,
            work,
            lease,
            identity,
        })
    }

    /// The random name that the database got when it was made, 32 hexadecimal digits. A copy of it has the same.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// What the store has done since it was opened.
    #[must_use]
    pub fn counters(&self) -> MysqlCounters {
        self.shared.counters.snapshot()
    }

    /// Waits for what is under way and closes all connections. Dropping the store breaks off what nobody waits for.
    pub async fn close(self) {
        for (thread, lanes) in [
            (&self.work, &self.claims),
            (&self.work, &self.finishes),
            (&self.work, &self.writes),
            (&self.work, &self.reads),
            (&self.lease, &self.leases),
        ] {
            let lanes = Arc::clone(lanes);
            // A thread that is gone has closed its connections.
            let _ = thread
                .run(async move {
                    lanes.close().await;
                    Ok(())
                })
                .await;
        }
    }

    /// Runs an operation on a connection of its kind; see [`Lanes::run`].
    pub(crate) async fn on<T, U, F>(&self, lanes: &Arc<Lanes>, work: F) -> Result<T, StoreError>
    where
        F: for<'a> FnMut(&'a mut Session, &'a mut Option<U>) -> Running<'a, T> + Send + 'static,
        T: Send + 'static,
        U: Send + 'static,
    {
        let (lanes, shared) = (Arc::clone(lanes), Arc::clone(&self.shared));
        self.work.run(async move { lanes.run(&shared, work).await }).await
    }

    async fn write(&self, tasks: Vec<NewTask>) -> Result<Vec<Enqueued>, StoreError> {
        tasks::check(&tasks)?;
        if !Groups::takes(&tasks) {
            let (shared, lanes) = (Arc::clone(&self.shared), Arc::clone(&self.writes));
            return self.work.run(async move { groups::write(&shared, &lanes, Arc::new(tasks)).await }).await;
        }
        let joined = self.groups.join(tasks, self.shared.config.queue_max)?;
        if joined.leads {
            let (groups, shared, lanes) =
                (Arc::clone(&self.groups), Arc::clone(&self.shared), Arc::clone(&self.writes));
            self.work.spawn(async move { groups.lead(&shared, &lanes).await });
        }
        joined.answer.await.unwrap_or_else(|_| {
            Err(StoreError::new(StoreErrorKind::Unavailable, "the database is closed; open it again"))
        })
    }
}

/// What an operation without a memory of lost commits leaves there.
type Nothing = Option<()>;

impl Store for MysqlStore {
    fn info(&self) -> StoreInfo {
        StoreInfo {
            kind: "mysql",
            location: self.shared.address.to_string(),
            version: self.shared.version().to_owned(),
            schema_version: migrations::schema_version(),
        }
    }

    fn now(&self) -> Reply<'_, Timestamp> {
        Box::pin(self.on(&self.reads, |session, _: &mut Nothing| {
            Box::pin(async move {
                let mut script = Script::new();
                let time = session.shared.time.clone();
                time.ask(&mut script);
                Ok(time.answer(&mut session.run(&script).await?)?.now)
            })
        }))
    }

    fn draw_ids(&self, count: u32) -> Reply<'_, IdBlock> {
        Box::pin(self.on(&self.writes, move |session, _: &mut Nothing| Box::pin(ids::draw_ids(session, count))))
    }

    fn enqueue(&self, tasks: Vec<NewTask>) -> Reply<'_, Vec<Enqueued>> {
        Box::pin(self.write(tasks))
    }

    fn claim(&self, worker: WorkerId, request: ClaimRequest) -> Reply<'_, ClaimBatch> {
        let request = Arc::new(request);
        Box::pin(self.on(&self.claims, move |session, unsure| {
            let request = Arc::clone(&request);
            Box::pin(async move { claims::claim(session, worker, &request, unsure).await })
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
            let both = Arc::new((finishes, follow_ups));
            self.on(&self.finishes, move |session, unsure| {
                let both = Arc::clone(&both);
                Box::pin(async move { attempts::finish(session, worker, &both.0, &both.1, unsure).await })
            })
            .await
        })
    }

    fn report(&self, worker: WorkerId, reports: Vec<Report>) -> Reply<'_, Vec<bool>> {
        Box::pin(async move {
            Report::validate_all(&reports)?;
            let reports = Arc::new(reports);
            self.on(&self.writes, move |session, sent: &mut Option<()>| {
                let reports = Arc::clone(&reports);
                *sent = Some(());
                Box::pin(async move { progress::report(session, worker, &reports).await })
            })
            .await
        })
    }

    fn cancel(&self, tasks: Vec<TaskId>) -> Reply<'_, Vec<CancelOutcome>> {
        Box::pin(async move {
            cancels::check(&tasks)?;
            let tasks = Arc::new(tasks);
            self.on(&self.writes, move |session, unsure| {
                let tasks = Arc::clone(&tasks);
                Box::pin(async move { cancels::cancel(session, &tasks, unsure).await })
            })
            .await
        })
    }

    fn retry(&self, tasks: Vec<TaskId>) -> Reply<'_, Vec<RetryOutcome>> {
        Box::pin(async move {
            cancels::check(&tasks)?;
            let tasks = Arc::new(tasks);
            self.on(&self.writes, move |session, unsure| {
                let tasks = Arc::clone(&tasks);
                Box::pin(async move { redrives::retry(session, &tasks, unsure).await })
            })
            .await
        })
    }

    fn task(&self, id: TaskId) -> Reply<'_, Option<TaskDetail>> {
        Box::pin(self.on(&self.reads, move |session, _: &mut Nothing| Box::pin(lists::detail(session, id))))
    }

    fn tasks(&self, filter: TaskFilter, page: Page) -> Reply<'_, Vec<TaskView>> {
        let filter = Arc::new(filter);
        Box::pin(self.on(&self.reads, move |session, _: &mut Nothing| {
            let filter = Arc::clone(&filter);
            Box::pin(async move { lists::page(session, &filter, page).await })
        }))
    }

    fn queues(&self) -> Reply<'_, Vec<QueueView>> {
        Box::pin(self.on(&self.reads, |session, _: &mut Nothing| Box::pin(queues::list(session))))
    }

    fn pause_queue(&self, queue: String, paused: bool) -> Reply<'_, bool> {
        Box::pin(async move {
            check_name("queue", &queue)?;
            let queue: Arc<str> = Arc::from(queue);
            self.on(&self.writes, move |session, unsure| {
                let queue = Arc::clone(&queue);
                Box::pin(async move { queues::pause(session, &queue, paused, unsure).await })
            })
            .await
        })
    }

    fn register(&self, info: WorkerInfo, lease: Duration) -> Reply<'_, WorkerId> {
        Box::pin(async move {
            workers::check(&info)?;
            let info = Arc::new(info);
            self.on(&self.writes, move |session, unsure| {
                let info = Arc::clone(&info);
                Box::pin(async move { workers::register(session, &info, lease, unsure).await })
            })
            .await
        })
    }

    fn renew(&self, worker: WorkerId, lease: Duration) -> Reply<'_, Renewal> {
        let (lanes, shared) = (Arc::clone(&self.leases), Arc::clone(&self.shared));
        Box::pin(self.lease.run(async move {
            lanes.run(&shared, |session, _: &mut Nothing| Box::pin(workers::renew(session, worker, lease))).await
        }))
    }

    fn holdings(&self, worker: WorkerId) -> Reply<'_, Vec<(TaskId, u32)>> {
        Box::pin(self.on(&self.writes, move |session, _: &mut Nothing| Box::pin(workers::holdings(session, worker))))
    }

    fn hand_back(&self, worker: WorkerId, tasks: Vec<TaskId>) -> Reply<'_, u32> {
        Box::pin(async move {
            cancels::check(&tasks)?;
            let tasks = Arc::new(tasks);
            self.on(&self.writes, move |session, unsure| {
                let tasks = Arc::clone(&tasks);
                Box::pin(async move { workers::hand_back(session, worker, &tasks, unsure).await })
            })
            .await
        })
    }

    fn retire(&self, worker: WorkerId) -> Reply<'_, ()> {
        Box::pin(self.on(&self.writes, move |session, _: &mut Nothing| Box::pin(workers::retire(session, worker))))
    }

    fn rescue(&self, by: WorkerId) -> Reply<'_, Rescue> {
        // Each commit is tried again by itself: what an earlier one did is counted whatever becomes of a later one.
        Box::pin(async move {
            let mut wait = true;
            let workers = self.on(&self.writes, move |session, _: &mut Nothing| {
                Box::pin(rescues::bury(session, by, std::mem::replace(&mut wait, false)))
            });
            let mut rescue = Rescue { workers: workers.await?, ..Rescue::default() };
            for _ in 0..rescues::CHUNKS_MAX {
                let mut wait = true;
                let chunk = self.on(&self.writes, move |session, _: &mut Nothing| {
                    Box::pin(rescues::take_back(session, by, std::mem::replace(&mut wait, false)))
                });
                let Some(chunk) = chunk.await? else { break };
                rescue.requeued += chunk.requeued;
                rescue.failed += chunk.failed;
                rescue.failing.extend(chunk.failing);
            }
            rescue.failing.sort();
            rescue.failing.dedup();
            Ok(rescue)
        })
    }

    fn workers(&self) -> Reply<'_, Vec<WorkerView>> {
        Box::pin(self.on(&self.reads, |session, _: &mut Nothing| Box::pin(workers::list(session))))
    }

    fn declare(&self, declaration: Declaration) -> Reply<'_, Declared> {
        self.shared.sweep_floors().forget();
        let declaration = Arc::new(declaration);
        Box::pin(self.on(&self.writes, move |session, unsure| {
            let declaration = Arc::clone(&declaration);
            Box::pin(async move { commands::declare(session, &declaration, unsure).await })
        }))
    }

    fn steer(&self, name: String, command: ScheduleCommand) -> Reply<'_, Steered> {
        self.shared.sweep_floors().forget();
        let asked = Arc::new((name, command));
        Box::pin(self.on(&self.writes, move |session, unsure| {
            let asked = Arc::clone(&asked);
            Box::pin(async move { commands::steer(session, &asked.0, &asked.1, unsure).await })
        }))
    }

    fn materialise(&self, sweep: Sweep) -> Reply<'_, SweepReport> {
        Box::pin(self.on(&self.writes, move |session, unsure| Box::pin(sweeps::materialise(session, sweep, unsure))))
    }

    fn apply(&self, window: Window) -> Reply<'_, Materialised> {
        self.shared.sweep_floors().forget();
        let window = Arc::new(window);
        Box::pin(self.on(&self.writes, move |session, unsure| {
            let window = Arc::clone(&window);
            Box::pin(async move { sweeps::apply(session, &window, unsure).await })
        }))
    }

    fn schedule(&self, name: String) -> Reply<'_, Option<ScheduleView>> {
        let name: Arc<str> = Arc::from(name);
        Box::pin(self.on(&self.reads, move |session, _: &mut Nothing| {
            let name = Arc::clone(&name);
            Box::pin(async move { views::one(session, &name).await })
        }))
    }

    fn schedules(&self, after: Option<String>, limit: u32) -> Reply<'_, Vec<ScheduleView>> {
        let after: Option<Arc<str>> = after.map(Arc::from);
        Box::pin(self.on(&self.reads, move |session, _: &mut Nothing| {
            let after = after.clone();
            Box::pin(async move { views::page(session, after.as_deref(), limit).await })
        }))
    }

    fn losses(&self, name: String, limit: u32) -> Reply<'_, Vec<Loss>> {
        let name: Arc<str> = Arc::from(name);
        Box::pin(self.on(&self.reads, move |session, _: &mut Nothing| {
            let name = Arc::clone(&name);
            Box::pin(async move { views::losses(session, &name, limit).await })
        }))
    }

    fn slot_ends(&self, name: String, limit: u32) -> Reply<'_, Vec<SlotEnd>> {
        let name: Arc<str> = Arc::from(name);
        Box::pin(self.on(&self.reads, move |session, _: &mut Nothing| {
            let name = Arc::clone(&name);
            Box::pin(async move { views::ends(session, &name, limit).await })
        }))
    }

    fn prune(&self, retention: Retention, limit: u32) -> Reply<'_, Pruned> {
        Box::pin(
            self.on(&self.writes, move |session, unsure| Box::pin(retention::prune(session, retention, limit, unsure))),
        )
    }
}
