//! Tasks: written, cancelled, ended, made to wait again.

use super::State;
use super::keys::KeyName;
use crate::attempt::{AttemptRecord, CancelOutcome, RetryOutcome};
use crate::error::StoreError;
use crate::id::{TaskId, WorkerId};
use crate::policy::TaskOptions;
use crate::progress::Progress;
use crate::series::ScheduleState;
use crate::task::{Due, Enqueued, KeyMode, NewTask, Occurrence, TaskState, UniqueKey};
use bytes::Bytes;
use punctual_clock::Timestamp;
use std::collections::BTreeMap;

/// A task.
#[derive(Debug)]
pub(super) struct TaskRow {
    pub(super) method: String,
    pub(super) queue: String,
    pub(super) level: u8,
    pub(super) args: Bytes,
    pub(super) schema: u64,
    pub(super) options: TaskOptions,
    pub(super) key: Option<UniqueKey>,
    pub(super) created: Timestamp,
    /// When its first attempt became due.
    pub(super) first_due: Timestamp,
    pub(super) occurrence: Option<Occurrence>,
    /// The schedule's era that its slot belongs to.
    pub(super) era: u32,
    pub(super) place: Place,
    /// The attempt that runs or comes next, from 1.
    pub(super) n: u32,
    pub(super) spent: u32,
    pub(super) losses: u32,
    pub(super) cancel_requested: bool,
    /// In order of their numbers.
    pub(super) attempts: Vec<AttemptRecord>,
    pub(super) progress: Option<Progress>,
    /// When the attempt ended that was recorded last.
    recorded: Timestamp,
}

/// Where a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Waiting { due: Timestamp },
    Running { worker: WorkerId, claimed: Timestamp, due: Timestamp },
    Ended { state: TaskState },
}

impl TaskRow {
    pub(super) fn state(&self) -> TaskState {
        match self.place {
            Place::Waiting { .. } => TaskState::Waiting,
            Place::Running { .. } => TaskState::Running,
            Place::Ended { state } => state,
        }
    }

    /// Adds an attempt, in place of one with the same number.
    pub(super) fn record(&mut self, attempt: AttemptRecord) {
        self.recorded = attempt.ended;
        self.attempts.retain(|known| known.n != attempt.n);
        let at = self.attempts.partition_point(|known| known.n < attempt.n);
        self.attempts.insert(at, attempt);
    }

    /// When it ended, if it has.
    pub(super) fn ended(&self) -> Option<Timestamp> {
        self.state().is_final().then_some(self.recorded)
    }

    fn is_resend_of(&self, task: &NewTask) -> bool {
        self.occurrence.is_none()
            && self.method == task.method
            && self.queue == task.queue
            && self.level == task.level
            && self.args == task.args
            && self.schema == task.schema
            && self.options == task.options
    }
}

impl State {
    pub(super) fn enqueue(&mut self, tasks: Vec<NewTask>) -> Result<Vec<Enqueued>, StoreError> {
        // All or none: everything is decided before anything is written.
        let (replies, fresh, keys) = self.decide_enqueue(&tasks)?;
        for task in tasks {
            // The first of several with one id was inserted; the others are its equals.
            if fresh.binary_search(&task.id).is_ok() && !self.tasks.contains_key(&task.id) {
                self.insert(task, None, 0);
            }
        }
        for (name, task) in keys {
            self.take_key(name, task);
        }
        Ok(replies)
    }

    /// What an enqueue would give, which of its tasks are new, by id, and which keys they take.
    #[expect(clippy::type_complexity, reason = "three answers of one look, for two callers")]
    pub(super) fn decide_enqueue(
        &self,
        tasks: &[NewTask],
    ) -> Result<(Vec<Enqueued>, Vec<TaskId>, BTreeMap<KeyName, TaskId>), StoreError> {
        let mut batch: BTreeMap<TaskId, &NewTask> = BTreeMap::new();
        let mut keys: BTreeMap<KeyName, TaskId> = BTreeMap::new();
        let mut replies = Vec::with_capacity(tasks.len());
        for task in tasks {
            task.validate()?;
            if let Some(known) = self.tasks.get(&task.id) {
                if !known.is_resend_of(task) {
                    return Err(taken_id(task.id));
                }
                replies.push(Enqueued { id: task.id, inserted: true });
                continue;
            }
            if let Some(known) = batch.get(&task.id) {
                if *known != task {
                    return Err(taken_id(task.id));
                }
                replies.push(Enqueued { id: task.id, inserted: true });
                continue;
            }
            if let Some(key) = &task.key {
                let name = KeyName::new(key, &task.method, &task.queue);
                if let Some(holder) = keys.get(&name).copied().or_else(|| self.key_holder(&name)) {
                    match key.mode {
                        KeyMode::Keep => replies.push(Enqueued { id: holder, inserted: false }),
                        KeyMode::Reject => return Err(taken_key(&key.text, holder)),
                    }
                    continue;
                }
                keys.insert(name, task.id);
            }
            batch.insert(task.id, task);
            replies.push(Enqueued { id: task.id, inserted: true });
        }
        let fresh = batch.into_keys().collect();
        Ok((replies, fresh, keys))
    }

    /// Writes a task that is known to be new.
    pub(super) fn insert(&mut self, task: NewTask, occurrence: Option<Occurrence>, era: u32) {
        let due = match task.due {
            Due::Now => self.now,
            Due::After(wait) => self.now.after(wait),
            Due::At(at) => at.max(self.now),
        };
        // Ids that were not drawn here must not be drawn later.
        self.next_task = self.next_task.max(task.id.0.saturating_add(1));
        self.queues.entry(task.queue.clone()).or_insert(false);
        self.waiting.insert((task.level, due, task.id));
        let row = TaskRow {
            method: task.method,
            queue: task.queue,
            level: task.level,
            args: task.args,
            schema: task.schema,
            options: task.options,
            key: task.key,
            created: self.now,
            first_due: due,
            occurrence,
            era,
            place: Place::Waiting { due },
            n: 1,
            spent: 0,
            losses: 0,
            cancel_requested: false,
            attempts: Vec::new(),
            progress: None,
            recorded: self.now,
        };
        self.tasks.insert(task.id, row);
    }

    pub(super) fn cancel(&mut self, id: TaskId) -> CancelOutcome {
        let Some(row) = self.tasks.get_mut(&id) else { return CancelOutcome::Unknown };
        match row.place {
            Place::Ended { state } => CancelOutcome::Ended(state),
            Place::Running { .. } => {
                row.cancel_requested = true;
                CancelOutcome::Requested
            }
            Place::Waiting { .. } => {
                row.record(AttemptRecord::cancelled_waiting(self.now));
                self.end(id, TaskState::Cancelled);
                CancelOutcome::Cancelled
            }
        }
    }

    /// Takes a task out of where it is and ends it. Its last attempt is recorded already.
    pub(super) fn end(&mut self, id: TaskId, state: TaskState) {
        self.leave(id);
        let Some(row) = self.tasks.get_mut(&id) else { return };
        row.place = Place::Ended { state };
        row.cancel_requested = false;
        let schedule = row.occurrence.as_ref().map(|occurrence| occurrence.schedule);
        self.key_after_end(id);
        if let Some(schedule) = schedule {
            self.occurrence_ended(schedule, id);
        }
    }

    /// Takes a task out of where it is and makes it wait for attempt `n`.
    pub(super) fn wait(&mut self, id: TaskId, n: u32, due: Timestamp) {
        self.leave(id);
        let Some(row) = self.tasks.get_mut(&id) else { return };
        row.place = Place::Waiting { due };
        row.n = n;
        row.cancel_requested = false;
        self.waiting.insert((row.level, due, id));
    }

    /// Takes a task out of the index or the worker that it is in.
    pub(super) fn leave(&mut self, id: TaskId) {
        let Some(row) = self.tasks.get(&id) else { return };
        match row.place {
            Place::Waiting { due } => {
                self.waiting.remove(&(row.level, due, id));
            }
            Place::Running { worker, .. } => {
                if let Some(worker) = self.workers.get_mut(&worker) {
                    worker.holds.remove(&id);
                }
            }
            Place::Ended { .. } => {}
        }
    }

    pub(super) fn retry(&mut self, id: TaskId) -> RetryOutcome {
        let Some(row) = self.tasks.get(&id) else { return RetryOutcome::Unknown };
        let state = row.state();
        if !state.is_final() {
            return RetryOutcome::NotEnded(state);
        }
        let n = row.attempts.last().map_or(0, |attempt| attempt.n).saturating_add(1);
        let schedule = row.occurrence.as_ref().map(|occurrence| occurrence.schedule);
        let pass = row.occurrence.as_ref().map_or(0, |occurrence| occurrence.pass);
        let series = schedule.and_then(|id| self.schedules.get(&id));
        if series.is_some_and(|series| series.position.state == ScheduleState::Cancelled) {
            return RetryOutcome::SeriesCancelled;
        }
        if let Some(name) = KeyName::of(row) {
            match self.key_holder(&name) {
                Some(holder) if holder != id => return RetryOutcome::KeyHeld(holder),
                _ => self.take_key(name, id),
            }
        }
        self.wait(id, n, self.now);
        if let Some(row) = self.tasks.get_mut(&id) {
            row.spent = 0;
            row.losses = 0;
        }
        if let Some(schedule) = schedule.and_then(|id| self.schedules.get_mut(&id)) {
            schedule.holds(pass).insert(id);
        }
        RetryOutcome::Waiting
    }
}

fn taken_id(id: TaskId) -> StoreError {
    StoreError::refused(format!("task {id} is there already with another content: draw a fresh id for each task"))
}

fn taken_key(text: &str, holder: TaskId) -> StoreError {
    StoreError::refused(format!("the unique key {text:?} is held by task {holder}; nothing of this batch was written"))
}
