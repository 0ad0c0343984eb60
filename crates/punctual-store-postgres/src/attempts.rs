//! Attempts: what a worker reports, checked against what it holds. One round trip to look, one to write and commit.

use crate::ends::{Again, Ending, Ends};
use crate::errors::{Done, Fault};
use crate::follow_ups::Followers;
use crate::holdings;
use crate::session::{Session, Step, step};
use crate::store::Shared;
use crate::workers;
use bytes::Bytes;
use punctual_clock::Timestamp;
use punctual_task::decide::settle;
use punctual_task::rows::{Code, Holding};
use punctual_task::{AttemptRecord, Finish, Finished, FollowUp, Next, Outcome, StoreError, WorkerId};
use std::collections::{BTreeMap, BTreeSet};
use tokio_postgres::Row;

/// How many attempts one finish may report.
pub const FINISH_MAX: usize = 100_000;
/// How many bytes of results one finish may report: they are one transaction.
pub const FINISH_BYTES_MAX: usize = 256 << 20;

const KNOWN: &str = "SELECT a.task, a.n FROM unnest($1::bigint[], $2::int[]) u (task, n)
    JOIN attempt a ON a.task = u.task AND a.n = u.n WHERE a.worker = $3";
pub(crate) const ASKED: &str = "SELECT task FROM cancel WHERE worker = ANY($1)";
const ANSWERED: &str = "DELETE FROM cancel WHERE task = ANY($1)";
pub(crate) const OF_TASK: &str =
    "SELECT n, worker, started, ended, outcome, out FROM attempt WHERE task = $1 ORDER BY n";

/// The columns of [`OF_TASK`], in its order.
pub(crate) fn from_row(row: &Row) -> Done<AttemptRecord> {
    Ok(AttemptRecord {
        n: row.try_get::<_, i32>(0)?.cast_unsigned(),
        worker: row.try_get(1)?,
        started: Timestamp::from_micros(row.try_get(2)?),
        ended: Timestamp::from_micros(row.try_get(3)?),
        outcome: Outcome::of(row.try_get::<_, i16>(4)?.into())?,
        out: Bytes::copy_from_slice(row.try_get(5)?),
    })
}

/// Checks the limits before anything is sent.
pub(crate) fn check(finishes: &[Finish]) -> Result<(), StoreError> {
    if finishes.len() > FINISH_MAX {
        return Err(StoreError::refused(format!(
            "{} attempts in one finish are more than the limit of {FINISH_MAX}; report them in parts",
            finishes.len()
        )));
    }
    let bytes = finishes.iter().fold(0usize, |sum, finish| sum.saturating_add(finish.out.len()));
    if bytes > FINISH_BYTES_MAX {
        return Err(StoreError::refused(format!(
            "{bytes} bytes of results in one finish are more than the limit of {FINISH_BYTES_MAX}; report them in parts"
        )));
    }
    finishes.iter().try_for_each(Finish::validate)
}

/// The tasks of some workers whose cancel was asked for.
pub(crate) fn asked_from(rows: &[Row]) -> Done<BTreeSet<i64>> {
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

/// Cancels that were asked for have had their answer.
pub(crate) fn answered(tasks: Vec<i64>) -> Option<Step> {
    (!tasks.is_empty()).then(|| step!(ANSWERED, tasks))
}

/// Locks these of a live worker's rows, or all of them, and reads which of its tasks are asked to stop.
async fn lock(session: &mut Session, worker: WorkerId, rows: Option<Vec<i64>>) -> Done<(Holding, BTreeSet<i64>)> {
    let claims = match rows {
        Some(rows) => step!(holdings::LOCK_OWN, rows, worker.0),
        None => step!(holdings::LOCK, vec![worker.0]),
    };
    // Cancels are read behind the lock on what is held, which who asks for one takes too.
    let answers = session.ask(vec![workers::fence(worker), claims, step!(ASKED, vec![worker.0])]).await?;
    let [alive, claims, asked] = answers.as_slice() else { return Err(Fault::bug("a finish got no answer")) };
    workers::check_alive(worker, alive)?;
    Ok((holdings::unpack(claims)?, asked_from(asked)?))
}

/// Records attempts of a live worker.
pub(crate) async fn finish(
    shared: &Shared,
    session: &mut Session,
    worker: WorkerId,
    finishes: &[Finish],
    follow_ups: &[FollowUp],
) -> Done<Vec<Finished>> {
    let followers = Followers::prepare(shared, session, follow_ups).await?;
    let tasks = || finishes.iter().map(|finish| finish.task.0);
    let rows = shared.claim_rows().of(tasks());
    let known = rows.is_some();
    let (mut holding, mut asked) = lock(session, worker, rows).await?;
    let is_held = |finish: &Finish| holding.get(finish.task.0).is_some_and(|held| held.n == finish.n);
    if known && !finishes.iter().all(is_held) {
        // What was lost or reported before: whether the worker holds it is said by all of its rows.
        session.roll_back().await?;
        (holding, asked) = lock(session, worker, None).await?;
    }
    let now = session.now()?;
    let mut ends = Ends::default();
    let mut given = Vec::with_capacity(finishes.len());
    let (mut unknown, mut answered_now) = ((Vec::new(), Vec::new()), Vec::new());
    // An attempt that is named twice in one call is a resend of itself.
    let mut applied: BTreeMap<(i64, u32), Next> = BTreeMap::new();
    for finish in finishes {
        let place = (finish.task.0, finish.n);
        let held = holding.get(finish.task.0).filter(|held| held.n == finish.n).and(Some(()));
        let Some(held) = held.and_then(|()| holding.take(finish.task.0)) else {
            if applied.contains_key(&place) {
                given.push(Some(Finished::Already));
            } else {
                given.push(None);
                unknown.0.push(finish.task.0);
                unknown.1.push(finish.n.cast_signed());
            }
            continue;
        };
        let asked = asked.contains(&finish.task.0);
        if asked {
            answered_now.push(finish.task.0);
        }
        let record = AttemptRecord {
            n: finish.n,
            worker: worker.0,
            started: finish.started,
            ended: finish.ended,
            outcome: finish.outcome,
            out: finish.out.clone(),
        };
        let next = settle(finish.next, asked);
        match next {
            Next::Final(state) => ends.end(Ending::from(&held), &record, state),
            Next::Again { due, spent } => {
                ends.again(&held, &record, Again { due: due.max(now), n: held.n, spent, losses: 0 });
            }
        }
        applied.insert(place, next);
        given.push(Some(Finished::Applied));
    }
    let mut steps = Vec::new();
    let looks = !unknown.0.is_empty();
    if looks {
        steps.push(step!(KNOWN, unknown.0, unknown.1, worker.0));
    }
    steps.extend(holdings::flush(&mut holding));
    steps.extend(answered(answered_now));
    steps.extend(ends.flush());
    let answers = followers.commit(shared, session, steps, &applied).await?;
    let mut known: BTreeSet<(i64, u32)> = BTreeSet::new();
    for row in answers.first().filter(|_| looks).into_iter().flatten() {
        known.insert((row.try_get(0)?, row.try_get::<_, i32>(1)?.cast_unsigned()));
    }
    shared.claim_rows().forget(tasks());
    let outcome = |(finish, given): (&Finish, Option<Finished>)| {
        given.unwrap_or(if known.contains(&(finish.task.0, finish.n)) { Finished::Already } else { Finished::Lost })
    };
    Ok(finishes.iter().zip(given).map(outcome).collect())
}
