//! Group commit: enqueues that wait at the same time are written together. While one commit is on its way to the server's
//! disk, the next group gathers; so the more callers there are, the fewer commits each of them needs.

use crate::enqueue;
use crate::store::Shared;
use punctual_task::{Enqueued, NewTask, StoreError, StoreErrorKind};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

/// How many enqueues may wait for a group; more wait for room here.
const WAITING_MAX: usize = 4096;
/// How many tasks make a group full.
const GROUP_TASKS_MAX: usize = 5_000;
/// How many bytes of arguments make a group full.
const GROUP_BYTES_MAX: usize = 3 << 20;
/// How many groups are on their way at once: while the server syncs one, it can run the statements of the next.
const GROUPS_MAX: usize = 2;

/// The answer to one enqueue.
type Answer = Result<Vec<Enqueued>, StoreError>;

/// The enqueues that wait.
pub(crate) struct Group {
    state: Mutex<State>,
    room: Semaphore,
    wait: Duration,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Request>,
    under_way: usize,
}

struct Request {
    tasks: Vec<NewTask>,
    answer: oneshot::Sender<Answer>,
}

impl Group {
    /// `wait` bounds the wait for room behind the enqueues that wait already.
    pub(crate) fn new(wait: Duration) -> Self {
        Group { state: Mutex::default(), room: Semaphore::new(WAITING_MAX), wait }
    }
}

/// Writes tasks in the group that leaves next.
pub(crate) async fn enqueue_in_group(shared: &Arc<Shared>, tasks: Vec<NewTask>) -> Answer {
    let closed = || StoreError::new(StoreErrorKind::Unavailable, "the store was closed");
    let room = tokio::time::timeout(shared.group.wait, shared.group.room.acquire()).await.map_err(|_| {
        let text = format!(
            "{WAITING_MAX} enqueues wait already, which is the limit; nothing was written, ask for less at once"
        );
        StoreError::new(StoreErrorKind::Busy, text)
    })?;
    let _room = room.map_err(|_| closed())?;
    let (answer, receiver) = oneshot::channel();
    let starts = {
        let mut state = shared.group.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting.push_back(Request { tasks, answer });
        let starts = state.under_way < GROUPS_MAX;
        state.under_way += usize::from(starts);
        starts
    };
    if starts {
        let shared = Arc::clone(shared);
        shared.runtime.clone().spawn(async move { run(&shared).await });
    }
    receiver.await.map_err(|_| closed())?
}

/// Writes group after group until nothing waits.
async fn run(shared: &Arc<Shared>) {
    // Also if this ends by a panic.
    let mut turn = Turn { shared, ended: false };
    while let Some(group) = turn.next() {
        let count = group.len();
        if count == 1 {
            for request in group {
                let given = shared.perform(&request.tasks, work()).await;
                let _ = request.answer.send(given);
            }
            continue;
        }
        let all: Vec<NewTask> = group.iter().flat_map(|request| request.tasks.iter().cloned()).collect();
        match shared.perform(&all, work()).await {
            Ok(given) => {
                shared.counters.grouped(count);
                let mut given = given.into_iter();
                for request in group {
                    let part = given.by_ref().take(request.tasks.len()).collect();
                    let _ = request.answer.send(Ok(part));
                }
            }
            // What the database cannot do now it cannot do for any of them.
            Err(error) if error.is_retryable() => {
                for request in group {
                    let _ = request.answer.send(Err(error.clone()));
                }
            }
            // One of them may be what is wrong: each gets an answer of its own.
            Err(_) => {
                for request in group {
                    let given = shared.perform(&request.tasks, work()).await;
                    let _ = request.answer.send(given);
                }
            }
        }
    }
}

fn work() -> crate::store::Work<Vec<NewTask>, Vec<Enqueued>> {
    |shared, session, tasks| Box::pin(enqueue::enqueue(shared, session, tasks))
}

struct Turn<'a> {
    shared: &'a Shared,
    ended: bool,
}

impl Turn<'_> {
    /// What waits, up to a full group; the turn ends with nothing.
    fn next(&mut self) -> Option<Vec<Request>> {
        let mut state = self.shared.group.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut tasks, mut bytes, mut group) = (0usize, 0usize, Vec::new());
        while let Some(request) = state.waiting.front() {
            tasks = tasks.saturating_add(request.tasks.len());
            bytes = bytes.saturating_add(enqueue::bytes_of(&request.tasks));
            if !group.is_empty() && (tasks > GROUP_TASKS_MAX || bytes > GROUP_BYTES_MAX) {
                break;
            }
            group.extend(state.waiting.pop_front());
        }
        if group.is_empty() {
            state.under_way = state.under_way.saturating_sub(1);
            self.ended = true;
            return None;
        }
        Some(group)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let left = {
            let mut state = self.shared.group.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.under_way = state.under_way.saturating_sub(1);
            // With nobody left to write them, those who wait are told instead of left waiting.
            if state.under_way == 0 { std::mem::take(&mut state.waiting) } else { VecDeque::new() }
        };
        drop(left);
    }
}
