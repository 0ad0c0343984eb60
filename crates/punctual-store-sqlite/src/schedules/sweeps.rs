//! Sweeps and windows: due slots become tasks, many schedules in one commit.

use super::writing::{Decided, WAKE, write};
use super::{Locked, Surroundings, position_from};
use crate::errors::{Done, Fault, caught};
use crate::session::Session;
use punctual_clock::Timestamp;
use punctual_task::planner::{Plan, UNREADABLE_WAIT, Walk, decide_window, plan_broken, plan_reading, with_backfill};
use punctual_task::{Materialised, ScheduleId, StoreError, Sweep, SweepReport, Window};
use rusqlite::params;

/// How many tasks one sweep creates before it leaves the other schedules to the next: about a tenth of a second of the
/// write lock.
pub const SWEEP_TASKS_MAX: usize = 50_000;
/// How many schedules one sweep takes at most.
pub const SWEEP_SCHEDULES_MAX: u32 = 10_000;

pub(crate) const DUE: &str = "SELECT id, state, note, rev, era, version, cursor_slot, cursor_at, cursor_gap,
    runs, kept_to, known_from, zone, backfill FROM position WHERE wake <= ?1 ORDER BY wake, id LIMIT ?2";
const DUE_IDS: &str = "SELECT id FROM position WHERE wake <= ?1 ORDER BY wake, id LIMIT ?2";
pub(crate) const NEXT_WAKE: &str = "SELECT min(wake) FROM position WHERE wake IS NOT NULL";

/// Decides due slots of many schedules. One that cannot be decided is put off and reported; the others go on.
pub(crate) fn materialise(session: &mut Session, sweep: Sweep) -> Done<SweepReport> {
    let limit = sweep.schedules_max.min(SWEEP_SCHEDULES_MAX);
    // A savepoint for each schedule is for the rare sweep that needs it.
    let schedules = match session.step(|session| caught(|| together(session, limit, sweep.window_max))) {
        Err(fault) if fault.is_local() && session.in_transaction() => apart(session, limit, sweep.window_max)?,
        outcome => outcome?,
    };
    let next: Option<i64> = session.db.sql(NEXT_WAKE)?.query_row([], |row| row.get(0))?;
    Ok(SweepReport { schedules, next_due: next.map(Timestamp::from_micros) })
}

/// Reads all, decides all, writes all.
fn together(session: &mut Session, limit: u32, window_max: u32) -> Done<Vec<Materialised>> {
    let now = session.now();
    let Session { db, definitions, .. } = session;
    let mut due = db.sql(DUE)?;
    let mut rows = due.query(params![now.as_micros(), limit])?;
    let mut around = Surroundings::of(db);
    let mut decided = Vec::new();
    let mut tasks = 0;
    while let Some(row) = rows.next()?
        && tasks < SWEEP_TASKS_MAX
    {
        let locked = Locked::of(db, definitions, position_from(row)?)?;
        let plan = decide(&mut around, &locked, window_max, now)?;
        tasks += plan.change.grants.len();
        decided.push((locked, plan));
    }
    drop(rows);
    drop((due, around));
    write_plans(session, decided, now)
}

/// Decides each schedule so that its failure undoes its own writes only.
fn apart(session: &mut Session, limit: u32, window_max: u32) -> Done<Vec<Materialised>> {
    let now = session.now();
    let due: Vec<i64> = session
        .db
        .sql(DUE_IDS)?
        .query_map(params![now.as_micros(), limit], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut schedules = Vec::with_capacity(due.len());
    let mut tasks = 0;
    for id in due {
        match session.step(|session| caught(|| sweep_one(session, ScheduleId(id), window_max, now))) {
            Ok(done) => {
                tasks += done.iter().map(|one| one.tasks.len()).sum::<usize>();
                schedules.extend(done);
            }
            Err(fault) if fault.is_local() && session.in_transaction() => {
                let wake = now.after(UNREADABLE_WAIT).as_micros();
                session.db.sql(WAKE)?.execute(params![id, wake])?;
                let error = fault.named(&session.location);
                tracing::error!(schedule = id, %error, "a schedule cannot be decided; it is tried again in a minute");
            }
            Err(fault) => return Err(fault),
        }
        if tasks >= SWEEP_TASKS_MAX {
            break;
        }
    }
    Ok(schedules)
}

fn sweep_one(session: &mut Session, id: ScheduleId, window_max: u32, now: Timestamp) -> Done<Vec<Materialised>> {
    let Session { db, definitions, .. } = session;
    let locked = Locked::read(db, definitions, id)?
        .ok_or_else(|| Fault::corrupt(format!("schedule {} has no position", id.0)))?;
    let plan = decide(&mut Surroundings::of(db), &locked, window_max, now)?;
    write_plans(session, vec![(locked, plan)], now)
}

/// Asks the planner what becomes of a schedule's slots.
fn decide(around: &mut Surroundings<'_>, locked: &Locked, window_max: u32, now: Timestamp) -> Done<Plan> {
    let spec = &locked.definition.spec;
    let rule = match locked.definition.rule() {
        Ok(rule) => rule,
        Err(error) => {
            let schedule = &spec.name;
            tracing::error!(%schedule, %error, "this build cannot use the rule of a schedule; it is left alone");
            return Ok(plan_broken(&locked.position, now));
        }
    };
    let id = locked.position.id;
    let snapshot = locked.snapshot(rule);
    let mut walk = Walk::for_sweep(&snapshot, now, window_max);
    let live = around.live(id, spec)?;
    let series = plan_reading(&snapshot, &mut walk, live, |walk| around.taken(&locked.position, walk))?;
    let Some(walk) = Walk::for_backfill(&snapshot, now, window_max) else { return Ok(series) };
    let taken = around.taken(&locked.position, &walk)?;
    Ok(with_backfill(&snapshot, series, &walk, &taken, around.live_backfilled(id)?))
}

fn write_plans(session: &mut Session, decided: Vec<(Locked, Plan)>, now: Timestamp) -> Done<Vec<Materialised>> {
    let changes: Vec<Decided<'_>> =
        decided.iter().map(|(locked, plan)| Decided { spec: &locked.definition.spec, change: &plan.change }).collect();
    let tasks = write(session, &changes, now)?;
    let report = |((locked, plan), tasks): ((Locked, Plan), _)| plan.report(&locked.definition.spec.name, tasks);
    Ok(decided.into_iter().zip(tasks).map(report).collect())
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
    let mut around = Surroundings::of(db);
    let taken = around.taken(&locked.position, &walk)?;
    let plan = decide_window(&snapshot, window, &walk, &taken, around.live(window.schedule, snapshot.spec)?)?;
    drop(around);
    let done = write_plans(session, vec![(locked, plan)], now)?;
    done.into_iter().next().ok_or_else(|| Fault::bug("a window without a report"))
}
