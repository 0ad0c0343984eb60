//! Schedules as an operator sees them.

use super::{find, position_from};
use crate::answers::cell;
use crate::connection::Session;
use crate::definitions::spec_from;
use crate::errors::Done;
use crate::script::Script;
use bytes::Bytes;
use mysql_async::Row;
use punctual_clock::Timestamp;
use punctual_task::rows::Code;
use punctual_task::{Loss, LossReason, Page, ScheduleView, SlotEnd, StoreError, TaskId, TaskState};
use std::collections::BTreeMap;

pub(crate) const ONE: &str = "SELECT p.id, p.state, p.note, p.rev, p.era, p.version, p.cursor_slot, p.cursor_at,
    p.cursor_gap, p.runs, p.kept_to, p.known_from, p.zone, p.backfill, d.spec, d.args, s.created,
    (SELECT COUNT(*) FROM punctual_hold h FORCE INDEX (PRIMARY) WHERE h.gate = p.id AND h.pass = 0),
    (SELECT COUNT(*) FROM punctual_hold h FORCE INDEX (PRIMARY) WHERE h.gate = p.id AND h.pass > 0) FROM punctual_schedule s
    STRAIGHT_JOIN punctual_position p FORCE INDEX (PRIMARY) ON p.id = s.id
    STRAIGHT_JOIN punctual_definition d FORCE INDEX (PRIMARY) ON d.schedule = s.id AND d.version = p.version
    WHERE s.name = ?";
pub(crate) const PAGE: &str = "SELECT p.id, p.state, p.note, p.rev, p.era, p.version, p.cursor_slot, p.cursor_at,
    p.cursor_gap, p.runs, p.kept_to, p.known_from, p.zone, p.backfill, d.spec, d.args, s.created,
    (SELECT COUNT(*) FROM punctual_hold h FORCE INDEX (PRIMARY) WHERE h.gate = p.id AND h.pass = 0),
    (SELECT COUNT(*) FROM punctual_hold h FORCE INDEX (PRIMARY) WHERE h.gate = p.id AND h.pass > 0)
    FROM punctual_schedule s FORCE INDEX (punctual_schedule_name)
    STRAIGHT_JOIN punctual_position p FORCE INDEX (PRIMARY) ON p.id = s.id
    STRAIGHT_JOIN punctual_definition d FORCE INDEX (PRIMARY) ON d.schedule = s.id AND d.version = p.version
    WHERE s.name > ? ORDER BY s.name LIMIT ?";
const SUMS: &str = "SELECT schedule, reason, slots FROM punctual_missed_sum FORCE INDEX (PRIMARY)
    WHERE schedule IN (?) ORDER BY schedule, reason";
pub(crate) const LOSSES: &str = "SELECT from_at, to_at, reason, slots, is_exact
    FROM punctual_missed FORCE INDEX (punctual_missed_schedule) WHERE schedule = ? ORDER BY id DESC LIMIT ?";
pub(crate) const ENDS: &str = "SELECT t.id, a.ended, a.final FROM punctual_task t FORCE INDEX (punctual_task_slot)
    STRAIGHT_JOIN punctual_attempt a FORCE INDEX (PRIMARY) ON a.task = t.id
    WHERE t.schedule = ? AND t.slot IS NOT NULL AND a.final IN (?)
    ORDER BY t.schedule DESC, t.era DESC, t.slot DESC, t.pass DESC LIMIT ?";

/// One schedule.
pub(crate) async fn one(session: &mut Session, name: &str) -> Done<Option<ScheduleView>> {
    let (_, mut answers) = session.begin_reading(&Script::of(ONE, &[name.into()])).await?;
    let rows = answers.rows()?;
    Ok(views(session, &rows).await?.pop())
}

/// Schedules by name.
pub(crate) async fn page(session: &mut Session, after: Option<&str>, limit: u32) -> Done<Vec<ScheduleView>> {
    // No name is empty, so that all come after "".
    let script = Script::of(PAGE, &[after.unwrap_or_default().into(), limit.min(Page::LIMIT_MAX).into()]);
    let (_, mut answers) = session.begin_reading(&script).await?;
    let rows = answers.rows()?;
    views(session, &rows).await
}

async fn views(session: &mut Session, rows: &[Row]) -> Done<Vec<ScheduleView>> {
    let ids: Vec<i64> = rows.iter().map(|row| cell(row, 0)).collect::<Done<_>>()?;
    let mut script = Script::new();
    let parts = script.parts(SUMS, &ids);
    let sums = session.run(&script).await?.rows_of(parts)?;
    session.end().await?;
    let mut lost: BTreeMap<i64, Vec<(LossReason, u64)>> = BTreeMap::new();
    for row in &sums {
        lost.entry(cell(row, 0)?).or_default().push((LossReason::of(cell(row, 1)?)?, cell(row, 2)?));
    }
    let mut views = Vec::with_capacity(rows.len());
    for row in rows {
        let position = position_from(row)?;
        let (json, args): (Bytes, Bytes) = (cell(row, 14)?, cell(row, 15)?);
        let lost = lost.remove(&position.id.0).unwrap_or_default();
        let created = Timestamp::from_micros(cell(row, 16)?);
        let (live, live_backfilled) = (cell(row, 17)?, cell(row, 18)?);
        views.push(ScheduleView { spec: spec_from(&json, args)?, position, created, live, live_backfilled, lost });
    }
    Ok(views)
}

/// The latest losses of a schedule.
pub(crate) async fn losses(session: &mut Session, name: &str, limit: u32) -> Done<Vec<Loss>> {
    let found = find(session, name).await?;
    let id = found.ok_or_else(|| StoreError::not_found(format!("there is no schedule named {name:?}")))?;
    let script = Script::of(LOSSES, &[id.0.into(), limit.min(Page::LIMIT_MAX).into()]);
    let rows = session.run(&script).await?.rows()?;
    let loss = |row: &Row| {
        Ok(Loss {
            from: Timestamp::from_micros(cell(row, 0)?),
            to: Timestamp::from_micros(cell(row, 1)?),
            reason: LossReason::of(cell(row, 2)?)?,
            count: cell(row, 3)?,
            exact: cell(row, 4)?,
        })
    };
    rows.iter().map(loss).collect()
}

/// How the newest occurrences of a schedule ended.
pub(crate) async fn ends(session: &mut Session, name: &str, limit: u32) -> Done<Vec<SlotEnd>> {
    let found = find(session, name).await?;
    let id = found.ok_or_else(|| StoreError::not_found(format!("there is no schedule named {name:?}")))?;
    let states = [TaskState::Succeeded, TaskState::Failed].map(|state| i64::from(state.code()));
    let values = [id.0.into(), states.as_slice().into(), limit.min(Page::LIMIT_MAX).into()];
    let rows = session.run(&Script::of(ENDS, &values)).await?.rows()?;
    let end = |row: &Row| {
        let failed = TaskState::of(cell(row, 2)?)? == TaskState::Failed;
        Ok(SlotEnd { task: TaskId(cell(row, 0)?), ended: Timestamp::from_micros(cell(row, 1)?), failed })
    };
    rows.iter().map(end).collect()
}
