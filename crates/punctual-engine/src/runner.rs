//! A lane's own task: takes one job after another and runs it to a conclusion.

use crate::attempt::{Ended, Timer, attempt};
use crate::conclude::{Conclusion, Times, cancelled_unrun, conclude, expired, timed_out};
use crate::job::Job;
use crate::lane::Lane;
use crate::lease::Standing;
use crate::shared::Shared;
use crate::span;
use punctual_clock::Timestamp;
use punctual_context::{CancelReason, Context, SlotScope, TaskScope};
use punctual_task::decide::{Start, Terms, Verdict, decide_next, decide_start};
use punctual_task::{Finish, Outcome, TaskId};
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

/// What a lane does after a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// Takes the next.
    Next,
    /// Lets what it woke run first. The runtime keeps what a task woke last for the same thread, where no other can take
    /// it: a handler that blocks would stop the completer or the claimer with itself.
    Yield,
    /// Ends: the lane was given up.
    End,
}

impl Flow {
    const fn woke(woke: bool) -> Self {
        if woke { Flow::Yield } else { Flow::Next }
    }
}

/// Runs until the engine closes or the lane is given up.
pub(crate) async fn run_lane(shared: Arc<Shared>, lane: Arc<Lane>) {
    let mut timer = Timer::default();
    loop {
        let mut woke = false;
        let Some(job) = poll_fn(|cx| shared.work.poll_next(&lane, &mut woke, cx)).await else { return };
        if woke {
            tokio::task::yield_now().await;
        }
        match run(&shared, &lane, &job, &mut timer).await {
            // Handlers that never wait would keep this thread from everything else.
            Flow::Next => tokio::task::coop::consume_budget().await,
            Flow::Yield => tokio::task::yield_now().await,
            Flow::End => return,
        }
    }
}

/// Runs one job.
async fn run(shared: &Shared, lane: &Arc<Lane>, job: &Arc<Job>, timer: &mut Timer) -> Flow {
    let claimed = &job.claimed;
    let Some(served) = shared.methods.get(&claimed.method) else {
        tracing::error!(method = claimed.method, "the store gave a task of a method that was not asked for");
        shared.claims.give_back(job);
        return Flow::Yield;
    };
    let terms = Terms { policy: &served.method.policy, options: &claimed.options };
    let local = match &claimed.occurrence {
        Some(occurrence) => shared.local_text(occurrence).await,
        None => String::new(),
    };
    let now = shared.clock.now();
    match shared.lease.standing(job.worker, now) {
        Standing::Good => {}
        Standing::Doubtful => {
            shared.work.put_back(lane);
            return Flow::Next;
        }
        // Another worker has it, or will: nothing is to be said.
        Standing::Lost => return Flow::Next,
    }
    let started = shared.clock.timestamp();
    let store_now = shared.store_time(started);
    let times = |ended| Times { started, ended, store_now: shared.store_time(ended) };
    let budget = match decide_start(terms, claimed.n, store_now) {
        Start::Run { budget } => budget,
        Start::Expired => {
            return Flow::woke(shared.complete(job, expired(claimed, terms, times(started), &*shared.entropy)));
        }
    };
    let deadline = now.after(budget);
    let key = match lane.begin(deadline, started) {
        Ok(key) => key,
        Err(CancelReason::User) => {
            let finish = cancelled_unrun(claimed, terms, times(started), &*shared.entropy);
            return Flow::woke(shared.complete(job, finish));
        }
        Err(_) => {
            shared.claims.give_back(job);
            return Flow::Yield;
        }
    };
    let scope = task_scope(job, terms.attempts(), local, store_now);
    let mut context = Context::new(Arc::<Lane>::clone(lane), key, deadline).with_task(Arc::new(scope));
    let trace = span::trace_of(claimed);
    if let Some(trace) = &trace {
        context = context.with_metadata(trace.to_metadata());
    }
    let span = span::run(claimed, trace.as_ref(), shared.propagator.as_ref());
    let start = || served.handlers.run(&claimed.method, claimed.args.clone());
    let attempt = attempt(lane, context, &*shared.clock, shared.config.stop_grace, timer, start);
    let ended = attempt.instrument(span.clone()).await;
    let over = shared.clock.timestamp();
    let Some(reason) = lane.end() else {
        tracing::warn!(task = %claimed.task, "a handler that had been given up has ended after all");
        return Flow::End;
    };
    if let Ended::Panicked(_) = &ended {
        // What it said is in the record of the attempt, and not here: it may hold what was in the arguments.
        tracing::warn!(task = %claimed.task, method = claimed.method, "a handler panicked");
    }
    let mut notes = lane.take_notes();
    if let Some(report) = notes.take_report(claimed.task, claimed.n, over) {
        shared.reports.push(job.worker, report);
    }
    let ended = match (ended, notes.on_error) {
        (Ended::Returned(Err(failure)), Some(verdict)) => Ended::Returned(Err(failure.with_verdict(verdict))),
        (ended, _) => ended,
    };
    match conclude(claimed, terms, ended, reason, times(over), &*shared.entropy) {
        Conclusion::Finish(finish) => {
            span::ran(&span, finish.outcome);
            drop(span);
            Flow::woke(shared.complete_with(job, finish, notes.follow_ups))
        }
        Conclusion::HandBack => {
            // The next attempt goes on where this one said.
            shared.reports.flush(shared, false).await;
            shared.claims.give_back(job);
            Flow::Yield
        }
    }
}

fn task_scope(job: &Job, attempts_max: u32, local: String, store_now: Timestamp) -> TaskScope {
    let claimed = &job.claimed;
    let id = u64::try_from(claimed.task.0).unwrap_or_default();
    let scope = TaskScope::new(id, claimed.n, attempts_max, claimed.queue.clone(), claimed.created);
    match &claimed.occurrence {
        None => scope,
        Some(occurrence) => scope.with_slot(SlotScope {
            schedule: occurrence.name.clone(),
            at: occurrence.at,
            local,
            run: occurrence.run,
            late: store_now.since(occurrence.at),
            catch_up: occurrence.catch_up,
        }),
    }
}

impl Shared {
    /// Asks the tasks that this engine holds to end as cancelled: those that wait end at once, those that run have the
    /// configured grace. Gives how many it holds.
    pub(crate) fn cancel_held(&self, tasks: &[TaskId]) -> usize {
        if tasks.is_empty() {
            return 0;
        }
        let asked = |job: &Job| tasks.contains(&job.claimed.task);
        let waiting = self.work.take_waiting(asked);
        let now = self.clock.timestamp();
        for job in &waiting {
            let times = Times { started: now, ended: now, store_now: self.store_time(now) };
            self.complete(job, cancelled_unrun(&job.claimed, self.terms(&job.claimed), times, &*self.entropy));
        }
        let running = self
            .work
            .lanes()
            .iter()
            .filter(|lane| lane.stop(asked, CancelReason::User, self.config.cancel_grace))
            .count();
        waiting.len() + running
    }

    /// Asks all running attempts that `which` takes to stop.
    pub(crate) fn stop_running(&self, which: impl Fn(&Job) -> bool, reason: CancelReason, grace: Duration) {
        for lane in self.work.lanes() {
            lane.stop(&which, reason, grace);
        }
    }

    /// Gives up handlers that block their thread far beyond their budget: the attempt ends as timed out, and another lane
    /// takes the slot. The thread itself cannot be had back; that is reported.
    pub(crate) fn abandon_blocked(self: &Arc<Self>) {
        let now = self.clock.now();
        for lane in self.work.lanes() {
            let Some((job, started)) = lane.abandon(now, self.config.abandon_after) else { continue };
            let claimed = &job.claimed;
            tracing::error!(
                task = %claimed.task,
                method = claimed.method,
                "a handler blocks its thread beyond its budget and is given up; move its blocking work to \
                 tokio::task::spawn_blocking"
            );
            self.stats.abandoned.add(1);
            let terms = self.terms(claimed);
            let ended = self.clock.timestamp();
            let next = decide_next(
                terms,
                Outcome::TimedOut,
                Verdict::Retry,
                claimed.spent,
                claimed.losses,
                self.store_time(ended),
                &*self.entropy,
            );
            let out = timed_out(terms.timeout());
            let (task, n, outcome) = (claimed.task, claimed.n, Outcome::TimedOut);
            let finish = Finish { task, n, started, ended, outcome, out, next };
            self.complete_with(&job, finish, lane.take_notes().follow_ups);
            let lane = self.work.replace(&lane, job.is_suspect(), &self.clock);
            self.spawn_lanes(lane.into_iter().collect());
        }
    }
}
