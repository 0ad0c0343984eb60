//! What running attempts say of themselves: kept with the task, written only by who holds it.

use crate::connection::Db;
use crate::errors::{Done, Fault};
use crate::session::Session;
use crate::workers;
use bytes::Bytes;
use punctual_clock::Timestamp;
use punctual_task::{Progress, Report, WorkerId};
use rusqlite::{OptionalExtension, params};

const PUT: &str = "INSERT INTO progress (task, n, at, percent, message, checkpoint) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (task) DO UPDATE SET n = excluded.n, at = excluded.at, percent = excluded.percent,
    message = excluded.message, checkpoint = coalesce(excluded.checkpoint, progress.checkpoint)";
const OF: &str = "SELECT n, at, percent, message, checkpoint FROM progress WHERE task = ?1";
const DELETE: &str = "DELETE FROM progress WHERE task = ?1";

/// Keeps what attempts of a live worker say; gives which of them it holds.
pub(crate) fn report(session: &mut Session, worker: WorkerId, reports: &[Report]) -> Done<Vec<bool>> {
    workers::check_alive(&session.db, worker)?;
    let Session { db, holdings, .. } = session;
    let holding = holdings.of(db, worker.0)?;
    let mut put = db.sql(PUT)?;
    let mut given = Vec::with_capacity(reports.len());
    for report in reports {
        let held = holding.get(report.task.0).is_some_and(|held| held.n == report.n);
        if held {
            let Report { task, n, at, percent, message, checkpoint } = report;
            put.execute(params![task.0, n, at.as_micros(), percent, message, checkpoint.as_deref()])?;
        }
        given.push(held);
    }
    Ok(given)
}

/// What is kept of one task.
pub(crate) fn of(db: &Db, task: i64) -> Done<Option<Progress>> {
    let mut statement = db.sql(OF)?;
    let row = statement.query_row(params![task], |row| {
        Ok(Progress {
            n: row.get(0)?,
            at: Timestamp::from_micros(row.get(1)?),
            percent: row.get(2)?,
            message: row.get(3)?,
            checkpoint: row.get_ref(4)?.as_blob_or_null()?.map(Bytes::copy_from_slice),
        })
    });
    row.optional().map_err(Fault::from)
}

/// The task is gone.
pub(crate) fn forget(db: &Db, task: i64) -> Done<()> {
    db.sql(DELETE)?.execute(params![task])?;
    Ok(())
}
