//! Whether a server has begun to stop.

use crate::sync::atomic::{AtomicBool, Ordering};

/// Set once. A stop sets it before it looks, under a session's lock, whether it has to wait for that one: who ends the wait in a
/// later turn of that lock then sees it set, and tells the stop. To others it is a hint.
#[derive(Debug)]
pub(crate) struct Draining(AtomicBool);

impl Draining {
    pub(crate) fn not_yet() -> Self {
        Draining(AtomicBool::new(false))
    }

    pub(crate) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
