//! Group commit of finished attempts: takes what has gathered, records it in one commit, and sends it again until the
//! store has said what became of each. Resending is safe, since a finish is idempotent by task, attempt and fence.

use crate::completions::Entry;
use crate::observe::AttemptEnd;
use crate::pacing::Pace;
use crate::record::write_error;
use crate::shared::{Phase, Shared};
use crate::span;
use punctual_task::{Finish, Finished, FollowUp, Next, Outcome, StoreError, StoreErrorKind, TaskState, WorkerId};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tracing::Instrument;

/// Runs until the engine stops.
pub(crate) async fn run(shared: Arc<Shared>) {
    let count_max = usize::try_from(shared.config.finish_batch_max).unwrap_or(usize::MAX);
    loop {
        shared.completions.filled().await;
        // What else is ready to run may finish first: the batch is larger and the commit is shared.
        tokio::task::yield_now().await;
        let mut taken =
            Taken { shared: &shared, parts: vec![shared.completions.take_batch(count_max)], again: Vec::new() };
        // An end takes its task from the worker: what its attempt said comes before.
        shared.reports.flush(&shared, true).await;
        record(&shared, &mut taken).await;
        let stuck = !taken.again.is_empty();
        drop(taken);
        if stuck && !shared.sleep(shared.config.renewal, Phase::Stopped).await {
            return;
        }
    }
}

/// A batch that was taken out of the queue. What is left of it goes back when it is dropped, also by a panic: a record that
/// is sent twice is one, and one that is lost keeps its task running for ever.
struct Taken<'a> {
    shared: &'a Shared,
    /// What has no lasting answer yet; the last is being sent.
    parts: Vec<Vec<Entry>>,
    /// What the store refuses even alone and even with the reason in place of its result: it is tried again later.
    again: Vec<Entry>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut left = std::mem::take(&mut self.again);
        left.extend(self.parts.drain(..).flatten());
        self.shared.completions.settle(left);
    }
}

/// Records a batch, in halves where the store refuses the whole for a lasting reason.
async fn record(shared: &Shared, taken: &mut Taken<'_>) {
    while let Some(part) = taken.parts.last_mut() {
        name_follow_ups(shared, part).await;
        let Some(worker) = part.first().map(|entry| entry.worker) else {
            taken.parts.pop();
            continue;
        };
        let sent = send(shared, worker, part).await;
        // From here on it is answered; a panic in a waiter's waker must not send it again and count it twice.
        let Some(mut part) = taken.parts.pop() else { return };
        match sent {
            Ok(results) => part.iter().zip(results).for_each(|(entry, result)| note(shared, entry, result)),
            Err(error) if error.kind() == StoreErrorKind::Fenced => {
                shared.stats.refused.add(part.len());
                shared.lease.refused(worker);
                tracing::warn!(
                    attempts = part.len(),
                    "finished attempts were refused: this worker had been declared dead"
                );
            }
            Err(_) if part.len() > 1 => {
                let half = part.split_off(part.len() / 2);
                taken.parts.push(half);
                taken.parts.push(part);
            }
            Err(error) => {
                if let Some(entry) = part.pop() {
                    taken.again.extend(refused_alone(&mut taken.parts, entry, &error));
                }
            }
        }
    }
}

/// Gives each follow-up its id. It keeps it however often it is sent, so that it is written once.
async fn name_follow_ups(shared: &Shared, part: &mut [Entry]) {
    let mut pace = Pace::default();
    for follow_up in
        part.iter_mut().flat_map(|entry| &mut entry.follow_ups).filter(|follow_up| follow_up.then.id.0 == 0)
    {
        loop {
            match shared.ids.take(&*shared.store).await {
                Ok(id) => {
                    follow_up.then.id = id;
                    break;
                }
                Err(error) => {
                    shared.store_failed("drawing ids for follow-ups", &error);
                    tokio::time::sleep(pace.failed(&*shared.entropy)).await;
                }
            }
        }
    }
}

/// Sends until the store gives a lasting answer.
async fn send(shared: &Shared, worker: WorkerId, part: &[Entry]) -> Result<Vec<Finished>, StoreError> {
    let mut pace = Pace::default();
    loop {
        shared.stats.finish_calls.add(1);
        let finishes: Vec<Finish> = part.iter().map(|entry| entry.finish.clone()).collect();
        let follow_ups: Vec<FollowUp> = part.iter().flat_map(|entry| &entry.follow_ups).cloned().collect();
        let sending = shared.store.finish_then(worker, finishes, follow_ups);
        match sending.instrument(span::finish(part.len())).await {
            Ok(results) if results.len() == part.len() => return Ok(results),
            Ok(results) => {
                let text = format!("{} finishes were answered with {} results", part.len(), results.len());
                return Err(StoreError::new(StoreErrorKind::Bug, text));
            }
            Err(error) if error.is_retryable() => {
                shared.store_failed("recording finished attempts", &error);
                shared.claims.reconcile();
                // The end of the engine aborts this; a sleep that it cut short would spin instead.
                tokio::time::sleep(pace.failed(&*shared.entropy)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// An end that the store will not take becomes a failure that says so; one that it does not take either is kept.
fn refused_alone(parts: &mut Vec<Vec<Entry>>, mut entry: Entry, error: &StoreError) -> Option<Entry> {
    tracing::error!(task = %entry.finish.task, %error, "the store refuses the record of an attempt");
    if entry.replaced {
        return Some(entry);
    }
    let ended = entry.finish.outcome.as_str();
    entry.finish.out = write_error(&format!("the attempt {ended}, but the store refused its record: {error}"), b"");
    entry.finish.outcome = Outcome::Failed;
    entry.finish.next = Next::Final(TaskState::Failed);
    entry.follow_ups.clear();
    entry.replaced = true;
    parts.push(vec![entry]);
    None
}

/// Counts an answered finish, and tells whoever it concerns.
fn note(shared: &Shared, entry: &Entry, result: Finished) {
    let finish = &entry.finish;
    if result == Finished::Lost {
        shared.stats.refused.add(1);
        tracing::warn!(task = %finish.task, "a finish was refused: the task had been taken from this worker");
        return;
    }
    if result == Finished::Applied
        && entry.follow_ups.iter().any(|next| shared.methods.get(&next.then.method).is_some())
    {
        shared.claims.due_now();
    }
    let stats = &shared.stats;
    stats.finished.add(1);
    observed(shared, entry);
    match finish.outcome {
        Outcome::Panicked => stats.panicked.add(1),
        Outcome::TimedOut => stats.timed_out.add(1),
        Outcome::Snoozed => stats.snoozed.add(1),
        _ => {}
    }
    match finish.next {
        Next::Final(state) => {
            match state {
                TaskState::Succeeded => stats.succeeded.add(1),
                TaskState::Cancelled => stats.cancelled.add(1),
                TaskState::Expired => stats.expired.add(1),
                _ => stats.failed.add(1),
            }
            if let Some(schedule) = entry.schedule {
                let window = if entry.backfilled { 1 } else { shared.window_of(schedule) };
                shared.sweeps.ended(schedule, window);
            }
            if let Some(schedule) = &entry.failed_of {
                shared.failing.add(schedule);
            }
            if shared.waiters.any() {
                shared.waiters.ended(finish.task);
            }
        }
        Next::Again { due, .. } => {
            if finish.outcome != Outcome::Snoozed {
                stats.retried.add(1);
            }
            shared.claims.due_at(due);
        }
    }
}

/// Tells the observer, whose panic is no reason to stop recording.
fn observed(shared: &Shared, entry: &Entry) {
    let (Some(observer), Some(seen)) = (&shared.observer, &entry.seen) else { return };
    let finish = &entry.finish;
    let end = AttemptEnd {
        task: finish.task,
        n: finish.n,
        method: &seen.method,
        queue: &seen.queue,
        schedule: seen.schedule.as_deref(),
        outcome: finish.outcome,
        next: finish.next,
        ended: finish.ended,
    };
    if catch_unwind(AssertUnwindSafe(|| observer.ended(&end))).is_err() {
        tracing::error!(task = %finish.task, "the observer of attempts panicked");
    }
}
