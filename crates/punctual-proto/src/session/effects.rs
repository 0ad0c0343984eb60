//! What a step of a session leaves to be done outside of the lock.

use bytes::Bytes;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Waker;

/// Work for after the lock: wakers to wake and buffers to drop. Kept by the driver from turn to turn for its room.
#[derive(Debug, Default)]
pub struct Effects {
    /// Tasks that can go on.
    pub wakers: Vec<Waker>,
    /// Wakers that are not to be woken. Dropping one may run user code, so that is not done under the lock either.
    pub stale: Vec<Waker>,
    /// Buffers to drop.
    pub garbage: Vec<Bytes>,
    /// Room for a scan of the deadlines.
    pub(crate) due: Vec<usize>,
    /// Room for the marks that a write reached.
    pub(crate) reached: Vec<u64>,
}

impl Effects {
    /// Wakes, then drops. Returns how many tasks were woken.
    ///
    /// # Panics
    /// Where a waker does, after all the others were woken: a defect of one task must not hang the rest.
    pub fn run(&mut self) -> usize {
        let woken = self.wakers.len();
        let mut panicked = None;
        for waker in self.wakers.drain(..) {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
                panicked = Some(panic);
            }
        }
        self.stale.clear();
        self.garbage.clear();
        if let Some(panic) = panicked {
            resume_unwind(panic);
        }
        woken
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.wakers.is_empty() && self.stale.is_empty() && self.garbage.is_empty()
    }
}
