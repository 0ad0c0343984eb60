//! Sweeps and windows: due slots become tasks, many schedules in one commit.

use super::{Locked, WAKE, live_backfilled, live_for, taken, write};
use crate::errors::{Done, Fault, caught};
use crate::session::Session;
use punctual_clock::Timestamp;
use punctual_task::planner::{Plan, UNREADABLE_WAIT, Walk, decide_window, plan, plan_broken, with_backfill};
use punctual_task::{Materialised, ScheduleId, ScheduleSpec, StoreError, Sweep, SweepReport, Window};
use rusqlite::params;

/// How many tasks one sweep creates before it leaves the other schedules to the next: about a tenth of a second of the
/// write lock.
pub const SWEEP_TASKS_MAX: usize = 50_000;
/// How many schedules one sweep takes at most.
pub const SWEEP_SCHEDULES_MAX: u32 = 10_000;

pub(crate) const DUE: &str = "SELECT id FROM position WHERE wake <= ?1 ORDER BY wake, id LIMIT ?2";
pub(crate) const NEXT_WAKE: &str = "SELECT min(wake) FROM position WHERE wake IS NOT NULL";

/// Decides due slots of many schedules. One that cannot be decided is put off and reported; the others go on.
pub(crate) fn materialise(session: &mut Session, sweep: Sweep) -> Done<SweepReport> {
    let whole = |session: &mut Session, id, now| sweep_one(session, id, sweep.window_max, now).map(Some);
    let apart = |session: &mut Session, id, now| sweep_apart(session, id, sweep.window_max, now);
    // A savepoint for each schedule is for the rare sweep that needs it.
    match session.step(|session| caught(|| sweep_all(session, sweep, whole))) {
        Err(fault) if fault.is_local() && session.in_transaction() => sweep_all(session, sweep, apart),
        outcome => outcome,
    }
}

fn sweep_all(
    session: &mut Session,
    sweep: Sweep,
    one: impl Fn(&mut Session, ScheduleId, Timestamp) -> Done<Option<Materialised>>,
) -> Done<SweepReport> {
    let now = session.now();
    let limit = sweep.schedules_max.min(SWEEP_SCHEDULES_MAX);
    let due: Vec<i64> =
        session.db.sql(DUE)?.query_map(params![now.as_micros(), limit], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut schedules = Vec::with_capacity(due.len());
    let mut tasks = 0;
    for id in due {
        let Some(done) = one(session, ScheduleId(id), now)? else { continue };
        tasks += done.tasks.len();
        schedules.push(done);
        if tasks >= SWEEP_TASKS_MAX {
            break;
        }
    }
    let next: Option<i64> = session.db.sql(NEXT_WAKE)?.query_row([], |row| row.get(0))?;
    Ok(SweepReport { schedules, next_due: next.map(Timestamp::from_micros) })
}

/// Decides one schedule so that its failure undoes its own writes only.
fn sweep_apart(session: &mut Session, id: ScheduleId, window_max: u32, now: Timestamp) -> Done<Option<Materialised>> {
    match session.step(|session| caught(|| sweep_one(session, id, window_max, now))) {
        Err(fault) if fault.is_local() && session.in_transaction() => {
            let wake = now.after(UNREADABLE_WAIT).as_micros();
            session.db.sql(WAKE)?.execute(params![id.0, wake])?;
            let error = fault.named(&session.location);
            tracing::error!(schedule = id.0, %error, "a schedule cannot be decided; it is tried again in a minute");
            Ok(None)
        }
        outcome => outcome.map(Some),
    }
}

fn sweep_one(session: &mut Session, id: ScheduleId, window_max: u32, now: Timestamp) -> Done<Materialised> {
    let Session { db, definitions, .. } = session;
    let locked = Locked::read(db, definitions, id)?
        .ok_or_else(|| Fault::corrupt(format!("schedule {} has no position", id.0)))?;
    let plan = match locked.definition.rule() {
        Err(error) => {
            let schedule = &locked.definition.spec.name;
            tracing::error!(%schedule, %error, "this build cannot use the rule of a schedule; it is left alone");
            plan_broken(&locked.position, now)
        }
        Ok(rule) => {
            let snapshot = locked.snapshot(rule);
            let walk = Walk::for_sweep(&snapshot, now, window_max);
            let known = taken(db, &locked.position, &walk)?;
            let series = plan(&snapshot, &walk, &known, live_for(db, id, snapshot.spec)?);
            match Walk::for_backfill(&snapshot, now, window_max) {
                None => series,
                Some(walk) => {
                    let known = taken(db, &locked.position, &walk)?;
                    let live = live_backfilled(db, id, ScheduleSpec::MAX_PENDING_MAX)?;
                    with_backfill(&snapshot, series, &walk, &known, live)
                }
            }
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
    let plan = decide_window(&snapshot, window, &walk, &taken, live_for(db, window.schedule, snapshot.spec)?)?;
    write_plan(session, &locked, plan, now)
}
