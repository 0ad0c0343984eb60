//! What running attempts say of themselves: kept with the task, written only by who holds it.

use crate::answers::cell;
use crate::connection::Session;
use crate::errors::Done;
use crate::holdings;
use crate::script::{Script, Value};
use crate::workers::{SHARE, check_alive};
use mysql_async::Row;
use punctual_clock::Timestamp;
use punctual_task::{Progress, Report, WorkerId};

const PUT: &str = "INSERT INTO punctual_progress (task, n, at, percent, message, checkpoint) VALUES ";
const REPLACE: &str = " ON DUPLICATE KEY UPDATE n = VALUES(n), at = VALUES(at), percent = VALUES(percent),
    message = VALUES(message), checkpoint = COALESCE(VALUES(checkpoint), checkpoint)";
pub(crate) const OF: &str = "SELECT n, at, percent, message, checkpoint FROM punctual_progress WHERE task = ?";
const DELETE: &str = "DELETE p FROM punctual_progress p FORCE INDEX (PRIMARY) WHERE p.task IN (?)";

/// Keeps what attempts of a live worker say; gives which of them it holds. A second time it writes the same.
pub(crate) async fn report(session: &mut Session, worker: WorkerId, reports: &[Report]) -> Done<Vec<bool>> {
    // What the worker holds stays locked, so that no other attempt of these tasks begins before the commit.
    let mut first = Script::of(SHARE, &[worker.0.into()]);
    first.add(holdings::LOCK, &[worker.0.into()]);
    let (_, mut answers) = session.begin(&first).await?;
    check_alive(&answers.rows()?, worker)?;
    let holding = holdings::unpack(&answers.rows()?, worker.0)?;
    let is_held = |report: &Report| holding.get(report.task.0).is_some_and(|held| held.n == report.n);
    let given: Vec<bool> = reports.iter().map(is_held).collect();
    let rows = reports.iter().filter(|report| is_held(report)).map(|report| {
        [
            Value::from(report.task.0),
            report.n.into(),
            report.at.as_micros().into(),
            report.percent.into(),
            report.message.as_str().into(),
            report.checkpoint.as_deref().into(),
        ]
    });
    let mut script = Script::new();
    script.insert(PUT, rows, REPLACE);
    session.commit(script).await?;
    Ok(given)
}

/// The columns of [`OF`], in its order.
pub(crate) fn from_row(row: &Row) -> Done<Progress> {
    Ok(Progress {
        n: cell(row, 0)?,
        at: Timestamp::from_micros(cell(row, 1)?),
        percent: cell(row, 2)?,
        message: cell(row, 3)?,
        checkpoint: cell(row, 4)?,
    })
}

/// Adds what forgets tasks that are gone.
pub(crate) fn forget(script: &mut Script, tasks: &[i64]) {
    script.parts(DELETE, tasks);
}
