//! What the lock-free parts name `crate::sync`, here moved by the model checker.

pub(crate) mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
}

use atomic::{AtomicBool, AtomicUsize, Ordering};
pub(crate) use loom::sync::{Mutex, MutexGuard, RwLock};
use std::sync::{Arc, PoisonError};

/// A cell of a shared value that is exchanged as a whole: the pointer that `arc-swap` keeps, with the weakest orderings that it
/// promises. What it may point to is kept for the life of the cell, so that only the exchange is under test.
pub(crate) struct ArcSwap<T> {
    at: AtomicUsize,
    /// Held within one step: the model checker never sees it taken.
    values: std::sync::Mutex<Vec<Arc<T>>>,
}

impl<T> ArcSwap<T> {
    pub(crate) fn from_pointee(value: T) -> Self {
        ArcSwap { at: AtomicUsize::new(0), values: std::sync::Mutex::new(vec![Arc::new(value)]) }
    }

    pub(crate) fn load(&self) -> Arc<T> {
        let at = self.at.load(Ordering::Acquire);
        Arc::clone(&self.values.lock().unwrap_or_else(PoisonError::into_inner)[at])
    }

    pub(crate) fn load_full(&self) -> Arc<T> {
        self.load()
    }

    pub(crate) fn store(&self, value: Arc<T>) {
        let at = {
            let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
            values.push(value);
            values.len() - 1
        };
        self.at.swap(at, Ordering::AcqRel);
    }
}

/// The same for a value that may be missing.
pub(crate) struct ArcSwapOption<T>(ArcSwap<Option<Arc<T>>>);

impl<T> ArcSwapOption<T> {
    pub(crate) fn empty() -> Self {
        ArcSwapOption(ArcSwap::from_pointee(None))
    }

    pub(crate) fn load_full(&self) -> Option<Arc<T>> {
        (*self.0.load()).clone()
    }

    pub(crate) fn store(&self, value: Option<Arc<T>>) {
        self.0.store(Arc::new(value));
    }
}

/// A value that is set once: who reads it without having set it sees it through an acquiring load.
pub(crate) struct OnceLock<T> {
    is_set: AtomicBool,
    setting: Mutex<()>,
    value: std::sync::OnceLock<T>,
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        OnceLock { is_set: AtomicBool::new(false), setting: Mutex::new(()), value: std::sync::OnceLock::new() }
    }
}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> Self {
        OnceLock::default()
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().expect("it is taken once"));
        value.map_or(Ok(()), Err)
    }

    pub(crate) fn get(&self) -> Option<&T> {
        if self.is_set.load(Ordering::Acquire) { self.value.get() } else { None }
    }

    pub(crate) fn get_or_init(&self, value: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let _setting = self.setting.lock().unwrap_or_else(PoisonError::into_inner);
        let value = self.value.get_or_init(value);
        self.is_set.store(true, Ordering::Release);
        value
    }
}
