//! The store in memory: the reference model that every other store is compared with, and the store of tests and examples.
//!
//! Everything is ordered (no hash maps), every operation holds one lock from its beginning to its end, and time comes
//! from an injected clock, so that equal histories give equal states. It favours plain code over speed, and nothing of it
//! outlives the process.

mod claims;
mod keys;
mod queries;
mod schedules;
mod tasks;
mod transaction;
mod upkeep;
mod workers;

use crate::attempt::{CancelOutcome, ClaimBatch, ClaimRequest, Finish, Finished, RetryOutcome};
use crate::error::{StoreError, StoreErrorKind};
use crate::follow_up::FollowUp;
use crate::id::{IdBlock, ScheduleId, TaskId, WorkerId};
use crate::progress::Report;
use crate::queue::QueueView;
use crate::retention::{Pruned, Retention};
use crate::schedule::{Slot, ZoneStamp};
use crate::series::{
    Declaration, Declared, Loss, Materialised, ScheduleCommand, ScheduleView, SlotEnd, Steered, Sweep, SweepReport,
    Window,
};
use crate::store::{Reply, Store, StoreInfo};
use crate::task::{Enqueued, NewTask, Page, TaskDetail, TaskFilter, TaskView};
use crate::worker::{Renewal, Rescue, WorkerInfo, WorkerView};
use keys::{KeyName, KeyRow};
use punctual_clock::{Clock, Instant, Timestamp};
use schedules::ScheduleRow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tasks::TaskRow;
pub use transaction::MemTransaction;
use workers::WorkerRow;

/// A [`Store`] in memory.
#[derive(Debug)]
pub struct MemStore {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

impl MemStore {
    /// An empty store that lives by `clock`: due times by its wall clock, leases by its monotonic one.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let state = State {
            now: Timestamp::EPOCH,
            instant: Instant::from_nanos(0),
            next_task: 1,
            next_schedule: 1,
            next_worker: 1,
            tasks: BTreeMap::new(),
            waiting: BTreeSet::new(),
            keys: BTreeMap::new(),
            queues: BTreeMap::new(),
            workers: BTreeMap::new(),
            schedules: BTreeMap::new(),
            names: BTreeMap::new(),
            slots: BTreeMap::new(),
        };
        MemStore { clock, state: Mutex::new(state) }
    }

    /// Sets a schedule's cursor back and makes it active, as a restored backup does: slots from there on are undecided again
    /// although some have tasks. For tests of what comes then; gives whether there is such a schedule.
    pub fn rewind(&self, schedule: &str, cursor: Slot) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).rewind(schedule, cursor)
    }

    /// Writes the stamp of another time zone database into a schedule's position, as another host does. For tests of what comes then;
    /// gives whether there is such a schedule.
    pub fn restamp(&self, schedule: &str, stamp: &ZoneStamp) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).restamp(schedule, stamp)
    }

    /// Runs one transaction when the reply is first polled.
    fn run<'a, T>(&'a self, transaction: impl FnOnce(&mut State) -> Result<T, StoreError> + Send + 'a) -> Reply<'a, T> {
        Box::pin(async move { self.at_once(transaction) })
    }

    /// Runs one transaction.
    fn at_once<T>(&self, transaction: impl FnOnce(&mut State) -> Result<T, StoreError>) -> Result<T, StoreError> {
        // Every operation checks before it writes, so that a panic under the lock cannot leave half of one.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.now = self.clock.timestamp();
        state.instant = self.clock.now();
        transaction(&mut state)
    }
}

/// All that the store holds. Operations check everything before they write anything.
#[derive(Debug)]
struct State {
    /// The current transaction's time.
    now: Timestamp,
    /// The same by the monotonic clock.
    instant: Instant,
    next_task: i64,
    next_schedule: i64,
    next_worker: i64,
    tasks: BTreeMap<TaskId, TaskRow>,
    /// Waiting tasks in claim order: level, due, id.
    waiting: BTreeSet<(u8, Timestamp, TaskId)>,
    keys: BTreeMap<KeyName, KeyRow>,
    /// Every queue that was ever named, and whether it is paused.
    queues: BTreeMap<String, bool>,
    workers: BTreeMap<WorkerId, WorkerRow>,
    schedules: BTreeMap<ScheduleId, ScheduleRow>,
    names: BTreeMap<String, ScheduleId>,
    /// Which task serves a slot: schedule, era, key, pass.
    slots: BTreeMap<(ScheduleId, u32, i64, u32), TaskId>,
}

impl State {
    fn draw_task_ids(&mut self, count: u32) -> IdBlock {
        let first = self.next_task;
        self.next_task = first.saturating_add(i64::from(count));
        IdBlock::new(first, count)
    }
}

fn bug(message: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Bug, message)
}

impl Store for MemStore {
    fn info(&self) -> StoreInfo {
        StoreInfo {
            kind: "memory",
            location: "this process".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            schema_version: 0,
        }
    }

    fn now(&self) -> Reply<'_, Timestamp> {
        self.run(|state| Ok(state.now))
    }

    fn draw_ids(&self, count: u32) -> Reply<'_, IdBlock> {
        self.run(move |state| Ok(state.draw_task_ids(count)))
    }

    fn enqueue(&self, tasks: Vec<NewTask>) -> Reply<'_, Vec<Enqueued>> {
        self.run(move |state| state.enqueue(tasks))
    }

    fn claim(&self, worker: WorkerId, request: ClaimRequest) -> Reply<'_, ClaimBatch> {
        self.run(move |state| state.claim(worker, &request))
    }

    fn finish_then(
        &self,
        worker: WorkerId,
        finishes: Vec<Finish>,
        follow_ups: Vec<FollowUp>,
    ) -> Reply<'_, Vec<Finished>> {
        self.run(move |state| state.finish(worker, finishes, follow_ups))
    }

    fn report(&self, worker: WorkerId, reports: Vec<Report>) -> Reply<'_, Vec<bool>> {
        self.run(move |state| state.report(worker, reports))
    }

    fn cancel(&self, tasks: Vec<TaskId>) -> Reply<'_, Vec<CancelOutcome>> {
        self.run(move |state| Ok(tasks.into_iter().map(|id| state.cancel(id)).collect()))
    }

    fn retry(&self, tasks: Vec<TaskId>) -> Reply<'_, Vec<RetryOutcome>> {
        self.run(move |state| Ok(tasks.into_iter().map(|id| state.retry(id)).collect()))
    }

    fn task(&self, id: TaskId) -> Reply<'_, Option<TaskDetail>> {
        self.run(move |state| Ok(state.task_detail(id)))
    }

    fn tasks(&self, filter: TaskFilter, page: Page) -> Reply<'_, Vec<TaskView>> {
        self.run(move |state| Ok(state.task_page(&filter, page)))
    }

    fn queues(&self) -> Reply<'_, Vec<QueueView>> {
        self.run(|state| Ok(state.queue_views()))
    }

    fn pause_queue(&self, queue: String, paused: bool) -> Reply<'_, bool> {
        self.run(move |state| state.pause_queue(queue, paused))
    }

    fn register(&self, info: WorkerInfo, lease: Duration) -> Reply<'_, WorkerId> {
        self.run(move |state| state.register(info, lease))
    }

    fn renew(&self, worker: WorkerId, lease: Duration) -> Reply<'_, Renewal> {
        self.run(move |state| state.renew(worker, lease))
    }

    fn holdings(&self, worker: WorkerId) -> Reply<'_, Vec<(TaskId, u32)>> {
        self.run(move |state| state.holdings(worker))
    }

    fn hand_back(&self, worker: WorkerId, tasks: Vec<TaskId>) -> Reply<'_, u32> {
        self.run(move |state| state.hand_back(worker, &tasks))
    }

    fn retire(&self, worker: WorkerId) -> Reply<'_, ()> {
        self.run(move |state| state.retire(worker))
    }

    fn rescue(&self, by: WorkerId) -> Reply<'_, Rescue> {
        self.run(move |state| state.rescue(by))
    }

    fn workers(&self) -> Reply<'_, Vec<WorkerView>> {
        self.run(|state| Ok(state.worker_views()))
    }

    fn declare(&self, declaration: Declaration) -> Reply<'_, Declared> {
        self.run(move |state| state.declare(&declaration))
    }

    fn steer(&self, name: String, command: ScheduleCommand) -> Reply<'_, Steered> {
        self.run(move |state| state.steer(&name, &command))
    }

    fn materialise(&self, sweep: Sweep) -> Reply<'_, SweepReport> {
        self.run(move |state| state.materialise(sweep))
    }

    fn apply(&self, window: Window) -> Reply<'_, Materialised> {
        self.run(move |state| state.apply(&window))
    }

    fn schedule(&self, name: String) -> Reply<'_, Option<ScheduleView>> {
        self.run(move |state| Ok(state.schedule_view(&name)))
    }

    fn schedules(&self, after: Option<String>, limit: u32) -> Reply<'_, Vec<ScheduleView>> {
        self.run(move |state| Ok(state.schedule_page(after.as_deref(), limit)))
    }

    fn losses(&self, name: String, limit: u32) -> Reply<'_, Vec<Loss>> {
        self.run(move |state| state.losses(&name, limit))
    }

    fn slot_ends(&self, name: String, limit: u32) -> Reply<'_, Vec<SlotEnd>> {
        self.run(move |state| state.slot_ends(&name, limit))
    }

    fn prune(&self, retention: Retention, limit: u32) -> Reply<'_, Pruned> {
        self.run(move |state| Ok(state.prune(retention, limit)))
    }
}
