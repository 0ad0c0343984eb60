//! Schedules: what is read of one for the planner's decision. How decisions are written down is for `writing`.
//!
//! The write lock is the schedule's lock: whoever decides has read everything in the same transaction.

pub(crate) mod commands;
pub(crate) mod sweeps;
pub(crate) mod views;
pub(crate) mod writing;

use crate::connection::Db;
use crate::definitions::{Definition, Definitions};
use crate::errors::{Done, Fault};
use punctual_clock::Timestamp;
use punctual_task::planner::{Snapshot, Walk};
use punctual_task::rows::Code;
use punctual_task::schedule::{BadZoneStamp, CompiledRule, Slot, SlotKey};
use punctual_task::{Backfill, Overlap, Position, ScheduleId, ScheduleSpec, ScheduleState};
use rusqlite::{CachedStatement, OptionalExtension, Row, params};
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
        Self::of(db, definitions, position_from(row)?).map(Some)
    }

    /// The same of a schedule whose position was read.
    pub(crate) fn of(db: &Db, definitions: &mut Definitions, position: Position) -> Done<Self> {
        let definition = definitions.get(db, position.id, position.version)?;
        Ok(Locked { position, definition })
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

/// What decisions need beside positions: read by statements that are prepared once for many schedules.
pub(crate) struct Surroundings<'a> {
    db: &'a Db,
    taken: Option<CachedStatement<'a>>,
    taken_any: Option<CachedStatement<'a>>,
    live: Option<CachedStatement<'a>>,
    live_backfilled: Option<CachedStatement<'a>>,
}

impl<'a> Surroundings<'a> {
    pub(crate) fn of(db: &'a Db) -> Self {
        Surroundings { db, taken: None, taken_any: None, live: None, live_backfilled: None }
    }

    /// Which slots of the walk have tasks, in key order.
    pub(crate) fn taken(&mut self, position: &Position, walk: &Walk) -> Done<Vec<SlotKey>> {
        let Some((first, last)) = walk.keys() else { return Ok(Vec::new()) };
        let (statement, text) =
            if walk.any_pass() { (&mut self.taken_any, TAKEN_ANY) } else { (&mut self.taken, TAKEN) };
        let keys = kept(self.db, statement, text)?
            .query_map(params![position.id.0, position.era, first.as_raw(), last.as_raw()], |row| {
                Ok(SlotKey::from_raw(row.get(0)?))
            })?
            .collect::<Result<_, _>>()?;
        Ok(keys)
    }

    /// How many occurrences have not ended, as far as it matters to the capacity of this definition: at most
    /// `max_pending`, and none where anything may overlap. A backlog of a million is not counted with every sweep.
    pub(crate) fn live(&mut self, schedule: ScheduleId, spec: &ScheduleSpec) -> Done<u32> {
        if spec.overlap == Overlap::Allow {
            return Ok(0);
        }
        let statement = kept(self.db, &mut self.live, LIVE_UP_TO)?;
        Ok(statement.query_row(params![schedule.0, spec.max_pending], |row| row.get(0))?)
    }

    /// How many occurrences of backfills have not ended, up to the most that a backfill may have.
    pub(crate) fn live_backfilled(&mut self, schedule: ScheduleId) -> Done<u32> {
        let statement = kept(self.db, &mut self.live_backfilled, LIVE_BACKFILLED)?;
        Ok(statement.query_row(params![schedule.0, ScheduleSpec::MAX_PENDING_MAX], |row| row.get(0))?)
    }
}

/// The statement, prepared at its first use.
fn kept<'a, 'b>(
    db: &'a Db,
    statement: &'b mut Option<CachedStatement<'a>>,
    text: &'static str,
) -> Done<&'b mut CachedStatement<'a>> {
    match statement {
        Some(statement) => Ok(statement),
        None => Ok(statement.insert(db.sql(text)?)),
    }
}

/// How many occurrences have not ended, triggered ones included.
pub(crate) fn live(db: &Db, schedule: ScheduleId) -> Done<u32> {
    Ok(db.sql(LIVE)?.query_row(params![schedule.0], |row| row.get(0))?)
}

/// A schedule's number by its name.
pub(crate) fn find(db: &Db, name: &str) -> Done<Option<ScheduleId>> {
    const FIND: &str = "SELECT id FROM schedule WHERE name = ?1";
    Ok(db.sql(FIND)?.query_row(params![name], |row| Ok(ScheduleId(row.get(0)?))).optional()?)
}
