//! Who waits in this process for a task to end.

use punctual_task::TaskId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// The waiting, by task. An entry lives as long as a call of `Engine::wait`.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// How many wait, so that the completer need not look where nobody does.
    count: AtomicUsize,
    by_task: Mutex<BTreeMap<TaskId, Entry>>,
}

#[derive(Debug)]
struct Entry {
    waiting: usize,
    ended: Arc<Notify>,
}

/// One call's interest in a task.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    waiters: &'a Waiters,
    task: TaskId,
    /// Told once when this process records the task's end.
    pub(crate) ended: Arc<Notify>,
}

impl Waiters {
    /// Begins to wait.
    pub(crate) fn wait(&self, task: TaskId) -> Waiting<'_> {
        let mut by_task = self.by_task.lock().unwrap_or_else(PoisonError::into_inner);
        self.count.fetch_add(1, Ordering::AcqRel);
        let entry = by_task.entry(task).or_insert_with(|| Entry { waiting: 0, ended: Arc::new(Notify::new()) });
        entry.waiting += 1;
        Waiting { waiters: self, task, ended: Arc::clone(&entry.ended) }
    }

    /// Whether anybody waits.
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Tells those who wait for `task`.
    pub(crate) fn ended(&self, task: TaskId) {
        let by_task = self.by_task.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = by_task.get(&task) {
            entry.ended.notify_waiters();
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut by_task = self.waiters.by_task.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiters.count.fetch_sub(1, Ordering::AcqRel);
        if let Some(entry) = by_task.get_mut(&self.task) {
            entry.waiting -= 1;
            if entry.waiting == 0 {
                by_task.remove(&self.task);
            }
        }
    }
}
