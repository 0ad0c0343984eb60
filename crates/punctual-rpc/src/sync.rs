//! The atomics, locks and cells of the parts that share state without one lock around it.
//!
//! Those parts name this module and no other for them: `sim/models` compiles the same files against a module of this name
//! in which a model checker chooses who moves next. What is kept whole under one lock needs no model and names the standard
//! library.

pub(crate) use arc_swap::{ArcSwap, ArcSwapOption};
pub(crate) use std::sync::{Mutex, OnceLock, RwLock};

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
}
