//! Schedules as an operator sees them.

use super::{find, position_from};
use crate::definitions::read_row;
use crate::errors::Done;
use crate::names::may_exist;
use crate::session::{Session, step};
use punctual_clock::Timestamp;
use punctual_task::rows::Code;
use punctual_task::{Loss, LossReason, Page, ScheduleId, ScheduleView, SlotEnd, StoreError, TaskId, TaskState};
use std::collections::BTreeMap;
use tokio_postgres::Row;

const ONE: &str = "SELECT p.id, p.state, p.note, p.rev, p.era, p.version, p.cursor_slot, p.cursor_at,
    p.cursor_gap, p.runs, p.kept_to, p.known_from, p.zone, p.backfill, d.spec, d.args, s.created,
    (SELECT count(*) FROM hold h WHERE h.gate = p.id AND h.pass = 0),
    (SELECT count(*) FROM hold h WHERE h.gate = p.id AND h.pass > 0)
    FROM schedule s JOIN position p ON p.id = s.id JOIN definition d ON d.schedule = s.id AND d.version = p.version
    WHERE s.name = $1";
pub(crate) const PAGE: &str = "SELECT p.id, p.state, p.note, p.rev, p.era, p.version, p.cursor_slot, p.cursor_at,
    p.cursor_gap, p.runs, p.kept_to, p.known_from, p.zone, p.backfill, d.spec, d.args, s.created,
    (SELECT count(*) FROM hold h WHERE h.gate = p.id AND h.pass = 0),
    (SELECT count(*) FROM hold h WHERE h.gate = p.id AND h.pass > 0)
    FROM schedule s JOIN position p ON p.id = s.id JOIN definition d ON d.schedule = s.id AND d.version = p.version
    WHERE s.name > $1 ORDER BY s.name LIMIT $2";
const SUMS: &str = "SELECT schedule, reason, count FROM missed_sum WHERE schedule = ANY($1) ORDER BY schedule, reason";
pub(crate) const LOSSES: &str = "SELECT from_at, to_at, reason, count, exact FROM missed
    WHERE schedule = $1 ORDER BY id DESC LIMIT $2";
pub(crate) const ENDS: &str = "SELECT t.id, a.ended, a.final FROM task t JOIN attempt a ON a.task = t.id
    WHERE t.schedule = $1 AND t.slot IS NOT NULL AND a.final = ANY($2)
    ORDER BY t.era DESC, t.slot DESC, t.pass DESC LIMIT $3";

/// One schedule.
pub(crate) async fn one(session: &mut Session, name: &str) -> Done<Option<ScheduleView>> {
    if !may_exist(name) {
        return Ok(None);
    }
    let rows = session.rows(step!(ONE, name.to_owned())).await?;
    Ok(views(session, rows).await?.pop())
}

/// Schedules by name.
pub(crate) async fn page(session: &mut Session, after: Option<&str>, limit: u32) -> Done<Vec<ScheduleView>> {
    // No name is empty, so that all come after "". One with a NUL is no name, and what is before the NUL comes at its place:
    // no name has a control character.
    let after = after.unwrap_or_default().split('\0').next().unwrap_or_default().to_owned();
    let rows = session.rows(step!(PAGE, after, i64::from(limit.min(Page::LIMIT_MAX)))).await?;
    views(session, rows).await
}

async fn views(session: &mut Session, rows: Vec<Row>) -> Done<Vec<ScheduleView>> {
    let ids: Vec<i64> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let mut lost: BTreeMap<ScheduleId, Vec<(LossReason, u64)>> = BTreeMap::new();
    for row in session.rows(step!(SUMS, ids)).await? {
        let count: i64 = row.try_get(2)?;
        let sum = (LossReason::of(row.try_get::<_, i16>(1)?.into())?, count.cast_unsigned());
        lost.entry(ScheduleId(row.try_get(0)?)).or_default().push(sum);
    }
    let view = |row: &Row| {
        let position = position_from(row)?;
        let (spec, created) = read_row(row, 14)?;
        let count = |at: usize| row.try_get::<_, i64>(at).map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        let (live, live_backfilled) = (count(17)?, count(18)?);
        let lost = lost.remove(&position.id).unwrap_or_default();
        Ok(ScheduleView { spec, position, created, live, live_backfilled, lost })
    };
    rows.iter().map(view).collect()
}

/// The latest losses of a schedule.
pub(crate) async fn losses(session: &mut Session, name: &str, limit: u32) -> Done<Vec<Loss>> {
    let id = find(session, name)
        .await?
        .ok_or_else(|| StoreError::not_found(format!("there is no schedule named {name:?}")))?;
    let rows = session.rows(step!(LOSSES, id.0, i64::from(limit.min(Page::LIMIT_MAX)))).await?;
    let loss = |row: &Row| {
        let count: i64 = row.try_get(3)?;
        Ok(Loss {
            from: Timestamp::from_micros(row.try_get(0)?),
            to: Timestamp::from_micros(row.try_get(1)?),
            reason: LossReason::of(row.try_get::<_, i16>(2)?.into())?,
            count: count.cast_unsigned(),
            exact: row.try_get(4)?,
        })
    };
    rows.iter().map(loss).collect()
}

/// How the newest occurrences of a schedule ended.
pub(crate) async fn ends(session: &mut Session, name: &str, limit: u32) -> Done<Vec<SlotEnd>> {
    let id = find(session, name)
        .await?
        .ok_or_else(|| StoreError::not_found(format!("there is no schedule named {name:?}")))?;
    let (good, bad) = (TaskState::Succeeded.code(), TaskState::Failed.code());
    let rows = session.rows(step!(ENDS, id.0, vec![good, bad], i64::from(limit.min(Page::LIMIT_MAX)))).await?;
    let end = |row: &Row| {
        let failed = row.try_get::<_, i16>(2)? == bad;
        Ok(SlotEnd { task: TaskId(row.try_get(0)?), ended: Timestamp::from_micros(row.try_get(1)?), failed })
    };
    rows.iter().map(end).collect()
}
