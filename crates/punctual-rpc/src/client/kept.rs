//! The arguments of a call that may have to be sent more than once.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Arguments that attempts read one at a time. The lock is never waited for: it is there because arguments need not be
/// shareable between threads, and the futures of attempts must be able to move between them.
#[derive(Debug)]
pub(crate) struct Kept<A>(Mutex<A>);

impl<A> Kept<A> {
    pub(crate) fn new(args: A) -> Self {
        Kept(Mutex::new(args))
    }

    /// A panic of the arguments' own code while they were encoded has changed nothing about them.
    pub(crate) fn get(&self) -> MutexGuard<'_, A> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
