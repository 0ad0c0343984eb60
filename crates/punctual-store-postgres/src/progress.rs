//! What running attempts say of themselves: kept with the task, written only by who holds it.

use crate::errors::{Done, Fault};
use crate::holdings;
use crate::session::{Session, Step, step};
use crate::workers;
use bytes::Bytes;
use punctual_clock::Timestamp;
use punctual_task::{Progress, Report, WorkerId};
use std::collections::BTreeMap;
use tokio_postgres::Row;

const PUT: &str = "INSERT INTO progress (task, n, at, percent, message, checkpoint)
    SELECT * FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::smallint[], $5::text[], $6::bytea[])
    ON CONFLICT (task) DO UPDATE SET n = excluded.n, at = excluded.at, percent = excluded.percent,
    message = excluded.message, checkpoint = coalesce(excluded.checkpoint, progress.checkpoint)";
pub(crate) const OF: &str = "SELECT n, at, percent, message, checkpoint FROM progress WHERE task = $1";
const DELETE: &str = "DELETE FROM progress WHERE task = ANY($1)";

/// Keeps what attempts of a live worker say; gives which of them it holds.
pub(crate) async fn report(session: &mut Session, worker: WorkerId, reports: &[Report]) -> Done<Vec<bool>> {
    // What the worker holds stays locked, so that no other attempt of these tasks begins before the commit.
    let answers = session.ask(vec![workers::fence(worker), step!(holdings::LOCK, vec![worker.0])]).await?;
    let [alive, claims] = answers.as_slice() else { return Err(Fault::bug("a report got no answer")) };
    workers::check_alive(worker, alive)?;
    let holding = holdings::unpack(claims)?;
    let mut given = Vec::with_capacity(reports.len());
    // By task, since one statement changes a row once.
    let mut last: BTreeMap<i64, Report> = BTreeMap::new();
    for report in reports {
        let held = holding.get(report.task.0).is_some_and(|held| held.n == report.n);
        if held {
            let mut report = report.clone();
            if let Some(earlier) = last.remove(&report.task.0) {
                report.follow(earlier);
            }
            last.insert(report.task.0, report);
        }
        given.push(held);
    }
    let (mut tasks, mut ns, mut ats) = (Vec::new(), Vec::new(), Vec::new());
    let (mut percents, mut messages, mut checkpoints) = (Vec::new(), Vec::new(), Vec::new());
    for Report { task, n, at, percent, message, checkpoint } in last.into_values() {
        tasks.push(task.0);
        ns.push(n.cast_signed());
        ats.push(at.as_micros());
        percents.push(percent.map(i16::from));
        messages.push(message);
        checkpoints.push(checkpoint.map(|bytes| bytes.to_vec()));
    }
    if tasks.is_empty() {
        session.roll_back().await?;
    } else {
        session.commit(vec![step!(PUT, tasks, ns, ats, percents, messages, checkpoints)]).await?;
    }
    Ok(given)
}

/// The columns of [`OF`], in its order.
pub(crate) fn from_row(row: &Row) -> Done<Progress> {
    Ok(Progress {
        n: row.try_get::<_, i32>(0)?.cast_unsigned(),
        at: Timestamp::from_micros(row.try_get(1)?),
        percent: row.try_get::<_, Option<i16>>(2)?.and_then(|percent| u8::try_from(percent).ok()),
        message: row.try_get(3)?,
        checkpoint: row.try_get::<_, Option<&[u8]>>(4)?.map(Bytes::copy_from_slice),
    })
}

/// The tasks are gone.
pub(crate) fn forget(tasks: Vec<i64>) -> Step {
    step!(DELETE, tasks)
}
