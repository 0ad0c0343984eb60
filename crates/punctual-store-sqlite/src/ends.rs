//! What the end of a task takes with it: its place under its schedule's capacity, its unique key, the cancel that was asked
//! for; and what retention and the next sweep must know of it.

use crate::attempts::{self, Record};
use crate::connection::Db;
use crate::errors::Done;
use crate::keys;
use crate::packed::{ENDED_TASKS_MAX, End, FLAG_KEY, Held, pack_ends};
use punctual_clock::Timestamp;
use punctual_task::{AttemptRecord, TaskState};
use rusqlite::params;
use std::collections::BTreeSet;

const RELEASE: &str = "DELETE FROM hold WHERE gate = ?1 AND task = ?2";
const ADD: &str = "INSERT INTO ended (kind, at, tasks) VALUES (?1, ?2, ?3)";
/// An end frees capacity: a schedule that had no wake is looked at again by the next sweep.
const WAKE: &str = "UPDATE position SET wake = ?2 WHERE id = ?1 AND state = 0 AND wake IS NULL";

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

/// The ends of one transaction.
#[derive(Debug)]
pub(crate) struct Ends {
    now: Timestamp,
    ended: Vec<End>,
    failed: Vec<End>,
    gates: BTreeSet<i64>,
}

impl Ends {
    pub(crate) fn new(now: Timestamp) -> Self {
        Ends { now, ended: Vec::new(), failed: Vec::new(), gates: BTreeSet::new() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// Ends a task in `state` by the attempt `record`, which is written.
    pub(crate) fn end(&mut self, db: &Db, task: Ending, record: &AttemptRecord, state: TaskState) -> Done<()> {
        attempts::write(db, Record { task: task.task, lane: task.lane, record, end: Some(state) })?;
        if task.gate != 0 {
            db.sql(RELEASE)?.execute(params![task.gate, task.task])?;
            self.gates.insert(task.gate);
        }
        if task.key {
            keys::ended(db, task.task, self.now)?;
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
        Ok(())
    }

    /// Writes what retention and the sweeps must know.
    pub(crate) fn flush(mut self, db: &Db) -> Done<()> {
        for (kind, ends) in [(KIND_ENDED, &mut self.ended), (KIND_FAILED, &mut self.failed)] {
            ends.sort_unstable();
            for part in ends.chunks(ENDED_TASKS_MAX) {
                let first = part.first().map_or(0, |end| end.at);
                db.sql(ADD)?.execute(params![kind, first, pack_ends(part)])?;
            }
        }
        for gate in &self.gates {
            db.sql(WAKE)?.execute(params![gate, self.now.as_micros()])?;
        }
        Ok(())
    }
}
