//! Cancels: waiting tasks at once, running ones by request.

use crate::answers::cell;
use crate::attempts::numbers;
use crate::connection::Session;
use crate::ends::{Ending, Ends};
use crate::errors::{Done, Fault};
use crate::ready::Ready;
use crate::script::{Script, Value};
use bytes::Bytes;
use punctual_task::rows::Code;
use punctual_task::rows::{FLAG_KEY, unpack_held};
use punctual_task::{AttemptRecord, CancelOutcome, StoreError, TaskId, TaskState};
use std::collections::{BTreeMap, BTreeSet};

/// How many tasks one cancel or redrive may name.
pub const NAMED_TASKS_MAX: usize = 100_000;

pub(crate) const LOCK_WAITING: &str = "SELECT lane, class, due, id, n, spent, losses, gate, flags
    FROM punctual_ready FORCE INDEX (punctual_ready_id) WHERE id IN (?) ORDER BY id FOR UPDATE";
pub(crate) const CLAIMS: &str = "SELECT id, tasks FROM punctual_claim";
pub(crate) const LOCK_CLAIMS: &str =
    "SELECT worker, tasks FROM punctual_claim FORCE INDEX (PRIMARY) WHERE id IN (?) ORDER BY id FOR UPDATE";
pub(crate) const FINALS: &str =
    "SELECT task, final FROM punctual_attempt FORCE INDEX (PRIMARY) WHERE task IN (?) AND final IS NOT NULL";
pub(crate) const EXIST: &str = "SELECT id FROM punctual_task FORCE INDEX (PRIMARY) WHERE id IN (?)";
const ASK: &str = "INSERT INTO punctual_cancel (task, worker) VALUES ";
const ASK_AGAIN: &str = " ON DUPLICATE KEY UPDATE worker = VALUES(worker)";

/// Checks the limit before anything is asked of the server.
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
pub(crate) async fn cancel(
    session: &mut Session,
    tasks: &[TaskId],
    unsure: &mut Option<Vec<CancelOutcome>>,
) -> Done<Vec<CancelOutcome>> {
    let ids: Vec<i64> = tasks.iter().map(|task| task.0).collect();
    let (moment, _) = session.begin(&Script::new()).await?;
    let mut ends = Ends::new(moment.now);
    let mut script = Script::new();
    let mut found = cancel_all(session, &mut ends, &mut script, &ids).await?;
    let mut given = Vec::with_capacity(ids.len());
    for id in &ids {
        let outcome = found.get_mut(id).map_or(CancelOutcome::Unknown, |outcome| {
            let first = *outcome;
            if first == CancelOutcome::Cancelled {
                // Named twice: the second time it has ended.
                *outcome = CancelOutcome::Ended(TaskState::Cancelled);
            }
            first
        });
        given.push(outcome);
    }
    if let Some(before) = unsure.take() {
        // What the lost commit cancelled was waiting when it was asked for.
        for (now, before) in given.iter_mut().zip(before) {
            if *now == CancelOutcome::Ended(TaskState::Cancelled) {
                *now = before;
            }
        }
    }
    ends.write(&mut script);
    *unsure = Some(given.clone());
    session.commit(script).await?;
    Ok(given)
}

/// Cancels tasks of which some may be named twice; adds what writes it, the ends aside.
pub(crate) async fn cancel_all(
    session: &mut Session,
    ends: &mut Ends,
    script: &mut Script,
    ids: &[i64],
) -> Done<BTreeMap<i64, CancelOutcome>> {
    let mut left: BTreeSet<i64> = ids.iter().copied().collect();
    let mut given = BTreeMap::new();
    let waiting = lock_waiting(session, &left).await?;
    let mut removed = Vec::with_capacity(waiting.len());
    for row in waiting {
        let ending = Ending { task: row.id, lane: row.lane, gate: row.gate, key: row.flags & FLAG_KEY != 0 };
        ends.end(ending, AttemptRecord::cancelled_waiting(ends.now()), TaskState::Cancelled);
        given.insert(row.id, CancelOutcome::Cancelled);
        left.remove(&row.id);
        removed.push(row.id);
    }
    Ready::remove(script, &removed);
    let mut asked = Vec::new();
    for (task, worker) in lock_running(session, &left).await? {
        asked.push((task, worker));
        given.insert(task, CancelOutcome::Requested);
        left.remove(&task);
    }
    script.insert(ASK, asked.iter().map(|(task, worker)| [Value::from(*task), (*worker).into()]), ASK_AGAIN);
    for (task, state) in ended_states(session, &left).await? {
        given.insert(task, CancelOutcome::Ended(state));
        left.remove(&task);
    }
    refuse_moved(session, &left).await?;
    Ok(given)
}

/// The waiting ones among these tasks, locked.
pub(crate) async fn lock_waiting(session: &mut Session, ids: &BTreeSet<i64>) -> Done<Vec<Ready>> {
    let ids: Vec<i64> = ids.iter().copied().collect();
    let mut script = Script::new();
    let parts = script.parts(LOCK_WAITING, &ids);
    session.run(&script).await?.rows_of(parts)?.iter().map(Ready::from_row).collect()
}

/// The running ones among these tasks with their workers. What holds them is locked, so that no finish comes between.
pub(crate) async fn lock_running(session: &mut Session, ids: &BTreeSet<i64>) -> Done<BTreeMap<i64, i64>> {
    let mut found = BTreeMap::new();
    if ids.is_empty() {
        return Ok(found);
    }
    let mut places = Vec::new();
    for row in session.run(&Script::of(CLAIMS, &[])).await?.rows()? {
        let bytes: Bytes = cell(&row, 1)?;
        if unpack_held(&bytes)?.iter().any(|held| ids.contains(&held.task)) {
            places.push(cell::<i64>(&row, 0)?);
        }
    }
    let mut script = Script::new();
    let parts = script.parts(LOCK_CLAIMS, &places);
    for row in session.run(&script).await?.rows_of(parts)? {
        let (worker, bytes): (i64, Bytes) = (cell(&row, 0)?, cell(&row, 1)?);
        let held = unpack_held(&bytes)?;
        found.extend(held.iter().filter(|held| ids.contains(&held.task)).map(|held| (held.task, worker)));
    }
    Ok(found)
}

/// The states in which the ended ones among these tasks have ended.
pub(crate) async fn ended_states(session: &mut Session, ids: &BTreeSet<i64>) -> Done<BTreeMap<i64, TaskState>> {
    let ids: Vec<i64> = ids.iter().copied().collect();
    let mut script = Script::new();
    let parts = script.parts(FINALS, &ids);
    let rows = session.run(&script).await?.rows_of(parts)?;
    rows.iter().map(|row| Ok((cell(row, 0)?, TaskState::of(cell(row, 1)?)?))).collect()
}

/// A task that is there and was found nowhere was on its way from one place to another: the whole is tried again.
pub(crate) async fn refuse_moved(session: &mut Session, ids: &BTreeSet<i64>) -> Done<()> {
    let ids: Vec<i64> = ids.iter().copied().collect();
    let mut script = Script::new();
    let parts = script.parts(EXIST, &ids);
    let there = numbers(&session.run(&script).await?.rows_of(parts)?)?;
    if there.is_empty() { Ok(()) } else { Err(Fault::Moved) }
}
