//! Workers: registrations, leases on the database's clock, and what becomes of a dead one's tasks.

use crate::attempts::{ASKED, answered, asked_from};
use crate::ends::{Again, Ending, Ends};
use crate::errors::{Done, Fault};
use crate::holdings;
use crate::session::{Session, Step, step};
use punctual_clock::Timestamp;
use punctual_task::decide::decide_loss;
use punctual_task::rows::{HELD_BYTES, Held};
use punctual_task::worker::DEAD_SHOWN;
use punctual_task::{
    AttemptRecord, Renewal, Rescue, StoreError, StoreErrorKind, TaskId, TaskState, WorkerId, WorkerInfo, WorkerView,
    check_name,
};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio_postgres::Row;

/// How many dead workers one transaction takes care of.
const RESCUE_WORKERS_MAX: i64 = 10;
/// How many such transactions one rescue makes; the next one goes on.
const RESCUES_MAX: u32 = 10;

const ADD: &str = "INSERT INTO worker (id, name, slots, state, until, seen)
    VALUES (nextval('worker_id'), $1, $2, 0, current_setting('punctual.lease')::bigint + $3::bigint,
        current_setting('punctual.now')::bigint) RETURNING id";
const ALIVE: &str = "SELECT 1 FROM worker WHERE id = $1 AND state = 0";
/// In key share mode: a renewal is not kept waiting, and who declares the worker dead is.
const FENCE: &str = "SELECT 1 FROM worker WHERE id = $1 AND state = 0 FOR KEY SHARE";
const FENCE_ALONE: &str = "SELECT 1 FROM worker WHERE id = $1 AND state = 0 FOR UPDATE";
const RENEW: &str = "UPDATE worker SET until = current_setting('punctual.lease')::bigint + $2::bigint,
    seen = current_setting('punctual.now')::bigint WHERE id = $1 AND state = 0 RETURNING 1";
const REMOVE: &str = "DELETE FROM worker WHERE id = $1";
/// Waits for a claim or finish that holds the fence; whoever renewed or was buried meanwhile is passed over.
pub(crate) const LAPSED: &str = "SELECT id FROM worker WHERE state = 0 AND id <> $1
    AND until <= current_setting('punctual.lease')::bigint ORDER BY id LIMIT $2 FOR UPDATE";
const BURY: &str = "UPDATE worker SET state = 1, seen = current_setting('punctual.now')::bigint WHERE id = ANY($1)";
const FORGET: &str = "DELETE FROM worker WHERE state = 1 AND seen <= $1";
const NAMES: &str = "SELECT name FROM schedule WHERE id = ANY($1) ORDER BY name";
const FORGET_CANCELS: &str = "DELETE FROM cancel WHERE worker = ANY($1)";
pub(crate) const LIST: &str = "SELECT w.id, w.name, w.slots, w.state, w.until,
    (SELECT coalesce(sum(length(c.tasks)), 0)::bigint FROM claim c WHERE c.worker = w.id)
    FROM worker w WHERE w.state = 0 OR w.seen > $1 ORDER BY w.id";

/// Checks the registration before anything is sent.
pub(crate) fn check(info: &WorkerInfo) -> Result<(), StoreError> {
    check_name("worker's name", &info.name)
}

/// Looks whether a worker is alive, for [`check_alive`].
pub(crate) fn alive(worker: WorkerId) -> Step {
    step!(ALIVE, worker.0)
}

/// The same, and keeps it alive until the transaction ends.
pub(crate) fn fence(worker: WorkerId) -> Step {
    step!(FENCE, worker.0)
}

/// Refuses a worker that was marked dead, has retired, or never was.
pub(crate) fn check_alive(worker: WorkerId, found: &[Row]) -> Done<()> {
    if found.is_empty() { Err(fenced(worker)) } else { Ok(()) }
}

fn fenced(worker: WorkerId) -> Fault {
    Fault::Store(StoreError::new(
        StoreErrorKind::Fenced,
        format!("worker {} was declared dead or has retired: what it held belongs to others; register again", worker.0),
    ))
}

fn micros(lease: Duration) -> i64 {
    i64::try_from(lease.as_micros()).unwrap_or(i64::MAX).min(i64::MAX / 2)
}

/// Registers a worker.
pub(crate) async fn register(session: &mut Session, info: &WorkerInfo, lease: Duration) -> Done<WorkerId> {
    let slots = i32::try_from(info.slots).unwrap_or(i32::MAX);
    let answers = session.commit(vec![step!(ADD, info.name.clone(), slots, micros(lease))]).await?;
    let row = answers.first().and_then(|rows| rows.first()).ok_or_else(|| Fault::bug("a worker got no number"))?;
    Ok(WorkerId(row.try_get(0)?))
}

/// Extends a lease.
pub(crate) async fn renew(session: &mut Session, worker: WorkerId, lease: Duration) -> Done<Renewal> {
    let answers = session.commit(vec![step!(RENEW, worker.0, micros(lease)), step!(ASKED, vec![worker.0])]).await?;
    let [renewed, asked] = answers.as_slice() else { return Err(Fault::bug("a renewal got no answer")) };
    check_alive(worker, renewed)?;
    Ok(Renewal { cancel: asked_from(asked)?.into_iter().map(TaskId).collect() })
}

/// What a live worker holds.
pub(crate) async fn holdings(session: &mut Session, worker: WorkerId) -> Done<Vec<(TaskId, u32)>> {
    const OF_WORKER: &str = "SELECT id, worker, at, tasks FROM claim WHERE worker = $1 ORDER BY id";
    let answers = session.ask(vec![alive(worker), step!(OF_WORKER, worker.0)]).await?;
    let [alive, claims] = answers.as_slice() else { return Err(Fault::bug("holdings got no answer")) };
    check_alive(worker, alive)?;
    let holding = holdings::unpack(claims)?;
    let mut held: Vec<(TaskId, u32)> = holding.tasks().map(|(_, held)| (TaskId(held.task), held.n)).collect();
    held.sort_unstable();
    Ok(held)
}

/// Gives tasks back.
pub(crate) async fn hand_back(session: &mut Session, worker: WorkerId, tasks: &[TaskId]) -> Done<u32> {
    let found = session.rows(fence(worker)).await?;
    check_alive(worker, &found)?;
    let (given, steps) = give_back(session, worker, Some(tasks)).await?;
    session.commit(steps).await?;
    Ok(given)
}

/// Ends a registration.
pub(crate) async fn retire(session: &mut Session, worker: WorkerId) -> Done<()> {
    if session.rows(step!(FENCE_ALONE, worker.0)).await?.is_empty() {
        return Ok(());
    }
    let (_, mut steps) = give_back(session, worker, None).await?;
    steps.push(step!(FORGET_CANCELS, vec![worker.0]));
    steps.push(step!(REMOVE, worker.0));
    session.commit(steps).await?;
    Ok(())
}

/// Gives back what is named, or all. A task whose cancel was asked for ends instead.
async fn give_back(session: &mut Session, worker: WorkerId, tasks: Option<&[TaskId]>) -> Done<(u32, Vec<Step>)> {
    let answers = session.ask(vec![step!(holdings::LOCK, vec![worker.0]), step!(ASKED, vec![worker.0])]).await?;
    let [claims, asked] = answers.as_slice() else { return Err(Fault::bug("a hand-back got no answer")) };
    let mut holding = holdings::unpack(claims)?;
    let asked = asked_from(asked)?;
    let named: Vec<i64> = match tasks {
        Some(tasks) => tasks.iter().map(|task| task.0).collect(),
        None => holding.tasks().map(|(_, held)| held.task).collect(),
    };
    let record = AttemptRecord::cancelled_waiting(session.now()?);
    let mut ends = Ends::default();
    let (mut given, mut cancelled) = (0, Vec::new());
    for task in named {
        let Some(held) = holding.take(task) else { continue };
        if asked.contains(&task) {
            cancelled.push(task);
            ends.end(Ending::from(&held), &record, TaskState::Cancelled);
        } else {
            let (n, due) = (held.n.saturating_sub(1), Timestamp::from_micros(held.due));
            ends.wait(&held, Again { due, n, spent: held.spent, losses: held.losses });
        }
        given += 1;
    }
    let mut steps = holdings::flush(&mut holding);
    steps.extend(answered(cancelled));
    steps.extend(ends.flush());
    Ok((given, steps))
}

/// Marks workers dead whose lease has ended, and takes their tasks back: some workers a transaction.
pub(crate) async fn rescue(session: &mut Session, by: WorkerId) -> Done<Rescue> {
    let mut rescue = Rescue::default();
    for _ in 0..RESCUES_MAX {
        let answers = session.ask(vec![fence(by), step!(LAPSED, by.0, RESCUE_WORKERS_MAX)]).await?;
        let [alive, lapsed] = answers.as_slice() else { return Err(Fault::bug("a rescue got no answer")) };
        check_alive(by, alive)?;
        let dead: Vec<i64> = lapsed.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        let mut steps = vec![forget(session.now()?)];
        if !dead.is_empty() {
            steps.extend(requeue(session, &dead, &mut rescue).await?);
        }
        session.commit(steps).await?;
        rescue.workers += u32::try_from(dead.len()).unwrap_or(u32::MAX);
        if i64::try_from(dead.len()).is_ok_and(|dead| dead < RESCUE_WORKERS_MAX) {
            break;
        }
    }
    rescue.failing.sort();
    rescue.failing.dedup();
    Ok(rescue)
}

/// What removes the rows of workers that died too long ago to be listed.
pub(crate) fn forget(now: Timestamp) -> Step {
    step!(FORGET, now.before(DEAD_SHOWN).as_micros())
}

/// Marks these workers dead, and what they held as lost.
async fn requeue(session: &mut Session, dead: &[i64], rescue: &mut Rescue) -> Done<Vec<Step>> {
    let dead = dead.to_vec();
    let look = vec![step!(BURY, dead.clone()), step!(holdings::LOCK, dead.clone()), step!(ASKED, dead.clone())];
    let answers = session.ask(look).await?;
    let [_, claims, asked] = answers.as_slice() else { return Err(Fault::bug("a rescue got no answer")) };
    let mut holding = holdings::unpack(claims)?;
    let asked = asked_from(asked)?;
    let now = session.now()?;
    let lost: Vec<(WorkerId, Timestamp, Held)> =
        holding.rows().flat_map(|claim| claim.tasks().map(|held| (WorkerId(claim.worker), claim.at, *held))).collect();
    let mut ends = Ends::default();
    let mut failing = BTreeSet::new();
    for (worker, claimed, held) in lost {
        holding.take(held.task);
        let record = AttemptRecord::lost(held.n, worker, claimed, now);
        match decide_loss(held.losses) {
            _ if asked.contains(&held.task) => ends.end(Ending::from(&held), &record, TaskState::Cancelled),
            None => {
                ends.end(Ending::from(&held), &record, TaskState::Failed);
                rescue.failed += 1;
                failing.extend((held.gate != 0).then_some(held.gate));
            }
            Some(losses) => {
                ends.again(&held, &record, Again { due: now, n: held.n, spent: held.spent, losses });
                rescue.requeued += 1;
            }
        }
    }
    if !failing.is_empty() {
        let gates: Vec<i64> = failing.into_iter().collect();
        for row in session.rows(step!(NAMES, gates)).await? {
            rescue.failing.push(row.try_get(0)?);
        }
    }
    let mut steps = holdings::flush(&mut holding);
    steps.push(step!(FORGET_CANCELS, dead));
    steps.extend(ends.flush());
    Ok(steps)
}

/// Live workers and those that died lately.
pub(crate) async fn list(session: &mut Session) -> Done<Vec<WorkerView>> {
    // The time comes first, since it bounds what is listed.
    session.ask(Vec::new()).await?;
    let times = session.times()?;
    let rows = session.rows(step!(LIST, times.now.before(DEAD_SHOWN).as_micros())).await?;
    let mut workers = Vec::with_capacity(rows.len());
    for row in rows {
        let (slots, state, until): (i32, i16, i64) = (row.try_get(2)?, row.try_get(3)?, row.try_get(4)?);
        let ahead = until.saturating_sub(times.lease);
        workers.push(WorkerView {
            id: WorkerId(row.try_get(0)?),
            name: row.try_get(1)?,
            slots: slots.cast_unsigned(),
            holds: held_in(row.try_get(5)?),
            until: Timestamp::from_micros(times.now.as_micros().saturating_add(ahead)),
            alive: state == 0,
        });
    }
    Ok(workers)
}

/// How many tasks rows of claims hold that are so many bytes long.
fn held_in(bytes: i64) -> u32 {
    usize::try_from(bytes).ok().and_then(|bytes| u32::try_from(bytes / HELD_BYTES).ok()).unwrap_or(u32::MAX)
}
