//! Attempts: what a worker reports, checked against what it holds.

use crate::connection::Db;
use crate::ends::{Again, Ending, Ends};
use crate::errors::Done;
use crate::holdings;
use crate::session::Session;
use crate::tasks;
use crate::workers;
use bytes::Bytes;
use punctual_clock::Timestamp;
use punctual_task::decide::settle;
use punctual_task::rows::Code;
use punctual_task::{AttemptRecord, Finish, Finished, FollowUp, NewTask, Next, Outcome, StoreError, WorkerId};
use rusqlite::{OptionalExtension, Row, params};
use std::collections::{BTreeMap, BTreeSet};

/// How many attempts one finish may report: more would hold the write lock for longer than a group may.
pub const FINISH_MAX: usize = 100_000;

const WORKER_OF: &str = "SELECT worker FROM attempt WHERE task = ?1 AND n = ?2";
const ASKED: &str = "SELECT task FROM cancel WHERE worker = ?1";
const ANSWERED: &str = "DELETE FROM cancel WHERE task = ?1";
pub(crate) const OF_TASK: &str =
    "SELECT n, worker, started, ended, outcome, out FROM attempt WHERE task = ?1 ORDER BY n";

/// The columns of [`OF_TASK`], in its order.
pub(crate) fn from_row(row: &Row<'_>) -> Done<AttemptRecord> {
    Ok(AttemptRecord {
        n: row.get(0)?,
        worker: row.get(1)?,
        started: Timestamp::from_micros(row.get(2)?),
        ended: Timestamp::from_micros(row.get(3)?),
        outcome: Outcome::of(row.get(4)?)?,
        out: Bytes::copy_from_slice(row.get_ref(5)?.as_blob()?),
    })
}

/// Checks the limit before the finishes are queued with others.
pub(crate) fn check(finishes: &[Finish]) -> Result<(), StoreError> {
    if finishes.len() > FINISH_MAX {
        return Err(StoreError::refused(format!(
            "{} attempts in one finish are more than the limit of {FINISH_MAX}; report them in parts",
            finishes.len()
        )));
    }
    Ok(())
}

/// The tasks of a worker whose cancel was asked for.
pub(crate) fn cancels_asked(db: &Db, worker: i64) -> Done<BTreeSet<i64>> {
    Ok(db.sql(ASKED)?.query_map(params![worker], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// A cancel that was asked for has had its answer.
pub(crate) fn cancel_answered(db: &Db, task: i64) -> Done<()> {
    db.sql(ANSWERED)?.execute(params![task])?;
    Ok(())
}

/// Records attempts of a live worker.
pub(crate) fn finish(
    session: &mut Session,
    worker: WorkerId,
    finishes: &[Finish],
    follow_ups: &[FollowUp],
) -> Done<Vec<Finished>> {
    workers::check_alive(&session.db, worker)?;
    finishes.iter().try_for_each(Finish::validate)?;
    let now = session.now();
    let Session { db, holdings, .. } = session;
    let holding = holdings.of(db, worker.0)?;
    let asked = cancels_asked(db, worker.0)?;
    let mut ends = Ends::new(db, now)?;
    let mut given = Vec::with_capacity(finishes.len());
    let mut followed: BTreeMap<(i64, u32), Next> = BTreeMap::new();
    for finish in finishes {
        if holding.get(finish.task.0).is_none_or(|held| held.n != finish.n) {
            given.push(known(db, worker, finish)?);
            continue;
        }
        let Some(held) = holding.take(finish.task.0) else { continue };
        let asked = asked.contains(&finish.task.0);
        let next = settle(finish.next, asked);
        if !follow_ups.is_empty() {
            followed.insert((finish.task.0, finish.n), next);
        }
        let record = AttemptRecord {
            n: finish.n,
            worker: worker.0,
            started: finish.started,
            ended: finish.ended,
            outcome: finish.outcome,
            out: finish.out.clone(),
        };
        if asked {
            cancel_answered(db, held.task)?;
        }
        match next {
            Next::Final(state) => ends.end(Ending::from(&held), &record, state)?,
            Next::Again { due, spent } => {
                ends.again(&held, &record, Again { due: due.max(now), n: held.n, spent, losses: 0 })?;
            }
        }
        given.push(Finished::Applied);
    }
    holdings::flush(holding, db)?;
    ends.flush()?;
    if !followed.is_empty() {
        let follows = |follow_up: &&FollowUp| {
            followed.get(&(follow_up.task.0, follow_up.n)).is_some_and(|next| follow_up.on.follows(*next))
        };
        let tasks: Vec<NewTask> = follow_ups.iter().filter(follows).map(|follow_up| follow_up.then.clone()).collect();
        tasks::enqueue(session, &tasks)?;
    }
    Ok(given)
}

/// What a finish of something that the worker does not hold is.
fn known(db: &Db, worker: WorkerId, finish: &Finish) -> Done<Finished> {
    let by: Option<i64> =
        db.sql(WORKER_OF)?.query_row(params![finish.task.0, finish.n], |row| row.get(0)).optional()?;
    Ok(if by == Some(worker.0) { Finished::Already } else { Finished::Lost })
}
