//! Redrives: ended tasks wait again because an operator asked for it.

use crate::answers::cell;
use crate::cancels::{lock_running, lock_waiting};
use crate::connection::Session;
use crate::ends::LOCK_POSITIONS;
use crate::errors::{Done, Fault};
use crate::keys;
use crate::names;
use crate::ready::{Ready, class};
use crate::script::{Script, Value};
use crate::tasks::{self, TaskRow};
use punctual_task::rows::Code;
use punctual_task::rows::FLAG_KEY;
use punctual_task::{RetryOutcome, ScheduleState, TaskId, TaskState};
use std::collections::{BTreeMap, BTreeSet};

/// The attempts of a task are locked first: two redrives of one task come one after the other.
const LOCK_ATTEMPTS: &str = "SELECT task, n, final FROM punctual_attempt FORCE INDEX (PRIMARY)
    WHERE task IN (?) ORDER BY task, n FOR UPDATE";
const STATES: &str = "SELECT id, state FROM punctual_position FORCE INDEX (PRIMARY) WHERE id IN (?)";
const REOPEN: &str = "UPDATE punctual_attempt FORCE INDEX (PRIMARY) SET final = NULL
    WHERE task IN (?) AND final IS NOT NULL";
pub(crate) const ADD_HOLD: &str = "INSERT INTO punctual_hold (gate, task, pass) VALUES ";

/// Makes ended tasks wait again.
pub(crate) async fn retry(
    session: &mut Session,
    tasks: &[TaskId],
    unsure: &mut Option<Vec<RetryOutcome>>,
) -> Done<Vec<RetryOutcome>> {
    let ids: Vec<i64> = tasks.iter().map(|task| task.0).collect();
    let (moment, _) = session.begin(&Script::new()).await?;
    let rows = tasks::read(session, &ids).await?;
    let states = lock_series(session, &rows).await?;
    let last = lock_attempts(session, &ids).await?;
    let wanted: BTreeSet<i64> = rows.keys().copied().collect();
    let mut waiting: BTreeSet<i64> = lock_waiting(session, &wanted).await?.iter().map(|row| row.id).collect();
    let running = lock_running(session, &wanted).await?;
    let mut given = Vec::with_capacity(ids.len());
    let mut again = Vec::new();
    let mut holds = Vec::new();
    for id in &ids {
        let Some(task) = rows.get(id) else {
            given.push(RetryOutcome::Unknown);
            continue;
        };
        if waiting.contains(id) {
            given.push(RetryOutcome::NotEnded(TaskState::Waiting));
            continue;
        }
        if running.contains_key(id) {
            given.push(RetryOutcome::NotEnded(TaskState::Running));
            continue;
        }
        let gate = task.gate();
        if gate != 0 && states.get(&gate) == Some(&ScheduleState::Cancelled) {
            given.push(RetryOutcome::SeriesCancelled);
            continue;
        }
        if let Some(key) = &task.key {
            let key = keys::from_row(key)?;
            let pairs = names::pairs(session, [task.lane]).await?;
            let pair = pairs.get(&task.lane).ok_or_else(|| Fault::bug("a lane without its names"))?;
            if let Some(holder) = keys::take(session, &key, pair, *id).await? {
                given.push(RetryOutcome::KeyHeld(TaskId(holder)));
                continue;
            }
        }
        let Some((n, true)) = last.get(id).copied() else { return Err(Fault::Moved) };
        waiting.insert(*id);
        if gate != 0 {
            holds.push([Value::from(gate), (*id).into(), task.pass().into()]);
        }
        again.push(Ready {
            lane: task.lane,
            class: class(task.level, 0),
            due: moment.now.as_micros(),
            id: *id,
            n,
            spent: 0,
            losses: 0,
            gate,
            flags: if task.key.is_some() { FLAG_KEY } else { 0 },
        });
        given.push(RetryOutcome::Waiting);
    }
    if let Some(before) = unsure.take() {
        // What the lost commit made wait was ended when it was asked for.
        for (now, before) in given.iter_mut().zip(before) {
            if matches!(now, RetryOutcome::NotEnded(_)) {
                *now = before;
            }
        }
    }
    let mut script = Script::new();
    let reopened: Vec<i64> = again.iter().map(|row| row.id).collect();
    script.parts(REOPEN, &reopened);
    script.insert(ADD_HOLD, holds, "");
    Ready::write(&mut script, &again);
    *unsure = Some(given.clone());
    session.commit(script).await?;
    Ok(given)
}

/// Locks the schedules whose occurrences these are; gives their states.
async fn lock_series(session: &mut Session, rows: &BTreeMap<i64, TaskRow>) -> Done<BTreeMap<i64, ScheduleState>> {
    let gates: BTreeSet<i64> = rows.values().map(TaskRow::gate).filter(|gate| *gate != 0).collect();
    let gates: Vec<i64> = gates.into_iter().collect();
    let mut script = Script::new();
    let locks = script.parts(LOCK_POSITIONS, &gates);
    let parts = script.parts(STATES, &gates);
    let mut answers = session.run(&script).await?;
    answers.skip(locks)?;
    let rows = answers.rows_of(parts)?;
    rows.iter().map(|row| Ok((cell(row, 0)?, ScheduleState::of(cell(row, 1)?)?))).collect()
}

/// The highest attempt of each task, and whether one of its attempts ended it.
async fn lock_attempts(session: &mut Session, ids: &[i64]) -> Done<BTreeMap<i64, (u32, bool)>> {
    let mut script = Script::new();
    let parts = script.parts(LOCK_ATTEMPTS, ids);
    let mut last: BTreeMap<i64, (u32, bool)> = BTreeMap::new();
    for row in session.run(&script).await?.rows_of(parts)? {
        let (task, n, end): (i64, u32, Option<i64>) = (cell(&row, 0)?, cell(&row, 1)?, cell(&row, 2)?);
        let known = last.entry(task).or_insert((0, false));
        *known = (n.max(known.0), known.1 || end.is_some());
    }
    Ok(last)
}
