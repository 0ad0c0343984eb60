//! Schedules: what is read of one for the planner's decision, and how the decision is written down.
//!
//! The write lock is the schedule's lock: whoever decides has read everything in the same transaction.

pub(crate) mod commands;
pub(crate) mod sweeps;
pub(crate) mod views;

use crate::cancels::{ADD_HOLD, cancel_one, is_waiting};
use crate::connection::Db;
use crate::definitions::{self, Definition, Definitions};
use crate::ends::Ends;
use crate::errors::{Done, Fault};
use crate::session::Session;
use crate::tasks::ADD_READY;
use punctual_clock::Timestamp;
use punctual_task::planner::{Change, Grant, Snapshot, Walk};
use punctual_task::rows::Code;
use punctual_task::schedule::{BadZoneStamp, CompiledRule, Slot, SlotKey};
use punctual_task::{Backfill, Loss, Overlap, Position, ScheduleId, ScheduleSpec, ScheduleState, TaskId};
use rusqlite::{OptionalExtension, Row, params};
use std::sync::Arc;

pub(crate) const POSITION: &str = "SELECT id, state, note, rev, era, version, cursor_slot, cursor_at, cursor_gap,
    runs, kept_to, known_from, zone, backfill FROM position WHERE id = ?1";
pub(crate) const TAKEN: &str = "SELECT slot FROM task
    WHERE schedule = ?1 AND era = ?2 AND slot BETWEEN ?3 AND ?4 AND pass = 0 ORDER BY slot";
/// A slot with tasks of several passes comes several times.
pub(crate) const TAKEN_ANY: &str = "SELECT slot FROM task
    WHERE schedule = ?1 AND era = ?2 AND slot BETWEEN ?3 AND ?4 ORDER BY slot";
const LIVE: &str = "SELECT count(*) FROM hold WHERE gate = ?1 AND pass = 0";
const LIVE_UP_TO: &str = "SELECT count(*) FROM (SELECT 1 FROM hold WHERE gate = ?1 AND pass = 0 LIMIT ?2)";
const LIVE_BACKFILLED: &str = "SELECT count(*) FROM (SELECT 1 FROM hold WHERE gate = ?1 AND pass > 0 LIMIT ?2)";
const LIVE_TASKS: &str = "SELECT task FROM hold WHERE gate = ?1 ORDER BY task";
const ADD_POSITION: &str =
    "INSERT INTO position (id, state, note, rev, era, version, cursor_slot, cursor_at, cursor_gap,
    runs, kept_to, wake, known_from, zone, backfill, backfilling)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
    ON CONFLICT (id) DO UPDATE SET state = excluded.state, note = excluded.note, rev = excluded.rev, era = excluded.era,
    version = excluded.version, cursor_slot = excluded.cursor_slot, cursor_at = excluded.cursor_at,
    cursor_gap = excluded.cursor_gap, runs = excluded.runs, kept_to = excluded.kept_to, wake = excluded.wake,
    known_from = excluded.known_from, zone = excluded.zone, backfill = excluded.backfill,
    backfilling = excluded.backfilling";
const CREATED: &str = "UPDATE schedule SET created = ?2 WHERE id = ?1";
const WAKE: &str = "UPDATE position SET wake = ?2 WHERE id = ?1 AND wake IS NOT ?2";
const ADD_LOSS: &str = "INSERT INTO missed (schedule, era, from_at, to_at, reason, count, exact)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const SUM_LOSS: &str = "INSERT INTO missed_sum (schedule, reason, count) VALUES (?1, ?2, ?3)
    ON CONFLICT (schedule, reason) DO UPDATE SET count = count + excluded.count";
const ADD_OCCURRENCE: &str = "INSERT INTO task
    (id, lane, lvl, created, due, schedule, era, slot, pass, at, run, catch_up, version)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?13, ?9, ?10, ?11, ?12)";

/// One schedule as it was read under the lock.
#[derive(Debug)]
pub(crate) struct Locked {
    pub(crate) position: Position,
    pub(crate) definition: Arc<Definition>,
}

impl Locked {
    /// Reads where a schedule stands and how it is defined.
    pub(crate) fn read(db: &Db, definitions: &mut Definitions, id: ScheduleId) -> Done<Option<Self>> {
        let mut statement = db.sql(POSITION)?;
        let mut rows = statement.query(params![id.0])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let position = position_from(row)?;
        let definition = definitions.get(db, id, position.version)?;
        Ok(Some(Locked { position, definition }))
    }

    /// What a decision sees. `rule` is the definition's, or what stands for one that does not compile.
    pub(crate) fn snapshot<'a>(&'a self, rule: &'a CompiledRule) -> Snapshot<'a> {
        Snapshot { spec: &self.definition.spec, rule, position: &self.position, created: self.definition.created }
    }
}

/// The columns of [`POSITION`], in its order.
pub(crate) fn position_from(row: &Row<'_>) -> Done<Position> {
    let key: Option<i64> = row.get(6)?;
    let cursor = match key {
        None => None,
        Some(key) => {
            Some(Slot { key: SlotKey::from_raw(key), at: Timestamp::from_micros(row.get(7)?), gap: row.get(8)? })
        }
    };
    let kept_to: Option<i64> = row.get(10)?;
    let known_from: Option<i64> = row.get(11)?;
    let zone = row.get_ref(12)?.as_str_or_null()?.map(str::parse).transpose();
    let backfill = row.get_ref(13)?.as_str_or_null()?.map(Backfill::from_row).transpose()?;
    Ok(Position {
        id: ScheduleId(row.get(0)?),
        state: ScheduleState::of(row.get(1)?)?,
        note: row.get(2)?,
        rev: row.get::<_, i64>(3)?.cast_unsigned(),
        era: row.get(4)?,
        version: row.get(5)?,
        cursor,
        runs: row.get::<_, i64>(9)?.cast_unsigned(),
        kept_to: kept_to.map(Timestamp::from_micros),
        known_from: known_from.map(Timestamp::from_micros),
        zone: zone.map_err(|error: BadZoneStamp| Fault::corrupt(error.to_string()))?,
        backfill,
    })
}

/// Which slots of the walk have tasks, in key order.
pub(crate) fn taken(db: &Db, position: &Position, walk: &Walk) -> Done<Vec<SlotKey>> {
    let Some((first, last)) = walk.keys() else { return Ok(Vec::new()) };
    let keys = db
        .sql(if walk.any_pass() { TAKEN_ANY } else { TAKEN })?
        .query_map(params![position.id.0, position.era, first.as_raw(), last.as_raw()], |row| {
            Ok(SlotKey::from_raw(row.get(0)?))
        })?
        .collect::<Result<_, _>>()?;
    Ok(keys)
}

/// How many occurrences have not ended, as far as it matters to the capacity of this definition: at most `max_pending`,
/// and whether there is one at all where anything may overlap. A backlog of a million is not counted with every sweep.
pub(crate) fn live_for(db: &Db, schedule: ScheduleId, spec: &ScheduleSpec) -> Done<u32> {
    let enough = match spec.overlap {
        Overlap::Allow => 1,
        Overlap::Wait | Overlap::Skip | Overlap::Cancel => spec.max_pending,
    };
    Ok(db.sql(LIVE_UP_TO)?.query_row(params![schedule.0, enough], |row| row.get(0))?)
}

/// How many occurrences of backfills have not ended, up to `enough`.
pub(crate) fn live_backfilled(db: &Db, schedule: ScheduleId, enough: u32) -> Done<u32> {
    Ok(db.sql(LIVE_BACKFILLED)?.query_row(params![schedule.0, enough], |row| row.get(0))?)
}

/// How many occurrences have not ended, triggered ones included.
pub(crate) fn live(db: &Db, schedule: ScheduleId) -> Done<u32> {
    Ok(db.sql(LIVE)?.query_row(params![schedule.0], |row| row.get(0))?)
}

/// Writes what was decided. Gives the created tasks, in the order of the grants.
pub(crate) fn write(session: &mut Session, locked: &Locked, change: &Change, now: Timestamp) -> Done<Vec<TaskId>> {
    let id = change.position.id;
    if let Some(created) = change.created {
        session.db.sql(CREATED)?.execute(params![id.0, created.as_micros()])?;
    }
    if let Some(spec) = &change.spec {
        definitions::add(&session.db, id, change.position.version, spec)?;
    }
    if change.moved {
        write_position(&session.db, change)?;
    } else {
        let wake = change.wake.map(Timestamp::as_micros);
        session.db.sql(WAKE)?.execute(params![id.0, wake])?;
    }
    write_losses(&session.db, change)?;
    if change.cancel_live || change.drop_waiting {
        cancel_live(session, id, now, change.cancel_live)?;
    }
    let spec = change.spec.as_deref().unwrap_or(&locked.definition.spec);
    create(session, &change.position, spec, &change.grants, now)
}

/// Writes where a schedule stands, new or changed.
pub(crate) fn write_position(db: &Db, change: &Change) -> Done<()> {
    let position = &change.position;
    let Position { id, state, note, rev, era, version, cursor, runs, kept_to, known_from, zone, backfill } = position;
    db.sql(ADD_POSITION)?.execute(params![
        id.0,
        state.code(),
        note,
        rev.cast_signed(),
        era,
        version,
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
    ])?;
    Ok(())
}

fn write_losses(db: &Db, change: &Change) -> Done<()> {
    if change.losses.is_empty() {
        return Ok(());
    }
    let (id, era) = (change.position.id.0, change.position.era);
    let mut add = db.sql(ADD_LOSS)?;
    let mut sum = db.sql(SUM_LOSS)?;
    for Loss { from, to, reason, count, exact } in &change.losses {
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        add.execute(params![id, era, from.as_micros(), to.as_micros(), reason.code(), count, exact])?;
        sum.execute(params![id, reason.code(), count])?;
    }
    Ok(())
}

/// Cancels every occurrence that has not ended: waiting ones at once, running ones, if these are meant too, by request.
fn cancel_live(session: &mut Session, schedule: ScheduleId, now: Timestamp, running: bool) -> Done<()> {
    let Session { db, holdings, .. } = session;
    let live: Vec<i64> =
        db.sql(LIVE_TASKS)?.query_map(params![schedule.0], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut ends = Ends::new(db, now)?;
    for task in live {
        if running || is_waiting(db, task)? {
            cancel_one(db, holdings, &mut ends, task)?;
        }
    }
    ends.flush()
}

/// Creates occurrences. Their arguments are the definition's: a row says which version.
fn create(
    session: &mut Session,
    position: &Position,
    spec: &ScheduleSpec,
    grants: &[Grant],
    now: Timestamp,
) -> Done<Vec<TaskId>> {
    if grants.is_empty() {
        return Ok(Vec::new());
    }
    let Session { db, names, sequence, .. } = session;
    let lane = names.lane(db, &spec.queue, &spec.method)?;
    let mut add = db.sql(ADD_OCCURRENCE)?;
    let mut add_ready = db.sql(ADD_READY)?;
    let mut add_hold = db.sql(ADD_HOLD)?;
    let mut created = Vec::with_capacity(grants.len());
    for grant in grants {
        let id = match grant.id {
            Some(id) => {
                sequence.pass(db, id.0)?;
                id
            }
            None => TaskId(sequence.draw(db, 1)?),
        };
        let due = grant.due.max(now).as_micros();
        add.execute(params![
            id.0,
            lane,
            spec.level,
            now.as_micros(),
            due,
            position.id.0,
            position.era,
            grant.slot.map(SlotKey::as_raw),
            grant.at.as_micros(),
            grant.run.cast_signed(),
            grant.catch_up,
            position.version,
            grant.pass,
        ])
        .map_err(slot_twice)?;
        add_ready.execute(params![lane, spec.level, due, id.0, 0, 0, 0])?;
        add_hold.execute(params![position.id.0, id.0, grant.pass])?;
        created.push(id);
    }
    Ok(created)
}

/// The plan is exact under the lock: a slot that is there already is a bug, not a race.
fn slot_twice(error: rusqlite::Error) -> Fault {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::ConstraintViolation) => {
            Fault::bug(format!("a slot or id was decided twice ({error})"))
        }
        _ => Fault::Sql(error),
    }
}

/// A schedule's number by its name.
pub(crate) fn find(db: &Db, name: &str) -> Done<Option<ScheduleId>> {
    const FIND: &str = "SELECT id FROM schedule WHERE name = ?1";
    Ok(db.sql(FIND)?.query_row(params![name], |row| Ok(ScheduleId(row.get(0)?))).optional()?)
}
