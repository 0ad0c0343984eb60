//! Decisions on their way into the tables: those of many schedules table by table, each by one prepared statement.

use crate::cancels::{ADD_HOLD, cancel_one, is_waiting};
use crate::connection::Db;
use crate::definitions;
use crate::ends::Ends;
use crate::errors::{Done, Fault};
use crate::session::Session;
use crate::tasks::ADD_READY;
use punctual_clock::Timestamp;
use punctual_task::planner::{Change, Grant};
use punctual_task::rows::Code;
use punctual_task::schedule::SlotKey;
use punctual_task::{Loss, Position, ScheduleId, ScheduleSpec, TaskId};
use rusqlite::{ToSql, params};

const LIVE_TASKS: &str = "SELECT task FROM hold WHERE gate = ?1 ORDER BY task";
const ADD_POSITION: &str =
    "INSERT INTO position (id, state, note, rev, era, version, cursor_slot, cursor_at, cursor_gap,
    runs, kept_to, wake, known_from, zone, backfill, backfilling)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
const MOVE: &str = "UPDATE position SET state = ?2, note = ?3, rev = ?4, era = ?5, version = ?6, cursor_slot = ?7,
    cursor_at = ?8, cursor_gap = ?9, runs = ?10, kept_to = ?11, wake = ?12, known_from = ?13, zone = ?14,
    backfill = ?15, backfilling = ?16 WHERE id = ?1";
const CREATED: &str = "UPDATE schedule SET created = ?2 WHERE id = ?1";
pub(crate) const WAKE: &str = "UPDATE position SET wake = ?2 WHERE id = ?1 AND wake IS NOT ?2";
const ADD_LOSS: &str = "INSERT INTO missed (schedule, era, from_at, to_at, reason, count, exact)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const SUM_LOSS: &str = "INSERT INTO missed_sum (schedule, reason, count) VALUES (?1, ?2, ?3)
    ON CONFLICT (schedule, reason) DO UPDATE SET count = count + excluded.count";
const ADD_OCCURRENCE: &str = "INSERT INTO task
    (id, lane, lvl, created, due, schedule, era, slot, pass, at, run, catch_up, version)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?13, ?9, ?10, ?11, ?12)";

/// What was decided of one schedule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decided<'a> {
    /// The definition before the change.
    pub(crate) spec: &'a ScheduleSpec,
    pub(crate) change: &'a Change,
}

/// Writes what was decided of some schedules, each of which comes once. Gives the tasks created for each, in the order of
/// its grants.
pub(crate) fn write(session: &mut Session, decided: &[Decided<'_>], now: Timestamp) -> Done<Vec<Vec<TaskId>>> {
    for Decided { change, .. } in decided {
        let id = change.position.id;
        if let Some(created) = change.created {
            session.db.sql(CREATED)?.execute(params![id.0, created.as_micros()])?;
        }
        if let Some(spec) = &change.spec {
            definitions::add(&session.db, id, change.position.version, spec)?;
        }
    }
    write_positions(&session.db, decided)?;
    write_losses(&session.db, decided)?;
    for Decided { change, .. } in decided {
        if change.cancel_live || change.drop_waiting {
            cancel_live(session, change.position.id, now, change.cancel_live)?;
        }
    }
    create(session, decided, now)
}

/// Writes where a new schedule stands.
pub(crate) fn add_position(db: &Db, change: &Change) -> Done<()> {
    let mut add = db.sql(ADD_POSITION)?;
    with_position(change, |values| Ok(add.execute(values).map(drop)?))
}

fn write_positions(db: &Db, decided: &[Decided<'_>]) -> Done<()> {
    let mut moves = db.sql(MOVE)?;
    let mut wakes = db.sql(WAKE)?;
    for Decided { change, .. } in decided {
        if change.moved {
            with_position(change, |values| Ok(moves.execute(values).map(drop)?))?;
        } else {
            wakes.execute(params![change.position.id.0, change.wake.map(Timestamp::as_micros)])?;
        }
    }
    Ok(())
}

/// The values of a position, in the order that [`ADD_POSITION`] and [`MOVE`] share.
fn with_position<T>(change: &Change, write: impl FnOnce(&[&dyn ToSql]) -> Done<T>) -> Done<T> {
    let position = &change.position;
    let Position { id, state, note, rev, era, version, cursor, runs, kept_to, known_from, zone, backfill } = position;
    write(params![
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
    ])
}

fn write_losses(db: &Db, decided: &[Decided<'_>]) -> Done<()> {
    if decided.iter().all(|one| one.change.losses.is_empty()) {
        return Ok(());
    }
    let mut add = db.sql(ADD_LOSS)?;
    let mut sum = db.sql(SUM_LOSS)?;
    for Decided { change, .. } in decided {
        let (id, era) = (change.position.id.0, change.position.era);
        for Loss { from, to, reason, count, exact } in &change.losses {
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            add.execute(params![id, era, from.as_micros(), to.as_micros(), reason.code(), count, exact])?;
            sum.execute(params![id, reason.code(), count])?;
        }
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

/// An occurrence that is to be created.
struct Occurrence<'a> {
    id: TaskId,
    lane: u32,
    level: u8,
    due: i64,
    position: &'a Position,
    grant: &'a Grant,
}

/// Creates occurrences. Their arguments are the definition's: a row says which version.
fn create(session: &mut Session, decided: &[Decided<'_>], now: Timestamp) -> Done<Vec<Vec<TaskId>>> {
    let Session { db, names, sequence, .. } = session;
    let mut created = Vec::with_capacity(decided.len());
    let mut rows = Vec::with_capacity(decided.iter().map(|one| one.change.grants.len()).sum());
    for Decided { spec, change } in decided {
        if change.grants.is_empty() {
            created.push(Vec::new());
            continue;
        }
        let spec = change.spec.as_deref().unwrap_or(spec);
        let lane = names.lane(db, &spec.queue, &spec.method)?;
        let mut mine = Vec::with_capacity(change.grants.len());
        for grant in &change.grants {
            let id = match grant.id {
                Some(id) => {
                    sequence.pass(db, id.0)?;
                    id
                }
                None => TaskId(sequence.draw(db, 1)?),
            };
            let due = grant.due.max(now).as_micros();
            rows.push(Occurrence { id, lane, level: spec.level, due, position: &change.position, grant });
            mine.push(id);
        }
        created.push(mine);
    }
    if rows.is_empty() {
        return Ok(created);
    }
    let mut add = db.sql(ADD_OCCURRENCE)?;
    for Occurrence { id, lane, level, due, position, grant } in &rows {
        add.execute(params![
            id.0,
            lane,
            level,
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
    }
    let mut add_ready = db.sql(ADD_READY)?;
    for Occurrence { id, lane, level, due, .. } in &rows {
        add_ready.execute(params![lane, level, due, id.0, 0, 0, 0])?;
    }
    let mut add_hold = db.sql(ADD_HOLD)?;
    for Occurrence { id, position, grant, .. } in &rows {
        add_hold.execute(params![position.id.0, id.0, grant.pass])?;
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
