//! Schedules as an operator sees them.

use super::{find, position_from};
use crate::connection::Db;
use crate::definitions::{read_row, spec_from};
use crate::errors::Done;
use punctual_clock::Timestamp;
use punctual_task::rows::Code;
use punctual_task::{Loss, LossReason, Page, ScheduleView, SlotEnd, StoreError, TaskId, TaskState};
use rusqlite::{Row, params};

const COLUMNS_OF_ONE: &str = "SELECT p.id, p.state, p.note, p.rev, p.era, p.version, p.cursor_slot, p.cursor_at,
    p.cursor_gap, p.runs, p.kept_to, p.known_from, p.zone, p.backfill, d.spec, d.args, s.created,
    (SELECT count(*) FROM hold h WHERE h.gate = p.id AND h.pass = 0),
    (SELECT count(*) FROM hold h WHERE h.gate = p.id AND h.pass > 0)
    FROM schedule s JOIN position p ON p.id = s.id JOIN definition d ON d.schedule = s.id AND d.version = p.version
    WHERE s.name = ?1";
pub(crate) const PAGE: &str = "SELECT p.id, p.state, p.note, p.rev, p.era, p.version, p.cursor_slot, p.cursor_at,
    p.cursor_gap, p.runs, p.kept_to, p.known_from, p.zone, p.backfill, d.spec, d.args, s.created,
    (SELECT count(*) FROM hold h WHERE h.gate = p.id AND h.pass = 0),
    (SELECT count(*) FROM hold h WHERE h.gate = p.id AND h.pass > 0)
    FROM schedule s JOIN position p ON p.id = s.id JOIN definition d ON d.schedule = s.id AND d.version = p.version
    WHERE s.name > ?1 ORDER BY s.name LIMIT ?2";
const SUMS: &str = "SELECT reason, count FROM missed_sum WHERE schedule = ?1 ORDER BY reason";
pub(crate) const LOSSES: &str = "SELECT from_at, to_at, reason, count, exact FROM missed
    WHERE schedule = ?1 ORDER BY id DESC LIMIT ?2";
pub(crate) const ENDS: &str = "SELECT t.id, a.ended, a.final FROM task t JOIN attempt a ON a.task = t.id
    WHERE t.schedule = ?1 AND t.slot IS NOT NULL AND a.final IN (?2, ?3)
    ORDER BY t.era DESC, t.slot DESC, t.pass DESC LIMIT ?4";

/// One schedule.
pub(crate) fn one(db: &Db, name: &str) -> Done<Option<ScheduleView>> {
    let mut statement = db.sql(COLUMNS_OF_ONE)?;
    let mut rows = statement.query(params![name])?;
    rows.next()?.map(|row| view(db, row)).transpose()
}

/// Schedules by name.
pub(crate) fn page(db: &Db, after: Option<&str>, limit: u32) -> Done<Vec<ScheduleView>> {
    let mut statement = db.sql(PAGE)?;
    // No name is empty, so that all come after "".
    let mut rows = statement.query(params![after.unwrap_or_default(), limit.min(Page::LIMIT_MAX)])?;
    let mut views = Vec::new();
    while let Some(row) = rows.next()? {
        views.push(view(db, row)?);
    }
    Ok(views)
}

fn view(db: &Db, row: &Row<'_>) -> Done<ScheduleView> {
    let position = position_from(row)?;
    let mut lost = Vec::new();
    let mut statement = db.sql(SUMS)?;
    let mut sums = statement.query(params![position.id.0])?;
    while let Some(sum) = sums.next()? {
        let count: i64 = sum.get(1)?;
        lost.push((LossReason::of(sum.get(0)?)?, count.cast_unsigned()));
    }
    let (json, args, created) = read_row(row, 14)?;
    let (live, live_backfilled) = (row.get(17)?, row.get(18)?);
    Ok(ScheduleView { spec: spec_from(&json, args)?, position, created, live, live_backfilled, lost })
}

/// The latest losses of a schedule.
pub(crate) fn losses(db: &Db, name: &str, limit: u32) -> Done<Vec<Loss>> {
    let id = find(db, name)?.ok_or_else(|| StoreError::not_found(format!("there is no schedule named {name:?}")))?;
    let mut statement = db.sql(LOSSES)?;
    let mut rows = statement.query(params![id.0, limit.min(Page::LIMIT_MAX)])?;
    let mut losses = Vec::new();
    while let Some(row) = rows.next()? {
        let count: i64 = row.get(3)?;
        losses.push(Loss {
            from: Timestamp::from_micros(row.get(0)?),
            to: Timestamp::from_micros(row.get(1)?),
            reason: LossReason::of(row.get(2)?)?,
            count: count.cast_unsigned(),
            exact: row.get(4)?,
        });
    }
    Ok(losses)
}

/// How the newest occurrences of a schedule ended.
pub(crate) fn ends(db: &Db, name: &str, limit: u32) -> Done<Vec<SlotEnd>> {
    let id = find(db, name)?.ok_or_else(|| StoreError::not_found(format!("there is no schedule named {name:?}")))?;
    let (good, bad) = (TaskState::Succeeded.code(), TaskState::Failed.code());
    let mut statement = db.sql(ENDS)?;
    let mut rows = statement.query(params![id.0, good, bad, limit.min(Page::LIMIT_MAX)])?;
    let mut ends = Vec::new();
    while let Some(row) = rows.next()? {
        let failed = row.get::<_, i16>(2)? == bad;
        ends.push(SlotEnd { task: TaskId(row.get(0)?), ended: Timestamp::from_micros(row.get(1)?), failed });
    }
    Ok(ends)
}
