//! Workers: registrations, leases, and what they give back.
//!
//! A lease has a row of its own beside its worker's: claims and finishes lock the worker's row in share mode, and a renewal
//! must not wait for them.

use crate::answers::cell;
use crate::attempts::{ASKED, numbers};
use crate::connection::Session;
use crate::ends::{Again, Ending, Ends};
use crate::errors::{Done, Fault};
use crate::holdings;
use crate::ids;
use crate::script::{Script, Value};
use mysql_async::Row;
use punctual_clock::Timestamp;
use punctual_task::planner::UNREADABLE_WAIT;
use punctual_task::rows::HELD_BYTES;
use punctual_task::worker::DEAD_SHOWN;
use punctual_task::{
    AttemptRecord, Renewal, StoreError, StoreErrorKind, TaskId, TaskState, WorkerId, WorkerInfo, WorkerView, check_name,
};
use std::time::Duration;

/// A live worker's row, locked against whoever would declare it dead.
pub(crate) const SHARE: &str =
    "SELECT id FROM punctual_worker FORCE INDEX (PRIMARY) WHERE id = ? AND state = 0 LOCK IN SHARE MODE";
const ADD: &str = "INSERT INTO punctual_worker (id, name, slots, state, seen, ended) VALUES ";
const ADD_LEASE: &str = "INSERT INTO punctual_lease (worker, ends) VALUES ";
const LOCK_LEASE: &str = "SELECT worker FROM punctual_lease FORCE INDEX (PRIMARY) WHERE worker = ? FOR UPDATE";
const RENEW: &str = "UPDATE punctual_lease SET ends = ? WHERE worker = ?";
const ALONE: &str = "SELECT id FROM punctual_worker FORCE INDEX (PRIMARY) WHERE id = ? AND state = 0 FOR UPDATE";
const REMOVE: &str = "DELETE FROM punctual_worker WHERE id = ?";
const REMOVE_LEASE: &str = "DELETE FROM punctual_lease WHERE worker = ?";
const FORGET: &str = "DELETE w FROM punctual_worker w FORCE INDEX (punctual_worker_state)
    WHERE w.state = 1 AND w.seen <= ? AND NOT EXISTS (SELECT 1 FROM punctual_claim c WHERE c.worker = w.id)";
pub(crate) const LIST: &str = "SELECT w.id, w.name, w.slots, w.state, COALESCE(l.ends, w.ended),
    (SELECT COALESCE(SUM(LENGTH(c.tasks)), 0) FROM punctual_claim c WHERE c.worker = w.id)
    FROM punctual_worker w LEFT JOIN punctual_lease l ON l.worker = w.id
    WHERE w.state = 0 OR w.seen > ? ORDER BY w.id";

/// Checks the registration before anything is asked of the server.
pub(crate) fn check(info: &WorkerInfo) -> Result<(), StoreError> {
    check_name("worker's name", &info.name)
}

/// Refuses a worker that was marked dead, has retired, or never was: [`SHARE`] gave no row.
pub(crate) fn check_alive(rows: &[Row], worker: WorkerId) -> Done<()> {
    if rows.is_empty() { Err(fenced(worker)) } else { Ok(()) }
}

fn fenced(worker: WorkerId) -> Fault {
    Fault::Store(StoreError::new(
        StoreErrorKind::Fenced,
        format!("worker {} was declared dead or has retired: what it held belongs to others; register again", worker.0),
    ))
}

/// When a lease that begins now ends.
fn ends(session: &Session, lease: Duration) -> Value<'static> {
    let lease = i64::try_from(lease.as_micros()).unwrap_or(i64::MAX / 4);
    match session.shared.time.monotonic() {
        None => Value::After(lease),
        Some(now) => Value::Int(now.saturating_add(lease)),
    }
}

/// Registers a worker.
pub(crate) async fn register(
    session: &mut Session,
    info: &WorkerInfo,
    lease: Duration,
    unsure: &mut Option<i64>,
) -> Done<WorkerId> {
    let again = *unsure;
    let id = match again {
        Some(id) => id,
        None => ids::draw_one(session, "worker").await?,
    };
    let mut script = Script::new();
    let row = [id.into(), info.name.as_str().into(), info.slots.into(), Value::Int(0), Value::Now, Value::Int(0)];
    script.insert(ADD, [row], "");
    script.insert(ADD_LEASE, [[id.into(), ends(session, lease)]], "");
    *unsure = Some(id);
    match session.write_at_once(&script).await {
        // The commit whose answer was lost has arrived.
        Err(fault) if again.is_some() && fault.is_duplicate() => Ok(WorkerId(id)),
        Err(fault) => Err(fault),
        Ok(_) => Ok(WorkerId(id)),
    }
}

/// Extends a lease.
pub(crate) async fn renew(session: &mut Session, worker: WorkerId, lease: Duration) -> Done<Renewal> {
    let mut script = Script::of(LOCK_LEASE, &[worker.0.into()]);
    script.add(RENEW, &[ends(session, lease), worker.0.into()]);
    script.add(ASKED, &[worker.0.into()]);
    let mut answers = session.write_at_once(&script).await?;
    if answers.rows()?.is_empty() {
        return Err(fenced(worker));
    }
    answers.skip(1)?;
    let cancel = numbers(&answers.rows()?)?.into_iter().map(TaskId).collect();
    Ok(Renewal { cancel })
}

/// What a live worker holds.
pub(crate) async fn holdings(session: &mut Session, worker: WorkerId) -> Done<Vec<(TaskId, u32)>> {
    let mut first = Script::of(SHARE, &[worker.0.into()]);
    // Waits for a commit of the worker's that is under way: what it says is how things stand.
    first.add(holdings::LOCK, &[worker.0.into()]);
    let (_, mut answers) = session.begin(&first).await?;
    check_alive(&answers.rows()?, worker)?;
    let holding = holdings::unpack(&answers.rows()?, worker.0)?;
    session.end().await?;
    let mut held: Vec<(TaskId, u32)> = holding.tasks().map(|(_, held)| (TaskId(held.task), held.n)).collect();
    held.sort_unstable();
    Ok(held)
}

/// Gives tasks back.
pub(crate) async fn hand_back(
    session: &mut Session,
    worker: WorkerId,
    tasks: &[TaskId],
    unsure: &mut Option<u32>,
) -> Done<u32> {
    let tasks: Vec<i64> = tasks.iter().map(|task| task.0).collect();
    let (script, given) = give_back(session, worker, SHARE, Some(&tasks), None).await?;
    let given = given.ok_or_else(|| fenced(worker))?;
    if given == 0 {
        session.end().await?;
        // They were given back by the commit whose answer was lost.
        return Ok(unsure.take().unwrap_or(0));
    }
    *unsure = Some(given);
    session.commit(script).await?;
    Ok(given)
}

/// Ends a registration.
pub(crate) async fn retire(session: &mut Session, worker: WorkerId) -> Done<()> {
    let (mut script, given) = give_back(session, worker, ALONE, None, None).await?;
    if given.is_none() {
        return session.end().await;
    }
    script.add(REMOVE_LEASE, &[worker.0.into()]);
    script.add(REMOVE, &[worker.0.into()]);
    session.commit(script).await?;
    Ok(())
}

/// Makes tasks that were claimed and cannot be read wait for a minute.
pub(crate) async fn put_off(session: &mut Session, worker: WorkerId, tasks: &[i64]) -> Done<()> {
    let (script, given) = give_back(session, worker, SHARE, Some(tasks), Some(UNREADABLE_WAIT)).await?;
    if given.is_none_or(|given| given == 0) {
        return session.end().await;
    }
    session.commit(script).await?;
    Ok(())
}

/// Gives back what is named, or all, due as before or `later` than now. A task whose cancel was asked for ends instead.
/// Gives what writes it, and how many they are if the worker is alive.
async fn give_back(
    session: &mut Session,
    worker: WorkerId,
    lock: &'static str,
    tasks: Option<&[i64]>,
    later: Option<Duration>,
) -> Done<(Script, Option<u32>)> {
    let mut first = Script::of(lock, &[worker.0.into()]);
    first.add(holdings::LOCK, &[worker.0.into()]);
    first.add(ASKED, &[worker.0.into()]);
    let (moment, mut answers) = session.begin(&first).await?;
    if answers.rows()?.is_empty() {
        return Ok((Script::new(), None));
    }
    let mut holding = holdings::unpack(&answers.rows()?, worker.0)?;
    let asked = numbers(&answers.rows()?)?;
    let named = match tasks {
        Some(tasks) => tasks.to_vec(),
        None => holding.tasks().map(|(_, held)| held.task).collect(),
    };
    let mut ends = Ends::new(moment.now);
    let mut given = 0;
    for task in named {
        let Some(held) = holding.take(task) else { continue };
        if asked.contains(&task) {
            ends.answered(task);
            ends.end(Ending::from(&held), AttemptRecord::cancelled_waiting(moment.now), TaskState::Cancelled);
        } else {
            let n = held.n.saturating_sub(1);
            let due = later.map_or(Timestamp::from_micros(held.due), |later| moment.now.after(later));
            ends.wait(&held, Again { due, n, spent: held.spent, losses: held.losses });
        }
        given += 1;
    }
    let mut script = Script::new();
    holdings::write(&mut holding, &mut script);
    ends.write(&mut script);
    Ok((script, Some(given)))
}

/// Adds what removes the rows of workers that died too long ago to be listed.
pub(crate) fn forget(script: &mut Script, now: Timestamp) {
    script.add(FORGET, &[now.before(DEAD_SHOWN).as_micros().into()]);
}

/// Live workers and those that died lately.
pub(crate) async fn list(session: &mut Session) -> Done<Vec<WorkerView>> {
    let (moment, _) = session.begin_reading(&Script::new()).await?;
    let script = Script::of(LIST, &[moment.now.before(DEAD_SHOWN).as_micros().into()]);
    let rows = session.run(&script).await?.rows()?;
    session.end().await?;
    let mut workers = Vec::with_capacity(rows.len());
    for row in &rows {
        let (state, ends, bytes): (i64, i64, usize) = (cell(row, 3)?, cell(row, 4)?, cell(row, 5)?);
        let ahead = ends.saturating_sub(moment.lease);
        workers.push(WorkerView {
            id: WorkerId(cell(row, 0)?),
            name: cell(row, 1)?,
            slots: cell(row, 2)?,
            holds: u32::try_from(bytes / HELD_BYTES).unwrap_or(u32::MAX),
            until: Timestamp::from_micros(moment.now.as_micros().saturating_add(ahead)),
            alive: state == 0,
        });
    }
    Ok(workers)
}
