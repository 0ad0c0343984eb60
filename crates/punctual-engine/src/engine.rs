//! The engine as its users hold it.

use crate::builder::EngineBuilder;
use crate::declare::ScheduleBuilder;
use crate::enqueue::{Enqueue, EnqueueMany};
use crate::outcome::TaskEnd;
use crate::shared::Shared;
use crate::shutdown::ShutdownReport;
use crate::{Durable, Error, Stats, Task};
use bytes::Bytes;
use punctual_task::schedule::Rule;
use punctual_task::{
    BackfillPreview, BackfillRequest, CancelOutcome, RetryOutcome, ScheduleCommand, Steered, Store, TaskId, WorkerId,
};
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

/// A durable engine: enqueues calls, declares schedules, and runs the handlers that it was started with.
///
/// Cloning is cheap, and all clones are one engine. When the last clone is dropped without [`Engine::shutdown`], the
/// engine stops abruptly: handlers are dropped, and what it held is rescued by others once its lease has ended.
#[derive(Debug, Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.stop_abruptly();
    }
}

impl Engine {
    /// Begins an engine on `store`.
    pub fn builder(store: Arc<dyn Store>) -> EngineBuilder {
        EngineBuilder::new(store)
    }

    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Engine { inner: Arc::new(Inner { shared }) }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    /// The store, for everything that the engine adds nothing to: lists, details, queues, workers, previews.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.shared.store
    }

    /// The store as the kind that it is, or `None` where it is of another: `engine.store_as::<SqliteStore>()`.
    #[must_use]
    pub fn store_as<S: Store>(&self) -> Option<&S> {
        let store: &dyn Any = &**self.store();
        store.downcast_ref()
    }

    /// What the engine has done since it started.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.inner.shared.stats.read()
    }

    /// The current registration; `None` for an engine that serves nothing, and between a lost lease and the next.
    #[must_use]
    pub fn worker(&self) -> Option<WorkerId> {
        self.inner.shared.lease.worker()
    }

    /// Stores a call to be run once: `engine.enqueue(billing::Charge { order, cents }).delay(hour).await?`.
    pub fn enqueue<C: Durable>(&self, call: C) -> Enqueue<'_, C> {
        Enqueue::typed(self.shared(), &call)
    }

    /// The same for a method that this program knows by name only. The arguments are JSON.
    pub fn enqueue_json(&self, method: &str, args: impl Into<Bytes>) -> Enqueue<'_, serde_json::Value> {
        Enqueue::json(self.shared(), method, args.into())
    }

    /// Stores many calls of one method, up to 1,000 a commit.
    pub fn enqueue_many<C: Durable>(&self, calls: impl IntoIterator<Item = C>) -> EnqueueMany<'_, C> {
        EnqueueMany::typed(self.shared(), calls)
    }

    /// Declares a schedule that this program needs: creates it, or brings it up to date if the declaration changed.
    pub fn schedule<C: Durable>(&self, name: impl Into<String>, rule: impl Into<Rule>, call: C) -> ScheduleBuilder<'_> {
        ScheduleBuilder::typed(self.shared(), name.into(), rule.into(), &call)
    }

    /// The same for a method that this program knows by name only. The arguments are JSON.
    pub fn schedule_json(
        &self,
        name: impl Into<String>,
        rule: impl Into<Rule>,
        method: &str,
        args: impl Into<Bytes>,
    ) -> ScheduleBuilder<'_> {
        ScheduleBuilder::json(self.shared(), name.into(), rule.into(), method, args.into())
    }

    /// How a task has ended, or `None` while it has not.
    ///
    /// # Errors
    /// `NotFound` where there is no such task; `Payload` where its result does not read as `C`'s.
    pub async fn outcome<C: Durable>(&self, id: TaskId) -> Result<Option<TaskEnd<C::Ok, C::Err>>, Error> {
        self.shared().outcome(id).await
    }

    /// Waits until a task has ended. A store that is unavailable meanwhile is asked again.
    ///
    /// # Errors
    /// As [`Engine::outcome`].
    ///
    /// # Cancel safety
    /// Dropping it loses nothing: the task is not touched.
    pub async fn wait<C: Durable>(&self, task: &Task<C>) -> Result<TaskEnd<C::Ok, C::Err>, Error> {
        self.shared().wait(task.id).await
    }

    /// The same by id, with result and error as JSON values.
    ///
    /// # Errors
    /// As [`Engine::outcome`].
    pub async fn wait_json(&self, id: TaskId) -> Result<TaskEnd<serde_json::Value, serde_json::Value>, Error> {
        self.shared().wait(id).await
    }

    /// Cancels tasks: waiting ones at once, running ones by their token. Those that run in this engine are told at once,
    /// others with their worker's next renewal.
    ///
    /// # Errors
    /// What the store says.
    pub async fn cancel(&self, tasks: Vec<TaskId>) -> Result<Vec<CancelOutcome>, Error> {
        self.shared().cancel(tasks).await
    }

    /// Makes ended tasks wait again, due now.
    ///
    /// # Errors
    /// What the store says.
    pub async fn retry(&self, tasks: Vec<TaskId>) -> Result<Vec<RetryOutcome>, Error> {
        self.shared().retry(tasks).await
    }

    /// Pauses or resumes claims from a queue. Gives whether that changed anything.
    ///
    /// # Errors
    /// What the store says.
    pub async fn pause_queue(&self, queue: impl Into<String>, paused: bool) -> Result<bool, Error> {
        self.shared().pause_queue(queue.into(), paused).await
    }

    /// Does to a schedule what an operator asks.
    ///
    /// # Errors
    /// What the store says.
    pub async fn steer(&self, schedule: impl Into<String>, command: ScheduleCommand) -> Result<Steered, Error> {
        self.shared().steer(schedule.into(), command).await
    }

    /// Creates one occurrence of a schedule now, beside its slots; with `force` also when `max_pending` are live.
    ///
    /// # Errors
    /// What the store says.
    pub async fn trigger(&self, schedule: impl Into<String>, force: bool) -> Result<Steered, Error> {
        self.shared().trigger(schedule.into(), force).await
    }

    /// Creates past slots of a schedule after all, oldest first, beside its own slots. A request whose `pass` is 0 gets the
    /// next number, which is given back.
    ///
    /// ```no_run
    /// # use punctual_engine::{Engine, Error};
    /// # use punctual_task::BackfillRequest;
    /// # use punctual_clock::Timestamp;
    /// # async fn fill(engine: Engine, from: Timestamp, to: Timestamp) -> Result<(), Error> {
    /// let request = BackfillRequest { max_pending: 4, ..BackfillRequest::new(0, from, to) };
    /// println!("{} slots", engine.preview_backfill("nightly", request).await?.slots.len());
    /// engine.backfill("nightly", request).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Refused` where a backfill is under way or the range has no slot; otherwise what the store says.
    pub async fn backfill(&self, schedule: impl Into<String>, request: BackfillRequest) -> Result<u32, Error> {
        self.shared().backfill(schedule.into(), request).await
    }

    /// What a backfill would do with each slot of its range, at most
    /// [`COMMAND_WALK_MAX`](punctual_task::planner::COMMAND_WALK_MAX) of them. Writes nothing.
    ///
    /// # Errors
    /// What the store says.
    pub async fn preview_backfill(
        &self,
        schedule: impl Into<String>,
        request: BackfillRequest,
    ) -> Result<BackfillPreview, Error> {
        self.shared().preview_backfill(schedule.into(), request).await
    }

    /// Stops in order: claims nothing more, lets what runs end within `grace`, then cancels it and gives back what has
    /// not ended, records what has, and retires the worker.
    ///
    /// Takes at most `grace`, the configured `stop_grace`, and about ten seconds for the store. The engine can still
    /// enqueue and ask afterwards; it runs nothing any more.
    ///
    /// # Cancel safety
    /// Dropping it leaves the engine draining; call it again to go on.
    pub async fn shutdown(&self, grace: Duration) -> ShutdownReport {
        self.shared().shutdown(grace).await
    }
}
