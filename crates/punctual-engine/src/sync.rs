//! The atomics and locks of the parts that share state without one lock around it; `sim/models` moves them.

pub(crate) use std::sync::{Mutex, MutexGuard};

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
}
