//! The atomics of the rings' indices, by one name: `sim/models` compiles that file against the same names of a model checker.

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}
