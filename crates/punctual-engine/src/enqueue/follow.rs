//! Storing calls with the end of the task whose handler enqueues them.

use super::{Enqueue, EnqueueMany};
use crate::current::Attempt;
use crate::{Error, ErrorKind, span};
use punctual_task::{FollowOn, FollowUp, NewTask, TaskId};

impl<C> Enqueue<'_, C> {
    /// Has the task written in the commit in which the attempt that this code runs in ends its task as a success, in place of awaiting
    /// it: a crash can neither lose nor double it. Where the attempt ends otherwise, or is tried again, it is not written.
    ///
    /// It is written to the store that the running task is in, whatever engine it is said to. Delays count from that commit.
    /// Its id is drawn then. A key that another task holds at that time keeps its holder.
    ///
    /// ```no_run
    /// # use punctual_engine::{Durable, Engine, Error};
    /// # async fn charged<Receipt: Durable>(engine: &Engine, receipt: Receipt) -> Result<(), Error> {
    /// // Inside a durable handler.
    /// engine.enqueue(receipt).key("receipt 42").after_success()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Refused` outside of a durable handler, for a key in mode `Reject`, and beyond
    /// [`FOLLOW_UPS_MAX`](punctual_task::FOLLOW_UPS_MAX) of one attempt or 4 MiB of their arguments; `Refused` and `Payload` for what
    /// cannot be stored. Nothing is added then.
    pub fn after_success(self) -> Result<(), Error> {
        self.follow(FollowOn::Success)
    }

    /// The same where it fails for good with this attempt, by its error, a panic or its budget: a task that fails since its workers
    /// died has no follow-ups, as its handler is gone.
    ///
    /// # Errors
    /// As [`Enqueue::after_success`].
    pub fn after_failure(self) -> Result<(), Error> {
        self.follow(FollowOn::Failure)
    }

    fn follow(self, on: FollowOn) -> Result<(), Error> {
        let Enqueue { shared, task, .. } = self;
        let mut task = task?;
        let (span, trace) = span::enqueue(&task, 1, shared.propagator.as_deref());
        task.options.trace = trace;
        span.in_scope(|| follow(on, vec![task]))
    }
}

impl<C> EnqueueMany<'_, C> {
    /// Has the tasks written with the success of the task whose handler this is: [`Enqueue::after_success`] of many.
    ///
    /// # Errors
    /// As [`Enqueue::after_success`].
    pub fn after_success(self) -> Result<(), Error> {
        let (span, tasks) = self.prepared()?;
        span.in_scope(|| follow(FollowOn::Success, tasks))
    }

    /// The same with its failure: [`Enqueue::after_failure`] of many.
    ///
    /// # Errors
    /// As [`Enqueue::after_success`].
    pub fn after_failure(self) -> Result<(), Error> {
        let (span, tasks) = self.prepared()?;
        span.in_scope(|| follow(FollowOn::Failure, tasks))
    }
}

fn follow(on: FollowOn, tasks: Vec<NewTask>) -> Result<(), Error> {
    for task in &tasks {
        FollowUp { task: TaskId(0), n: 0, on, then: task.clone() }.validate()?;
    }
    let outside =
        "only the handler of a durable task has follow-ups, and this code runs in none; enqueue the task by itself";
    let attempt = Attempt::current().ok_or_else(|| Error::new(ErrorKind::Refused, outside))?;
    attempt.follow(on, tasks)
}
