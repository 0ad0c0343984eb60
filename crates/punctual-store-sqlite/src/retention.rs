//! Retention: ended tasks that are old enough go, oldest first, in small batches.

use crate::connection::Db;
use crate::ends::{KIND_ENDED, KIND_FAILED};
use crate::errors::Done;
use crate::keys;
use crate::progress;
use crate::session::Session;
use crate::workers;
use punctual_clock::Timestamp;
use punctual_task::rows::{End, pack_ends, unpack_ends};
use punctual_task::{Pruned, Retention};
use rusqlite::{OptionalExtension, params};
use std::time::Duration;

/// How many tasks one pruning removes at most: more would hold the write lock for longer than a group may.
pub const PRUNE_MAX: u32 = 5_000;
/// How many ends one pruning looks at beyond those that it removes: tasks that were made to wait again, and occurrences
/// whose slot the cursor has not passed.
const PASSED_OVER_MAX: usize = 10_000;
/// How many rows of losses and of keys one pruning removes.
const SIDE_ROWS_MAX: u32 = 1_000;

pub(crate) const OLDEST: &str = "SELECT id, at, tasks FROM ended
    WHERE kind = ?1 AND at <= ?2 AND (at, id) > (?3, ?4) ORDER BY at, id LIMIT 1";
const SHRINK: &str = "UPDATE ended SET at = ?2, tasks = ?3 WHERE id = ?1";
const DELETE: &str = "DELETE FROM ended WHERE id = ?1";
const ENDED_AT: &str = "SELECT ended FROM attempt WHERE task = ?1 AND +final IS NOT NULL LIMIT 1";
/// An occurrence whose slot a sweep would create again if the task were not there. `NOT INDEXED` leaves the primary key.
const GUARDS: &str = "SELECT 1 FROM task t NOT INDEXED CROSS JOIN position p ON p.id = t.schedule
    WHERE t.id = ?1 AND t.slot IS NOT NULL AND p.era = t.era AND p.cursor_at <= t.at";
const DELETE_ATTEMPTS: &str = "DELETE FROM attempt WHERE task = ?1";
const DELETE_BODY: &str = "DELETE FROM task_body WHERE id = ?1";
const DELETE_TASK: &str =
    "DELETE FROM task WHERE id = ?1 RETURNING CASE WHEN slot IS NULL THEN NULL ELSE schedule END, at";
/// A backfill cannot tell any more that there was a task.
const FORGET: &str = "UPDATE position SET known_from = ?2 WHERE id = ?1 AND (known_from IS NULL OR known_from < ?2)";
const DELETE_LOSSES: &str =
    "DELETE FROM missed WHERE id IN (SELECT id FROM missed WHERE to_at <= ?1 ORDER BY to_at LIMIT ?2)";

/// Removes what is old enough.
pub(crate) fn prune(session: &mut Session, retention: Retention, limit: u32) -> Done<Pruned> {
    let now = session.now();
    let Session { db, .. } = session;
    let limit = limit.min(PRUNE_MAX);
    let mut pruned = Pruned::default();
    let mut passed_over = 0;
    for (kind, keep) in [(KIND_ENDED, retention.ended), (KIND_FAILED, retention.failed)] {
        let Some(keep) = keep else { continue };
        let until = before(now, keep);
        let mut after = (i64::MIN, i64::MIN);
        while pruned.tasks < limit && passed_over < PASSED_OVER_MAX {
            let Some((id, at, ends)) = oldest(db, kind, until, after)? else { break };
            after = (at, id);
            prune_row(db, id, &ends, until, limit, &mut pruned.tasks, &mut passed_over)?;
        }
    }
    pruned.more = pruned.tasks > 0 && pruned.tasks >= limit;
    if let Some(keep) = retention.ended {
        db.sql(DELETE_LOSSES)?.execute(params![before(now, keep).as_micros(), SIDE_ROWS_MAX])?;
    }
    keys::prune(db, now, SIDE_ROWS_MAX)?;
    workers::forget(db, now)?;
    Ok(pruned)
}

/// The latest end that is old enough. A retention of nothing keeps nothing, also of what a worker's clock ended after now.
fn before(now: Timestamp, keep: Duration) -> Timestamp {
    if keep.is_zero() { Timestamp::MAX } else { now.before(keep) }
}

fn oldest(db: &Db, kind: i64, until: Timestamp, after: (i64, i64)) -> Done<Option<(i64, i64, Vec<End>)>> {
    let mut statement = db.sql(OLDEST)?;
    let mut rows = statement.query(params![kind, until.as_micros(), after.0, after.1])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let ends = unpack_ends(row.get_ref(2)?.as_blob()?)?;
    Ok(Some((row.get(0)?, row.get(1)?, ends)))
}

/// Removes the tasks of one row of ends, and the row with the last of them.
fn prune_row(
    db: &Db,
    id: i64,
    ends: &[End],
    until: Timestamp,
    limit: u32,
    pruned: &mut u32,
    passed_over: &mut usize,
) -> Done<()> {
    let mut kept = Vec::new();
    for end in ends {
        if end.at > until.as_micros() || *pruned >= limit {
            kept.push(*end);
            continue;
        }
        let ended: Option<i64> = db.sql(ENDED_AT)?.query_row(params![end.task], |row| row.get(0)).optional()?;
        if ended != Some(end.at) {
            // It waits or runs again, or has ended anew: then another row has it.
            *passed_over += 1;
        } else if db.sql(GUARDS)?.exists(params![end.task])? {
            *passed_over += 1;
            kept.push(*end);
        } else {
            db.sql(DELETE_ATTEMPTS)?.execute(params![end.task])?;
            db.sql(DELETE_BODY)?.execute(params![end.task])?;
            progress::forget(db, end.task)?;
            let removed: (Option<i64>, Option<i64>) =
                db.sql(DELETE_TASK)?.query_row(params![end.task], |row| Ok((row.get(0)?, row.get(1)?)))?;
            if let (Some(schedule), Some(at)) = removed {
                db.sql(FORGET)?.execute(params![schedule, at.saturating_add(1)])?;
            }
            *pruned += 1;
        }
    }
    match kept.first() {
        None => db.sql(DELETE)?.execute(params![id])?,
        Some(_) if kept.len() == ends.len() => 0,
        Some(first) => db.sql(SHRINK)?.execute(params![id, first.at, pack_ends(&kept)])?,
    };
    Ok(())
}
