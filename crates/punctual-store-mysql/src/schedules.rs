//! Schedules: what is read of them for the planner's decisions, and how decisions are written down.
//!
//! The row of `position` is the schedule's lock: whoever decides has it locked, and whoever ends an occurrence waits for it.

pub(crate) mod commands;
pub(crate) mod sweeps;
pub(crate) mod views;

use crate::answers::cell;
use crate::cancels::{cancel_all, lock_waiting};
use crate::connection::Session;
use crate::definitions::{self, Definition};
use crate::ends::Ends;
use crate::errors::{Done, Fault};
use crate::names;
use crate::ready::{Ready, class};
use crate::redrives::ADD_HOLD;
use crate::script::{Script, Value};
use mysql_async::Row;
use punctual_clock::Timestamp;
use punctual_task::planner::{Change, Snapshot, Walk};
use punctual_task::rows::Code;
use punctual_task::schedule::{BadZoneStamp, CompiledRule, Slot, SlotKey};
use punctual_task::{Backfill, Overlap, Position, ScheduleId, ScheduleSpec, ScheduleState, TaskId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) const LOCK_POSITION: &str = "SELECT id, state, note, rev, era, version, cursor_slot, cursor_at, cursor_gap,
    runs, kept_to, known_from, zone, backfill FROM punctual_position FORCE INDEX (PRIMARY) WHERE id = ? FOR UPDATE";
pub(crate) const TAKEN: &str = "SELECT schedule, slot FROM punctual_task FORCE INDEX (punctual_task_slot)
    WHERE pass = 0 AND ";
/// A slot with tasks of several passes comes several times.
pub(crate) const TAKEN_ANY: &str = "SELECT schedule, slot FROM punctual_task FORCE INDEX (punctual_task_slot)
    WHERE ";
/// The same for slots that are named: where they are few, a look at each costs a fraction of what the optimiser takes to plan a
/// range for each schedule.
pub(crate) const TAKEN_OF: &str = "SELECT STRAIGHT_JOIN t.schedule, t.slot FROM JSON_TABLE(?, '$[*]' COLUMNS
    (schedule BIGINT PATH '$[0]', era INT UNSIGNED PATH '$[1]', slot BIGINT PATH '$[2]')) w
    STRAIGHT_JOIN punctual_task t FORCE INDEX (punctual_task_slot)
    ON t.schedule = w.schedule AND t.era = w.era AND t.slot = w.slot AND t.pass = 0";
/// How many slots of a walk are named at most.
const NAMED_MAX: usize = 3;
/// How many slots one statement names at most.
const NAMED_ROWS_MAX: usize = 1_000;
const IN_WALK: &str = "(schedule = ? AND era = ? AND slot BETWEEN ? AND ?)";
/// No more are counted than matter: whether there are so many is asked first.
pub(crate) const LIVE_UP_TO: &str = "SELECT p.id, IF((SELECT 1 FROM punctual_hold FORCE INDEX (PRIMARY)
    WHERE gate = p.id AND pass = 0 ORDER BY task LIMIT 1 OFFSET ?) IS NULL,
    (SELECT COUNT(*) FROM punctual_hold FORCE INDEX (PRIMARY) WHERE gate = p.id AND pass = 0), ?)
    FROM punctual_position p FORCE INDEX (PRIMARY) WHERE p.id IN (?)";
pub(crate) const LIVE_BACKFILLED: &str = "SELECT p.id, IF((SELECT 1 FROM punctual_hold FORCE INDEX (PRIMARY)
    WHERE gate = p.id AND pass > 0 ORDER BY task LIMIT 1 OFFSET ?) IS NULL,
    (SELECT COUNT(*) FROM punctual_hold FORCE INDEX (PRIMARY) WHERE gate = p.id AND pass > 0), ?)
    FROM punctual_position p FORCE INDEX (PRIMARY) WHERE p.id IN (?)";
const LIVE_TASKS: &str = "SELECT task FROM punctual_hold FORCE INDEX (PRIMARY) WHERE gate = ? ORDER BY task";
/// Triggered ones included.
pub(crate) const LIVE: &str = "SELECT COUNT(*) FROM punctual_hold FORCE INDEX (PRIMARY) WHERE gate = ? AND pass = 0";
const ADD_POSITION: &str = "INSERT INTO punctual_position (id, state, note, rev, era, version, cursor_slot, cursor_at,
    cursor_gap, runs, kept_to, wake, known_from, zone, backfill, backfilling) VALUES ";
const REPLACE_POSITION: &str = " ON DUPLICATE KEY UPDATE state = VALUES(state), note = VALUES(note), rev = VALUES(rev),
    era = VALUES(era), version = VALUES(version), cursor_slot = VALUES(cursor_slot), cursor_at = VALUES(cursor_at),
    cursor_gap = VALUES(cursor_gap), runs = VALUES(runs), kept_to = VALUES(kept_to), wake = VALUES(wake),
    known_from = VALUES(known_from), zone = VALUES(zone), backfill = VALUES(backfill), backfilling = VALUES(backfilling)";
const CREATED: &str = "UPDATE punctual_schedule SET created = ? WHERE id = ?";
const WAKE: &str = "UPDATE punctual_position SET wake = ? WHERE id IN (?)";
const ADD_LOSSES: &str = "INSERT INTO punctual_missed (schedule, era, from_at, to_at, reason, slots, is_exact) VALUES ";
const SUM_LOSSES: &str = "INSERT INTO punctual_missed_sum (schedule, reason, slots) VALUES ";
const ADD_TO_SUM: &str = " ON DUPLICATE KEY UPDATE slots = slots + VALUES(slots)";
const ADD_OCCURRENCES: &str = "INSERT INTO punctual_task
    (id, lane, lvl, created, due, schedule, era, slot, pass, at, run, catch_up, version) VALUES ";
const FIND: &str = "SELECT id FROM punctual_schedule WHERE name = ?";

/// One schedule as it was read under the lock.
#[derive(Debug)]
pub(crate) struct Locked {
    pub(crate) position: Position,
    pub(crate) definition: Arc<Definition>,
}

impl Locked {
    /// What a decision sees. `rule` is the definition's, or what stands for one that does not compile.
    pub(crate) fn snapshot<'a>(&'a self, rule: &'a CompiledRule) -> Snapshot<'a> {
        Snapshot { spec: &self.definition.spec, rule, position: &self.position, created: self.definition.created }
    }
}

/// Locks one schedule and reads where it stands and how it is defined.
pub(crate) async fn lock(session: &mut Session, id: ScheduleId) -> Done<Option<Locked>> {
    let rows = session.run(&Script::of(LOCK_POSITION, &[id.0.into()])).await?.rows()?;
    let Some(row) = rows.first() else { return Ok(None) };
    let position = position_from(row)?;
    let definition = definitions::get(session, (id, position.version)).await?;
    Ok(Some(Locked { position, definition }))
}

/// The columns of [`LOCK_POSITION`], in its order.
pub(crate) fn position_from(row: &Row) -> Done<Position> {
    let key: Option<i64> = cell(row, 6)?;
    let cursor = match key {
        None => None,
        Some(key) => {
            Some(Slot { key: SlotKey::from_raw(key), at: Timestamp::from_micros(cell(row, 7)?), gap: cell(row, 8)? })
        }
    };
    let kept_to: Option<i64> = cell(row, 10)?;
    let known_from: Option<i64> = cell(row, 11)?;
    let zone = cell::<Option<String>>(row, 12)?.map(|text| text.parse()).transpose();
    let backfill = cell::<Option<String>>(row, 13)?.map(|text| Backfill::from_row(&text)).transpose()?;
    Ok(Position {
        id: ScheduleId(cell(row, 0)?),
        state: ScheduleState::of(cell(row, 1)?)?,
        note: cell(row, 2)?,
        rev: cell::<i64>(row, 3)?.cast_unsigned(),
        era: cell(row, 4)?,
        version: cell(row, 5)?,
        cursor,
        runs: cell::<i64>(row, 9)?.cast_unsigned(),
        kept_to: kept_to.map(Timestamp::from_micros),
        known_from: known_from.map(Timestamp::from_micros),
        zone: zone.map_err(|error: BadZoneStamp| Fault::corrupt(error.to_string()))?,
        backfill,
    })
}

/// What decisions need beside positions, of many schedules in one round trip.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    taken: BTreeMap<i64, Vec<SlotKey>>,
    live: BTreeMap<i64, u32>,
}

impl Surroundings {
    /// Reads them. How many occurrences have not ended counts as far as it matters to the capacity of the definition: at
    /// most `max_pending`, and not at all where anything may overlap.
    pub(crate) async fn read(session: &mut Session, wanted: &[(&Position, &Walk, &ScheduleSpec)]) -> Done<Self> {
        let mut script = Script::new();
        let taken = taken(&mut script, wanted.iter().map(|(position, walk, _)| (*position, *walk)));
        let counted = wanted.iter().filter(|(.., spec)| spec.overlap != Overlap::Allow);
        let live = live(&mut script, LIVE_UP_TO, counted.map(|(position, _, spec)| (position.id, spec.max_pending)));
        Self::answer(session, script, taken, live).await
    }

    /// The same for what backfills need: the live ones are those of their passes.
    pub(crate) async fn read_for_backfills(session: &mut Session, wanted: &[(&Position, &Walk)]) -> Done<Self> {
        let mut script = Script::new();
        let taken = taken(&mut script, wanted.iter().copied());
        let enough = ScheduleSpec::MAX_PENDING_MAX;
        let live = live(&mut script, LIVE_BACKFILLED, wanted.iter().map(|(position, _)| (position.id, enough)));
        Self::answer(session, script, taken, live).await
    }

    async fn answer(session: &mut Session, script: Script, taken: usize, live: usize) -> Done<Self> {
        if script.statements() == 0 {
            return Ok(Surroundings::default());
        }
        let mut answers = session.run(&script).await?;
        let mut read = Surroundings::default();
        for row in answers.rows_of(taken)? {
            read.taken.entry(cell(&row, 0)?).or_default().push(SlotKey::from_raw(cell(&row, 1)?));
        }
        read.taken.values_mut().for_each(|keys| keys.sort_unstable());
        for row in answers.rows_of(live)? {
            read.live.insert(cell(&row, 0)?, cell(&row, 1)?);
        }
        Ok(read)
    }

    /// Which slots of the walk have tasks, in key order.
    pub(crate) fn taken(&self, schedule: ScheduleId) -> &[SlotKey] {
        self.taken.get(&schedule.0).map_or(&[], Vec::as_slice)
    }

    /// How many occurrences have not ended, up to what matters.
    pub(crate) fn live(&self, schedule: ScheduleId) -> u32 {
        self.live.get(&schedule.0).copied().unwrap_or(0)
    }
}

/// Adds what reads which slots of the walks have tasks. Gives how many statements that takes.
fn taken<'a>(script: &mut Script, wanted: impl Iterator<Item = (&'a Position, &'a Walk)> + Clone) -> usize {
    let is_named = |walk: &Walk| !walk.any_pass() && walk.slots().len() <= NAMED_MAX;
    let named: Vec<[i64; 3]> = wanted
        .clone()
        .filter(|(_, walk)| is_named(walk))
        .flat_map(|(position, walk)| {
            walk.slots().iter().map(|slot| [position.id.0, position.era.into(), slot.key.as_raw()])
        })
        .collect();
    for rows in named.chunks(NAMED_ROWS_MAX) {
        script.add(TAKEN_OF, &[Value::Rows(rows)]);
    }
    let keys = |any: bool| {
        wanted.clone().filter(move |(_, walk)| walk.any_pass() == any && !is_named(walk)).filter_map(
            |(position, walk)| {
                let (first, last) = walk.keys()?;
                Some([position.id.0.into(), position.era.into(), first.as_raw().into(), last.as_raw().into()])
            },
        )
    };
    named.len().div_ceil(NAMED_ROWS_MAX)
        + script.either(TAKEN, IN_WALK, keys(false))
        + script.either(TAKEN_ANY, IN_WALK, keys(true))
}

/// Adds what counts live occurrences, up to so many of each schedule: one statement for those that want the same number.
fn live(script: &mut Script, text: &'static str, wanted: impl Iterator<Item = (ScheduleId, u32)>) -> usize {
    let mut by_number: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
    for (id, enough) in wanted {
        by_number.entry(enough).or_default().push(id.0);
    }
    let before = script.statements();
    for (enough, ids) in &by_number {
        for ids in ids.chunks(Script::LIST_MAX) {
            script.add(text, &[enough.saturating_sub(1).into(), (*enough).into(), ids.into()]);
        }
    }
    script.statements() - before
}

/// Decisions on their way into the tables: those of many schedules are a few multi-row statements.
#[derive(Debug)]
pub(crate) struct Writing {
    now: Timestamp,
    /// What has to come before the rest: cancels.
    before: Script,
    definitions: Script,
    positions: Vec<(Position, Option<Timestamp>)>,
    wakes: BTreeMap<Option<i64>, Vec<i64>>,
    losses: Vec<[i64; 7]>,
    occurrences: Vec<Occurrence>,
    ready: Vec<Ready>,
    ends: Ends,
}

/// A row of `task` for an occurrence.
#[derive(Debug)]
struct Occurrence {
    id: i64,
    lane: u32,
    level: u8,
    due: i64,
    schedule: i64,
    era: u32,
    slot: Option<i64>,
    pass: u32,
    at: i64,
    run: i64,
    catch_up: bool,
    version: u32,
}

impl Writing {
    pub(crate) fn new(now: Timestamp) -> Self {
        Writing {
            now,
            before: Script::new(),
            definitions: Script::new(),
            positions: Vec::new(),
            wakes: BTreeMap::new(),
            losses: Vec::new(),
            occurrences: Vec::new(),
            ready: Vec::new(),
            ends: Ends::new(now),
        }
    }

    /// Takes up what was decided of one schedule. `ids` are for the grants that bring none of their own; gives those of all
    /// grants, in order.
    pub(crate) async fn add(
        &mut self,
        session: &mut Session,
        spec: &ScheduleSpec,
        change: &Change,
        ids: &mut impl Iterator<Item = TaskId>,
    ) -> Done<Vec<TaskId>> {
        let id = change.position.id;
        if let Some(created) = change.created {
            self.definitions.add(CREATED, &[created.as_micros().into(), id.0.into()]);
        }
        if let Some(spec) = &change.spec {
            definitions::add(&mut self.definitions, id, change.position.version, spec)?;
        }
        let mut wake = change.wake;
        if change.cancel_live || change.drop_waiting {
            let ended = self.cancel_live(session, id, change.cancel_live).await?;
            let (active, now) = (change.position.state == ScheduleState::Active, self.now);
            let sleeps = active && wake.is_none();
            let is_later = change.position.is_backfilling() && wake.is_none_or(|wake| wake > now);
            if ended && (sleeps || is_later) {
                wake = Some(now);
            }
        }
        if change.moved {
            self.positions.push((change.position.clone(), wake));
        } else {
            self.wakes.entry(wake.map(Timestamp::as_micros)).or_default().push(id.0);
        }
        for loss in &change.losses {
            let slots = i64::try_from(loss.count).unwrap_or(i64::MAX);
            let (from, to) = (loss.from.as_micros(), loss.to.as_micros());
            let era = i64::from(change.position.era);
            self.losses.push([id.0, era, from, to, loss.reason.code().into(), slots, i64::from(loss.exact)]);
        }
        self.create(session, &change.position, change.spec.as_deref().unwrap_or(spec), change, ids).await
    }

    /// Cancels every occurrence that has not ended, or those that have not begun; gives whether one ended at once.
    async fn cancel_live(&mut self, session: &mut Session, schedule: ScheduleId, running: bool) -> Done<bool> {
        let rows = session.run(&Script::of(LIVE_TASKS, &[schedule.0.into()])).await?.rows()?;
        let mut live: Vec<i64> = rows.iter().map(|row| cell(row, 0)).collect::<Done<_>>()?;
        if !running {
            let all: BTreeSet<i64> = live.iter().copied().collect();
            live = lock_waiting(session, &all).await?.iter().map(|row| row.id).collect();
        }
        let given = cancel_all(session, &mut self.ends, &mut self.before, &live).await?;
        Ok(given.values().any(|outcome| *outcome == punctual_task::CancelOutcome::Cancelled))
    }

    /// Creates occurrences. Their arguments are the definition's: a row says which version.
    async fn create(
        &mut self,
        session: &mut Session,
        position: &Position,
        spec: &ScheduleSpec,
        change: &Change,
        ids: &mut impl Iterator<Item = TaskId>,
    ) -> Done<Vec<TaskId>> {
        if change.grants.is_empty() {
            return Ok(Vec::new());
        }
        let lane = names::lane(session, &spec.queue, &spec.method).await?;
        let mut created = Vec::with_capacity(change.grants.len());
        for grant in &change.grants {
            let id = grant.id.or_else(|| ids.next()).ok_or_else(|| Fault::bug("a grant without an id"))?;
            let due = grant.due.max(self.now).as_micros();
            self.occurrences.push(Occurrence {
                id: id.0,
                lane,
                level: spec.level,
                due,
                schedule: position.id.0,
                era: position.era,
                slot: grant.slot.map(SlotKey::as_raw),
                pass: grant.pass,
                at: grant.at.as_micros(),
                run: grant.run.cast_signed(),
                catch_up: grant.catch_up,
                version: position.version,
            });
            self.ready.push(Ready {
                lane,
                class: class(spec.level, 0),
                due,
                id: id.0,
                n: 0,
                spent: 0,
                losses: 0,
                gate: position.id.0,
                flags: 0,
            });
            created.push(id);
        }
        Ok(created)
    }

    /// What writes all of it.
    pub(crate) fn script(self) -> Script {
        let mut script = self.before;
        self.ends.write(&mut script);
        script.append(&self.definitions);
        let text = |(position, _): &(Position, _)| {
            let zone = position.zone.as_ref().map(ToString::to_string);
            (zone, position.backfill.map(|backfill| backfill.to_row()))
        };
        let texts: Vec<(Option<String>, Option<String>)> = self.positions.iter().map(text).collect();
        let rows = self.positions.iter().zip(&texts).map(|((position, wake), (zone, backfill))| {
            let cursor = position.cursor;
            [
                position.id.0.into(),
                position.state.code().into(),
                position.note.as_str().into(),
                position.rev.cast_signed().into(),
                position.era.into(),
                position.version.into(),
                cursor.map(|slot| slot.key.as_raw()).into(),
                cursor.map(|slot| slot.at.as_micros()).into(),
                cursor.map(|slot| slot.gap).into(),
                position.runs.cast_signed().into(),
                position.kept_to.map(Timestamp::as_micros).into(),
                wake.map(Timestamp::as_micros).into(),
                position.known_from.map(Timestamp::as_micros).into(),
                zone.as_deref().into(),
                backfill.as_deref().into(),
                position.is_backfilling().into(),
            ]
        });
        script.insert(ADD_POSITION, rows, REPLACE_POSITION);
        for (wake, ids) in &self.wakes {
            for ids in ids.chunks(Script::LIST_MAX) {
                script.add(WAKE, &[(*wake).into(), ids.into()]);
            }
        }
        script.insert(ADD_LOSSES, self.losses.iter().map(|row| row.map(Value::Int)), "");
        let mut sums: BTreeMap<(i64, i64), i64> = BTreeMap::new();
        for [schedule, _, _, _, reason, slots, _] in &self.losses {
            let sum = sums.entry((*schedule, *reason)).or_default();
            *sum = sum.saturating_add(*slots);
        }
        let rows = sums.iter().map(|((schedule, reason), slots)| [*schedule, *reason, *slots].map(Value::Int));
        script.insert(SUM_LOSSES, rows, ADD_TO_SUM);
        let rows = self.occurrences.iter().map(|row| {
            [
                Value::from(row.id),
                row.lane.into(),
                row.level.into(),
                self.now.as_micros().into(),
                row.due.into(),
                row.schedule.into(),
                row.era.into(),
                row.slot.into(),
                row.pass.into(),
                row.at.into(),
                row.run.into(),
                row.catch_up.into(),
                row.version.into(),
            ]
        });
        script.insert(ADD_OCCURRENCES, rows, "");
        Ready::write(&mut script, &self.ready);
        let holds = self.occurrences.iter().map(|row| [Value::from(row.schedule), row.id.into(), row.pass.into()]);
        script.insert(ADD_HOLD, holds, "");
        script
    }

    /// How many tasks it creates so far.
    pub(crate) fn tasks(&self) -> usize {
        self.occurrences.len()
    }
}

/// A schedule's number by its name.
pub(crate) async fn find(session: &mut Session, name: &str) -> Done<Option<ScheduleId>> {
    let rows = session.run(&Script::of(FIND, &[name.into()])).await?.rows()?;
    rows.first().map(|row| cell(row, 0).map(ScheduleId)).transpose()
}

/// How many of the changes' grants bring no id.
pub(crate) fn ids_wanted<'a>(changes: impl Iterator<Item = &'a Change>) -> usize {
    changes.flat_map(|change| &change.grants).filter(|grant| grant.id.is_none()).count()
}

/// Schedules by their ids, locked ones' definitions read at once.
pub(crate) fn versions(positions: &[Position]) -> BTreeSet<(ScheduleId, u32)> {
    positions.iter().map(|position| (position.id, position.version)).collect()
}
