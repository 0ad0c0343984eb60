//! What a scenario stands on: a fresh store, its clock, and short words for what scenarios do.

use super::transactions::{Transact, Transacted, Transaction};
use crate::VirtualClock;
use bytes::Bytes;
use punctual_clock::{Clock, Timestamp};
use punctual_task::schedule::{Every, Rule, Slot, ZoneStamp};
use punctual_task::series::Overflow;
use punctual_task::{
    Backoff, CancelOutcome, ClaimBatch, ClaimRequest, Claimed, Declaration, Declared, Due, Enqueued, Finish, Finished,
    KeyHold, Materialised, MemStore, Missed, NewTask, Next, Outcome, Page, ScheduleCommand, ScheduleSpec, ScheduleView,
    SlotOutcome, Steered, Store, StoreError, StoreErrorKind, Sweep, SweepReport, TaskDetail, TaskFilter, TaskId,
    TaskOptions, TaskState, TaskView, UniqueKey, Window, WorkerId, WorkerInfo,
};
use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Where every scenario's wall clock begins: Monday, 2026-03-02T00:00:00Z.
pub const START: Timestamp = Timestamp::from_secs(1_772_409_600);

/// The lease of the scenarios' workers.
pub const LEASE: Duration = Duration::from_secs(15);

/// The methods that the scenarios' workers know.
pub const METHODS: [&str; 3] = ["Demo/run", "Demo/other", "Mail/send"];

/// Sets a schedule's cursor back and makes it active, with the cursor's instant as the time of its next sweep, leaving all
/// else alone: what a restored position looks like. Given to the suite by the store's crate, since no operation does it.
pub type Rewind = Box<dyn Fn(&str, Slot) + Send + Sync>;

/// Writes the stamp of another host's time zone database into a schedule's row. Given to the suite like [`Rewind`].
pub type Restamp = Box<dyn Fn(&str, &ZoneStamp) + Send + Sync>;

/// A fresh store under test.
pub struct Opened {
    store: Arc<dyn Store>,
    rewind: Rewind,
    restamp: Option<Restamp>,
    transact: Option<Transact>,
    guard: Option<Box<dyn Any + Send>>,
}

impl Opened {
    /// A store and how to set a cursor back in it.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, rewind: impl Fn(&str, Slot) + Send + Sync + 'static) -> Self {
        Opened { store, rewind: Box::new(rewind), restamp: None, transact: None, guard: None }
    }

    /// The same, with what writes the stamp of another time zone database.
    #[must_use]
    pub fn restamped_by(mut self, restamp: impl Fn(&str, &ZoneStamp) + Send + Sync + 'static) -> Self {
        self.restamp = Some(Box::new(restamp));
        self
    }

    /// The same, with what does a transaction of the caller's own.
    #[must_use]
    pub fn transacting_by<Fut>(mut self, transact: impl Fn(Transaction) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = Transacted> + Send + 'static,
    {
        self.transact = Some(Box::new(move |transaction| Box::pin(transact(transaction))));
        self
    }

    /// The store in memory.
    #[must_use]
    pub fn in_memory(clock: Arc<dyn Clock>) -> Self {
        let store = Arc::new(MemStore::new(clock));
        let (same, other, third) = (Arc::clone(&store), Arc::clone(&store), Arc::clone(&store));
        Opened::new(store, move |schedule, cursor| assert!(same.rewind(schedule, cursor)))
            .restamped_by(move |schedule, stamp| assert!(other.restamp(schedule, stamp)))
            .transacting_by(move |transaction| {
                let store = Arc::clone(&third);
                async move {
                    let mut tx = store.transaction();
                    let commit = transaction.commit;
                    let answers = transaction.inside(&*store, &mut tx).await;
                    if commit { tx.commit().map(|()| answers) } else { Ok(answers) }
                }
            })
    }

    /// Does all of a transaction.
    ///
    /// # Panics
    /// If the store's crate gave the suite no way to.
    pub fn transact(&self, transaction: Transaction) -> Pin<Box<dyn Future<Output = Transacted> + Send>> {
        (self.transact.as_ref().expect("the store's crate says how with `transacting_by`"))(transaction)
    }

    /// The same, keeping `guard` (a directory, a connection) until the scenario has ended.
    #[must_use]
    pub fn keeping(mut self, guard: impl Any + Send) -> Self {
        self.guard = Some(Box::new(guard));
        self
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// Sets a schedule's cursor back; see [`Rewind`].
    pub fn rewind(&self, schedule: &str, cursor: Slot) {
        (self.rewind)(schedule, cursor);
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("store", &self.store).finish_non_exhaustive()
    }
}

/// A scenario's store and clock.
#[derive(Debug)]
pub struct Stand {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Its clock, at [`START`].
    pub clock: Arc<VirtualClock>,
    opened: Opened,
}

/// The instant so many seconds after [`START`].
#[must_use]
pub fn at(seconds: u64) -> Timestamp {
    START.after(secs(seconds))
}

/// So many seconds.
#[must_use]
pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A schedule with a slot each minute from START + 60 s on, that catches up everything and lets everything overlap up to
/// the largest `max_pending`: what is due is created.
#[must_use]
pub fn minutely(name: &str) -> ScheduleSpec {
    ScheduleSpec {
        missed: Missed::All { max_count: 10_000, max_age: secs(10 * 365 * 86_400), overflow: Overflow::SkipOldest },
        max_pending: ScheduleSpec::MAX_PENDING_MAX,
        ..ScheduleSpec::new(name, every_minute(), "Demo/run", Bytes::from_static(b"{\"who\":\"schedule\"}"))
    }
}

/// Each minute, counted from START + 60 s.
#[must_use]
pub fn every_minute() -> Rule {
    Every::new(secs(60)).anchor(at(60)).into()
}

impl Stand {
    pub(super) fn new(opened: Opened, clock: Arc<VirtualClock>) -> Self {
        Stand { store: opened.store(), clock, opened }
    }

    /// The database's time now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.timestamp()
    }

    /// Moves both times on.
    pub fn advance(&self, seconds: u64) {
        self.clock.advance(secs(seconds));
    }

    /// Sets a schedule's cursor back; see [`Rewind`].
    pub fn rewind(&self, schedule: &str, cursor: Slot) {
        self.opened.rewind(schedule, cursor);
    }

    /// Writes another host's stamp into a schedule's row; see [`Restamp`].
    ///
    /// # Panics
    /// If the store's crate gave the suite no way to.
    pub fn restamp(&self, schedule: &str, stamp: &ZoneStamp) {
        (self.opened.restamp.as_ref().expect("the store's crate says how with `restamped_by`"))(schedule, stamp);
    }

    /// Does all of a transaction; see [`Opened::transact`].
    pub fn transact(&self, transaction: Transaction) -> Pin<Box<dyn Future<Output = Transacted> + Send>> {
        self.opened.transact(transaction)
    }

    // Tasks.

    /// A fresh id.
    pub async fn id(&self) -> TaskId {
        self.store.draw_ids(1).await.unwrap().take().unwrap()
    }

    /// A task of `Demo/run` in queue `Demo`, due now, with a fresh id; not yet written.
    pub async fn new_task(&self) -> NewTask {
        NewTask {
            id: self.id().await,
            method: "Demo/run".to_owned(),
            queue: "Demo".to_owned(),
            level: 1,
            due: Due::Now,
            args: Bytes::from_static(b"{\"a\":1}"),
            schema: 7,
            options: TaskOptions::default(),
            key: None,
        }
    }

    /// The same with a unique key.
    pub async fn keyed(&self, text: &str, hold: KeyHold) -> NewTask {
        NewTask { key: Some(UniqueKey { hold, ..UniqueKey::new(text) }), ..self.new_task().await }
    }

    /// Writes `count` tasks as [`Stand::new_task`] gives them; gives their ids.
    pub async fn enqueue(&self, count: u32) -> Vec<TaskId> {
        let mut tasks = Vec::new();
        for _ in 0..count {
            tasks.push(self.new_task().await);
        }
        let ids = tasks.iter().map(|task| task.id).collect();
        self.store.enqueue(tasks).await.unwrap();
        ids
    }

    /// Writes one task; gives what the store said of it.
    pub async fn put(&self, task: NewTask) -> Enqueued {
        self.store.enqueue(vec![task]).await.unwrap().remove(0)
    }

    /// All of one task.
    pub async fn detail(&self, id: TaskId) -> TaskDetail {
        self.store.task(id).await.unwrap().expect("the task is there")
    }

    /// Where a task is.
    pub async fn state(&self, id: TaskId) -> TaskState {
        self.detail(id).await.view.state
    }

    /// Every task that a filter finds, by id, read page by page.
    pub async fn tasks(&self, filter: TaskFilter) -> Vec<TaskView> {
        let mut all = Vec::new();
        let mut before = None;
        loop {
            let page = self.store.tasks(filter.clone(), Page { before, limit: 500 }).await.unwrap();
            before = page.last().map(|task| task.id);
            let last = page.len() < 500;
            all.extend(page);
            if last {
                all.reverse();
                return all;
            }
        }
    }

    // Workers.

    /// Registers a worker with 10 slots.
    pub async fn worker(&self) -> WorkerId {
        self.store.register(WorkerInfo { name: "test".to_owned(), slots: 10 }, LEASE).await.unwrap()
    }

    /// Claims up to `limit` tasks of any queue and of [`METHODS`], no suspects.
    pub async fn claim(&self, worker: WorkerId, limit: u32) -> Vec<Claimed> {
        self.claim_batch(worker, limit).await.tasks
    }

    /// The same with the store's whole answer.
    pub async fn claim_batch(&self, worker: WorkerId, limit: u32) -> ClaimBatch {
        self.store.claim(worker, any(limit)).await.unwrap()
    }

    /// Claims one task, which must be there.
    pub async fn claim_one(&self, worker: WorkerId) -> Claimed {
        self.claim(worker, 1).await.pop().expect("a task is due")
    }

    /// Finishes a claimed task as a success.
    pub async fn succeed(&self, worker: WorkerId, task: &Claimed) -> Finished {
        self.finish(worker, task, Outcome::Succeeded, Next::Final(TaskState::Succeeded)).await
    }

    /// Finishes a claimed task.
    pub async fn finish(&self, worker: WorkerId, task: &Claimed, outcome: Outcome, next: Next) -> Finished {
        self.store.finish(worker, vec![self.ending(task, outcome, next)]).await.unwrap().remove(0)
    }

    /// The record of a claimed task's end now.
    #[must_use]
    pub fn ending(&self, task: &Claimed, outcome: Outcome, next: Next) -> Finish {
        let out: &[u8] = if outcome == Outcome::Succeeded { b"42" } else { b"{\"message\":\"it broke\"}" };
        let now = self.now();
        Finish { task: task.task, n: task.n, started: now, ended: now, outcome, out: Bytes::copy_from_slice(out), next }
    }

    /// Cancels one task.
    pub async fn cancel(&self, id: TaskId) -> CancelOutcome {
        self.store.cancel(vec![id]).await.unwrap().remove(0)
    }

    /// Claims and succeeds everything that is due, as one fresh worker; gives what ran, in order.
    pub async fn drain(&self) -> Vec<Claimed> {
        let worker = self.worker().await;
        let mut ran = Vec::new();
        loop {
            let tasks = self.claim(worker, 500).await;
            if tasks.is_empty() {
                self.store.retire(worker).await.unwrap();
                return ran;
            }
            let ends =
                tasks.iter().map(|task| self.ending(task, Outcome::Succeeded, Next::Final(TaskState::Succeeded)));
            self.store.finish(worker, ends.collect()).await.unwrap();
            ran.extend(tasks);
        }
    }

    // Schedules.

    /// Declares a schedule, revision 0.
    pub async fn declare(&self, spec: ScheduleSpec) -> Declared {
        self.store.declare(Declaration { spec, revision: 0 }).await.unwrap()
    }

    /// One schedule.
    pub async fn view(&self, name: &str) -> ScheduleView {
        self.store.schedule(name.to_owned()).await.unwrap().expect("the schedule is there")
    }

    /// One sweep with the default bounds.
    pub async fn sweep(&self) -> SweepReport {
        self.store.materialise(Sweep::default()).await.unwrap()
    }

    /// Sweeps with windows of `window_max` until nothing is left that can be decided now.
    pub async fn sweep_all(&self, window_max: u32) -> Vec<SweepReport> {
        let mut reports = Vec::new();
        loop {
            let sweep = Sweep { window_max, ..Sweep::default() };
            let report = self.store.materialise(sweep).await.unwrap();
            let done = report.next_due.is_none_or(|due| due > self.now());
            reports.push(report);
            assert!(reports.len() < 2_000, "sweeps do not end");
            if done {
                return reports;
            }
        }
    }

    /// Steers a schedule.
    pub async fn steer(&self, name: &str, command: ScheduleCommand) -> Result<Steered, StoreError> {
        self.store.steer(name.to_owned(), command).await
    }

    /// A window of the next `count` slots from the cursor on.
    pub async fn window(&self, name: &str, count: usize) -> Window {
        let view = self.view(name).await;
        let cursor = view.position.cursor.expect("a window begins at a cursor");
        let slots = slots_from(&view, cursor, count);
        Window { schedule: view.position.id, version: view.position.version, cursor, slots }
    }

    /// Nominal second after START and run number of a schedule's occurrences, in the order of their ids.
    pub async fn runs(&self, name: &str) -> Vec<(u64, u64)> {
        let filter = TaskFilter { schedule: Some(name.to_owned()), ..TaskFilter::default() };
        let tasks = self.tasks(filter).await;
        let run = |task: TaskView| {
            let occurrence = task.occurrence.expect("a schedule's task is an occurrence");
            (occurrence.at.since(START).as_secs(), occurrence.run)
        };
        tasks.into_iter().map(run).collect()
    }

    /// All losses of a schedule, oldest first: second after START of the first and last slot, reason's name, count.
    pub async fn lost(&self, name: &str) -> Vec<(u64, u64, &'static str, u64)> {
        let mut losses = self.store.losses(name.to_owned(), 1_000).await.unwrap();
        losses.reverse();
        let second = |at: Timestamp| at.since(START).as_secs();
        losses.iter().map(|loss| (second(loss.from), second(loss.to), loss.reason.as_str(), loss.count)).collect()
    }
}

/// Any queue, [`METHODS`], no suspects.
#[must_use]
pub fn any(limit: u32) -> ClaimRequest {
    ClaimRequest { queue: None, methods: METHODS.map(str::to_owned).to_vec(), limit, suspects: false }
}

/// `count` slots of a schedule's rule, `first` and those after it.
#[must_use]
pub fn slots_from(view: &ScheduleView, first: Slot, count: usize) -> Vec<Slot> {
    let rule = punctual_task::schedule::CompiledRule::new(&view.spec.rule, view.created).unwrap();
    let rest = rule.slots_after(first.at).map(Result::unwrap);
    std::iter::once(first).chain(rest).take(count).collect()
}

/// What became of each slot, without the slots.
#[must_use]
pub fn outcomes(materialised: &Materialised) -> Vec<SlotOutcome> {
    materialised.slots.iter().map(|(_, outcome)| *outcome).collect()
}

/// The nominal seconds after START and run numbers of slots each minute: `slots` counted from 1, runs from `run`.
#[must_use]
pub fn minutes(slots: impl IntoIterator<Item = u64>, run: u64) -> Vec<(u64, u64)> {
    slots.into_iter().zip(run..).map(|(slot, run)| (slot * 60, run)).collect()
}

/// The kind of an error; the request must have failed.
#[track_caller]
pub fn kind<T: fmt::Debug>(result: Result<T, StoreError>) -> StoreErrorKind {
    result.expect_err("the request is refused").kind()
}

/// Fixed waits of one second, so that scenarios can name the instants.
#[must_use]
pub fn one_second() -> Backoff {
    Backoff::fixed(secs(1))
}
