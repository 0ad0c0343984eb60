//! Storing calls: what can be said of one, and the write.

mod follow;
mod within;

pub use within::Wake;

use crate::pacing::Pace;
use crate::shared::Shared;
use crate::{Durable, Error, ErrorKind, service_of, span};
use bytes::Bytes;
use punctual_clock::Timestamp;
use punctual_task::{
    Backoff, Due, Enqueued, NewTask, Policy, StoreError, StoreErrorKind, TaskId, TaskOptions, UniqueKey,
};
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tracing::{Instrument, Span};

/// At most so many tasks are written in one commit: more gain nothing.
const CHUNK_TASKS_MAX: usize = 1_000;
/// A statement beyond about 3 MB is slower than two of half its size.
const CHUNK_BYTES_MAX: usize = 3 << 20;

/// A stored call, with the types that its outcome reads back as.
pub struct Task<C> {
    /// The new task, or the holder of the unique key.
    pub id: TaskId,
    /// Whether the task was inserted; otherwise it was already there.
    pub inserted: bool,
    call: PhantomData<fn() -> C>,
}

impl<C> Task<C> {
    /// A task of a known method, by an id that was kept.
    #[must_use]
    pub const fn existing(id: TaskId) -> Self {
        Task { id, inserted: false, call: PhantomData }
    }

    fn new(enqueued: Enqueued) -> Self {
        Task { id: enqueued.id, inserted: enqueued.inserted, call: PhantomData }
    }
}

impl<C> Clone for Task<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Task<C> {}

impl<C> fmt::Debug for Task<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("id", &self.id).field("inserted", &self.inserted).finish()
    }
}

/// A call about to be stored. Await it to write it.
#[must_use = "nothing is written before it is awaited"]
pub struct Enqueue<'a, C> {
    shared: &'a Arc<Shared>,
    /// With an id that is drawn later.
    task: Result<NewTask, Error>,
    call: PhantomData<fn() -> C>,
}

/// Many calls of one method about to be stored with the same options. Await it to write them.
#[must_use = "nothing is written before it is awaited"]
pub struct EnqueueMany<'a, C> {
    shared: &'a Arc<Shared>,
    /// What all have in common; its arguments are empty.
    common: NewTask,
    args: Result<Vec<Bytes>, Error>,
    call: PhantomData<fn() -> C>,
}

macro_rules! options {
    () => {
        /// Due this long after the write.
        pub fn delay(self, delay: Duration) -> Self {
            self.set(|task| task.due = Due::After(delay))
        }

        /// Due at an instant; one in the past means now.
        pub fn at(self, at: Timestamp) -> Self {
            self.set(|task| task.due = Due::At(at))
        }

        /// In this queue instead of the method's.
        pub fn queue(self, queue: impl Into<String>) -> Self {
            self.set(|task| task.queue = queue.into())
        }

        /// At this level inside the queue: 0 (first) to 3 (last).
        pub fn priority(self, level: u8) -> Self {
            self.set(|task| task.level = level)
        }

        /// How many attempts may be spent in all.
        pub fn attempts(self, attempts: u32) -> Self {
            self.set(|task| task.options.attempts = Some(attempts))
        }

        /// The waits between them.
        pub fn backoff(self, backoff: Backoff) -> Self {
            self.set(|task| task.options.backoff = Some(backoff))
        }

        /// The budget of one attempt.
        pub fn timeout(self, timeout: Duration) -> Self {
            self.set(|task| task.options.timeout = Some(timeout))
        }

        /// Expires if it has not begun by this instant.
        pub fn start_by(self, by: Timestamp) -> Self {
            self.set(|task| task.options.start_by = Some(by.as_micros()))
        }

        /// The budget of every attempt also ends at this instant.
        pub fn finish_by(self, by: Timestamp) -> Self {
            self.set(|task| task.options.finish_by = Some(by.as_micros()))
        }
    };
}

impl<'a, C> Enqueue<'a, C> {
    options!();

    /// Stored at most once while another task of the method holds this key: the second enqueue gives the first's id.
    pub fn key(self, key: impl Into<String>) -> Self {
        self.unique(UniqueKey::new(key))
    }

    /// The same with scope, hold and mode said.
    pub fn unique(self, key: UniqueKey) -> Self {
        self.set(|task| task.key = Some(key))
    }

    fn set(mut self, change: impl FnOnce(&mut NewTask)) -> Self {
        if let Ok(task) = &mut self.task {
            change(task);
        }
        self
    }

    pub(crate) fn json(shared: &'a Arc<Shared>, method: &str, args: Bytes) -> Self {
        let policy = shared.methods.get(method).map_or(Policy::DEFAULT, |served| served.method.policy);
        let schema = shared.methods.get(method).map_or(0, |served| served.method.schema);
        let task = check_json(method, &args).map(|()| NewTask { args, ..template(method, policy, schema) });
        Enqueue { shared, task, call: PhantomData }
    }
}

impl<'a, C: Durable> Enqueue<'a, C> {
    pub(crate) fn typed(shared: &'a Arc<Shared>, call: &C) -> Self {
        let task = encode(call).map(|args| NewTask { args, ..template(C::METHOD, C::POLICY, C::schema_hash()) });
        Enqueue { shared, task, call: PhantomData }
    }
}

impl<'a, C> EnqueueMany<'a, C> {
    options!();

    fn set(mut self, change: impl FnOnce(&mut NewTask)) -> Self {
        change(&mut self.common);
        self
    }
}

impl<'a, C: Durable> EnqueueMany<'a, C> {
    pub(crate) fn typed(shared: &'a Arc<Shared>, calls: impl IntoIterator<Item = C>) -> Self {
        let args = calls.into_iter().map(|call| encode(&call)).collect();
        EnqueueMany { shared, common: template(C::METHOD, C::POLICY, C::schema_hash()), args, call: PhantomData }
    }
}

fn template(method: &str, policy: Policy, schema: u64) -> NewTask {
    NewTask {
        id: TaskId(0),
        method: method.to_owned(),
        queue: policy.queue.unwrap_or_else(|| service_of(method)).to_owned(),
        level: policy.level,
        due: Due::Now,
        args: Bytes::new(),
        schema,
        options: TaskOptions::default(),
        key: None,
    }
}

/// The arguments as the store keeps them.
pub(crate) fn encode<C: Durable>(call: &C) -> Result<Bytes, Error> {
    serde_json::to_vec(call).map(Bytes::from).map_err(|error| {
        Error::new(ErrorKind::Payload, format!("the arguments of {} cannot be written as JSON: {error}", C::METHOD))
    })
}

/// Refuses arguments that no handler could read.
pub(crate) fn check_json(method: &str, args: &Bytes) -> Result<(), Error> {
    match serde_json::from_slice::<serde::de::IgnoredAny>(args) {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::new(ErrorKind::Payload, format!("the arguments of {method} are not JSON: {error}"))),
    }
}

impl<'a, C> IntoFuture for Enqueue<'a, C> {
    type Output = Result<Task<C>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    /// Writes the task.
    ///
    /// # Errors
    /// `Refused` and `Payload` for what cannot be stored; `Unavailable` where the store cannot be reached, after
    /// [`EngineConfig::enqueue_wait`](crate::EngineConfig::enqueue_wait).
    ///
    /// # Cancel safety
    /// Dropping it before it resolves leaves unknown whether the task was written.
    fn into_future(self) -> Self::IntoFuture {
        let Enqueue { shared, mut task, .. } = self;
        let mut span = Span::none();
        if let Ok(task) = &mut task {
            (span, task.options.trace) = span::enqueue(task, 1, shared.propagator.as_deref());
        }
        let within = span.clone();
        let write = async move {
            let task = task?;
            task.validate()?;
            let written = shared.write(vec![task]).await?;
            let bug = || Error::new(ErrorKind::Bug, "the store answered an enqueue of one task with none");
            written.into_iter().next().map(Task::new).ok_or_else(bug)
        };
        let told = async move {
            let written = write.await;
            span::enqueued(&span, written.as_ref().map(|task| task.id).map_err(|_| ()));
            written
        };
        Box::pin(told.instrument(within))
    }
}

impl<'a, C> IntoFuture for EnqueueMany<'a, C> {
    type Output = Result<Vec<Task<C>>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    /// Writes the tasks, in commits of up to 1,000 tasks and 3 MB each. Each commit is all or nothing; after an error the
    /// commits before it are in the store.
    ///
    /// # Errors
    /// As a single enqueue. What can be refused is refused before the first commit.
    ///
    /// # Cancel safety
    /// Dropping it before it resolves leaves unknown how many were written.
    fn into_future(self) -> Self::IntoFuture {
        let EnqueueMany { shared, mut common, args, .. } = self;
        let count = args.as_ref().map_or(0, Vec::len);
        let (span, trace) = span::enqueue(&common, count, shared.propagator.as_deref());
        common.options.trace = trace;
        let write = async move {
            let tasks = args?.into_iter().map(|args| NewTask { args, ..common.clone() });
            let tasks = tasks.map(|task| task.validate().map(|()| task)).collect::<Result<Vec<_>, _>>()?;
            let mut written = Vec::with_capacity(tasks.len());
            let mut chunk = Vec::new();
            let mut bytes = 0;
            for task in tasks {
                bytes += task.args.len();
                if chunk.len() == CHUNK_TASKS_MAX || (bytes > CHUNK_BYTES_MAX && !chunk.is_empty()) {
                    bytes = task.args.len();
                    written.extend(shared.write(std::mem::take(&mut chunk)).await?);
                }
                chunk.push(task);
            }
            if !chunk.is_empty() {
                written.extend(shared.write(chunk).await?);
            }
            Ok(written.into_iter().map(Task::new).collect())
        };
        Box::pin(write.instrument(span))
    }
}

impl Shared {
    /// Draws ids, writes, and tells the claimer.
    async fn write(&self, mut tasks: Vec<NewTask>) -> Result<Vec<Enqueued>, Error> {
        let method = tasks.first().map(|task| task.method.clone()).unwrap_or_default();
        self.name(&mut tasks).await?;
        let first = tasks.first().map(|task| task.id);
        let soonest = self.soonest(&tasks);
        // The same ids each time: a resend after a lost reply finds what the first one wrote.
        let written = self
            .insist(|| self.store.enqueue(tasks.clone()))
            .await
            .map_err(|error| not_enqueued(&method, first, error))?;
        self.written(&written, soonest);
        Ok(written)
    }

    /// Gives each task an id.
    async fn name(&self, tasks: &mut [NewTask]) -> Result<(), Error> {
        let count = tasks.len();
        let drawn = self.insist(|| async { self.ids.take_many(&*self.store, count).await }).await;
        let method = tasks.first().map_or("", |task| &task.method);
        let ids = drawn.map_err(|error| not_enqueued(method, None, error))?;
        for (task, id) in tasks.iter_mut().zip(ids) {
            task.id = id;
        }
        Ok(())
    }

    /// When the first of these that this engine runs becomes due.
    fn soonest(&self, tasks: &[NewTask]) -> Option<Due> {
        let served = tasks.iter().filter(|task| self.methods.get(&task.method).is_some());
        served.map(|task| task.due).min_by_key(|due| self.due_instant(*due))
    }

    /// Tasks are there for all to see: counts them, and tells the claimer.
    fn written(&self, written: &[Enqueued], soonest: Option<Due>) {
        self.stats.enqueued.add(written.iter().filter(|enqueued| enqueued.inserted).count());
        match soonest {
            Some(Due::Now) => self.claims.due_now(),
            Some(due) => self.claims.due_at(self.due_instant(due)),
            None => {}
        }
    }

    fn due_instant(&self, due: Due) -> Timestamp {
        match due {
            Due::Now => Timestamp::MIN,
            Due::After(delay) => self.store_now().after(delay),
            Due::At(at) => at,
        }
    }

    /// Calls the store, again while it is unavailable and the configuration lets callers wait.
    async fn insist<T, F, Fut>(&self, call: F) -> Result<T, StoreError>
    where
        F: Fn() -> Fut,
        Fut: Future<Output = Result<T, StoreError>>,
    {
        let give_up = self.clock.now().after(self.config.enqueue_wait);
        let mut pace = Pace::default();
        loop {
            match call().await {
                Err(error) if error.is_retryable() => {
                    self.store_failed("enqueueing", &error);
                    let left = give_up.since(self.clock.now());
                    if left.is_zero() {
                        return Err(error);
                    }
                    // Not cut short by the end of the engine, after which enqueueing still works: it would spin.
                    tokio::time::sleep(pace.failed(&*self.entropy).min(left)).await;
                }
                result => return result,
            }
        }
    }
}

fn not_enqueued(method: &str, id: Option<TaskId>, error: StoreError) -> Error {
    let text = match (error.kind(), id) {
        (StoreErrorKind::Unavailable, Some(id)) => {
            format!("{method} was sent to the store, but no answer came: look for task {id} before enqueueing it again")
        }
        _ => format!("{method} was not enqueued"),
    };
    Error::from_store(text, error)
}

impl<C> fmt::Debug for Enqueue<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enqueue").field("task", &self.task).finish_non_exhaustive()
    }
}

impl<C> fmt::Debug for EnqueueMany<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnqueueMany").field("common", &self.common).finish_non_exhaustive()
    }
}
