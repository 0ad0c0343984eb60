//! Where a handler runs: in a task of its own, first in its connection's turn, or on a thread that may block.
//!
//! ```text
//!   task      spawn ──────────────────────────────▶ handler, answer
//!   inline    one poll here ─▶ ended: answered here
//!                           └▶ waits: spawn ──────▶ goes on, answer
//!   blocking  a thread is free ───────────────────▶ thread: handler, answer
//!             none is ─▶ spawn: waits, in order ──▶ thread, or its call is over first
//! ```

use crate::server::answer::Answer;
use crate::server::inbound::Ended;
use serde::Serialize;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Context, Waker};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::ReusableBoxFuture;

/// Where a handler runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runs {
    /// In a task of its own.
    Task,
    /// Where its call is dispatched, for its first poll; then in a task of its own.
    Inline,
    /// On a thread of the blocking pool.
    Blocking,
}

/// Threads that handlers may block, on all connections.
pub(crate) struct Threads {
    free: Arc<Semaphore>,
    max: usize,
}

impl Threads {
    pub(crate) fn new(max: u32) -> Self {
        let max = usize::try_from(max).unwrap_or(Semaphore::MAX_PERMITS).min(Semaphore::MAX_PERMITS);
        Threads { free: Arc::new(Semaphore::new(max)), max }
    }

    /// Those that are taken now.
    pub(crate) fn taken(&self) -> usize {
        self.max.saturating_sub(self.free.available_permits())
    }
}

thread_local! {
    /// Where the last inline handler of this thread ran that ended at once: the next one of its size takes its place. An answer that was
    /// given has let go of all that it had.
    static SPACE: Cell<Option<ReusableBoxFuture<'static, ()>>> = const { Cell::new(None) };
}

/// Starts what handles and answers a call.
pub(crate) fn start<Fut, T, E>(runs: Runs, answer: Answer<Fut, T, E>)
where
    Fut: Future<Output: Ended<Ok = T, Err = E>> + Send + 'static,
    T: Serialize + Send + 'static,
    E: Serialize + Send + 'static,
{
    match runs {
        Runs::Task => drop(tokio::spawn(answer)),
        Runs::Inline => {
            let mut answer = match SPACE.take() {
                Some(mut space) => {
                    space.set(answer);
                    space
                }
                None => ReusableBoxFuture::new(answer),
            };
            // Nobody is woken by this poll: the task begins with another one, in which its own waker takes this one's place.
            if answer.poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                tokio::spawn(answer);
            } else {
                SPACE.set(Some(answer));
            }
        }
        Runs::Blocking => {
            let Some(free) = answer.shared().map(|shared| Arc::clone(&shared.threads.free)) else { return };
            // Those that wait are given what becomes free before anybody finds it here.
            match Arc::clone(&free).try_acquire_owned() {
                Ok(permit) => block_on_thread(permit, answer),
                Err(_) => drop(tokio::spawn(wait_for_thread(free, answer))),
            }
        }
    }
}

/// Waits until a thread is free or, unless the handler is to run in any case, its call is over.
async fn wait_for_thread<Fut, T, E>(free: Arc<Semaphore>, mut answer: Answer<Fut, T, E>)
where
    Fut: Future<Output: Ended<Ok = T, Err = E>> + Send + 'static,
    T: Serialize + Send + 'static,
    E: Serialize + Send + 'static,
{
    let permit = tokio::select! {
        biased;
        () = poll_fn(|cx| answer.poll_over(cx)) => None,
        permit = free.acquire_owned() => permit.ok(),
    };
    match permit {
        Some(permit) => block_on_thread(permit, answer),
        None => answer.abandon(),
    }
}

fn block_on_thread<Fut, T, E>(permit: OwnedSemaphorePermit, answer: Answer<Fut, T, E>)
where
    Fut: Future<Output: Ended<Ok = T, Err = E>> + Send + 'static,
    T: Serialize + Send + 'static,
    E: Serialize + Send + 'static,
{
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || {
        runtime.block_on(answer);
        drop(permit);
    });
}
