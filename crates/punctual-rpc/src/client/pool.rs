//! Who belongs to a pool: at least one, and more while that is worth it.

use crate::client::duty::Duty;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{ArcSwap, Mutex};
use std::sync::{Arc, PoisonError};

/// The members of a pool. They are read without a lock, and change under one.
pub(crate) struct Pool<C> {
    /// At least one, and once it is closed those that it then had.
    members: ArcSwap<Vec<Arc<C>>>,
    /// Held while they change.
    changing: Mutex<()>,
    is_closed: AtomicBool,
    /// To look for members that are not needed any more.
    shrinking: Duty,
}

impl<C> Pool<C> {
    pub(crate) fn of(first: C) -> Self {
        Pool {
            members: ArcSwap::from_pointee(vec![Arc::new(first)]),
            changing: Mutex::new(()),
            is_closed: AtomicBool::new(false),
            shrinking: Duty::free(),
        }
    }

    pub(crate) fn members(&self) -> Arc<Vec<Arc<C>>> {
        self.members.load_full()
    }

    /// Adds one, where there are fewer than `max` and nothing speaks against it.
    pub(crate) fn grow(
        &self,
        max: usize,
        may: impl FnOnce(&[Arc<C>]) -> bool,
        make: impl FnOnce() -> C,
    ) -> Option<Arc<C>> {
        if self.members.load().len() >= max {
            return None;
        }
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let members = self.members.load_full();
        if members.len() >= max || self.is_closed.load(Ordering::Relaxed) || !may(&members) {
            return None;
        }
        let next = Arc::new(make());
        self.members.store(Arc::new(members.iter().chain([&next]).map(Arc::clone).collect()));
        Some(next)
    }

    /// Removes those that `which` names, with their indices, but never the first. Gives them.
    pub(crate) fn remove(&self, which: impl Fn(usize, &C) -> bool) -> Vec<Arc<C>> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let members = self.members.load_full();
        let goes = |(at, member): &(usize, &Arc<C>)| *at > 0 && which(*at, member);
        let (go, stay): (Vec<_>, Vec<_>) = members.iter().enumerate().partition(goes);
        if !go.is_empty() {
            self.members.store(Arc::new(stay.into_iter().map(|(_, member)| Arc::clone(member)).collect()));
        }
        go.into_iter().map(|(_, member)| Arc::clone(member)).collect()
    }

    /// It grows no more. Gives those that there are: nobody joins them from here on.
    pub(crate) fn close(&self) -> Arc<Vec<Arc<C>>> {
        self.is_closed.store(true, Ordering::Relaxed);
        // Who grows from here on sees the flag; who was about to has grown.
        drop(self.changing.lock().unwrap_or_else(PoisonError::into_inner));
        self.members.load_full()
    }

    /// Takes the duty to look for members that are not needed; false where somebody has it.
    pub(crate) fn begin_shrinking(&self) -> bool {
        self.shrinking.take()
    }

    /// Gives the duty back where nothing is left to look for.
    pub(crate) fn end_shrinking(&self) -> bool {
        // Under the lock: who grows from here on finds nobody at it.
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let done = self.is_closed.load(Ordering::Relaxed) || self.members.load().len() <= 1;
        if done {
            self.shrinking.give_back();
        }
        done
    }

    /// Gives the duty back in any case.
    pub(crate) fn abandon_shrinking(&self) {
        self.shrinking.give_back();
    }
}
