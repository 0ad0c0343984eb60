//! Cancels and redrives: what an operator does to single tasks.
//!
//! A task may move while it is looked for, from waiting to running and back. Each look locks where it finds the task; one that
//! finds it nowhere has met it on its way, and looks again.

use crate::ends::{Again, Ending, Ends};
use crate::errors::{Done, Fault};
use crate::holdings;
use crate::keys::{self, Place};
use crate::names::Lane;
use crate::session::{Session, Step, step};
use crate::tasks;
use punctual_clock::Timestamp;
use punctual_task::rows::{Code, Held, HeldRow};
use punctual_task::{AttemptRecord, CancelOutcome, RetryOutcome, ScheduleState, StoreError, TaskId, TaskState};
use std::collections::{BTreeMap, BTreeSet};

/// How many tasks one cancel or redrive may name.
pub const NAMED_TASKS_MAX: usize = 100_000;
/// How often a task is looked for that is nowhere: it moved between the looks each time.
const LOOKS_MAX: u32 = 10;

pub(crate) const UNREADY: &str = "WITH locked AS MATERIALIZED
        (SELECT id FROM ready WHERE id = ANY($1) ORDER BY id FOR UPDATE),
    gone AS (DELETE FROM ready WHERE id IN (SELECT id FROM locked) RETURNING id)
    SELECT g.id, t.lane, coalesce(t.schedule, 0), t.unique_key IS NOT NULL FROM gone g LEFT JOIN task t ON t.id = g.id";
const ASK: &str = "INSERT INTO cancel (task, worker) SELECT * FROM unnest($1::bigint[], $2::bigint[])
    ON CONFLICT (task) DO UPDATE SET worker = excluded.worker";
pub(crate) const STATES: &str = "SELECT t.id,
    (SELECT a.final FROM attempt a WHERE a.task = t.id AND a.final IS NOT NULL ORDER BY a.n DESC LIMIT 1)
    FROM unnest($1::bigint[]) u (id) JOIN task t ON t.id = u.id";
const LOCK_END: &str = "SELECT n FROM attempt WHERE task = $1 AND final IS NOT NULL ORDER BY n FOR UPDATE";
const LAST: &str = "SELECT coalesce(max(n), 0) FROM attempt WHERE task = $1";
const REOPEN: &str = "UPDATE attempt SET final = NULL WHERE task = $1 AND final IS NOT NULL";
const WAITS: &str = "SELECT 1 FROM ready WHERE id = $1";
const LOCK_SERIES: &str = "SELECT state FROM position WHERE id = $1 FOR UPDATE";
const LANE: &str = "SELECT id, queue, method FROM lane WHERE id = $1";
const ADD_HOLD: &str = "INSERT INTO hold (gate, task, pass) VALUES ($1, $2, $3)";

/// Checks the limit before anything is sent.
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
pub(crate) async fn cancel(session: &mut Session, tasks: &[TaskId]) -> Done<Vec<CancelOutcome>> {
    let ids: Vec<i64> = tasks.iter().map(|task| task.0).collect();
    let (outcomes, steps) = cancel_all(session, &ids, true).await?;
    session.commit(steps).await?;
    // Named twice, a task that was cancelled by the first naming has ended by the second.
    let mut seen = BTreeSet::new();
    let outcome = |task: &TaskId| match outcomes.get(&task.0).copied().unwrap_or(CancelOutcome::Unknown) {
        CancelOutcome::Cancelled if !seen.insert(task.0) => CancelOutcome::Ended(TaskState::Cancelled),
        outcome => outcome,
    };
    Ok(tasks.iter().map(outcome).collect())
}

/// Cancels tasks, each at once if it waits, and by request if it runs and `running` ones are meant too. Gives what is left to
/// write.
pub(crate) async fn cancel_all(
    session: &mut Session,
    ids: &[i64],
    running: bool,
) -> Done<(BTreeMap<i64, CancelOutcome>, Vec<Step>)> {
    let mut outcomes = BTreeMap::new();
    let mut ends = Ends::default();
    let mut asked: (Vec<i64>, Vec<i64>) = Default::default();
    let mut left: BTreeSet<i64> = ids.iter().copied().collect();
    for _ in 0..LOOKS_MAX {
        if left.is_empty() {
            break;
        }
        let rows = session.rows(step!(UNREADY, left.iter().copied().collect::<Vec<i64>>())).await?;
        let record = AttemptRecord::cancelled_waiting(session.now()?);
        for row in rows {
            let task: i64 = row.try_get(0)?;
            let lane: Option<i32> = row.try_get(1)?;
            let lane = lane.ok_or_else(|| Fault::corrupt(format!("the waiting task {} has no row", TaskId(task))))?;
            ends.end(Ending { task, lane, gate: row.try_get(2)?, key: row.try_get(3)? }, &record, TaskState::Cancelled);
            left.remove(&task);
            outcomes.insert(task, CancelOutcome::Cancelled);
        }
        if !running {
            left.clear();
        }
        if left.is_empty() {
            break;
        }
        ask_workers(session, &mut left, &mut outcomes, &mut asked).await?;
        if left.is_empty() {
            break;
        }
        let rows = session.rows(step!(STATES, left.iter().copied().collect::<Vec<i64>>())).await?;
        let mut moving = BTreeSet::new();
        for row in rows {
            let task: i64 = row.try_get(0)?;
            match row.try_get::<_, Option<i16>>(1)? {
                Some(code) => drop(outcomes.insert(task, CancelOutcome::Ended(TaskState::of(code.into())?))),
                None => drop(moving.insert(task)),
            }
        }
        left = moving;
    }
    if !left.is_empty() {
        return Err(Fault::Again("the tasks to be cancelled"));
    }
    let mut steps = ends.flush();
    if !asked.0.is_empty() {
        steps.push(step!(ASK, asked.0, asked.1));
    }
    Ok((outcomes, steps))
}

/// Asks the workers of those tasks that run. What is held stays locked until the request is committed, so that no finish
/// passes it.
async fn ask_workers(
    session: &mut Session,
    left: &mut BTreeSet<i64>,
    outcomes: &mut BTreeMap<i64, CancelOutcome>,
    asked: &mut (Vec<i64>, Vec<i64>),
) -> Done<()> {
    let running = holdings::unpack(&session.rows(step!(holdings::ALL)).await?)?;
    let is_wanted = |claim: &HeldRow| claim.tasks().any(|held| left.contains(&held.task));
    let places: Vec<i64> = running.rows().filter(|claim| is_wanted(claim)).map(|claim| claim.id).collect();
    if places.is_empty() {
        return Ok(());
    }
    let locked = holdings::unpack(&session.rows(step!(holdings::LOCK_ROWS, places)).await?)?;
    for claim in locked.rows() {
        for held in claim.tasks() {
            if left.remove(&held.task) {
                asked.0.push(held.task);
                asked.1.push(claim.worker);
                outcomes.insert(held.task, CancelOutcome::Requested);
            }
        }
    }
    Ok(())
}

/// Makes ended tasks wait again.
pub(crate) async fn retry(session: &mut Session, tasks: &[TaskId]) -> Done<Vec<RetryOutcome>> {
    let mut outcomes = Vec::with_capacity(tasks.len());
    // In order of their ids, so that two requests that name the same tasks wait for each other and do not deadlock.
    let mut order: Vec<(usize, TaskId)> = tasks.iter().copied().enumerate().collect();
    order.sort_by_key(|(index, task)| (task.0, *index));
    for (index, task) in order {
        outcomes.push((index, retry_one(session, task.0).await?));
    }
    session.commit(Vec::new()).await?;
    outcomes.sort_by_key(|(index, _)| *index);
    Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
}

async fn retry_one(session: &mut Session, id: i64) -> Done<RetryOutcome> {
    for _ in 0..LOOKS_MAX {
        let Some(task) = tasks::read(session, id).await? else { return Ok(RetryOutcome::Unknown) };
        let gate = task.gate();
        // The schedule first: whoever cancels it holds it while its tasks end.
        let mut looks = Vec::new();
        if gate != 0 {
            looks.push(step!(LOCK_SERIES, gate));
        }
        looks.extend([step!(LOCK_END, id), step!(LAST, id), step!(WAITS, id), step!(LANE, task.lane)]);
        let mut answers = session.ask(looks).await?.into_iter();
        let series = if gate != 0 { answers.next() } else { None };
        let [Some(end), Some(last), Some(waits), Some(lane)] = [(); 4].map(|()| answers.next()) else {
            return Err(Fault::bug("a redrive got no answer"));
        };
        if end.is_empty() {
            if !waits.is_empty() {
                return Ok(RetryOutcome::NotEnded(TaskState::Waiting));
            }
            if holdings::running(session).await?.contains_key(&id) {
                return Ok(RetryOutcome::NotEnded(TaskState::Running));
            }
            continue;
        }
        let state: Option<i16> = series.and_then(|rows| rows.first().map(|row| row.try_get(0))).transpose()?;
        if state.map(|state| ScheduleState::of(state.into())).transpose()? == Some(ScheduleState::Cancelled) {
            return Ok(RetryOutcome::SeriesCancelled);
        }
        if let Some(key) = &task.key {
            let key = keys::from_row(key)?;
            let row = lane.first().ok_or_else(|| Fault::corrupt(format!("task {} is in no lane", TaskId(id))))?;
            let lane = Lane { id: row.try_get(0)?, queue: row.try_get(1)?, method: row.try_get(2)? };
            let held = keys::take(session, &BTreeMap::from([(Place::new(&key, lane), (id, key.hold))])).await?;
            if let Some(holder) = held.values().next() {
                return Ok(RetryOutcome::KeyHeld(TaskId(*holder)));
            }
        }
        let n: i32 = last.first().map_or(Ok(0), |row| row.try_get(0))?;
        again(session, &task, gate, n.cast_unsigned()).await?;
        return Ok(RetryOutcome::Waiting);
    }
    Err(Fault::Again("the tasks to be retried"))
}

async fn again(session: &mut Session, task: &tasks::TaskRow, gate: i64, n: u32) -> Done<()> {
    let now: Timestamp = session.now()?;
    let held = Held {
        task: task.id,
        gate,
        lane: task.lane.cast_unsigned(),
        level: task.level,
        flags: 0,
        n,
        spent: 0,
        losses: 0,
        due: 0,
    };
    let mut ends = Ends::default();
    ends.wait(&held, Again { due: now, n, spent: 0, losses: 0 });
    let mut steps = vec![step!(REOPEN, task.id)];
    if gate != 0 {
        steps.push(step!(ADD_HOLD, gate, task.id, task.pass()));
    }
    steps.extend(ends.flush());
    session.ask(steps).await?;
    Ok(())
}
