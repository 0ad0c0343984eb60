//! Reading tasks: one with all that is kept of it, and pages of them by filter.
//!
//! Where a task is follows from which table names it, so each filter has a table or an index of its own that is read from
//! its newest entry down: waiting tasks from `ready`, running ones from `claim`, ended ones from the index over the
//! attempts that ended them, the rest from the indexes of `task`.

use crate::attempts;
use crate::cancels::ended_state;
use crate::connection::Db;
use crate::definitions::Definitions;
use crate::errors::Done;
use crate::keys;
use crate::progress;
use crate::tasks::{self, TaskRow};
use punctual_clock::Timestamp;
use punctual_task::rows::{Held, unpack_held};
use punctual_task::{AttemptRecord, Page, TaskDetail, TaskFilter, TaskId, TaskState, TaskView};
use rusqlite::{OptionalExtension, ToSql, params};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const ALL: &str = "SELECT id, lane FROM task WHERE id < ?1 ORDER BY id DESC";
pub(crate) const OF_LANE: &str = "SELECT id FROM task WHERE lane = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3";
pub(crate) const OF_SCHEDULE: &str = "SELECT id, lane FROM task WHERE schedule = ?1 AND id < ?2 ORDER BY id DESC";
pub(crate) const WAITING: &str = "SELECT id, lane FROM ready WHERE id < ?1 ORDER BY id DESC";
pub(crate) const LIVE: &str = "SELECT h.task, r.lane FROM hold h JOIN ready r ON r.id = h.task
    WHERE h.gate = ?1 AND h.task < ?2 ORDER BY h.task DESC";
pub(crate) const ENDED: &str =
    "SELECT task FROM attempt WHERE final = ?1 AND lane = ?2 AND task < ?3 ORDER BY task DESC LIMIT ?4";
const LANES: &str = "SELECT l.id, q.name, m.name FROM lane l JOIN queue q ON q.id = l.queue
    JOIN method m ON m.id = l.method";
const LANE: &str = "SELECT q.name, m.name FROM lane l JOIN queue q ON q.id = l.queue
    JOIN method m ON m.id = l.method WHERE l.id = ?1";
const SCHEDULE: &str = "SELECT id FROM schedule WHERE name = ?1";
const NAME: &str = "SELECT name FROM schedule WHERE id = ?1";
const READY: &str = "SELECT due, n FROM ready WHERE id = ?1";
const CLAIMS: &str = "SELECT tasks FROM claim";
const LAST: &str =
    "SELECT n, worker, started, ended, outcome, out FROM attempt WHERE task = ?1 ORDER BY n DESC LIMIT 1";

/// A page of tasks, newest first.
pub(crate) fn page(db: &Db, filter: &TaskFilter, page: Page) -> Done<Vec<TaskView>> {
    let limit = page.limit.min(Page::LIMIT_MAX) as usize;
    let schedule: Option<i64> = match &filter.schedule {
        None => None,
        Some(name) => match db.sql(SCHEDULE)?.query_row(params![name], |row| row.get(0)).optional()? {
            None => return Ok(Vec::new()),
            found => found,
        },
    };
    let search = Search {
        db,
        before: page.before.map_or(i64::MAX, |id| id.0),
        limit,
        lanes: lanes(db, filter)?,
        restricted: filter.queue.is_some() || filter.method.is_some(),
        schedule,
    };
    let running = running(db)?;
    let ids = search.ids(filter.state, &running)?;
    let mut reading = Reading { db, running, lanes: BTreeMap::new(), names: BTreeMap::new() };
    ids.into_iter().filter_map(|id| reading.view(id).transpose()).collect()
}

/// All that is kept of one task.
pub(crate) fn detail(db: &Db, id: TaskId, now: Timestamp) -> Done<Option<TaskDetail>> {
    let Some(task) = tasks::read(db, id.0)? else { return Ok(None) };
    let mut reading = Reading { db, running: running(db)?, lanes: BTreeMap::new(), names: BTreeMap::new() };
    let view = reading.view_of(&task)?;
    let (args, _, options) = task.call(db, &mut Definitions::default())?;
    let mut attempts = Vec::new();
    let mut statement = db.sql(attempts::OF_TASK)?;
    let mut rows = statement.query(params![id.0])?;
    while let Some(row) = rows.next()? {
        attempts.push(attempts::from_row(row)?);
    }
    let key = if task.key.is_some() { keys::held(db, id.0, now)? } else { None };
    let progress = progress::of(db, id.0)?;
    Ok(Some(TaskDetail { view, args, options, key, progress, attempts }))
}

/// The lanes that a filter leaves, ascending.
fn lanes(db: &Db, filter: &TaskFilter) -> Done<BTreeSet<u32>> {
    let mut statement = db.sql(LANES)?;
    let mut rows = statement.query([])?;
    let mut lanes = BTreeSet::new();
    while let Some(row) = rows.next()? {
        let queue = row.get_ref(1)?.as_str()?;
        let method = row.get_ref(2)?.as_str()?;
        if filter.queue.as_deref().is_none_or(|wanted| wanted == queue)
            && filter.method.as_deref().is_none_or(|wanted| wanted == method)
        {
            lanes.insert(row.get(0)?);
        }
    }
    Ok(lanes)
}

/// Every running task. They are few: what workers have claimed and not finished.
fn running(db: &Db) -> Done<BTreeMap<i64, Held>> {
    let mut statement = db.sql(CLAIMS)?;
    let mut rows = statement.query([])?;
    let mut running = BTreeMap::new();
    while let Some(row) = rows.next()? {
        for held in unpack_held(row.get_ref(0)?.as_blob()?)? {
            running.insert(held.task, held);
        }
    }
    Ok(running)
}

/// A filter whose names were looked up.
struct Search<'a> {
    db: &'a Db,
    before: i64,
    limit: usize,
    lanes: BTreeSet<u32>,
    /// Whether the lanes are not all there are.
    restricted: bool,
    schedule: Option<i64>,
}

impl Search<'_> {
    fn ids(&self, state: Option<TaskState>, running: &BTreeMap<i64, Held>) -> Done<Vec<i64>> {
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
            (Some(TaskState::Waiting), None) => self.scan(WAITING, &[&self.before], |_| Ok(true)),
            (Some(TaskState::Waiting), Some(schedule)) => self.scan(LIVE, &[&schedule, &self.before], |_| Ok(true)),
            (None, Some(schedule)) => self.scan(OF_SCHEDULE, &[&schedule, &self.before], |_| Ok(true)),
            (None, None) if self.restricted => {
                self.merge(|lane, limit| self.column(OF_LANE, &[&lane, &self.before, &limit]))
            }
            (None, None) => self.scan(ALL, &[&self.before], |_| Ok(true)),
            (Some(state), None) => {
                let state = punctual_task::rows::Code::code(state);
                self.merge(|lane, limit| self.column(ENDED, &[&state, &lane, &self.before, &limit]))
            }
            (Some(state), Some(schedule)) => {
                self.scan(OF_SCHEDULE, &[&schedule, &self.before], |id| Ok(ended_state(self.db, id)? == Some(state)))
            }
        }
    }

    /// Reads `(id, lane)` from the newest down until the page is full.
    fn scan(
        &self,
        sql: &'static str,
        values: &[&dyn ToSql],
        mut matches: impl FnMut(i64) -> Done<bool>,
    ) -> Done<Vec<i64>> {
        let mut statement = self.db.sql(sql)?;
        let mut rows = statement.query(values)?;
        let mut ids = Vec::new();
        while ids.len() < self.limit
            && let Some(row) = rows.next()?
        {
            let id = row.get(0)?;
            if self.lanes.contains(&row.get(1)?) && matches(id)? {
                ids.push(id);
            }
        }
        Ok(ids)
    }

    /// Joins the newest of each lane.
    fn merge(&self, read: impl Fn(u32, i64) -> Done<Vec<i64>>) -> Done<Vec<i64>> {
        let limit = i64::try_from(self.limit).unwrap_or(i64::MAX);
        let mut ids: Vec<i64> = Vec::new();
        for lane in &self.lanes {
            ids.extend(read(*lane, limit)?);
            // Kept at the size of a few pages, however many lanes there are.
            if ids.len() > self.limit.saturating_mul(8) {
                self.cut(&mut ids);
            }
        }
        self.cut(&mut ids);
        Ok(ids)
    }

    fn cut(&self, ids: &mut Vec<i64>) {
        ids.sort_unstable_by_key(|id| std::cmp::Reverse(*id));
        ids.truncate(self.limit);
    }

    fn column(&self, sql: &'static str, values: &[&dyn ToSql]) -> Done<Vec<i64>> {
        Ok(self.db.sql(sql)?.query_map(values, |row| row.get(0))?.collect::<Result<_, _>>()?)
    }
}

/// Turns ids into lines of a list.
struct Reading<'a> {
    db: &'a Db,
    running: BTreeMap<i64, Held>,
    lanes: BTreeMap<u32, (String, String)>,
    names: BTreeMap<i64, String>,
}

impl Reading<'_> {
    fn view(&mut self, id: i64) -> Done<Option<TaskView>> {
        tasks::read(self.db, id)?.map(|task| self.view_of(&task)).transpose()
    }

    fn view_of(&mut self, task: &TaskRow) -> Done<TaskView> {
        let last = self.last_attempt(task.id)?;
        let waiting: Option<(i64, u32)> =
            self.db.sql(READY)?.query_row(params![task.id], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let (state, due, attempts) = if let Some((due, n)) = waiting {
            (TaskState::Waiting, Timestamp::from_micros(due), n)
        } else if let Some(held) = self.running.get(&task.id) {
            (TaskState::Running, task.due, held.n)
        } else {
            let state = ended_state(self.db, task.id)?;
            let state = state
                .ok_or_else(|| crate::errors::Fault::corrupt(format!("task {} is in no state", TaskId(task.id))))?;
            (state, task.due, last.as_ref().map_or(0, |record| record.n))
        };
        let (queue, method) = self.lane(task.lane)?;
        Ok(TaskView {
            id: TaskId(task.id),
            method,
            queue,
            level: task.level,
            state,
            created: task.created,
            due,
            attempts,
            occurrence: match &task.series {
                None => None,
                Some(series) => Some(series.occurrence(&self.name(series.schedule.0)?)),
            },
            error: last.as_ref().and_then(AttemptRecord::error),
        })
    }

    fn last_attempt(&self, task: i64) -> Done<Option<AttemptRecord>> {
        let mut statement = self.db.sql(LAST)?;
        let mut rows = statement.query(params![task])?;
        rows.next()?.map(attempts::from_row).transpose()
    }

    fn lane(&mut self, lane: u32) -> Done<(String, String)> {
        if let Some(known) = self.lanes.get(&lane) {
            return Ok(known.clone());
        }
        let pair: (String, String) =
            self.db.sql(LANE)?.query_row(params![lane], |row| Ok((row.get(0)?, row.get(1)?)))?;
        self.lanes.insert(lane, pair.clone());
        Ok(pair)
    }

    fn name(&mut self, schedule: i64) -> Done<String> {
        if let Some(known) = self.names.get(&schedule) {
            return Ok(known.clone());
        }
        let name: String = self.db.sql(NAME)?.query_row(params![schedule], |row| row.get(0))?;
        self.names.insert(schedule, name.clone());
        Ok(name)
    }
}
