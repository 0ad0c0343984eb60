//! The end of an attempt: its record, and whether its task ends with it or waits again. An end takes with it the task's
//! place under its schedule's capacity and its unique key, and tells retention and the next sweep.

use crate::claims::class;
use crate::connection::Db;
use crate::errors::Done;
use crate::keys;
use crate::packed::ENDED_TASKS_MAX;
use crate::tasks::ADD_READY;
use punctual_clock::Timestamp;
use punctual_task::rows::Code;
use punctual_task::rows::{End, FLAG_KEY, Held, pack_ends};
use punctual_task::{AttemptRecord, TaskState};
use rusqlite::{CachedStatement, params};
use std::collections::BTreeSet;

/// Only the record of a cancel before any attempt, number 0, can replace an older one.
const WRITE: &str = "INSERT INTO attempt (task, n, worker, started, ended, outcome, final, lane, out)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
    ON CONFLICT (task, n) DO UPDATE SET worker = excluded.worker, started = excluded.started, ended = excluded.ended,
    outcome = excluded.outcome, final = excluded.final, lane = excluded.lane, out = excluded.out";
const RELEASE: &str = "DELETE FROM hold WHERE gate = ?1 AND task = ?2";
const ADD_ENDED: &str = "INSERT INTO ended (kind, at, tasks) VALUES (?1, ?2, ?3)";
/// An end frees capacity: a schedule that had no wake is looked at again by the next sweep, and one with a backfill even if
/// its own next slot is not due.
const WAKE: &str = "UPDATE position SET wake = ?2 WHERE id = ?1
    AND (state = 0 AND wake IS NULL OR backfilling = 1 AND (wake IS NULL OR wake > ?2))";

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

/// The ends of one operation. Its statements are prepared once for all of them.
pub(crate) struct Ends<'a> {
    db: &'a Db,
    now: Timestamp,
    write: CachedStatement<'a>,
    ended: Vec<End>,
    failed: Vec<End>,
    gates: BTreeSet<i64>,
}

impl<'a> Ends<'a> {
    pub(crate) fn new(db: &'a Db, now: Timestamp) -> Done<Self> {
        let write = db.sql(WRITE)?;
        Ok(Ends { db, now, write, ended: Vec::new(), failed: Vec::new(), gates: BTreeSet::new() })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// Ends a task in `state` by the attempt `record`.
    pub(crate) fn end(&mut self, task: Ending, record: &AttemptRecord, state: TaskState) -> Done<()> {
        self.record(task.task, task.lane, record, Some(state))?;
        if task.gate != 0 {
            self.db.sql(RELEASE)?.execute(params![task.gate, task.task])?;
            self.gates.insert(task.gate);
        }
        if task.key {
            keys::ended(self.db, task.task, self.now)?;
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

    /// Ends the attempt `record` of a task that waits again.
    pub(crate) fn again(&mut self, held: &Held, record: &AttemptRecord, again: Again) -> Done<()> {
        self.record(held.task, held.lane, record, None)?;
        wait(self.db, held, again)
    }

    fn record(&mut self, task: i64, lane: u32, record: &AttemptRecord, end: Option<TaskState>) -> Done<()> {
        self.write.execute(params![
            task,
            record.n,
            record.worker,
            record.started.as_micros(),
            record.ended.as_micros(),
            record.outcome.code(),
            end.map(Code::code),
            lane,
            &record.out[..],
        ])?;
        Ok(())
    }

    /// Tells retention what ended, and the sweeps which schedules have room.
    pub(crate) fn flush(mut self) -> Done<()> {
        for (kind, ends) in [(KIND_ENDED, &mut self.ended), (KIND_FAILED, &mut self.failed)] {
            ends.sort_unstable();
            for part in ends.chunks(ENDED_TASKS_MAX) {
                let first = part.first().map_or(0, |end| end.at);
                self.db.sql(ADD_ENDED)?.execute(params![kind, first, pack_ends(part)])?;
            }
        }
        for gate in &self.gates {
            self.db.sql(WAKE)?.execute(params![gate, self.now.as_micros()])?;
        }
        Ok(())
    }
}

/// Puts a task that was held back among the waiting ones.
pub(crate) fn wait(db: &Db, held: &Held, again: Again) -> Done<()> {
    let Again { due, n, spent, losses } = again;
    let class = class(held.level, losses);
    db.sql(ADD_READY)?.execute(params![held.lane, class, due.as_micros(), held.task, n, spent, losses])?;
    Ok(())
}
