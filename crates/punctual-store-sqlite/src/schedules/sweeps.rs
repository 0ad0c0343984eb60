//! Sweeps and windows: due slots become tasks, many schedules in one commit.

use super::{Locked, live, taken, write};
use crate::errors::{Done, Fault};
use crate::session::Session;
use punctual_clock::Timestamp;
use punctual_task::planner::{Plan, Walk, decide_window, plan, plan_broken};
use punctual_task::{Materialised, ScheduleId, StoreError, Sweep, SweepReport, Window};
use rusqlite::params;

/// How many tasks one sweep creates before it leaves the other schedules to the next: about a tenth of a second of the
/// write lock.
pub const SWEEP_TASKS_MAX: usize = 50_000;
/// How many schedules one sweep takes at most.
pub const SWEEP_SCHEDULES_MAX: u32 = 10_000;

pub(crate) const DUE: &str = "SELECT id FROM position WHERE wake <= ?1 ORDER BY wake, id LIMIT ?2";
pub(crate) const NEXT_WAKE: &str = "SELECT min(wake) FROM position WHERE wake IS NOT NULL";

/// Decides due slots of many schedules.
pub(crate) fn materialise(session: &mut Session, sweep: Sweep) -> Done<SweepReport> {
    let now = session.now();
    let limit = sweep.schedules_max.min(SWEEP_SCHEDULES_MAX);
    let due: Vec<i64> =
        session.db.sql(DUE)?.query_map(params![now.as_micros(), limit], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut schedules = Vec::with_capacity(due.len());
    let mut tasks = 0;
    for id in due {
        let done = sweep_one(session, ScheduleId(id), sweep.window_max, now)?;
        tasks += done.tasks.len();
        schedules.push(done);
        if tasks >= SWEEP_TASKS_MAX {
            break;
        }
    }
    let next: Option<i64> = session.db.sql(NEXT_WAKE)?.query_row([], |row| row.get(0))?;
    Ok(SweepReport { schedules, next_due: next.map(Timestamp::from_micros) })
}

fn sweep_one(session: &mut Session, id: ScheduleId, window_max: u32, now: Timestamp) -> Done<Materialised> {
    let Session { db, definitions, .. } = session;
    let locked = Locked::read(db, definitions, id)?
        .ok_or_else(|| Fault::corrupt(format!("schedule {} has no position", id.0)))?;
    let plan = match locked.definition.rule() {
        Err(error) => plan_broken(&locked.position, error),
        Ok(rule) => {
            let snapshot = locked.snapshot(rule);
            let walk = Walk::for_sweep(&snapshot, now, window_max);
            let taken = taken(db, &locked.position, &walk)?;
            plan(&snapshot, &walk, &taken, live(db, id)?)
        }
    };
    write_plan(session, &locked, plan, now)
}

fn write_plan(session: &mut Session, locked: &Locked, plan: Plan, now: Timestamp) -> Done<Materialised> {
    let tasks = write(session, locked, &plan.change, now)?;
    Ok(plan.report(&locked.definition.spec.name, tasks))
}

/// Writes one window under compare-and-swap.
pub(crate) fn apply(session: &mut Session, window: &Window) -> Done<Materialised> {
    let now = session.now();
    let Session { db, definitions, .. } = session;
    let Some(locked) = Locked::read(db, definitions, window.schedule)? else {
        return Err(Fault::Store(StoreError::not_found(format!("there is no schedule with id {}", window.schedule.0))));
    };
    let rule = locked.definition.rule().as_ref().map_err(|error| StoreError::refused(error.to_string()))?;
    let snapshot = locked.snapshot(rule);
    let walk = Walk::for_window(&snapshot, window, now);
    let taken = taken(db, &locked.position, &walk)?;
    let plan = decide_window(&snapshot, window, &walk, &taken, live(db, window.schedule)?)?;
    write_plan(session, &locked, plan, now)
}
