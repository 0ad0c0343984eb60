//! Schedules: what is read of them for the planner's decision, and how the decision is written down.
//!
//! The row of `position` is the schedule's lock: whoever decides holds it, and has read everything else in later statements
//! of the same transaction, which see all that was committed before the lock was had.

pub(crate) mod commands;
pub(crate) mod sweeps;
pub(crate) mod views;

use crate::cancels::cancel_all;
use crate::definitions::{self, Definition};
use crate::errors::{Done, Fault};
use crate::names::{Lane, may_exist};
use crate::session::{Session, Step, step};
use crate::store::Shared;
use punctual_clock::Timestamp;
use punctual_task::planner::{Change, Snapshot, Walk};
use punctual_task::rows::Code;
use punctual_task::schedule::{BadZoneStamp, CompiledRule, Slot, SlotKey};
use punctual_task::{Backfill, Overlap, Position, ScheduleId, ScheduleSpec, ScheduleState, TaskId};
use std::sync::Arc;
use tokio_postgres::Row;

/// How many occurrences go into one statement.
const OCCURRENCES_MAX: usize = 5_000;

pub(crate) const LOCK: &str =
    "SELECT id, state, note, rev, era, version, cursor_slot, cursor_at, cursor_gap, runs, kept_to,
    known_from, zone, backfill FROM position WHERE id = $1 FOR UPDATE";
/// What was woken is looked at now: it is counted in the statements that follow.
const LOOKED_AT: &str = "DELETE FROM woken WHERE gate = ANY($1)";
/// A slot with tasks of several passes comes several times where any is asked for.
pub(crate) const TAKEN: &str = "SELECT u.place, t.slot
    FROM unnest($1::int[], $2::bigint[], $3::int[], $4::bigint[], $5::bigint[], $6::bool[])
        u (place, id, era, first, last, any_pass)
    CROSS JOIN LATERAL (SELECT t.slot FROM task t WHERE t.schedule = u.id AND t.era = u.era
        AND t.slot BETWEEN u.first AND u.last AND (u.any_pass OR t.pass = 0)) t ORDER BY u.place, t.slot";
pub(crate) const LIVE_UP_TO: &str = "SELECT (SELECT count(*) FROM (SELECT 1 FROM hold h
        WHERE h.gate = u.id AND (h.pass > 0) = u.backfilled ORDER BY h.task LIMIT u.enough) h)
    FROM unnest($1::bigint[], $2::bigint[], $3::bool[]) WITH ORDINALITY u (id, enough, backfilled, place)
    ORDER BY u.place";
const CREATED: &str = "UPDATE schedule SET created = $2 WHERE id = $1";
const LIVE_TASKS: &str = "SELECT task FROM hold WHERE gate = $1 ORDER BY task";
const ADD_POSITION: &str =
    "INSERT INTO position (id, state, note, rev, era, version, cursor_slot, cursor_at, cursor_gap,
    runs, kept_to, wake, known_from, zone, backfill, backfilling)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
const MOVE: &str = "UPDATE position p SET state = u.state, note = u.note, rev = u.rev, era = u.era, version = u.version,
    cursor_slot = u.cursor_slot, cursor_at = u.cursor_at, cursor_gap = u.cursor_gap, runs = u.runs, kept_to = u.kept_to,
    wake = u.wake, known_from = u.known_from, zone = u.zone, backfill = u.backfill, backfilling = u.backfilling
    FROM unnest($1::bigint[], $2::smallint[], $3::text[], $4::bigint[], $5::int[], $6::int[], $7::bigint[], $8::bigint[],
        $9::bool[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::text[], $15::text[], $16::bool[])
        u (id, state, note, rev, era, version, cursor_slot, cursor_at, cursor_gap, runs, kept_to, wake, known_from, zone,
            backfill, backfilling)
    WHERE p.id = u.id";
const WAKE: &str = "UPDATE position p SET wake = u.wake FROM unnest($1::bigint[], $2::bigint[]) u (id, wake)
    WHERE p.id = u.id AND p.wake IS DISTINCT FROM u.wake";
/// The sums grow in the order of their keys, so that sweeps that meet on none of them never wait for each other.
const ADD_LOSSES: &str =
    "WITH u AS MATERIALIZED (SELECT * FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::bigint[],
        $5::smallint[], $6::bigint[], $7::bool[]) u (schedule, era, from_at, to_at, reason, count, exact)),
    m AS (INSERT INTO missed (schedule, era, from_at, to_at, reason, count, exact) SELECT * FROM u)
    INSERT INTO missed_sum (schedule, reason, count) SELECT schedule, reason, sum(count)::bigint FROM u
    GROUP BY schedule, reason ORDER BY schedule, reason
    ON CONFLICT (schedule, reason) DO UPDATE SET count = missed_sum.count + excluded.count";
const ADD_OCCURRENCES: &str = "WITH u AS MATERIALIZED (SELECT * FROM unnest($1::bigint[], $2::int[], $3::smallint[],
        $4::bigint[], $5::bigint[], $6::int[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bool[], $11::int[],
        $12::int[]) u (id, lane, lvl, due, schedule, era, slot, at, run, catch_up, version, pass)),
    t AS (INSERT INTO task (id, lane, lvl, created, due, schedule, era, slot, pass, at, run, catch_up, version)
        SELECT id, lane, lvl, current_setting('punctual.now')::bigint, due, schedule, era, slot, pass, at, run, catch_up,
            version FROM u),
    h AS (INSERT INTO hold (gate, task, pass) SELECT schedule, id, pass FROM u)
    INSERT INTO ready (id, due, lane, n, spent, losses, class) SELECT id, due, lane, 0, 0, 0, lvl FROM u";
const FIND: &str = "SELECT id FROM schedule WHERE name = $1";

/// One schedule as it was read under the lock.
#[derive(Debug)]
pub(crate) struct Locked {
    pub(crate) position: Position,
    pub(crate) definition: Arc<Definition>,
}

impl Locked {
    /// Locks a schedule and reads where it stands and how it is defined.
    pub(crate) async fn read(shared: &Shared, session: &mut Session, id: ScheduleId) -> Done<Option<Self>> {
        let answers = session.ask(vec![step!(LOCK, id.0), step!(LOOKED_AT, vec![id.0])]).await?;
        let Some(row) = answers.first().and_then(|rows| rows.first()) else { return Ok(None) };
        let position = position_from(row)?;
        let version = (id, position.version.cast_signed());
        let definition = shared.definitions.get(session, version).await?;
        Ok(Some(Locked { position, definition }))
    }

    /// What a decision sees. `rule` is the definition's, or what stands for one that does not compile.
    pub(crate) fn snapshot<'a>(&'a self, rule: &'a CompiledRule) -> Snapshot<'a> {
        Snapshot { spec: &self.definition.spec, rule, position: &self.position, created: self.definition.created }
    }
}

/// The columns of [`LOCK`], in its order.
pub(crate) fn position_from(row: &Row) -> Done<Position> {
    let key: Option<i64> = row.try_get(6)?;
    let cursor = match key {
        None => None,
        Some(key) => {
            let (at, gap): (i64, bool) = (row.try_get(7)?, row.try_get(8)?);
            Some(Slot { key: SlotKey::from_raw(key), at: Timestamp::from_micros(at), gap })
        }
    };
    let (kept_to, known_from): (Option<i64>, Option<i64>) = (row.try_get(10)?, row.try_get(11)?);
    let zone = row.try_get::<_, Option<&str>>(12)?.map(str::parse).transpose();
    let backfill = row.try_get::<_, Option<&str>>(13)?.map(Backfill::from_row).transpose()?;
    Ok(Position {
        id: ScheduleId(row.try_get(0)?),
        state: ScheduleState::of(row.try_get::<_, i16>(1)?.into())?,
        note: row.try_get(2)?,
        rev: row.try_get::<_, i64>(3)?.cast_unsigned(),
        era: row.try_get::<_, i32>(4)?.cast_unsigned(),
        version: row.try_get::<_, i32>(5)?.cast_unsigned(),
        cursor,
        runs: row.try_get::<_, i64>(9)?.cast_unsigned(),
        kept_to: kept_to.map(Timestamp::from_micros),
        known_from: known_from.map(Timestamp::from_micros),
        zone: zone.map_err(|error: BadZoneStamp| Fault::corrupt(error.to_string()))?,
        backfill,
    })
}

/// What is to be read of a schedule for one walk.
pub(crate) struct Look<'a> {
    pub(crate) position: &'a Position,
    pub(crate) walk: &'a Walk,
    /// How many live occurrences are counted at most.
    pub(crate) enough: u32,
    /// Whether the live ones are those of backfills instead of the series'.
    pub(crate) backfilled: bool,
}

/// What one look saw: which slots have tasks, in key order, and how many occurrences are live.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) taken: Vec<SlotKey>,
    pub(crate) live: u32,
}

/// Looks at the slots of some walks, in one round trip.
pub(crate) async fn look(session: &mut Session, looks: &[Look<'_>]) -> Done<Vec<Seen>> {
    if looks.is_empty() {
        return Ok(Vec::new());
    }
    let (mut places, mut ids, mut eras) = (Vec::new(), Vec::new(), Vec::new());
    let (mut firsts, mut lasts, mut any) = (Vec::new(), Vec::new(), Vec::new());
    let (mut gates, mut enough, mut backfilled) = (Vec::new(), Vec::new(), Vec::new());
    for (place, look) in looks.iter().enumerate() {
        if let Some((first, last)) = look.walk.keys() {
            places.push(i32::try_from(place).map_err(|_| Fault::bug("too many looks"))?);
            ids.push(look.position.id.0);
            eras.push(look.position.era.cast_signed());
            firsts.push(first.as_raw());
            lasts.push(last.as_raw());
            any.push(look.walk.any_pass());
        }
        gates.push(look.position.id.0);
        enough.push(i64::from(look.enough));
        backfilled.push(look.backfilled);
    }
    let steps = vec![step!(TAKEN, places, ids, eras, firsts, lasts, any), step!(LIVE_UP_TO, gates, enough, backfilled)];
    let answers = session.ask(steps).await?;
    let [taken, live] = answers.as_slice() else { return Err(Fault::bug("a look at slots got no answer")) };
    let mut seen = Vec::with_capacity(looks.len());
    for row in live {
        let count: i64 = row.try_get(0)?;
        seen.push(Seen { taken: Vec::new(), live: u32::try_from(count).unwrap_or(u32::MAX) });
    }
    for row in taken {
        let place = usize::try_from(row.try_get::<_, i32>(0)?).unwrap_or(usize::MAX);
        let one = seen.get_mut(place).ok_or_else(|| Fault::bug("a look at slots saw another schedule"))?;
        one.taken.push(SlotKey::from_raw(row.try_get(1)?));
    }
    Ok(seen)
}

/// The one that was looked at.
pub(crate) fn only(mut seen: Vec<Seen>) -> Done<Seen> {
    seen.pop().ok_or_else(|| Fault::bug("a look at slots saw nothing"))
}

/// How many live occurrences matter to the capacity of this definition: at most `max_pending`, and none where anything may
/// overlap. A backlog of a million is not counted with every sweep.
pub(crate) fn enough(spec: &ScheduleSpec) -> u32 {
    match spec.overlap {
        Overlap::Allow => 0,
        Overlap::Wait | Overlap::Skip | Overlap::Cancel => spec.max_pending,
    }
}

/// What decisions wrote down, gathered over many schedules.
#[derive(Default)]
pub(crate) struct Writing {
    moves: Moves,
    wakes: (Vec<i64>, Vec<Option<i64>>),
    losses: Losses,
    occurrences: Occurrences,
    /// Statements of single schedules.
    others: Vec<Step>,
    /// Lanes of new tasks, to be listed with the commit.
    lanes: Vec<Lane>,
}

#[derive(Default)]
struct Moves {
    ids: Vec<i64>,
    states: Vec<i16>,
    notes: Vec<String>,
    revs: Vec<i64>,
    eras: Vec<i32>,
    versions: Vec<i32>,
    slots: Vec<Option<i64>>,
    ats: Vec<Option<i64>>,
    gaps: Vec<Option<bool>>,
    runs: Vec<i64>,
    kept: Vec<Option<i64>>,
    wakes: Vec<Option<i64>>,
    known: Vec<Option<i64>>,
    zones: Vec<Option<String>>,
    backfills: Vec<Option<String>>,
    backfilling: Vec<bool>,
}

#[derive(Default)]
struct Losses {
    schedules: Vec<i64>,
    eras: Vec<i32>,
    from: Vec<i64>,
    to: Vec<i64>,
    reasons: Vec<i16>,
    counts: Vec<i64>,
    exact: Vec<bool>,
}

#[derive(Default)]
struct Occurrences {
    ids: Vec<i64>,
    lanes: Vec<i32>,
    levels: Vec<i16>,
    dues: Vec<i64>,
    schedules: Vec<i64>,
    eras: Vec<i32>,
    slots: Vec<Option<i64>>,
    ats: Vec<i64>,
    runs: Vec<i64>,
    catch_ups: Vec<bool>,
    versions: Vec<i32>,
    passes: Vec<i32>,
}

impl Writing {
    /// Takes up one decision. `ids` gives the ids of new tasks, and `lane` is theirs. Gives the created tasks, in the order
    /// of the grants.
    pub(crate) fn add(
        &mut self,
        spec: &ScheduleSpec,
        change: &Change,
        now: Timestamp,
        lane: Option<Lane>,
        ids: &mut impl Iterator<Item = i64>,
    ) -> Done<Vec<TaskId>> {
        let position = &change.position;
        if let Some(created) = change.created {
            self.others.push(step!(CREATED, position.id.0, created.as_micros()));
        }
        if let Some(spec) = &change.spec {
            self.others.push(definitions::add(position.id, position.version, spec)?);
        }
        if change.moved {
            self.moves.add(change);
        } else {
            self.wakes.0.push(position.id.0);
            self.wakes.1.push(change.wake.map(Timestamp::as_micros));
        }
        self.losses.add(change);
        let spec = change.spec.as_deref().unwrap_or(spec);
        let mut created = Vec::with_capacity(change.grants.len());
        for grant in &change.grants {
            let lane = lane.ok_or_else(|| Fault::bug("an occurrence without a lane"))?;
            let drawn = || ids.next().map(TaskId).ok_or_else(|| Fault::bug("too few ids were drawn"));
            let id = grant.id.map_or_else(drawn, Ok)?;
            let all = &mut self.occurrences;
            all.ids.push(id.0);
            all.lanes.push(lane.id);
            all.levels.push(i16::from(spec.level));
            all.dues.push(grant.due.max(now).as_micros());
            all.schedules.push(position.id.0);
            all.eras.push(position.era.cast_signed());
            all.slots.push(grant.slot.map(SlotKey::as_raw));
            all.ats.push(grant.at.as_micros());
            all.runs.push(grant.run.cast_signed());
            all.catch_ups.push(grant.catch_up);
            all.versions.push(position.version.cast_signed());
            all.passes.push(grant.pass.cast_signed());
            created.push(id);
        }
        if let Some(lane) = lane.filter(|_| !created.is_empty()) {
            self.lanes.push(lane);
        }
        Ok(created)
    }

    /// Sets when a sweep looks at a schedule next, and nothing else.
    pub(crate) fn put_off(&mut self, id: ScheduleId, wake: Timestamp) {
        self.wakes.0.push(id.0);
        self.wakes.1.push(Some(wake.as_micros()));
    }

    /// Writes all of it, behind what is given, and commits. Gives the rows of `last`, which sees all the others.
    pub(crate) async fn commit(
        self,
        shared: &Shared,
        session: &mut Session,
        mut steps: Vec<Step>,
        last: Option<Step>,
    ) -> Done<Vec<Row>> {
        let lanes = self.lanes.clone();
        steps.extend(shared.names.list(&lanes));
        self.flush(&mut steps);
        let wants = last.is_some();
        steps.extend(last);
        let mut answers = session.commit(steps).await.map_err(|fault| {
            if fault.is_duplicate() {
                // The plan is exact under the lock: a slot that is there already is a bug, not a race.
                Fault::bug(format!("a slot or an id was decided twice ({fault:?})"))
            } else {
                fault
            }
        })?;
        shared.names.listed(&lanes);
        Ok(if wants { answers.pop().unwrap_or_default() } else { Vec::new() })
    }

    /// What writes all of it.
    pub(crate) fn flush(self, steps: &mut Vec<Step>) {
        steps.extend(self.others);
        if !self.moves.ids.is_empty() {
            steps.push(self.moves.flush());
        }
        if !self.wakes.0.is_empty() {
            steps.push(step!(WAKE, self.wakes.0, self.wakes.1));
        }
        if !self.losses.schedules.is_empty() {
            steps.push(self.losses.flush());
        }
        self.occurrences.flush(steps);
    }
}

impl Moves {
    fn add(&mut self, change: &Change) {
        let position = &change.position;
        let Position { id, state, note, rev, era, version, cursor, runs, kept_to, known_from, zone, backfill } =
            position;
        self.ids.push(id.0);
        self.states.push(state.code());
        self.notes.push(note.clone());
        self.revs.push(rev.cast_signed());
        self.eras.push(era.cast_signed());
        self.versions.push(version.cast_signed());
        self.slots.push(cursor.map(|slot| slot.key.as_raw()));
        self.ats.push(cursor.map(|slot| slot.at.as_micros()));
        self.gaps.push(cursor.map(|slot| slot.gap));
        self.runs.push(runs.cast_signed());
        self.kept.push(kept_to.map(Timestamp::as_micros));
        self.wakes.push(change.wake.map(Timestamp::as_micros));
        self.known.push(known_from.map(Timestamp::as_micros));
        self.zones.push(zone.as_ref().map(ToString::to_string));
        self.backfills.push(backfill.map(|backfill| backfill.to_row()));
        self.backfilling.push(position.is_backfilling());
    }

    fn flush(self) -> Step {
        let Moves { ids, states, notes, revs, eras, versions, slots, ats, gaps, runs, kept, wakes, .. } = self;
        let Moves { known, zones, backfills, backfilling, .. } = self;
        step!(
            MOVE,
            ids,
            states,
            notes,
            revs,
            eras,
            versions,
            slots,
            ats,
            gaps,
            runs,
            kept,
            wakes,
            known,
            zones,
            backfills,
            backfilling
        )
    }
}

impl Losses {
    fn add(&mut self, change: &Change) {
        for loss in &change.losses {
            self.schedules.push(change.position.id.0);
            self.eras.push(change.position.era.cast_signed());
            self.from.push(loss.from.as_micros());
            self.to.push(loss.to.as_micros());
            self.reasons.push(loss.reason.code());
            self.counts.push(i64::try_from(loss.count).unwrap_or(i64::MAX));
            self.exact.push(loss.exact);
        }
    }

    fn flush(self) -> Step {
        let Losses { schedules, eras, from, to, reasons, counts, exact } = self;
        step!(ADD_LOSSES, schedules, eras, from, to, reasons, counts, exact)
    }
}

impl Occurrences {
    fn flush(mut self, steps: &mut Vec<Step>) {
        while !self.ids.is_empty() {
            let at = self.ids.len().saturating_sub(OCCURRENCES_MAX);
            steps.push(step!(
                ADD_OCCURRENCES,
                self.ids.split_off(at),
                self.lanes.split_off(at),
                self.levels.split_off(at),
                self.dues.split_off(at),
                self.schedules.split_off(at),
                self.eras.split_off(at),
                self.slots.split_off(at),
                self.ats.split_off(at),
                self.runs.split_off(at),
                self.catch_ups.split_off(at),
                self.versions.split_off(at),
                self.passes.split_off(at),
            ));
        }
    }
}

/// Writes the position of a schedule that is new.
pub(crate) fn add_position(change: &Change) -> Step {
    let position = &change.position;
    let Position { id, state, note, rev, era, version, cursor, runs, kept_to, known_from, zone, backfill } = position;
    step!(
        ADD_POSITION,
        id.0,
        state.code(),
        note.clone(),
        rev.cast_signed(),
        era.cast_signed(),
        version.cast_signed(),
        cursor.map(|slot| slot.key.as_raw()),
        cursor.map(|slot| slot.at.as_micros()),
        cursor.map(|slot| slot.gap),
        runs.cast_signed(),
        kept_to.map(Timestamp::as_micros),
        change.wake.map(Timestamp::as_micros),
        known_from.map(Timestamp::as_micros),
        zone.as_ref().map(ToString::to_string),
        backfill.map(|backfill| backfill.to_row()),
        position.is_backfilling(),
    )
}

/// Cancels the occurrences that a change says: waiting ones at once, running ones by request. Gives what is left to write.
pub(crate) async fn cancel_live(session: &mut Session, change: &Change) -> Done<Vec<Step>> {
    if !change.cancel_live && !change.drop_waiting {
        return Ok(Vec::new());
    }
    let schedule = change.position.id;
    let rows = session.rows(step!(LIVE_TASKS, schedule.0)).await?;
    let live: Vec<i64> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    Ok(cancel_all(session, &live, change.cancel_live).await?.1)
}

/// A schedule's number by its name.
pub(crate) async fn find(session: &mut Session, name: &str) -> Done<Option<ScheduleId>> {
    if !may_exist(name) {
        return Ok(None);
    }
    let rows = session.rows(step!(FIND, name.to_owned())).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?.map(ScheduleId))
}
