//! A duty that one task at a time has.

use crate::sync::atomic::{AtomicBool, Ordering};

/// Whether somebody has a duty. Who takes it must give it back when it ends, however it ends: from then on another may.
#[derive(Debug)]
pub(crate) struct Duty(AtomicBool);

impl Duty {
    pub(crate) fn free() -> Self {
        Duty(AtomicBool::new(false))
    }

    /// Takes it; false where somebody has it.
    pub(crate) fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Its holder is done with it.
    pub(crate) fn give_back(&self) {
        // An exchange as well: all that happens to a duty is in one order.
        self.0.swap(false, Ordering::AcqRel);
    }
}
