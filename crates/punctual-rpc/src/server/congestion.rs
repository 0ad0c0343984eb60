//! A hint that the queue of a connection is full, so that those who have a result ask before they encode it.

use crate::sync::atomic::{AtomicBool, Ordering};

/// Whether somebody waits for room. It is read without the session's lock and may be wrong for a moment in either way: one who
/// asks in vain finds room under the lock, and one who does not ask is refused by the queue itself, and waits then.
#[derive(Debug)]
pub(crate) struct Congestion(AtomicBool);

impl Congestion {
    pub(crate) fn none() -> Self {
        Congestion(AtomicBool::new(false))
    }

    pub(crate) fn is_likely(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The queue refused a result.
    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Half of the queue is free. Said under the session's lock.
    pub(crate) fn end(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
