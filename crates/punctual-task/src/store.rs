//! The store: where the engine keeps its state. Implemented here by [`crate::MemStore`], the reference model, and by one
//! crate for each database.
//!
//! Every operation is one transaction. Bulk is the base: one task is a batch of one. Operations that a worker makes
//! carry its [`WorkerId`], the fence: once a worker was marked dead or has retired, they fail as
//! [`Fenced`](crate::StoreErrorKind::Fenced) and nothing is written. The database's clock decides what is due and which
//! lease has ended; callers never pass a "now".
//!
//! What follows from data is decided by pure functions, which all stores share: [`crate::planner`] for schedules,
//! [`crate::decide`] for tasks. `punctual-testkit` has the suite that defines what a store must do.

mod one_by_one;

use crate::attempt::{CancelOutcome, ClaimBatch, ClaimRequest, Finish, Finished, RetryOutcome};
use crate::error::StoreError;
use crate::follow_up::FollowUp;
use crate::id::{IdBlock, TaskId, WorkerId};
use crate::progress::Report;
use crate::queue::QueueView;
use crate::retention::{Pruned, Retention};
use crate::series::{
    Declaration, Declared, Loss, Materialised, ScheduleCommand, ScheduleView, SlotEnd, Steered, Sweep, SweepReport,
    Window,
};
use crate::task::{Enqueued, NewTask, Page, TaskDetail, TaskFilter, TaskView};
use crate::worker::{Renewal, Rescue, WorkerInfo, WorkerView};
use punctual_clock::Timestamp;
use std::any::Any;
use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

/// What every operation returns.
///
/// # Cancel safety
/// Dropping it before it resolves leaves unknown whether the write happened, as a lost connection does: read again by id.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// What a store says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreInfo {
    /// `memory`, `sqlite`, …
    pub kind: &'static str,
    /// Where it is, without secrets.
    pub location: String,
    /// The engine behind it and its version.
    pub version: String,
    /// The version of the tables, 0 where there are none.
    pub schema_version: u32,
}

/// A place where tasks and schedules live.
///
/// It is [`Any`], so that what only one kind of store can do is found behind a `dyn Store`.
///
/// # Errors
/// All operations: [`StoreErrorKind`](crate::StoreErrorKind) says whether anything was written.
pub trait Store: Any + Debug + Send + Sync {
    /// What it is.
    fn info(&self) -> StoreInfo;

    /// The database's clock.
    fn now(&self) -> Reply<'_, Timestamp>;

    /// Draws `count` ids that no other caller gets.
    fn draw_ids(&self, count: u32) -> Reply<'_, IdBlock>;

    // Tasks.

    /// Writes tasks, all or none. Results are in the order of the request; a taken unique key gives its holder
    /// ([`KeyMode::Keep`](crate::KeyMode::Keep)) or refuses the whole batch ([`KeyMode::Reject`](crate::KeyMode::Reject)).
    /// An id that is there already, with the same content, is the resend of a write whose reply was lost: `inserted` is true.
    fn enqueue(&self, tasks: Vec<NewTask>) -> Reply<'_, Vec<Enqueued>>;

    /// Takes due tasks for a live worker. One claim reads one level: the one whose first due task, over all queues and
    /// methods asked for, has the smallest due time plus level × [`LEVEL_AGE`](crate::task::LEVEL_AGE), the lower level
    /// on a tie. In it, tasks come by due time, then by id. Queues that are paused give none.
    ///
    /// Suspects (tasks whose `losses` are not 0) are left out unless asked for. If they are asked for and the first task
    /// is one, it comes alone; if not, the others come without suspects.
    fn claim(&self, worker: WorkerId, request: ClaimRequest) -> Reply<'_, ClaimBatch>;

    /// Records attempts, in one commit; each is applied, already there, or lost on its own. One that is out of its limits
    /// ([`Finish::validate`]) refuses the whole batch. A next attempt has the
    /// next number and is due now at the earliest, and a finished attempt sets the task's `losses` back to 0: they count in a row. If a cancel was asked
    /// for meanwhile, [`decide::settle`](crate::decide::settle) has the last word.
    fn finish(&self, worker: WorkerId, finishes: Vec<Finish>) -> Reply<'_, Vec<Finished>> {
        self.finish_then(worker, finishes, Vec::new())
    }

    /// The same, and in the same commit the follow-ups of those attempts that are applied now and end their task as the
    /// follow-up says, after a cancel has had its word. They are enqueued behind all ends of this call, so that a key which one of
    /// the ended tasks held is free for them; a key that another task holds keeps its holder, and the follow-up is not written.
    /// Those of other attempts are passed over: a resent finish writes nothing again.
    fn finish_then(
        &self,
        worker: WorkerId,
        finishes: Vec<Finish>,
        follow_ups: Vec<FollowUp>,
    ) -> Reply<'_, Vec<Finished>>;

    /// Keeps what running attempts say of themselves, in one commit; gives which of them the worker holds. What others hold by now is
    /// passed over, as it is of an attempt that has ended. It stays with the task until that is pruned, through further attempts.
    fn report(&self, worker: WorkerId, reports: Vec<Report>) -> Reply<'_, Vec<bool>>;

    /// Cancels: waiting tasks at once, with an attempt record of number 0 (which replaces an older one), running ones by
    /// request.
    fn cancel(&self, tasks: Vec<TaskId>) -> Reply<'_, Vec<CancelOutcome>>;

    /// Makes ended tasks wait again, due now. The next attempt has the next number; a unique key is taken again. An
    /// occurrence counts as live again, also beyond its schedule's `max_pending`: an operator asked for it. One of a
    /// cancelled schedule is refused.
    fn retry(&self, tasks: Vec<TaskId>) -> Reply<'_, Vec<RetryOutcome>>;

    /// All that is kept of one task.
    fn task(&self, id: TaskId) -> Reply<'_, Option<TaskDetail>>;

    /// A page of tasks, newest first.
    fn tasks(&self, filter: TaskFilter, page: Page) -> Reply<'_, Vec<TaskView>>;

    // Queues.

    /// All queues that hold or held a task or were paused, by name.
    fn queues(&self) -> Reply<'_, Vec<QueueView>>;

    /// Pauses or resumes claims from a queue. Gives whether that changed anything.
    fn pause_queue(&self, queue: String, paused: bool) -> Reply<'_, bool>;

    // Workers.

    /// Registers a worker and draws its fence, which is above all fences drawn before. Its lease lasts `lease` from now.
    fn register(&self, info: WorkerInfo, lease: Duration) -> Reply<'_, WorkerId>;

    /// Extends the lease, also one that has ended, unless the worker was marked dead
    /// ([`Fenced`](crate::StoreErrorKind::Fenced)).
    fn renew(&self, worker: WorkerId, lease: Duration) -> Reply<'_, Renewal>;

    /// The tasks that a worker holds, with their attempt numbers: after an error on the claim path a worker compares them
    /// with its memory.
    fn holdings(&self, worker: WorkerId) -> Reply<'_, Vec<(TaskId, u32)>>;

    /// Gives back tasks that were claimed and not run to an end. They wait again, due as before, with the same attempt
    /// number and losses; nothing is spent or recorded. A task whose cancel was asked for is cancelled instead. Tasks that
    /// the worker does not hold are passed over. Gives how many were given back.
    fn hand_back(&self, worker: WorkerId, tasks: Vec<TaskId>) -> Reply<'_, u32>;

    /// Ends a registration: hands back what it still holds. Once ended, or dead, it stays so without an error.
    fn retire(&self, worker: WorkerId) -> Reply<'_, ()>;

    /// Marks workers dead whose lease ended, all but `by`, and requeues what they held, due now and as suspects, with an
    /// attempt record of outcome *lost*; [`decide::decide_loss`](crate::decide::decide_loss) says which fail instead, and
    /// a task whose cancel was asked for is cancelled. Safe to call from many at once. Only leases count here: that a
    /// rescuer has itself renewed without a break for one lease is the engine's rule.
    fn rescue(&self, by: WorkerId) -> Reply<'_, Rescue>;

    /// All live workers, and those that were marked dead in the last [`DEAD_SHOWN`](crate::worker::DEAD_SHOWN), by id.
    fn workers(&self) -> Reply<'_, Vec<WorkerView>>;

    // Schedules.

    /// Creates a schedule or brings it up to a declaration.
    fn declare(&self, declaration: Declaration) -> Reply<'_, Declared>;

    /// Does what an operator asks. A trigger whose task is there already is a resend: it gives the same answer and
    /// writes nothing. What is decided before an edit is written before it, in the same commit.
    fn steer(&self, name: String, command: ScheduleCommand) -> Reply<'_, Steered>;

    /// Decides due slots of many schedules in one commit, each with its outcome.
    ///
    /// A store that writes nothing in bulk leaves this out and implements [`Store::materialise_next`]: it then decides slot
    /// by slot, a transaction each, and ends in the same state. One of the two is to be implemented; each is by default
    /// made of the other.
    fn materialise(&self, sweep: Sweep) -> Reply<'_, SweepReport> {
        Box::pin(one_by_one::sweep(self, sweep))
    }

    /// The same for the one schedule that is due first, creating at most one occurrence.
    fn materialise_next(&self) -> Reply<'_, SweepReport> {
        self.materialise(Sweep { schedules_max: 1, window_max: 1 })
    }

    /// Writes one window under compare-and-swap. Decides in the order inactive, version, cursor, exists, created; a
    /// window over the series' budget or `until` ends the series in the same commit. Capacity counts as in a sweep, the
    /// missed policy does not: which slots to create was the caller's decision.
    fn apply(&self, window: Window) -> Reply<'_, Materialised>;

    /// One schedule.
    fn schedule(&self, name: String) -> Reply<'_, Option<ScheduleView>>;

    /// Schedules by name, those after `after`, at most `limit` (up to [`Page::LIMIT_MAX`]).
    fn schedules(&self, after: Option<String>, limit: u32) -> Reply<'_, Vec<ScheduleView>>;

    /// The latest losses of a schedule, newest first, at most `limit`.
    fn losses(&self, name: String, limit: u32) -> Reply<'_, Vec<Loss>>;

    /// How the newest occurrences of a schedule ended: of those that have succeeded or failed, the `limit` (up to
    /// [`Page::LIMIT_MAX`]) with the newest slots, by era and then by slot, newest first. Triggers have no slot and are left out. The
    /// order does not depend on which host created them.
    fn slot_ends(&self, name: String, limit: u32) -> Reply<'_, Vec<SlotEnd>>;

    // Upkeep.

    /// Removes at most `limit` tasks that ended longer ago than `retention` allows, and records of losses older than
    /// ended tasks may become (their counters stay). A pruned slot never comes back: an occurrence of the schedule's
    /// era at or after the cursor stays until the cursor has passed it. Of a slot whose task it removes, of any pass, the
    /// schedule's [`known_from`](crate::Position::known_from) becomes one microsecond after its instant, unless it is later.
    fn prune(&self, retention: Retention, limit: u32) -> Reply<'_, Pruned>;
}
