//! Workers: registrations, leases on the boot clock, and what becomes of a dead one's tasks.

use crate::attempts::{cancel_answered, cancels_asked};
use crate::connection::Db;
use crate::ends::{Again, Ending, Ends, wait};
use crate::errors::{Done, Fault};
use crate::holdings;
use crate::leases::BootTime;
use crate::session::Session;
use crate::tasks::draw;
use punctual_clock::Timestamp;
use punctual_task::decide::decide_loss;
use punctual_task::rows::{HELD_BYTES, Held, Holding};
use punctual_task::worker::DEAD_SHOWN;
use punctual_task::{
    AttemptRecord, Renewal, Rescue, StoreError, StoreErrorKind, TaskId, TaskState, WorkerId, WorkerInfo, WorkerView,
    check_name,
};
use rusqlite::{OptionalExtension, params};
use std::time::Duration;

/// How many dead workers one rescue takes care of; the next one goes on.
const RESCUE_WORKERS_MAX: u32 = 100;

const ADD: &str = "INSERT INTO worker (id, name, slots, state, boot, until, seen) VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6)";
const ALIVE: &str = "SELECT 1 FROM worker WHERE id = ?1 AND state = 0";
const RENEW: &str = "UPDATE worker SET boot = ?2, until = ?3, seen = ?4 WHERE id = ?1 AND state = 0";
const REMOVE: &str = "DELETE FROM worker WHERE id = ?1";
pub(crate) const LAPSED: &str = "SELECT id FROM worker
    WHERE state = 0 AND id <> ?1 AND ((boot <> ?2 AND boot <> '' AND ?2 <> '') OR until <= ?3) ORDER BY id LIMIT ?4";
const BURY: &str = "UPDATE worker SET state = 1, seen = ?2 WHERE id = ?1";
const FORGET: &str = "DELETE FROM worker WHERE state = 1 AND seen <= ?1";
const NAME: &str = "SELECT name FROM schedule WHERE id = ?1";
const FORGET_CANCELS: &str = "DELETE FROM cancel WHERE worker = ?1";
const LIST: &str = "SELECT w.id, w.name, w.slots, w.state, w.boot, w.until, w.seen,
    (SELECT coalesce(sum(length(c.tasks)), 0) FROM claim c WHERE c.worker = w.id)
    FROM worker w WHERE w.state = 0 OR w.seen > ?1 ORDER BY w.id";

/// Checks the registration before it is queued with others.
pub(crate) fn check(info: &WorkerInfo) -> Result<(), StoreError> {
    check_name("worker's name", &info.name)
}

/// Refuses a worker that was marked dead, has retired, or never was.
pub(crate) fn check_alive(db: &Db, worker: WorkerId) -> Done<()> {
    if db.sql(ALIVE)?.exists(params![worker.0])? {
        return Ok(());
    }
    Err(fenced(worker))
}

fn fenced(worker: WorkerId) -> Fault {
    Fault::Store(StoreError::new(
        StoreErrorKind::Fenced,
        format!("worker {} was declared dead or has retired: what it held belongs to others; register again", worker.0),
    ))
}

fn until(boot: &BootTime, lease: Duration) -> i64 {
    boot.micros.saturating_add(i64::try_from(lease.as_micros()).unwrap_or(i64::MAX))
}

/// Registers a worker.
pub(crate) fn register(session: &mut Session, info: &WorkerInfo, lease: Duration) -> Done<WorkerId> {
    let id = draw(&session.db, "worker", 1)?;
    let (now, boot) = (session.now(), session.boot_time());
    session.db.sql(ADD)?.execute(params![
        id,
        info.name,
        info.slots,
        boot.boot,
        until(&boot, lease),
        now.as_micros()
    ])?;
    Ok(WorkerId(id))
}

/// Extends a lease.
pub(crate) fn renew(session: &mut Session, worker: WorkerId, lease: Duration) -> Done<Renewal> {
    let (now, boot) = (session.now(), session.boot_time());
    let Session { db, .. } = session;
    if db.sql(RENEW)?.execute(params![worker.0, boot.boot, until(&boot, lease), now.as_micros()])? == 0 {
        return Err(fenced(worker));
    }
    let cancel = cancels_asked(db, worker.0)?.into_iter().map(TaskId).collect();
    Ok(Renewal { cancel })
}

/// What a live worker holds.
pub(crate) fn holdings(session: &mut Session, worker: WorkerId) -> Done<Vec<(TaskId, u32)>> {
    check_alive(&session.db, worker)?;
    let holding = session.holdings.of(&session.db, worker.0)?;
    let mut held: Vec<(TaskId, u32)> = holding.tasks().map(|(_, held)| (TaskId(held.task), held.n)).collect();
    held.sort_unstable();
    Ok(held)
}

/// Gives tasks back.
pub(crate) fn hand_back(session: &mut Session, worker: WorkerId, tasks: &[TaskId]) -> Done<u32> {
    check_alive(&session.db, worker)?;
    give_back(session, worker, Some(tasks))
}

/// Ends a registration.
pub(crate) fn retire(session: &mut Session, worker: WorkerId) -> Done<()> {
    if !session.db.sql(ALIVE)?.exists(params![worker.0])? {
        return Ok(());
    }
    give_back(session, worker, None)?;
    session.db.sql(REMOVE)?.execute(params![worker.0])?;
    Ok(())
}

/// Gives back what is named, or all. A task whose cancel was asked for ends instead.
fn give_back(session: &mut Session, worker: WorkerId, tasks: Option<&[TaskId]>) -> Done<u32> {
    let now = session.now();
    let Session { db, holdings, .. } = session;
    let asked = cancels_asked(db, worker.0)?;
    let holding = holdings.of(db, worker.0)?;
    let named: Vec<i64> = match tasks {
        Some(tasks) => tasks.iter().map(|task| task.0).collect(),
        None => holding.tasks().map(|(_, held)| held.task).collect(),
    };
    let mut ends = Ends::new(db, now)?;
    let mut given = 0;
    for task in named {
        let Some(held) = holding.take(task) else { continue };
        if asked.contains(&task) {
            cancel_answered(db, task)?;
            ends.end(Ending::from(&held), &AttemptRecord::cancelled_waiting(now), TaskState::Cancelled)?;
        } else {
            let n = held.n.saturating_sub(1);
            let due = Timestamp::from_micros(held.due);
            wait(db, &held, Again { due, n, spent: held.spent, losses: held.losses })?;
        }
        given += 1;
    }
    holdings::flush(holding, db)?;
    ends.flush()?;
    Ok(given)
}

/// Marks workers dead whose lease has ended, and takes their tasks back.
pub(crate) fn rescue(session: &mut Session, by: WorkerId) -> Done<Rescue> {
    check_alive(&session.db, by)?;
    let (now, boot) = (session.now(), session.boot_time());
    let Session { db, holdings, .. } = session;
    let dead: Vec<i64> = db
        .sql(LAPSED)?
        .query_map(params![by.0, boot.boot, boot.micros, RESCUE_WORKERS_MAX], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut rescue = Rescue::default();
    for worker in dead {
        db.sql(BURY)?.execute(params![worker, now.as_micros()])?;
        rescue.workers += 1;
        requeue(db, holdings.of(db, worker)?, WorkerId(worker), now, &mut rescue)?;
        db.sql(FORGET_CANCELS)?.execute(params![worker])?;
    }
    forget(db, now)?;
    rescue.failing.sort();
    rescue.failing.dedup();
    Ok(rescue)
}

/// Removes the rows of workers that died too long ago to be listed.
pub(crate) fn forget(db: &Db, now: Timestamp) -> Done<()> {
    db.sql(FORGET)?.execute(params![now.before(DEAD_SHOWN).as_micros()])?;
    Ok(())
}

fn requeue(db: &Db, holding: &mut Holding, worker: WorkerId, now: Timestamp, rescue: &mut Rescue) -> Done<()> {
    let asked = cancels_asked(db, worker.0)?;
    let lost: Vec<(Timestamp, Held)> = holding.tasks().map(|(at, held)| (at, *held)).collect();
    let mut ends = Ends::new(db, now)?;
    for (claimed, held) in lost {
        holding.take(held.task);
        let record = AttemptRecord::lost(held.n, worker, claimed, now);
        match decide_loss(held.losses) {
            _ if asked.contains(&held.task) => {
                ends.end(Ending::from(&held), &record, TaskState::Cancelled)?;
            }
            None => {
                ends.end(Ending::from(&held), &record, TaskState::Failed)?;
                rescue.failed += 1;
                if held.gate != 0 {
                    let name: Option<String> =
                        db.sql(NAME)?.query_row(params![held.gate], |row| row.get(0)).optional()?;
                    rescue.failing.extend(name);
                }
            }
            Some(losses) => {
                ends.again(&held, &record, Again { due: now, n: held.n, spent: held.spent, losses })?;
                rescue.requeued += 1;
            }
        }
    }
    holdings::flush(holding, db)?;
    ends.flush()
}

/// Live workers and those that died lately.
pub(crate) fn list(db: &Db, now: Timestamp, boot: &BootTime) -> Done<Vec<WorkerView>> {
    let mut statement = db.sql(LIST)?;
    let mut rows = statement.query(params![now.before(DEAD_SHOWN).as_micros()])?;
    let mut workers = Vec::new();
    while let Some(row) = rows.next()? {
        let (state, name): (i64, String) = (row.get(3)?, row.get(4)?);
        let (until, bytes): (i64, i64) = (row.get(5)?, row.get(7)?);
        workers.push(WorkerView {
            id: WorkerId(row.get(0)?),
            name: row.get(1)?,
            slots: row.get(2)?,
            holds: held_in(bytes),
            until: boot.on_wall(&name, until, now),
            alive: state == 0,
        });
    }
    Ok(workers)
}

/// How many tasks rows of claims hold that are so many bytes long.
fn held_in(bytes: i64) -> u32 {
    usize::try_from(bytes).ok().and_then(|bytes| u32::try_from(bytes / HELD_BYTES).ok()).unwrap_or(u32::MAX)
}
