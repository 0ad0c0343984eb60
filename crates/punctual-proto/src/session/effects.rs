//! What a step of a session leaves to be done outside of the lock.

use bytes::Bytes;
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
    pub fn run(&mut self) -> usize {
        let woken = self.wakers.len();
        self.wakers.drain(..).for_each(Waker::wake);
        self.stale.clear();
        self.garbage.clear();
        woken
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.wakers.is_empty() && self.stale.is_empty() && self.garbage.is_empty()
    }
}
