//! Unique keys: who holds which.

use super::State;
use super::tasks::TaskRow;
use crate::id::TaskId;
use crate::task::{KeyHold, KeyScope, UniqueKey};
use punctual_clock::Timestamp;

/// A key in its scope: the scope's kind, the method or queue, the text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyName {
    by_queue: bool,
    place: String,
    text: String,
}

impl KeyName {
    pub(super) fn new(key: &UniqueKey, method: &str, queue: &str) -> Self {
        let (by_queue, place) = match key.scope {
            KeyScope::Method => (false, method),
            KeyScope::Queue => (true, queue),
        };
        KeyName { by_queue, place: place.to_owned(), text: key.text.clone() }
    }

    pub(super) fn of(row: &TaskRow) -> Option<Self> {
        row.key.as_ref().map(|key| KeyName::new(key, &row.method, &row.queue))
    }
}

/// Who holds a key.
#[derive(Debug)]
pub(super) struct KeyRow {
    pub(super) task: TaskId,
    /// Until when, once the task has ended and holds on.
    pub(super) until: Option<Timestamp>,
}

impl State {
    /// The task that holds a key now.
    pub(super) fn key_holder(&self, name: &KeyName) -> Option<TaskId> {
        let row = self.keys.get(name)?;
        row.until.is_none_or(|until| until > self.now).then_some(row.task)
    }

    pub(super) fn take_key(&mut self, name: KeyName, task: TaskId) {
        self.keys.insert(name, KeyRow { task, until: None });
    }

    /// The task's first attempt was claimed: a key that is held while waiting is free.
    pub(super) fn key_after_claim(&mut self, id: TaskId) {
        self.release(id, |hold| (hold == KeyHold::Waiting).then_some(None));
    }

    /// The task has ended.
    pub(super) fn key_after_end(&mut self, id: TaskId) {
        let now = self.now;
        self.release(id, |hold| match hold {
            KeyHold::Waiting | KeyHold::Finished => Some(None),
            KeyHold::FinishedPlus(more) => Some(Some(now.after(more))),
        });
    }

    /// `decide` gives `None` to leave the key, `Some(None)` to free it, `Some(Some(until))` to hold it until then.
    fn release(&mut self, id: TaskId, decide: impl FnOnce(KeyHold) -> Option<Option<Timestamp>>) {
        let Some(row) = self.tasks.get(&id) else { return };
        let (Some(key), Some(name)) = (&row.key, KeyName::of(row)) else { return };
        if self.keys.get(&name).is_none_or(|held| held.task != id) {
            return;
        }
        match decide(key.hold) {
            None => {}
            Some(None) => {
                self.keys.remove(&name);
            }
            Some(until) => {
                self.keys.insert(name, KeyRow { task: id, until });
            }
        }
    }
}
