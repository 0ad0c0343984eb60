//! Cancels and redrives: what an operator does to single tasks.

use crate::connection::Db;
use crate::ends::{Again, Ending, Ends, wait};
use crate::errors::{Done, Fault};
use crate::holdings::Holdings;
use crate::keys;
use crate::session::Session;
use crate::tasks;
use punctual_clock::Timestamp;
use punctual_task::rows::Code;
use punctual_task::rows::Held;
use punctual_task::{AttemptRecord, CancelOutcome, RetryOutcome, ScheduleState, StoreError, TaskId, TaskState};
use rusqlite::{OptionalExtension, params};

/// How many tasks one cancel or redrive may name.
pub const NAMED_TASKS_MAX: usize = 100_000;

const WAITING: &str = "SELECT n FROM ready WHERE id = ?1";
const UNREADY: &str = "DELETE FROM ready WHERE id = ?1";
const PARTS: &str = "SELECT lane, coalesce(schedule, 0), unique_key IS NOT NULL FROM task WHERE id = ?1";
const ASK: &str =
    "INSERT INTO cancel (task, worker) VALUES (?1, ?2) ON CONFLICT (task) DO UPDATE SET worker = excluded.worker";
/// The plus keeps SQLite from reading the whole index over `final` where the primary key finds the one task.
pub(crate) const FINAL: &str = "SELECT final FROM attempt WHERE task = ?1 AND +final IS NOT NULL LIMIT 1";
const LAST: &str = "SELECT coalesce(max(n), 0) FROM attempt WHERE task = ?1";
const REOPEN: &str = "UPDATE attempt SET final = NULL WHERE task = ?1 AND +final IS NOT NULL";
const SERIES_STATE: &str = "SELECT state FROM position WHERE id = ?1";
pub(crate) const ADD_HOLD: &str = "INSERT INTO hold (gate, task, pass) VALUES (?1, ?2, ?3)";

/// Checks the limit before the request is queued with others.
pub(crate) fn check(tasks: &[TaskId]) -> Result<(), StoreError> {
    if tasks.len() > NAMED_TASKS_MAX {
        return Err(StoreError::refused(format!(
            "{} tasks in one request are more than the limit of {NAMED_TASKS_MAX}; send them in parts",
            tasks.len()
        )));
    }
    Ok(())
}

/// Cancels tasks.
pub(crate) fn cancel(session: &mut Session, tasks: &[TaskId]) -> Done<Vec<CancelOutcome>> {
    let now = session.now();
    let Session { db, holdings, .. } = session;
    let mut ends = Ends::new(db, now)?;
    let given = tasks.iter().map(|task| cancel_one(db, holdings, &mut ends, task.0)).collect::<Done<_>>()?;
    ends.flush()?;
    Ok(given)
}

/// Cancels one task: at once if it waits, by request if it runs.
pub(crate) fn cancel_one(db: &Db, holdings: &mut Holdings, ends: &mut Ends<'_>, task: i64) -> Done<CancelOutcome> {
    if db.sql(UNREADY)?.execute(params![task])? == 1 {
        let ending = db
            .sql(PARTS)?
            .query_row(params![task], |row| Ok(Ending { task, lane: row.get(0)?, gate: row.get(1)?, key: row.get(2)? }))
            .optional()?
            .ok_or_else(|| Fault::corrupt(format!("the waiting task {} has no row", TaskId(task))))?;
        let record = AttemptRecord::cancelled_waiting(ends.now());
        ends.end(ending, &record, TaskState::Cancelled)?;
        return Ok(CancelOutcome::Cancelled);
    }
    if let Some((worker, _)) = holdings.find(db, task)? {
        db.sql(ASK)?.execute(params![task, worker])?;
        return Ok(CancelOutcome::Requested);
    }
    Ok(ended_state(db, task)?.map_or(CancelOutcome::Unknown, CancelOutcome::Ended))
}

/// Whether a task waits for its first or next attempt.
pub(crate) fn is_waiting(db: &Db, task: i64) -> Done<bool> {
    Ok(db.sql(WAITING)?.exists(params![task])?)
}

/// The state in which a task has ended.
pub(crate) fn ended_state(db: &Db, task: i64) -> Done<Option<TaskState>> {
    let code: Option<i64> = db.sql(FINAL)?.query_row(params![task], |row| row.get(0)).optional()?;
    Ok(code.map(TaskState::of).transpose()?)
}

/// The state of the schedule that a task is an occurrence of.
fn series_state(db: &Db, schedule: i64) -> Done<Option<ScheduleState>> {
    let code: Option<i64> = db.sql(SERIES_STATE)?.query_row(params![schedule], |row| row.get(0)).optional()?;
    Ok(code.map(ScheduleState::of).transpose()?)
}

/// Makes ended tasks wait again.
pub(crate) fn retry(session: &mut Session, tasks: &[TaskId]) -> Done<Vec<RetryOutcome>> {
    let now = session.now();
    tasks.iter().map(|task| retry_one(session, task.0, now)).collect()
}

fn retry_one(session: &mut Session, id: i64, now: Timestamp) -> Done<RetryOutcome> {
    let Session { db, names, holdings, .. } = session;
    let Some(task) = tasks::read(db, id)? else { return Ok(RetryOutcome::Unknown) };
    if is_waiting(db, id)? {
        return Ok(RetryOutcome::NotEnded(TaskState::Waiting));
    }
    if holdings.find(db, id)?.is_some() {
        return Ok(RetryOutcome::NotEnded(TaskState::Running));
    }
    let gate = task.gate();
    if gate != 0 && series_state(db, gate)? == Some(ScheduleState::Cancelled) {
        return Ok(RetryOutcome::SeriesCancelled);
    }
    if let Some(key) = &task.key {
        let key = keys::from_row(key)?;
        if let Some(holder) = keys::take(db, &key, names.pair(task.lane)?, id, now)? {
            return Ok(RetryOutcome::KeyHeld(TaskId(holder)));
        }
    }
    let n = db.sql(LAST)?.query_row(params![id], |row| row.get(0))?;
    db.sql(REOPEN)?.execute(params![id])?;
    if gate != 0 {
        db.sql(ADD_HOLD)?.execute(params![gate, id, task.pass()])?;
    }
    let held = Held { task: id, gate, lane: task.lane, level: task.level, flags: 0, n, spent: 0, losses: 0, due: 0 };
    wait(db, &held, Again { due: now, n, spent: 0, losses: 0 })?;
    Ok(RetryOutcome::Waiting)
}
