//! Finished attempts on their way to the store: a queue that lanes push to and the completer takes batches from.
//!
//! It needs no bound of its own: an entry stands for a claimed task, and the claimer stops at
//! [`Completions::is_behind`].

use crate::observe::Seen;
use punctual_task::{Finish, FollowUp, ScheduleId, TaskId, WorkerId};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use tokio::sync::Notify;

/// A statement beyond about 3 MB is slower than two of half its size.
const BATCH_BYTES_MAX: usize = 3 << 20;

/// One finished attempt.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) finish: Finish,
    /// What is written with it. The tasks have the id 0 until the entry is first sent.
    pub(crate) follow_ups: Vec<FollowUp>,
    /// The fence that it was claimed under.
    pub(crate) worker: WorkerId,
    /// The schedule that it was an occurrence of.
    pub(crate) schedule: Option<ScheduleId>,
    /// The name of that schedule, where this is a failure for good.
    pub(crate) failed_of: Option<String>,
    /// Whether a backfill of it made the occurrence: its gate is not the schedule's window.
    pub(crate) backfilled: bool,
    /// Whether the store refused the real end for a lasting reason, and this one says so in its place.
    pub(crate) replaced: bool,
    /// What an observer wants to know besides, if there is one.
    pub(crate) seen: Option<Box<Seen>>,
}

impl Entry {
    fn bytes(&self) -> usize {
        let follow_ups = self.follow_ups.iter().map(|follow_up| follow_up.then.args.len());
        self.finish.out.len() + follow_ups.sum::<usize>()
    }
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Completions {
    behind: usize,
    state: Mutex<State>,
    /// Told when everything is acknowledged.
    empty: Notify,
    /// Wakes the claimer when the store has caught up.
    pub(crate) caught_up: Notify,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Entry>,
    /// What the completer holds outside of the queue, not yet acknowledged.
    in_flight: Vec<(TaskId, u32, WorkerId)>,
    completer: Option<Waker>,
}

impl State {
    fn len(&self) -> usize {
        self.queue.len() + self.in_flight.len()
    }
}

impl Completions {
    /// `behind` entries stop the claimer.
    pub(crate) fn new(behind: usize) -> Self {
        Completions { behind, state: Mutex::default(), empty: Notify::new(), caught_up: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one. Wakes the completer only if it waits: one wake a batch. Gives whether it did.
    pub(crate) fn push(&self, entry: Entry) -> bool {
        let mut state = self.lock();
        state.queue.push_back(entry);
        let waker = state.completer.take();
        drop(state);
        waker.is_some_and(|waker| {
            waker.wake();
            true
        })
    }

    /// Whether so much waits for the store that no more should be claimed.
    pub(crate) fn is_behind(&self) -> bool {
        self.lock().len() >= self.behind
    }

    /// How many attempts are not acknowledged.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// What is not acknowledged: task, attempt, fence.
    pub(crate) fn held(&self) -> Vec<(TaskId, u32, WorkerId)> {
        let state = self.lock();
        let queued = state.queue.iter().map(key);
        queued.chain(state.in_flight.iter().copied()).collect()
    }

    /// Resolves once something waits.
    pub(crate) async fn filled(&self) {
        poll_fn(|cx| {
            let mut state = self.lock();
            if state.queue.is_empty() {
                state.completer = Some(cx.waker().clone());
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
    }

    /// The first entries that share a fence: at most `count_max`, and at most 3 MB unless one alone is larger.
    pub(crate) fn take_batch(&self, count_max: usize) -> Vec<Entry> {
        let mut state = self.lock();
        let Some(worker) = state.queue.front().map(|entry| entry.worker) else { return Vec::new() };
        let mut bytes = 0;
        let count = state
            .queue
            .iter()
            .take(count_max)
            .take_while(|entry| {
                bytes += entry.bytes();
                entry.worker == worker && bytes <= BATCH_BYTES_MAX
            })
            .count()
            .max(1);
        let batch: Vec<Entry> = state.queue.drain(..count).collect();
        state.in_flight = batch.iter().map(key).collect();
        batch
    }

    /// The batch was dealt with; `again` is put back behind the others.
    pub(crate) fn settle(&self, again: Vec<Entry>) {
        let mut state = self.lock();
        let was_behind = state.len() >= self.behind;
        state.in_flight.clear();
        state.queue.extend(again);
        let (len, is_behind) = (state.len(), state.len() >= self.behind);
        drop(state);
        if len == 0 {
            self.empty.notify_waiters();
        }
        if was_behind && !is_behind {
            self.caught_up.notify_one();
        }
    }

    /// Resolves once everything is acknowledged.
    pub(crate) async fn emptied(&self) {
        loop {
            let told = self.empty.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if self.len() == 0 {
                return;
            }
            told.await;
        }
    }
}

fn key(entry: &Entry) -> (TaskId, u32, WorkerId) {
    (entry.finish.task, entry.finish.n, entry.worker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use punctual_clock::Timestamp;
    use punctual_task::{Next, Outcome, TaskState};

    fn entry(task: i64, worker: i64, bytes: usize) -> Entry {
        Entry {
            finish: Finish {
                task: TaskId(task),
                n: 1,
                started: Timestamp::EPOCH,
                ended: Timestamp::EPOCH,
                outcome: Outcome::Succeeded,
                out: Bytes::from(vec![b'1'; bytes]),
                next: Next::Final(TaskState::Succeeded),
            },
            follow_ups: Vec::new(),
            worker: WorkerId(worker),
            schedule: None,
            failed_of: None,
            backfilled: false,
            replaced: false,
            seen: None,
        }
    }

    fn ids(batch: &[Entry]) -> Vec<i64> {
        batch.iter().map(|entry| entry.finish.task.0).collect()
    }

    /// A batch is bounded by count and bytes, never mixes fences, and what is in flight still counts as held.
    #[test]
    fn batches_are_bounded() {
        let completions = Completions::new(4);
        for (task, worker, bytes) in
            [(1, 1, 1), (2, 1, 1), (3, 1, 1), (4, 2, 2 << 20), (5, 2, 2 << 20), (6, 2, 4 << 20)]
        {
            completions.push(entry(task, worker, bytes));
        }
        assert!(completions.is_behind());
        assert_eq!(ids(&completions.take_batch(2)), [1, 2]);
        assert_eq!(completions.held().len(), 6);
        completions.settle(Vec::new());
        assert_eq!(ids(&completions.take_batch(10)), [3]);
        completions.settle(Vec::new());
        assert!(!completions.is_behind());
        for expected in [4, 5, 6] {
            assert_eq!(ids(&completions.take_batch(10)), [expected]);
            completions.settle(Vec::new());
        }
        assert_eq!(completions.len(), 0);
        assert!(completions.take_batch(10).is_empty());
    }

    /// What is put back is not lost and comes behind the others.
    #[test]
    fn what_is_put_back_comes_last() {
        let completions = Completions::new(4);
        completions.push(entry(1, 1, 1));
        completions.push(entry(2, 1, 1));
        let batch = completions.take_batch(1);
        completions.settle(batch);
        assert_eq!(ids(&completions.take_batch(10)), [2, 1]);
    }
}
