//! A store that fails as stores do: before a write, after it with the reply lost, or by giving no answer at all.

use punctual_clock::{Entropy, SeededEntropy, Timestamp};
use punctual_task::{
    CancelOutcome, ClaimBatch, ClaimRequest, Declaration, Declared, Enqueued, Finish, Finished, FollowUp, IdBlock,
    Loss, Materialised, NewTask, Page, Pruned, QueueView, Renewal, Reply, Report, Rescue, Retention, RetryOutcome,
    ScheduleCommand, ScheduleView, SlotEnd, Steered, Store, StoreError, StoreErrorKind, StoreInfo, Sweep, SweepReport,
    TaskDetail, TaskFilter, TaskId, TaskView, Window, WorkerId, WorkerInfo, WorkerView,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// An operation of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is the trait's method of the same name")]
pub enum Op {
    Now,
    DrawIds,
    Enqueue,
    Claim,
    Finish,
    Report,
    Cancel,
    Retry,
    Task,
    Tasks,
    Queues,
    PauseQueue,
    Register,
    Renew,
    Holdings,
    HandBack,
    Retire,
    Rescue,
    Workers,
    Declare,
    Steer,
    Materialise,
    Apply,
    Schedule,
    Schedules,
    Losses,
    SlotEnds,
    Prune,
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is written.
    Before(StoreErrorKind),
    /// The write is done and its reply lost.
    After(StoreErrorKind),
    /// No answer, and nothing written, until [`FaultyStore::heal`]; then the call is done.
    Hang,
    /// The call panics, and nothing is written: what a bug in a store does to its caller.
    Panic,
}

/// Wraps a store and fails where it is told to. Counts every call.
#[derive(Debug)]
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    state: Mutex<State>,
    healed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    calls: BTreeMap<Op, u64>,
    /// Faults of the next calls, in order.
    planned: BTreeMap<Op, Vec<Fault>>,
    /// Faults of all further calls, until healed.
    lasting: BTreeMap<Op, Fault>,
    chance: Option<(SeededEntropy, u64)>,
}

impl FaultyStore {
    /// A store that works until it is told otherwise.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>) -> Self {
        FaultyStore { inner, state: Mutex::default(), healed: watch::Sender::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next `times` calls of `op` fail.
    pub fn fail_next(&self, op: Op, fault: Fault, times: usize) {
        self.lock().planned.entry(op).or_default().extend(std::iter::repeat_n(fault, times));
    }

    /// All calls of `ops` fail until [`FaultyStore::heal`].
    pub fn fail_all(&self, ops: &[Op], fault: Fault) {
        self.lock().lasting.extend(ops.iter().map(|op| (*op, fault)));
    }

    /// Of all calls, so many in a thousand fail as unavailable, half of them after the write. A seed repeats a history of
    /// equal calls.
    pub fn fail_by_chance(&self, seed: u64, per_mille: u64) {
        self.lock().chance = Some((SeededEntropy::new(seed), per_mille));
    }

    /// Everything works again, and calls that hung are done.
    pub fn heal(&self) {
        let mut state = self.lock();
        state.planned.clear();
        state.lasting.clear();
        state.chance = None;
        drop(state);
        self.healed.send_modify(|times| *times += 1);
    }

    /// How often `op` was called.
    #[must_use]
    pub fn calls(&self, op: Op) -> u64 {
        self.lock().calls.get(&op).copied().unwrap_or_default()
    }

    fn next_fault(&self, op: Op) -> Option<Fault> {
        let mut state = self.lock();
        *state.calls.entry(op).or_default() += 1;
        if let Some(planned) = state.planned.get_mut(&op)
            && !planned.is_empty()
        {
            return Some(planned.remove(0));
        }
        if let Some(fault) = state.lasting.get(&op) {
            return Some(*fault);
        }
        let (entropy, per_mille) = state.chance.as_ref()?;
        let drawn = entropy.below(1_000);
        let kind = StoreErrorKind::Unavailable;
        let fault = if drawn.is_multiple_of(2) { Fault::Before(kind) } else { Fault::After(kind) };
        (drawn < *per_mille).then_some(fault)
    }

    fn with<'a, T: Send + 'a>(&'a self, op: Op, call: Reply<'a, T>) -> Reply<'a, T> {
        Box::pin(async move {
            let failed = |kind| Err(StoreError::new(kind, format!("{op:?} fails as the test asked for")));
            match self.next_fault(op) {
                None => call.await,
                Some(Fault::Before(kind)) => failed(kind),
                Some(Fault::After(kind)) => {
                    call.await?;
                    failed(kind)
                }
                Some(Fault::Panic) => panic!("{op:?} panics as the test asked for"),
                Some(Fault::Hang) => {
                    let mut healed = self.healed.subscribe();
                    // The sender lives in `self`: waiting cannot fail.
                    let _ = healed.changed().await;
                    call.await
                }
            }
        })
    }
}

impl Store for FaultyStore {
    fn info(&self) -> StoreInfo {
        self.inner.info()
    }

    fn now(&self) -> Reply<'_, Timestamp> {
        self.with(Op::Now, self.inner.now())
    }

    fn draw_ids(&self, count: u32) -> Reply<'_, IdBlock> {
        self.with(Op::DrawIds, self.inner.draw_ids(count))
    }

    fn enqueue(&self, tasks: Vec<NewTask>) -> Reply<'_, Vec<Enqueued>> {
        self.with(Op::Enqueue, self.inner.enqueue(tasks))
    }

    fn claim(&self, worker: WorkerId, request: ClaimRequest) -> Reply<'_, ClaimBatch> {
        self.with(Op::Claim, self.inner.claim(worker, request))
    }

    fn finish_then(
        &self,
        worker: WorkerId,
        finishes: Vec<Finish>,
        follow_ups: Vec<FollowUp>,
    ) -> Reply<'_, Vec<Finished>> {
        self.with(Op::Finish, self.inner.finish_then(worker, finishes, follow_ups))
    }

    fn report(&self, worker: WorkerId, reports: Vec<Report>) -> Reply<'_, Vec<bool>> {
        self.with(Op::Report, self.inner.report(worker, reports))
    }

    fn cancel(&self, tasks: Vec<TaskId>) -> Reply<'_, Vec<CancelOutcome>> {
        self.with(Op::Cancel, self.inner.cancel(tasks))
    }

    fn retry(&self, tasks: Vec<TaskId>) -> Reply<'_, Vec<RetryOutcome>> {
        self.with(Op::Retry, self.inner.retry(tasks))
    }

    fn task(&self, id: TaskId) -> Reply<'_, Option<TaskDetail>> {
        self.with(Op::Task, self.inner.task(id))
    }

    fn tasks(&self, filter: TaskFilter, page: Page) -> Reply<'_, Vec<TaskView>> {
        self.with(Op::Tasks, self.inner.tasks(filter, page))
    }

    fn queues(&self) -> Reply<'_, Vec<QueueView>> {
        self.with(Op::Queues, self.inner.queues())
    }

    fn pause_queue(&self, queue: String, paused: bool) -> Reply<'_, bool> {
        self.with(Op::PauseQueue, self.inner.pause_queue(queue, paused))
    }

    fn register(&self, info: WorkerInfo, lease: Duration) -> Reply<'_, WorkerId> {
        self.with(Op::Register, self.inner.register(info, lease))
    }

    fn renew(&self, worker: WorkerId, lease: Duration) -> Reply<'_, Renewal> {
        self.with(Op::Renew, self.inner.renew(worker, lease))
    }

    fn holdings(&self, worker: WorkerId) -> Reply<'_, Vec<(TaskId, u32)>> {
        self.with(Op::Holdings, self.inner.holdings(worker))
    }

    fn hand_back(&self, worker: WorkerId, tasks: Vec<TaskId>) -> Reply<'_, u32> {
        self.with(Op::HandBack, self.inner.hand_back(worker, tasks))
    }

    fn retire(&self, worker: WorkerId) -> Reply<'_, ()> {
        self.with(Op::Retire, self.inner.retire(worker))
    }

    fn rescue(&self, by: WorkerId) -> Reply<'_, Rescue> {
        self.with(Op::Rescue, self.inner.rescue(by))
    }

    fn workers(&self) -> Reply<'_, Vec<WorkerView>> {
        self.with(Op::Workers, self.inner.workers())
    }

    fn declare(&self, declaration: Declaration) -> Reply<'_, Declared> {
        self.with(Op::Declare, self.inner.declare(declaration))
    }

    fn steer(&self, name: String, command: ScheduleCommand) -> Reply<'_, Steered> {
        self.with(Op::Steer, self.inner.steer(name, command))
    }

    fn materialise(&self, sweep: Sweep) -> Reply<'_, SweepReport> {
        self.with(Op::Materialise, self.inner.materialise(sweep))
    }

    fn apply(&self, window: Window) -> Reply<'_, Materialised> {
        self.with(Op::Apply, self.inner.apply(window))
    }

    fn schedule(&self, name: String) -> Reply<'_, Option<ScheduleView>> {
        self.with(Op::Schedule, self.inner.schedule(name))
    }

    fn schedules(&self, after: Option<String>, limit: u32) -> Reply<'_, Vec<ScheduleView>> {
        self.with(Op::Schedules, self.inner.schedules(after, limit))
    }

    fn losses(&self, name: String, limit: u32) -> Reply<'_, Vec<Loss>> {
        self.with(Op::Losses, self.inner.losses(name, limit))
    }

    fn slot_ends(&self, name: String, limit: u32) -> Reply<'_, Vec<SlotEnd>> {
        self.with(Op::SlotEnds, self.inner.slot_ends(name, limit))
    }

    fn prune(&self, retention: Retention, limit: u32) -> Reply<'_, Pruned> {
        self.with(Op::Prune, self.inner.prune(retention, limit))
    }
}
