//! Sweeps and windows: due slots become tasks, many schedules in one commit of three round trips.
//!
//! ```text
//! 1  begin · lock the due schedules in the order of their wakes, passing over locked ones
//! 2  a fresh look: which slots have tasks, how many occurrences are live
//!    the planner, in this process
//! 3  multi-row inserts · positions · commit
//! ```

use super::{LOCK_POSITION, Locked, Surroundings, Writing, ids_wanted, lock, position_from, versions};
use crate::answers::cell;
use crate::connection::Session;
use crate::definitions;
use crate::errors::{Done, Fault};
use crate::ids;
use crate::moment::Moment;
use crate::script::Script;
use crate::tasks;
use punctual_clock::{Clock, SystemClock, Timestamp};
use punctual_task::planner::{Plan, UNREADABLE_WAIT, Walk, decide_window, plan, plan_broken, with_backfill};
use punctual_task::rows::FloorGroup;
use punctual_task::{Materialised, Position, ScheduleId, StoreError, Sweep, SweepReport, Window};
use std::collections::{BTreeMap, BTreeSet};

/// How many tasks one sweep creates before it leaves the other schedules to the next: about a second of locks.
pub const SWEEP_TASKS_MAX: usize = 50_000;
/// How many schedules one sweep takes at most.
pub const SWEEP_SCHEDULES_MAX: u32 = 10_000;
/// How often a transaction is begun anew since it needed more ids than were drawn.
const RESERVES_MAX: u32 = 20;

pub(crate) const DUE: &str = "SELECT id, state, note, rev, era, version, cursor_slot, cursor_at, cursor_gap,
    runs, kept_to, known_from, zone, backfill, wake FROM punctual_position FORCE INDEX (punctual_position_wake)
    WHERE wake >= ? AND wake <= @now ORDER BY wake, id LIMIT ? FOR UPDATE SKIP LOCKED";
pub(crate) const NEXT_WAKE: &str = "SELECT MIN(wake) FROM punctual_position WHERE wake >= ?";
const PUT_OFF: &str = "UPDATE punctual_position SET wake = ? WHERE id = ? AND wake IS NOT NULL";
const LOCK_ONE: &str = "SELECT id, state, note, rev, era, version, cursor_slot, cursor_at, cursor_gap,
    runs, kept_to, known_from, zone, backfill FROM punctual_position FORCE INDEX (PRIMARY) WHERE id = ? AND wake <= @now FOR UPDATE SKIP LOCKED";

/// What the floor of sweeps is kept under.
pub(crate) const WAKES: FloorGroup = (0, 0);

/// What a sweep has decided and may have committed.
pub(crate) type Decided = SweepReport;

/// Which schedules a transaction sweeps.
#[derive(Debug, Clone, Copy)]
enum Which {
    Due(u32),
    One(i64),
}

/// Decides due slots of many schedules. One that cannot be decided is put off and reported; the others go on.
pub(crate) async fn materialise(
    session: &mut Session,
    sweep: Sweep,
    unsure: &mut Option<Decided>,
) -> Done<SweepReport> {
    if let Some(report) = unsure.clone()
        && arrived(session, &report).await?
    {
        return Ok(report);
    }
    let limit = sweep.schedules_max.min(SWEEP_SCHEDULES_MAX);
    let mut due = Vec::new();
    match sweep_once(session, Which::Due(limit), sweep.window_max, unsure, &mut due).await {
        Err(fault) if fault.is_local() => {
            // One of them cannot be decided: each has a transaction to itself, so that the others go on.
            session.roll_back().await;
            apart(session, sweep, &due, fault).await
        }
        outcome => outcome,
    }
}

/// Whether the commit of this report arrived. The schedules stay locked until that is decided.
async fn arrived(session: &mut Session, report: &SweepReport) -> Done<bool> {
    let Some(moved) = report.schedules.iter().find(|done| !done.tasks.is_empty() || !done.losses.is_empty()) else {
        return Ok(false);
    };
    let (_, mut answers) = session.begin(&Script::of(LOCK_POSITION, &[moved.schedule.0.into()])).await?;
    let position = answers.rows()?.first().map(position_from).transpose()?;
    let arrived = match moved.tasks.first() {
        Some(task) => tasks::read(session, &[task.0]).await?.contains_key(&task.0),
        // Every change of a position counts on: if it is not this one's, it is a later one's.
        None => position.is_some_and(|position| position.rev >= moved.position.rev),
    };
    session.end().await?;
    Ok(arrived)
}

async fn apart(session: &mut Session, sweep: Sweep, due: &[i64], first: Fault) -> Done<SweepReport> {
    if due.is_empty() {
        return Err(first);
    }
    let mut report = SweepReport::default();
    for id in due {
        let mut planned = None;
        match sweep_once(session, Which::One(*id), sweep.window_max, &mut planned, &mut Vec::new()).await {
            Ok(one) => {
                report.schedules.extend(one.schedules);
                report.next_due = one.next_due;
            }
            Err(fault) if fault.is_local() => {
                session.roll_back().await;
                let (moment, _) = session.begin(&Script::new()).await?;
                let wake = moment.now.after(UNREADABLE_WAIT).as_micros();
                session.commit(Script::of(PUT_OFF, &[wake.into(), (*id).into()])).await?;
                let error = fault.named(&session.shared.address);
                tracing::error!(schedule = id, %error, "a schedule cannot be decided; it is tried again in a minute");
            }
            Err(fault) => return Err(fault),
        }
    }
    let rows = session.run(&Script::of(NEXT_WAKE, &[i64::MIN.into()])).await?.rows()?;
    report.next_due = next_due(&rows)?;
    Ok(report)
}

fn next_due(rows: &[mysql_async::Row]) -> Done<Option<Timestamp>> {
    let next: Option<i64> = rows.first().map_or(Ok(None), |row| cell(row, 0))?;
    Ok(next.map(Timestamp::from_micros))
}

async fn sweep_once(
    session: &mut Session,
    which: Which,
    window_max: u32,
    unsure: &mut Option<Decided>,
    due: &mut Vec<i64>,
) -> Done<SweepReport> {
    let mut wanted = 0;
    for _ in 0..RESERVES_MAX {
        ids::reserve(session, wanted).await?;
        let look = session.shared.sweep_floors().look(SystemClock.now());
        let from = match which {
            Which::Due(_) => look.floor(WAKES).0,
            Which::One(_) => i64::MIN,
        };
        let first = match which {
            Which::Due(limit) => Script::of(DUE, &[from.into(), limit.into()]),
            Which::One(id) => Script::of(LOCK_ONE, &[id.into()]),
        };
        let (moment, mut answers) = session.begin(&first).await?;
        let rows = answers.rows()?;
        *due = rows.iter().map(|row| cell(row, 0)).collect::<Done<_>>()?;
        if let Which::Due(_) = which {
            let head: Option<i64> = rows.first().map(|row| cell(row, 14)).transpose()?;
            let head = head.map(|wake| (WAKES, (wake, i64::MIN)));
            session.shared.sweep_floors().seen(&look, head.into_iter(), moment.now, SystemClock.now());
        }
        let positions = rows.iter().map(position_from).collect::<Done<Vec<_>>>()?;
        let decided = decide(session, positions, window_max, moment).await?;
        let count = ids_wanted(decided.iter().map(|(_, plan)| &plan.change));
        let Some(ids) = session.shared.ids.take(count) else {
            session.roll_back().await;
            wanted = count;
            continue;
        };
        return write(session, decided, ids, moment, from, unsure).await;
    }
    Err(Fault::Moved)
}

/// Asks the planner what becomes of each schedule's slots.
async fn decide(
    session: &mut Session,
    positions: Vec<Position>,
    window_max: u32,
    moment: Moment,
) -> Done<Vec<(Locked, Plan)>> {
    let mut read = definitions::read(session, versions(&positions)).await?;
    let mut locked = Vec::with_capacity(positions.len());
    for position in positions {
        let version = (position.id.0, position.version);
        let definition = read.remove(&version).unwrap_or_else(|| Err(Fault::bug("a definition was not read")))?;
        locked.push(Locked { position, definition });
    }
    let mut walks: BTreeMap<ScheduleId, Walk> = BTreeMap::new();
    let mut backfills: BTreeMap<ScheduleId, Walk> = BTreeMap::new();
    for schedule in &locked {
        match schedule.definition.rule() {
            Ok(rule) => {
                let walk = Walk::for_sweep(&schedule.snapshot(rule), moment.now, window_max);
                walks.insert(schedule.position.id, walk);
                if let Some(walk) = Walk::for_backfill(&schedule.snapshot(rule), moment.now, window_max) {
                    backfills.insert(schedule.position.id, walk);
                }
            }
            Err(error) => {
                let schedule = &schedule.definition.spec.name;
                tracing::error!(%schedule, %error, "this build cannot use the rule of a schedule; it is left alone");
            }
        }
    }
    let mut plans = plan_series(session, &locked, &mut walks, moment.now).await?;
    locked.truncate(plans.len());
    let wanted: Vec<_> = locked
        .iter()
        .filter_map(|schedule| Some((&schedule.position, backfills.get(&schedule.position.id)?)))
        .collect();
    if !wanted.is_empty() {
        let around = Surroundings::read_for_backfills(session, &wanted).await?;
        plans = locked
            .iter()
            .zip(plans)
            .map(|(schedule, series)| {
                let id = schedule.position.id;
                match (schedule.definition.rule(), backfills.get(&id)) {
                    (Ok(rule), Some(walk)) => {
                        with_backfill(&schedule.snapshot(rule), series, walk, around.taken(id), around.live(id))
                    }
                    _ => series,
                }
            })
            .collect();
    }
    Ok(locked.into_iter().zip(plans).collect())
}

/// Asks the planner what becomes of each series' slots: of the first ones, where they create as many tasks as one sweep may.
/// Where the first stretch of a walk is too short it goes on, all of them in one round trip more.
async fn plan_series(
    session: &mut Session,
    locked: &[Locked],
    walks: &mut BTreeMap<ScheduleId, Walk>,
    now: Timestamp,
) -> Done<Vec<Plan>> {
    let around = look(session, locked, walks, |_| true).await?;
    let decide = |schedule: &Locked, walks: &BTreeMap<ScheduleId, Walk>, around: &Surroundings| {
        let id = schedule.position.id;
        match (schedule.definition.rule(), walks.get(&id)) {
            (Ok(rule), Some(walk)) => plan(&schedule.snapshot(rule), walk, around.taken(id), around.live(id)),
            _ => plan_broken(&schedule.position, now),
        }
    };
    let mut plans = Vec::with_capacity(locked.len());
    let mut short = BTreeSet::new();
    let mut created = 0;
    for schedule in locked {
        let plan = decide(schedule, walks, &around);
        if plan.short {
            let id = schedule.position.id;
            short.insert(id);
            if let (Ok(rule), Some(walk)) = (schedule.definition.rule(), walks.get_mut(&id)) {
                walk.go_on(&schedule.snapshot(rule));
            }
        }
        created += plan.change.grants.len();
        plans.push(plan);
        if created >= SWEEP_TASKS_MAX {
            break;
        }
    }
    if !short.is_empty() {
        let around = look(session, locked, walks, |id| short.contains(&id)).await?;
        for (schedule, plan) in locked.iter().zip(&mut plans).filter(|(_, plan)| plan.short) {
            *plan = decide(schedule, walks, &around);
        }
    }
    Ok(plans)
}

/// Reads what the decisions on these schedules need.
async fn look(
    session: &mut Session,
    locked: &[Locked],
    walks: &BTreeMap<ScheduleId, Walk>,
    which: impl Fn(ScheduleId) -> bool,
) -> Done<Surroundings> {
    let wanted: Vec<_> = locked
        .iter()
        .filter(|schedule| which(schedule.position.id))
        .filter_map(|schedule| Some((&schedule.position, walks.get(&schedule.position.id)?, &schedule.definition.spec)))
        .collect();
    Surroundings::read(session, &wanted).await
}

async fn write(
    session: &mut Session,
    decided: Vec<(Locked, Plan)>,
    ids: Vec<punctual_task::TaskId>,
    moment: Moment,
    from: i64,
    unsure: &mut Option<Decided>,
) -> Done<SweepReport> {
    let mut writing = Writing::new(moment.now);
    let mut ids = ids.into_iter();
    let mut report = SweepReport::default();
    for (locked, plan) in decided {
        let spec = &locked.definition.spec;
        let tasks = writing.add(session, spec, &plan.change, &mut ids).await?;
        report.schedules.push(plan.report(&spec.name, tasks));
    }
    let created = writing.tasks();
    let mut script = writing.script();
    let before = script.statements();
    script.add(NEXT_WAKE, &[from.into()]);
    *unsure = Some(report);
    let mut answers = session.commit(script).await.map_err(|fault| twice(session, fault, created))?;
    answers.skip(before)?;
    let mut report = unsure.take().unwrap_or_default();
    report.next_due = next_due(&answers.rows()?)?;
    Ok(report)
}

/// The plan is exact under the lock: a slot that is there already is a bug, not a race. An id that is there already was not
/// drawn by whoever used it: others are drawn.
fn twice(session: &Session, fault: Fault, created: usize) -> Fault {
    if created > 0 && fault.is_duplicate() {
        session.shared.ids.forget();
    }
    fault
}

/// Writes one window under compare-and-swap.
pub(crate) async fn apply(
    session: &mut Session,
    window: &Window,
    unsure: &mut Option<Materialised>,
) -> Done<Materialised> {
    ids::reserve(session, window.slots.len()).await?;
    let (moment, _) = session.begin(&Script::new()).await?;
    let Some(locked) = lock(session, window.schedule).await? else {
        return Err(Fault::Store(StoreError::not_found(format!("there is no schedule with id {}", window.schedule.0))));
    };
    if let Some(done) = unsure.clone()
        && locked.position == done.position
    {
        session.end().await?;
        return Ok(done);
    }
    let rule = locked.definition.rule().as_ref().map_err(|error| StoreError::refused(error.to_string()))?;
    let snapshot = locked.snapshot(rule);
    let walk = Walk::for_window(&snapshot, window, moment.now);
    let around = Surroundings::read(session, &[(&locked.position, &walk, snapshot.spec)]).await?;
    let id = window.schedule;
    let plan = decide_window(&snapshot, window, &walk, around.taken(id), around.live(id))?;
    let ids = session.shared.ids.take(ids_wanted(std::iter::once(&plan.change))).ok_or(Fault::Moved)?;
    let mut writing = Writing::new(moment.now);
    let tasks = writing.add(session, snapshot.spec, &plan.change, &mut ids.into_iter()).await?;
    let created = writing.tasks();
    let done = plan.report(&locked.definition.spec.name, tasks);
    *unsure = Some(done.clone());
    session.commit(writing.script()).await.map_err(|fault| twice(session, fault, created))?;
    Ok(done)
}
