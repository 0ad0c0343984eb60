//! Whether a server has begun to stop.

use crate::sync::atomic::{AtomicBool, Ordering};

/// Set once. A stop sets it before it locks a session to say so, and whoever finds that said there sees it set: the sessions'
/// locks order it. To who did not look there it is a hint.
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
