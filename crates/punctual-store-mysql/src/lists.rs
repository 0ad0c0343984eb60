//! Reading tasks: one with all that is kept of it, and pages of them by filter.
//!
//! Where a task is follows from which table names it, so each filter has a table or an index of its own that is read from
//! its newest entry down: waiting tasks from `ready`, running ones from `claim`, ended ones from the index over the
//! attempts that ended them, the rest from the indexes of `task`. All of a page is read from one snapshot.

use crate::answers::cell;
use crate::attempts;
use crate::cancels::{CLAIMS, ended_states};
use crate::connection::Session;
use crate::errors::{Done, Fault};
use crate::keys;
use crate::names::{self, Lane};
use crate::progress;
use crate::script::{Script, Value};
use crate::tasks::{self, TaskRow, calls};
use bytes::Bytes;
use mysql_async::Row;
use punctual_clock::Timestamp;
use punctual_task::rows::Code;
use punctual_task::rows::{Held, unpack_held};
use punctual_task::{AttemptRecord, Page, TaskDetail, TaskFilter, TaskId, TaskState, TaskView};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const ALL: &str =
    "SELECT id, lane FROM punctual_task FORCE INDEX (PRIMARY) WHERE id < ? ORDER BY id DESC LIMIT ?";
pub(crate) const OF_LANE: &str = "(SELECT id, lane FROM punctual_task FORCE INDEX (punctual_task_lane)
    WHERE lane = ? AND id < ? ORDER BY id DESC LIMIT ?)";
pub(crate) const OF_SCHEDULE: &str = "SELECT id, lane FROM punctual_task FORCE INDEX (punctual_task_schedule)
    WHERE schedule = ? AND id < ? ORDER BY id DESC LIMIT ?";
pub(crate) const WAITING: &str =
    "SELECT id, lane FROM punctual_ready FORCE INDEX (punctual_ready_id) WHERE id < ? ORDER BY id DESC LIMIT ?";
pub(crate) const HELD: &str = "SELECT h.task, r.lane FROM punctual_hold h FORCE INDEX (PRIMARY)
    LEFT JOIN punctual_ready r FORCE INDEX (punctual_ready_id) ON r.id = h.task
    WHERE h.gate = ? AND h.task < ? ORDER BY h.task DESC LIMIT ?";
pub(crate) const ENDED: &str = "(SELECT task, lane FROM punctual_attempt FORCE INDEX (punctual_attempt_final)
    WHERE final = ? AND lane = ? AND task < ? ORDER BY task DESC LIMIT ?)";
const LANES: &str = "SELECT l.id, q.name, m.name FROM punctual_lane l STRAIGHT_JOIN punctual_queue q ON q.id = l.queue
    STRAIGHT_JOIN punctual_method m ON m.id = l.method";
const SCHEDULE: &str = "SELECT id FROM punctual_schedule WHERE name = ?";
const NAMES: &str = "SELECT id, name FROM punctual_schedule FORCE INDEX (PRIMARY) WHERE id IN (?)";
const READY: &str = "SELECT id, due, n FROM punctual_ready FORCE INDEX (punctual_ready_id) WHERE id IN (?)";
pub(crate) const LAST: &str = "(SELECT task, n, worker, started, ended, outcome, result
    FROM punctual_attempt FORCE INDEX (PRIMARY) WHERE task = ? ORDER BY n DESC LIMIT 1)";
/// How many rows are read at once where a filter has to look at each.
const SCAN: u32 = 2_000;

/// A page of tasks, newest first.
pub(crate) async fn page(session: &mut Session, filter: &TaskFilter, page: Page) -> Done<Vec<TaskView>> {
    let mut first = Script::of(LANES, &[]);
    first.add(CLAIMS, &[]);
    first.add(SCHEDULE, &[filter.schedule.as_deref().unwrap_or_default().into()]);
    let (_, mut answers) = session.begin_reading(&first).await?;
    let lanes = lanes(&answers.rows()?, filter)?;
    let running = running(&answers.rows()?)?;
    let schedule = answers.rows()?.first().map(|row| cell(row, 0)).transpose()?;
    if filter.schedule.is_some() && schedule.is_none() {
        session.end().await?;
        return Ok(Vec::new());
    }
    let mut search = Search {
        session,
        before: page.before.map_or(i64::MAX, |id| id.0),
        limit: page.limit.min(Page::LIMIT_MAX) as usize,
        lanes,
        restricted: filter.queue.is_some() || filter.method.is_some(),
        schedule,
    };
    let ids = search.ids(filter.state, &running).await?;
    let rows = tasks::read(session, &ids).await?;
    let rows: Vec<&TaskRow> = ids.iter().filter_map(|id| rows.get(id)).collect();
    let views = views(session, &rows, &running).await?;
    session.end().await?;
    Ok(views)
}

/// All that is kept of one task.
pub(crate) async fn detail(session: &mut Session, id: TaskId) -> Done<Option<TaskDetail>> {
    let mut first = Script::of(CLAIMS, &[]);
    first.add(attempts::OF_TASK, &[id.0.into()]);
    first.add(keys::HELD, &[id.0.into()]);
    first.add(progress::OF, &[id.0.into()]);
    let (_, mut answers) = session.begin_reading(&first).await?;
    let running = running(&answers.rows()?)?;
    let records = answers.rows()?;
    let key = answers.rows()?.first().map(|row| cell(row, 0)).transpose()?;
    let progress = answers.rows()?.first().map(progress::from_row).transpose()?;
    let rows = tasks::read(session, &[id.0]).await?;
    let Some(row) = rows.get(&id.0) else {
        session.end().await?;
        return Ok(None);
    };
    let view = views(session, &[row], &running).await?.pop();
    let view = view.ok_or_else(|| Fault::bug("a task without a line"))?;
    let call = calls(session, &[row]).await?.pop().ok_or_else(|| Fault::bug("a task without a call"))??;
    session.end().await?;
    let attempts = records.iter().map(|row| attempts::from_row(row, 0)).collect::<Done<_>>()?;
    Ok(Some(TaskDetail { view, args: call.args, options: call.options, key, progress, attempts }))
}

/// The lanes that a filter leaves, ascending.
fn lanes(rows: &[Row], filter: &TaskFilter) -> Done<BTreeSet<u32>> {
    let mut lanes = BTreeSet::new();
    for row in rows {
        let (queue, method): (String, String) = (cell(row, 1)?, cell(row, 2)?);
        if filter.queue.as_ref().is_none_or(|wanted| *wanted == queue)
            && filter.method.as_ref().is_none_or(|wanted| *wanted == method)
        {
            lanes.insert(cell(row, 0)?);
        }
    }
    Ok(lanes)
}

/// Every running task. They are few: what workers have claimed and not finished.
fn running(rows: &[Row]) -> Done<BTreeMap<i64, Held>> {
    let mut running = BTreeMap::new();
    for row in rows {
        let bytes: Bytes = cell(row, 1)?;
        running.extend(unpack_held(&bytes)?.into_iter().map(|held| (held.task, held)));
    }
    Ok(running)
}

/// A filter whose names were looked up.
struct Search<'a> {
    session: &'a mut Session,
    before: i64,
    limit: usize,
    lanes: BTreeSet<u32>,
    /// Whether the lanes are not all there are.
    restricted: bool,
    schedule: Option<i64>,
}

impl Search<'_> {
    async fn ids(&mut self, state: Option<TaskState>, running: &BTreeMap<i64, Held>) -> Done<Vec<i64>> {
        match (state, self.schedule) {
            (Some(TaskState::Parked), _) => Ok(Vec::new()),
            (Some(TaskState::Running), _) => Ok(running
                .values()
                .rev()
                .filter(|held| held.task < self.before && self.lanes.contains(&held.lane))
                .filter(|held| self.schedule.is_none_or(|schedule| held.gate == schedule))
                .map(|held| held.task)
                .take(self.limit)
                .collect()),
            (Some(TaskState::Waiting), None) => self.scan(WAITING, None, None).await,
            (Some(TaskState::Waiting), Some(schedule)) => self.scan(HELD, Some(schedule), None).await,
            (None, Some(schedule)) => self.scan(OF_SCHEDULE, Some(schedule), None).await,
            (None, None) if self.restricted => self.merge(OF_LANE, None).await,
            (None, None) => self.scan(ALL, None, None).await,
            (Some(state), None) => self.merge(ENDED, Some(state)).await,
            (Some(state), Some(schedule)) => self.scan(OF_SCHEDULE, Some(schedule), Some(state)).await,
        }
    }

    /// Reads `(id, lane)` from the newest down until the page is full. A lane that is NULL is that of a task elsewhere.
    async fn scan(&mut self, sql: &'static str, of: Option<i64>, ended: Option<TaskState>) -> Done<Vec<i64>> {
        let mut ids = Vec::new();
        let mut before = self.before;
        while ids.len() < self.limit {
            let limit = if self.restricted || ended.is_some() || sql == HELD {
                SCAN
            } else {
                u32::try_from(self.limit).unwrap_or(SCAN)
            };
            let mut values: Vec<Value<'_>> = of.map(Value::Int).into_iter().collect();
            values.extend([Value::Int(before), Value::from(limit)]);
            let rows = self.session.run(&Script::of(sql, &values)).await?.rows()?;
            let Some(last) = rows.last() else { break };
            before = cell(last, 0)?;
            let mut found = BTreeSet::new();
            for row in &rows {
                let lane: Option<u32> = cell(row, 1)?;
                if lane.is_some_and(|lane| self.lanes.contains(&lane)) {
                    found.insert(cell::<i64>(row, 0)?);
                }
            }
            if let Some(wanted) = ended {
                let states = ended_states(self.session, &found).await?;
                found.retain(|id| states.get(id) == Some(&wanted));
            }
            ids.extend(found.into_iter().rev());
            if rows.len() < limit as usize {
                break;
            }
        }
        ids.truncate(self.limit);
        Ok(ids)
    }

    /// Joins the newest of each lane.
    async fn merge(&mut self, sql: &'static str, state: Option<TaskState>) -> Done<Vec<i64>> {
        let mut ids: Vec<i64> = Vec::new();
        let lanes: Vec<u32> = self.lanes.iter().copied().collect();
        let limit = i64::try_from(self.limit).unwrap_or(i64::MAX);
        // Some lanes at a time, so that what is kept stays at the size of a few pages.
        for part in lanes.chunks(16) {
            let mut script = Script::new();
            let statements = match state {
                None => script.union(sql, part.iter().map(|lane| [(*lane).into(), self.before.into(), limit.into()])),
                Some(state) => {
                    let code = state.code();
                    let branches =
                        part.iter().map(|lane| [code.into(), (*lane).into(), self.before.into(), limit.into()]);
                    script.union(sql, branches)
                }
            };
            for row in self.session.run(&script).await?.rows_of(statements)? {
                ids.push(cell(&row, 0)?);
            }
            ids.sort_unstable_by_key(|id| std::cmp::Reverse(*id));
            ids.truncate(self.limit);
        }
        Ok(ids)
    }
}

/// Turns rows into lines of a list.
async fn views(session: &mut Session, rows: &[&TaskRow], running: &BTreeMap<i64, Held>) -> Done<Vec<TaskView>> {
    let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
    let series: BTreeSet<i64> = rows.iter().map(|row| row.gate()).filter(|gate| *gate != 0).collect();
    let series: Vec<i64> = series.into_iter().collect();
    let mut script = Script::new();
    let ready = script.parts(READY, &ids);
    let named = script.parts(NAMES, &series);
    let last = script.union(LAST, ids.iter().map(|id| [(*id).into()]));
    let mut answers = session.run(&script).await?;
    let mut waiting: BTreeMap<i64, (i64, u32)> = BTreeMap::new();
    for row in answers.rows_of(ready)? {
        waiting.insert(cell(&row, 0)?, (cell(&row, 1)?, cell(&row, 2)?));
    }
    let mut schedules: BTreeMap<i64, String> = BTreeMap::new();
    for row in answers.rows_of(named)? {
        schedules.insert(cell(&row, 0)?, cell(&row, 1)?);
    }
    let mut records: BTreeMap<i64, AttemptRecord> = BTreeMap::new();
    for row in answers.rows_of(last)? {
        records.insert(cell(&row, 0)?, attempts::from_row(&row, 1)?);
    }
    let elsewhere = |id: &&i64| !waiting.contains_key(*id) && !running.contains_key(*id);
    let ended = ended_states(session, &ids.iter().filter(elsewhere).copied().collect()).await?;
    let pairs = names::pairs(session, rows.iter().map(|row| row.lane)).await?;
    let mut views = Vec::with_capacity(rows.len());
    for row in rows {
        let record = records.get(&row.id);
        let (state, due, attempts) = if let Some((due, n)) = waiting.get(&row.id) {
            (TaskState::Waiting, Timestamp::from_micros(*due), *n)
        } else if let Some(held) = running.get(&row.id) {
            (TaskState::Running, row.due, held.n)
        } else {
            let state = ended.get(&row.id).copied();
            let state = state.ok_or_else(|| Fault::corrupt(format!("task {} is in no state", TaskId(row.id))))?;
            (state, row.due, record.map_or(0, |record| record.n))
        };
        let Lane { queue_name, method_name, .. } =
            pairs.get(&row.lane).ok_or_else(|| Fault::bug("a task without its lane"))?;
        let occurrence = match &row.series {
            None => None,
            Some(series) => {
                let name = schedules.get(&series.schedule.0);
                let name = name.ok_or_else(|| Fault::corrupt("an occurrence without its schedule"))?;
                Some(series.occurrence(name))
            }
        };
        views.push(TaskView {
            id: TaskId(row.id),
            method: method_name.to_string(),
            queue: queue_name.to_string(),
            level: row.level,
            state,
            created: row.created,
            due,
            attempts,
            occurrence,
            error: record.and_then(AttemptRecord::error),
        });
    }
    Ok(views)
}
