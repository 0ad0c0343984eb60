//! Sweeps and windows: due slots become tasks, many schedules in one commit and three round trips.

use super::{LOCK, Locked, Look, Seen, Writing, cancel_live, enough, look, only, position_from};
use crate::definitions::{Read, Version};
use crate::errors::{Done, Fault};
use crate::names::Lane;
use crate::session::{Session, Step, step};
use crate::store::Shared;
use punctual_clock::{Clock, SystemClock, Timestamp};
use punctual_task::planner::{Plan, Snapshot, UNREADABLE_WAIT, Walk, decide_window, plan, plan_broken, with_backfill};
use punctual_task::rows::{FloorGroup, FloorLook, FloorPlace};
use punctual_task::{Materialised, Position, ScheduleId, ScheduleSpec, StoreError, Sweep, SweepReport, Window};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio_postgres::Row;

/// How many tasks one sweep creates before it leaves the other schedules to the next.
pub const SWEEP_TASKS_MAX: usize = 50_000;
/// How many schedules one sweep takes at most.
pub const SWEEP_SCHEDULES_MAX: u32 = 10_000;

/// Schedules one of whose occurrences has ended are due where that makes room: those without a wake, and those with a backfill
/// even if their own next slot is not due. Those that another transaction holds are left to it.
const ROUSE: &str = "WITH a AS MATERIALIZED (SELECT id, gate FROM woken WHERE id >= $1 ORDER BY id),
    p AS MATERIALIZED (SELECT id FROM position WHERE id IN (SELECT gate FROM a) FOR UPDATE SKIP LOCKED),
    w AS (DELETE FROM woken USING a, p WHERE woken.id = a.id AND p.id = a.gate RETURNING woken.gate, woken.at)
    UPDATE position SET wake = m.at FROM (SELECT gate, min(at) AS at FROM w GROUP BY gate) m
    WHERE position.id = m.gate AND (position.state = 0 AND position.wake IS NULL
        OR position.backfilling AND (position.wake IS NULL OR position.wake > m.at))";
pub(crate) const DUE: &str =
    "SELECT id, state, note, rev, era, version, cursor_slot, cursor_at, cursor_gap, runs, kept_to,
    known_from, zone, backfill, wake FROM position
    WHERE wake <= current_setting('punctual.now')::bigint AND (wake, id) >= ($2, $3) ORDER BY wake, id LIMIT $1
    FOR UPDATE SKIP LOCKED";
pub(crate) const FIRST_WOKEN: &str = "SELECT min(id) FROM woken WHERE id >= $1";
const NEXT_WAKE: &str = "SELECT least(
    (SELECT wake FROM position WHERE wake IS NOT NULL AND (wake, id) >= ($1, $2) ORDER BY wake, id LIMIT 1),
    (SELECT min(w.at) FROM woken w JOIN position p ON p.id = w.gate
        WHERE w.id >= $3 AND (p.state = 0 AND p.wake IS NULL OR p.backfilling AND (p.wake IS NULL OR p.wake > w.at))))";
/// What the floors of sweeps are kept under: of wakes, and of the numbers of ends.
const WAKES: FloorGroup = (0, 0);
const WOKEN: FloorGroup = (0, 1);
/// Ends whose writes are under way may come before the first one by so many numbers.
const WOKEN_BELOW: i64 = 1_000;

/// Where a sweep begins to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    pub(crate) wake: FloorPlace,
    pub(crate) woken: i64,
}

impl Start {
    pub(crate) const BEGINNING: Start = Start { wake: (i64::MIN, i64::MIN), woken: i64::MIN };

    pub(crate) fn of(look: &FloorLook) -> Self {
        Start { wake: look.floor(WAKES), woken: look.floor(WOKEN).0 }
    }

    fn next_wake(self) -> Step {
        step!(NEXT_WAKE, self.wake.0, self.wake.1, self.woken)
    }
}

/// Decides due slots of many schedules. One that cannot be decided is put off and reported; the others go on.
pub(crate) async fn materialise(shared: &Shared, session: &mut Session, sweep: &Sweep) -> Done<SweepReport> {
    match sweep_all(shared, session, sweep).await {
        Err(fault) if fault.is_local() => {
            // What failed is one schedule's, and which is seen only by deciding each on its own.
            session.roll_back().await?;
            let error = fault.named(shared.location());
            tracing::error!(%error, "a sweep failed; its schedules are decided one by one");
            sweep_apart(shared, session, sweep).await
        }
        outcome => outcome,
    }
}

async fn sweep_all(shared: &Shared, session: &mut Session, sweep: &Sweep) -> Done<SweepReport> {
    let (rows, from) = lock_due(shared, session, sweep).await?;
    let positions: Vec<Position> = rows.iter().map(position_from).collect::<Done<_>>()?;
    decide(shared, session, positions, sweep.window_max, from).await
}

/// Locks the due schedules in the order of their wakes, and gives where it began to look for them.
async fn lock_due(shared: &Shared, session: &mut Session, sweep: &Sweep) -> Done<(Vec<Row>, Start)> {
    let limit = i64::from(sweep.schedules_max.min(SWEEP_SCHEDULES_MAX));
    let look = shared.sweep_floors().look(SystemClock.now());
    let from = Start::of(&look);
    let (wake, id) = from.wake;
    let steps = vec![step!(FIRST_WOKEN, from.woken), step!(ROUSE, from.woken), step!(DUE, limit, wake, id)];
    let mut answers = session.ask(steps).await?.into_iter();
    let (Some(woken), Some(_), Some(rows)) = (answers.next(), answers.next(), answers.next()) else {
        return Err(Fault::bug("a sweep got no answer"));
    };
    let woken: Option<i64> = woken.first().map_or(Ok(None), |row| row.try_get(0))?;
    let woken = woken.map(|first| (WOKEN, (first.saturating_sub(WOKEN_BELOW), 0)));
    let first = rows.first().map(|row| -> Done<_> { Ok((WAKES, (row.try_get(14)?, row.try_get(0)?))) }).transpose()?;
    let at = session.now()?;
    shared.sweep_floors().seen(&look, first.into_iter().chain(woken), at, SystemClock.now());
    Ok((rows, from))
}

/// The schedules of a sweep that failed as a whole, each in a transaction of its own.
async fn sweep_apart(shared: &Shared, session: &mut Session, sweep: &Sweep) -> Done<SweepReport> {
    let (rows, _) = lock_due(shared, session, sweep).await?;
    let ids: Vec<i64> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    session.roll_back().await?;
    let mut report = SweepReport { schedules: Vec::new(), next_due: None };
    for id in ids {
        match sweep_one(shared, session, ScheduleId(id), sweep.window_max).await {
            Ok(one) => {
                report.schedules.extend(one.schedules);
                report.next_due = one.next_due;
            }
            Err(fault) if fault.is_local() => {
                session.roll_back().await?;
                let error = fault.named(shared.location());
                tracing::error!(schedule = id, %error, "a schedule cannot be decided; it is tried again in a minute");
                session.ask(Vec::new()).await?;
                let mut writing = Writing::default();
                writing.put_off(ScheduleId(id), session.now()?.after(UNREADABLE_WAIT));
                let last = writing.commit(shared, session, Vec::new(), Some(Start::BEGINNING.next_wake())).await?;
                report.next_due = next_due(&last)?;
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(report)
}

async fn sweep_one(shared: &Shared, session: &mut Session, id: ScheduleId, window_max: u32) -> Done<SweepReport> {
    let rows = session.rows(step!(LOCK, id.0)).await?;
    let positions: Vec<Position> = rows.iter().map(position_from).collect::<Done<_>>()?;
    decide(shared, session, positions, window_max, Start::BEGINNING).await
}

/// A schedule on its way through a sweep.
struct Candidate {
    position: Position,
    definition: Arc<crate::definitions::Definition>,
    /// Of the series, and of the backfill if there is one. `None` where this build cannot use the rule.
    walks: Option<(Walk, Option<Walk>)>,
}

impl Candidate {
    /// What is to be read for it.
    fn looks(&self) -> impl Iterator<Item = Look<'_>> {
        let position = &self.position;
        let enough = enough(&self.definition.spec);
        self.walks.iter().flat_map(move |(series, backfill)| {
            let series = Look { position, walk: series, enough, backfilled: false };
            let most = ScheduleSpec::MAX_PENDING_MAX;
            let backfill = backfill.as_ref().map(|walk| Look { position, walk, enough: most, backfilled: true });
            std::iter::once(series).chain(backfill)
        })
    }

    /// Decides by what was seen, in the order of [`Candidate::looks`].
    fn decide(&self, seen: &mut impl Iterator<Item = Seen>, now: Timestamp) -> Done<Plan> {
        let (Some((walk, backfill)), Ok(rule)) = (&self.walks, self.definition.rule()) else {
            return Ok(plan_broken(&self.position, now));
        };
        let mut next = || seen.next().ok_or_else(|| Fault::bug("a schedule was not looked at"));
        let snapshot = self.snapshot(rule);
        let found = next()?;
        let series = plan(&snapshot, walk, &found.taken, found.live);
        let Some(backfill) = backfill else { return Ok(series) };
        let found = next()?;
        Ok(if series.short { series } else { with_backfill(&snapshot, series, backfill, &found.taken, found.live) })
    }

    /// Has the series' walk go on, where the first stretch of it was too short.
    fn go_on(&mut self) {
        let Candidate { position, definition, walks } = self;
        if let (Some((walk, _)), Ok(rule)) = (walks, definition.rule()) {
            walk.go_on(&Snapshot { spec: &definition.spec, rule, position, created: definition.created });
        }
    }

    fn snapshot<'a>(&'a self, rule: &'a punctual_task::schedule::CompiledRule) -> Snapshot<'a> {
        let Candidate { position, definition, .. } = self;
        Snapshot { spec: &definition.spec, rule, position, created: definition.created }
    }
}

/// Decides schedules that are locked, and commits.
async fn decide(
    shared: &Shared,
    session: &mut Session,
    positions: Vec<Position>,
    window_max: u32,
    from: Start,
) -> Done<SweepReport> {
    let now = session.now()?;
    let versions: BTreeSet<Version> =
        positions.iter().map(|position| (position.id, position.version.cast_signed())).collect();
    let read = shared.definitions.get_all(session, &versions).await?;
    let mut writing = Writing::default();
    let mut candidates = candidates(shared, positions, read, now, window_max, &mut writing)?;
    let decided = plans(session, &mut candidates, now).await?;
    let tasks = decided.iter().map(|plan| plan.change.grants.len()).sum();
    let mut before = Vec::new();
    for plan in &decided {
        before.extend(cancel_live(session, &plan.change).await?);
    }
    let plans: Vec<(&Candidate, Plan)> = candidates.iter().zip(decided).collect();
    let lanes = lanes(shared, session, &plans).await?;
    let mut ids = shared.sequence.draw_each(session, tasks).await?.into_iter();
    let mut schedules = Vec::with_capacity(plans.len());
    for (candidate, plan) in plans {
        let spec = &candidate.definition.spec;
        let lane = lanes.get(&(spec.queue.as_str(), spec.method.as_str())).copied();
        let created = writing.add(spec, &plan.change, now, lane, &mut ids)?;
        schedules.push(plan.report(&spec.name, created));
    }
    let last = writing.commit(shared, session, before, Some(from.next_wake())).await?;
    Ok(SweepReport { schedules, next_due: next_due(&last)? })
}

/// Asks the planner what becomes of each schedule's slots: of the first ones, where they create as many tasks as one sweep
/// may. Slots of schedules whose first look was too short are looked at once more, all in one round trip.
async fn plans(session: &mut Session, candidates: &mut [Candidate], now: Timestamp) -> Done<Vec<Plan>> {
    let looks: Vec<Look<'_>> = candidates.iter().flat_map(Candidate::looks).collect();
    let mut seen = look(session, &looks).await?.into_iter();
    let mut plans = Vec::with_capacity(candidates.len());
    let mut tasks = 0;
    for candidate in candidates.iter() {
        let plan = candidate.decide(&mut seen, now)?;
        tasks += plan.change.grants.len();
        plans.push(plan);
        if tasks >= SWEEP_TASKS_MAX {
            break;
        }
    }
    let mut short: Vec<(&mut Candidate, &mut Plan)> =
        candidates.iter_mut().zip(&mut plans).filter(|(_, plan)| plan.short).collect();
    for (candidate, _) in &mut short {
        candidate.go_on();
    }
    let looks: Vec<Look<'_>> = short.iter().flat_map(|(candidate, _)| candidate.looks()).collect();
    let mut seen = look(session, &looks).await?.into_iter();
    for (candidate, plan) in short {
        *plan = candidate.decide(&mut seen, now)?;
    }
    Ok(plans)
}

fn next_due(rows: &[Row]) -> Done<Option<Timestamp>> {
    let next: Option<i64> = rows.first().map_or(Ok(None), |row| row.try_get(0))?;
    Ok(next.map(Timestamp::from_micros))
}

/// What is to be decided of each schedule. One that cannot be read is put off and reported.
fn candidates(
    shared: &Shared,
    positions: Vec<Position>,
    mut read: Read,
    now: Timestamp,
    window_max: u32,
    writing: &mut Writing,
) -> Done<Vec<Candidate>> {
    let mut candidates = Vec::with_capacity(positions.len());
    for position in positions {
        let version = (position.id, position.version.cast_signed());
        let definition = match read.remove(&version).unwrap_or_else(|| Err(Fault::bug("a definition was not read"))) {
            Ok(definition) => definition,
            Err(fault) if fault.is_unreadable() => {
                writing.put_off(position.id, now.after(UNREADABLE_WAIT));
                let error = fault.named(shared.location());
                tracing::error!(schedule = position.id.0, %error, "a schedule cannot be read; it is tried again in a minute");
                continue;
            }
            Err(fault) => return Err(fault),
        };
        let walks = match definition.rule() {
            Ok(rule) => {
                let snapshot =
                    Snapshot { spec: &definition.spec, rule, position: &position, created: definition.created };
                let backfill = Walk::for_backfill(&snapshot, now, window_max);
                Some((Walk::for_sweep(&snapshot, now, window_max), backfill))
            }
            Err(error) => {
                let schedule = &definition.spec.name;
                tracing::error!(%schedule, %error, "this build cannot use the rule of a schedule; it is left alone");
                None
            }
        };
        candidates.push(Candidate { position, definition, walks });
    }
    Ok(candidates)
}

/// The lanes of what is to be created, written before if they are new.
async fn lanes<'a>(
    shared: &Shared,
    session: &mut Session,
    plans: &[(&'a Candidate, Plan)],
) -> Done<BTreeMap<(&'a str, &'a str), Lane>> {
    let granting = plans.iter().filter(|(_, plan)| !plan.change.grants.is_empty());
    let pairs: BTreeSet<(&str, &str)> =
        granting.map(|(one, _)| (one.definition.spec.queue.as_str(), one.definition.spec.method.as_str())).collect();
    let pairs: Vec<(&str, &str)> = pairs.into_iter().collect();
    let lanes = shared.names.lanes(session, &pairs).await?;
    Ok(pairs.into_iter().zip(lanes).collect())
}

/// Writes one window under compare-and-swap.
pub(crate) async fn apply(shared: &Shared, session: &mut Session, window: &Window) -> Done<Materialised> {
    let Some(locked) = Locked::read(shared, session, window.schedule).await? else {
        return Err(Fault::Store(StoreError::not_found(format!("there is no schedule with id {}", window.schedule.0))));
    };
    let now = session.now()?;
    let rule = locked.definition.rule().as_ref().map_err(|error| StoreError::refused(error.to_string()))?;
    let snapshot = locked.snapshot(rule);
    let walk = Walk::for_window(&snapshot, window, now);
    let enough = enough(snapshot.spec);
    let looks = [Look { position: &locked.position, walk: &walk, enough, backfilled: false }];
    let seen = only(look(session, &looks).await?)?;
    let plan = decide_window(&snapshot, window, &walk, &seen.taken, seen.live)?;
    let created = super::commands::write(shared, session, &locked, &plan.change).await?;
    Ok(plan.report(&locked.definition.spec.name, created))
}
