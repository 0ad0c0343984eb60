//! Attempts: what a worker reports, checked against what it holds.

use crate::answers::cell;
use crate::connection::Session;
use crate::ends::{Again, Ending, Ends};
use crate::errors::Done;
use crate::follow_ups::Followers;
use crate::holdings;
use crate::moment::Moment;
use crate::script::Script;
use crate::workers::{SHARE, check_alive};
use bytes::Bytes;
use mysql_async::Row;
use punctual_clock::Timestamp;
use punctual_task::decide::settle;
use punctual_task::rows::{Code, Holding};
use punctual_task::{AttemptRecord, Finish, Finished, FollowUp, Next, Outcome, StoreError, WorkerId};
use std::collections::{BTreeMap, BTreeSet};

/// How many attempts one finish may report.
pub const FINISH_MAX: usize = 100_000;

const WORKERS_OF: &str = "SELECT task, n, worker FROM punctual_attempt FORCE INDEX (PRIMARY) WHERE task IN (?)";
pub(crate) const ASKED: &str = "SELECT task FROM punctual_cancel FORCE INDEX (punctual_cancel_worker) WHERE worker = ?";
pub(crate) const OF_TASK: &str = "SELECT n, worker, started, ended, outcome, result
    FROM punctual_attempt FORCE INDEX (PRIMARY) WHERE task = ? ORDER BY n";

/// The columns of [`OF_TASK`], in its order, from column `at` on.
pub(crate) fn from_row(row: &Row, at: usize) -> Done<AttemptRecord> {
    Ok(AttemptRecord {
        n: cell(row, at)?,
        worker: cell(row, at + 1)?,
        started: Timestamp::from_micros(cell(row, at + 2)?),
        ended: Timestamp::from_micros(cell(row, at + 3)?),
        outcome: Outcome::of(cell(row, at + 4)?)?,
        out: cell::<Bytes>(row, at + 5)?,
    })
}

/// Checks the limits before anything is asked of the server.
pub(crate) fn check(finishes: &[Finish]) -> Result<(), StoreError> {
    if finishes.len() > FINISH_MAX {
        return Err(StoreError::refused(format!(
            "{} attempts in one finish are more than the limit of {FINISH_MAX}; report them in parts",
            finishes.len()
        )));
    }
    Ok(())
}

/// The numbers of the first column.
pub(crate) fn numbers(rows: &[Row]) -> Done<BTreeSet<i64>> {
    rows.iter().map(|row| cell(row, 0)).collect()
}

/// Locks these of a live worker's rows, or all of them, and reads which of its tasks are asked to stop.
async fn lock(
    session: &mut Session,
    worker: WorkerId,
    rows: Option<Vec<i64>>,
) -> Done<(Moment, Holding, BTreeSet<i64>)> {
    let mut first = Script::of(SHARE, &[worker.0.into()]);
    match rows.as_deref() {
        Some(rows) if rows.len() <= Script::LIST_MAX => {
            first.add(holdings::LOCK_OWN, &[rows.into(), worker.0.into()]);
        }
        _ => first.add(holdings::LOCK, &[worker.0.into()]),
    }
    first.add(ASKED, &[worker.0.into()]);
    let (moment, mut answers) = session.begin(&first).await?;
    check_alive(&answers.rows()?, worker)?;
    let holding = holdings::unpack(&answers.rows()?, worker.0)?;
    Ok((moment, holding, numbers(&answers.rows()?)?))
}

/// Records attempts of a live worker.
pub(crate) async fn finish(
    session: &mut Session,
    worker: WorkerId,
    finishes: &[Finish],
    follow_ups: &[FollowUp],
    unsure: &mut Option<Vec<Finished>>,
) -> Done<Vec<Finished>> {
    let followers = Followers::prepare(session, follow_ups).await?;
    finishes.iter().try_for_each(Finish::validate)?;
    let tasks = || finishes.iter().map(|finish| finish.task.0);
    let rows = session.shared.claim_rows().of(tasks());
    let known = rows.is_some();
    let (mut moment, mut holding, mut asked) = lock(session, worker, rows).await?;
    let is_held = |finish: &Finish| holding.get(finish.task.0).is_some_and(|held| held.n == finish.n);
    if known && !finishes.iter().all(is_held) {
        // What was lost or reported before: whether the worker holds it is said by all of its rows.
        session.end().await?;
        (moment, holding, asked) = lock(session, worker, None).await?;
    }
    let mut ends = Ends::new(moment.now);
    let mut given = Vec::with_capacity(finishes.len());
    let mut unheld = Vec::new();
    let mut applied: BTreeMap<(i64, u32), Next> = BTreeMap::new();
    for (at, finish) in finishes.iter().enumerate() {
        let held = holding.get(finish.task.0).is_some_and(|held| held.n == finish.n);
        let Some(held) = held.then(|| holding.take(finish.task.0)).flatten() else {
            unheld.push(at);
            given.push(Finished::Lost);
            continue;
        };
        let asked = asked.contains(&finish.task.0);
        if asked {
            ends.answered(finish.task.0);
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
        applied.insert((finish.task.0, finish.n), next);
        match next {
            Next::Final(state) => ends.end(Ending::from(&held), record, state),
            Next::Again { due, spent } => {
                ends.again(&held, record, Again { due: due.max(moment.now), n: held.n, spent, losses: 0 });
            }
        }
        given.push(Finished::Applied);
    }
    already(session, worker, finishes, &unheld, &mut given).await?;
    if let Some(before) = unsure.take() {
        // What the lost commit recorded is recorded now.
        for (now, before) in given.iter_mut().zip(before) {
            if *now == Finished::Already {
                *now = before;
            }
        }
    }
    session.shared.claim_rows().forget(tasks());
    if unheld.len() == finishes.len() {
        session.end().await?;
        return Ok(given);
    }
    let mut script = Script::new();
    holdings::write(&mut holding, &mut script);
    ends.write(&mut script);
    let script = followers.write(session, script, &applied).await?;
    *unsure = Some(given.clone());
    session.commit(script).await?;
    Ok(given)
}

/// What finishes of something that the worker does not hold are: resends of its own, or lost.
async fn already(
    session: &mut Session,
    worker: WorkerId,
    finishes: &[Finish],
    unheld: &[usize],
    given: &mut [Finished],
) -> Done<()> {
    if unheld.is_empty() {
        return Ok(());
    }
    let named = |at: &usize| finishes.get(*at).map(|finish| (finish.task.0, finish.n));
    // Within this very finish an attempt may be named twice.
    let mut known: BTreeMap<(i64, u32), i64> = BTreeMap::new();
    let applied = finishes.iter().zip(given.iter()).filter(|(_, given)| **given == Finished::Applied);
    known.extend(applied.map(|(finish, _)| ((finish.task.0, finish.n), worker.0)));
    let ids: Vec<i64> = unheld.iter().filter_map(named).map(|(task, _)| task).collect();
    let mut script = Script::new();
    let parts = script.parts(WORKERS_OF, &ids);
    for row in session.run(&script).await?.rows_of(parts)? {
        known.insert((cell(&row, 0)?, cell(&row, 1)?), cell(&row, 2)?);
    }
    for at in unheld {
        let mine = named(at).and_then(|place| known.get(&place)) == Some(&worker.0);
        if let Some(given) = given.get_mut(*at).filter(|_| mine) {
            *given = Finished::Already;
        }
    }
    Ok(())
}
