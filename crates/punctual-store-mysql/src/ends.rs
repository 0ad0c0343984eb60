//! The end of an attempt: its record, and whether its task ends with it or waits again. An end takes with it the task's
//! place under its schedule's capacity and its unique key, and tells retention and the next sweep.

use crate::keys;
use crate::packed::ENDED_TASKS_MAX;
use crate::ready::Ready;
use crate::script::{Script, Value};
use punctual_clock::Timestamp;
use punctual_task::rows::Code;
use punctual_task::rows::{End, FLAG_KEY, Held, pack_ends};
use punctual_task::{AttemptRecord, TaskState};
use std::collections::BTreeMap;

const WRITE: &str =
    "INSERT INTO punctual_attempt (task, n, worker, started, ended, outcome, final, lane, result) VALUES ";
/// Only the record of a cancel before any attempt, number 0, can replace an older one.
const REPLACE: &str =
    " ON DUPLICATE KEY UPDATE worker = VALUES(worker), started = VALUES(started), ended = VALUES(ended),
    outcome = VALUES(outcome), final = VALUES(final), lane = VALUES(lane), result = VALUES(result)";
/// An end frees capacity and so may wake a schedule, which a sweep may be deciding to let sleep: it waits for the sweep.
pub(crate) const LOCK_POSITIONS: &str =
    "SELECT id FROM punctual_position FORCE INDEX (PRIMARY) WHERE id IN (?) ORDER BY id FOR UPDATE";
const RELEASE: &str = "DELETE h FROM punctual_hold h FORCE INDEX (PRIMARY) WHERE h.gate = ? AND h.task IN (?)";
const ADD_ENDED: &str = "INSERT INTO punctual_ended (kind, at, tasks) VALUES ";
const WAKE: &str = "UPDATE punctual_position SET wake = ? WHERE id = ?
    AND (state = 0 AND wake IS NULL OR backfilling = 1 AND (wake IS NULL OR wake > ?))";
const ANSWERED: &str = "DELETE c FROM punctual_cancel c FORCE INDEX (PRIMARY) WHERE c.task IN (?)";

/// The kind of a row of ends.
pub(crate) const KIND_ENDED: i64 = 0;
/// The kind of a row of failures, which are kept longer.
pub(crate) const KIND_FAILED: i64 = 1;

/// A task that is about to end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ending {
    pub(crate) task: i64,
    pub(crate) lane: u32,
    /// The schedule whose occurrence it is; 0 for none.
    pub(crate) gate: i64,
    /// Whether it was enqueued with a unique key.
    pub(crate) key: bool,
}

impl From<&Held> for Ending {
    fn from(held: &Held) -> Self {
        Ending { task: held.task, lane: held.lane, gate: held.gate, key: held.flags & FLAG_KEY != 0 }
    }
}

/// How a task waits again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Again {
    pub(crate) due: Timestamp,
    /// Attempts begun so far.
    pub(crate) n: u32,
    pub(crate) spent: u32,
    pub(crate) losses: u32,
}

/// The ends of one operation, gathered and then written at once.
#[derive(Debug)]
pub(crate) struct Ends {
    now: Timestamp,
    attempts: Vec<(i64, u32, AttemptRecord, Option<TaskState>)>,
    releases: BTreeMap<i64, Vec<i64>>,
    keys: Vec<i64>,
    ended: Vec<End>,
    failed: Vec<End>,
    ready: Vec<Ready>,
    answered: Vec<i64>,
}

impl Ends {
    pub(crate) fn new(now: Timestamp) -> Self {
        Ends {
            now,
            attempts: Vec::new(),
            releases: BTreeMap::new(),
            keys: Vec::new(),
            ended: Vec::new(),
            failed: Vec::new(),
            ready: Vec::new(),
            answered: Vec::new(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// Ends a task in `state` by the attempt `record`.
    pub(crate) fn end(&mut self, task: Ending, record: AttemptRecord, state: TaskState) {
        if task.gate != 0 {
            self.releases.entry(task.gate).or_default().push(task.task);
        }
        if task.key {
            self.keys.push(task.task);
        }
        let end = End { at: record.ended.as_micros(), task: task.task };
        match state {
            TaskState::Failed => self.failed.push(end),
            TaskState::Waiting
            | TaskState::Parked
            | TaskState::Running
            | TaskState::Succeeded
            | TaskState::Cancelled
            | TaskState::Expired => self.ended.push(end),
        }
        self.attempts.push((task.task, task.lane, record, Some(state)));
    }

    /// Ends the attempt `record` of a task that waits again.
    pub(crate) fn again(&mut self, held: &Held, record: AttemptRecord, again: Again) {
        self.attempts.push((held.task, held.lane, record, None));
        self.wait(held, again);
    }

    /// Puts a task that was held back among the waiting ones.
    pub(crate) fn wait(&mut self, held: &Held, again: Again) {
        self.ready.push(Ready::again(held, again));
    }

    /// A cancel that was asked for has had its answer.
    pub(crate) fn answered(&mut self, task: i64) {
        self.answered.push(task);
    }

    /// Adds what writes all of it.
    pub(crate) fn write(mut self, script: &mut Script) {
        let gates: Vec<i64> = self.releases.keys().copied().collect();
        if !gates.is_empty() {
            script.add(LOCK_POSITIONS, &[gates.as_slice().into()]);
        }
        let rows = self.attempts.iter().map(|(task, lane, record, end)| {
            [
                Value::from(*task),
                record.n.into(),
                record.worker.into(),
                record.started.as_micros().into(),
                record.ended.as_micros().into(),
                record.outcome.code().into(),
                end.map(Code::code).into(),
                (*lane).into(),
                (&record.out[..]).into(),
            ]
        });
        script.insert(WRITE, rows, REPLACE);
        for (gate, tasks) in &self.releases {
            for part in tasks.chunks(1_000) {
                script.add(RELEASE, &[(*gate).into(), part.into()]);
            }
        }
        keys::ended(script, &self.keys, self.now);
        script.parts(ANSWERED, &self.answered);
        Ready::write(script, &self.ready);
        let mut packed = Vec::new();
        for (kind, ends) in [(KIND_ENDED, &mut self.ended), (KIND_FAILED, &mut self.failed)] {
            ends.sort_unstable();
            packed.extend(
                ends.chunks(ENDED_TASKS_MAX).map(|part| (kind, part.first().map_or(0, |end| end.at), pack_ends(part))),
            );
        }
        script.insert(
            ADD_ENDED,
            packed.iter().map(|(kind, at, ends)| [(*kind).into(), (*at).into(), ends.as_slice().into()]),
            "",
        );
        for gate in &gates {
            script.add(WAKE, &[self.now.as_micros().into(), (*gate).into(), self.now.as_micros().into()]);
        }
    }
}
