//! Reading tasks: one with all that is kept of it, and pages of them by filter.
//!
//! Where a task is follows from which table names it, so each filter has a table or an index of its own that is read from
//! its newest entry down: waiting tasks from `ready`, running ones from `claim`, ended ones from the index over the
//! attempts that ended them, the rest from the indexes of `task`.

use crate::attempts;
use crate::errors::{Done, Fault};
use crate::holdings;
use crate::keys;
use crate::names::may_exist;
use crate::progress;
use crate::session::{Session, Step, step};
use crate::store::Shared;
use crate::tasks;
use bytes::Bytes;
use punctual_clock::Timestamp;
use punctual_task::rows::Code;
use punctual_task::rows::Held;
use punctual_task::schedule::SlotKey;
use punctual_task::{
    AttemptRecord, Occurrence, Outcome, Page, ScheduleId, TaskDetail, TaskFilter, TaskId, TaskState, TaskView, WorkerId,
};
use std::collections::{BTreeMap, BTreeSet};
use tokio_postgres::Row;

pub(crate) const ALL: &str = "SELECT id FROM task WHERE id < $1 ORDER BY id DESC LIMIT $2";
pub(crate) const OF_LANES: &str = "SELECT t.id FROM unnest($3::int[]) l (id) CROSS JOIN LATERAL
    (SELECT id FROM task WHERE lane = l.id AND id < $1 ORDER BY id DESC LIMIT $2) t ORDER BY t.id DESC LIMIT $2";
pub(crate) const OF_SCHEDULE: &str = "SELECT id FROM task WHERE schedule = $4 AND id < $1 AND lane = ANY($3)
    ORDER BY id DESC LIMIT $2";
pub(crate) const WAITING: &str = "SELECT id FROM ready WHERE id < $1 AND lane = ANY($3) ORDER BY id DESC LIMIT $2";
pub(crate) const LIVE: &str = "SELECT h.task FROM hold h JOIN ready r ON r.id = h.task
    WHERE h.gate = $4 AND h.task < $1 AND r.lane = ANY($3) ORDER BY h.task DESC LIMIT $2";
pub(crate) const ENDED: &str = "SELECT a.task FROM unnest($3::int[]) l (id) CROSS JOIN LATERAL
    (SELECT task FROM attempt WHERE final = $4 AND lane = l.id AND task < $1 ORDER BY task DESC LIMIT $2) a
    ORDER BY a.task DESC LIMIT $2";
pub(crate) const ENDED_OF_SCHEDULE: &str =
    "SELECT t.id FROM task t WHERE t.schedule = $4 AND t.id < $1 AND t.lane = ANY($3)
    AND (SELECT a.final FROM attempt a WHERE a.task = t.id AND a.final IS NOT NULL ORDER BY a.n DESC LIMIT 1) = $5
    ORDER BY t.id DESC LIMIT $2";
const LANES: &str = "SELECT l.id FROM lane l JOIN queue q ON q.id = l.queue JOIN method m ON m.id = l.method
    WHERE ($1::text IS NULL OR q.name = $1) AND ($2::text IS NULL OR m.name = $2)";
const SCHEDULE: &str = "SELECT id FROM schedule WHERE name = $1";
pub(crate) const VIEWS: &str = "SELECT t.id, q.name, m.name, t.lvl, t.created, t.due, t.schedule, s.name, t.slot, t.at,
        t.run, t.catch_up, r.due, r.n, a.n, a.outcome, a.out,
        (SELECT f.final FROM attempt f WHERE f.task = t.id AND f.final IS NOT NULL ORDER BY f.n DESC LIMIT 1), t.pass
    FROM unnest($1::bigint[]) WITH ORDINALITY u (id, place) JOIN task t ON t.id = u.id
    JOIN lane l ON l.id = t.lane JOIN queue q ON q.id = l.queue JOIN method m ON m.id = l.method
    LEFT JOIN schedule s ON s.id = t.schedule LEFT JOIN ready r ON r.id = t.id
    LEFT JOIN LATERAL (SELECT n, outcome, out FROM attempt WHERE task = t.id ORDER BY n DESC LIMIT 1) a ON true
    ORDER BY u.place";

/// A page of tasks, newest first.
pub(crate) async fn page(session: &mut Session, filter: &TaskFilter, page: Page) -> Done<Vec<TaskView>> {
    let names = [&filter.queue, &filter.method, &filter.schedule];
    if !names.into_iter().flatten().all(|name| may_exist(name)) {
        return Ok(Vec::new());
    }
    let schedule: Option<i64> = match &filter.schedule {
        None => None,
        Some(name) => match session.rows(step!(SCHEDULE, name.clone())).await?.first() {
            None => return Ok(Vec::new()),
            Some(row) => Some(row.try_get(0)?),
        },
    };
    let rows = session.rows(step!(LANES, filter.queue.clone(), filter.method.clone())).await?;
    let lanes: Vec<i32> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let running = holdings::running(session).await?;
    let limit = page.limit.min(Page::LIMIT_MAX);
    let search = Search {
        before: page.before.map_or(i64::MAX, |id| id.0),
        limit: i64::from(limit),
        lanes,
        restricted: filter.queue.is_some() || filter.method.is_some(),
        schedule,
    };
    let ids = match filter.state {
        Some(TaskState::Parked) => Vec::new(),
        Some(TaskState::Running) => search.running(&running),
        state => {
            let rows = session.rows(search.step(state)).await?;
            rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?
        }
    };
    views(session, ids, &running).await
}

/// All that is kept of one task.
pub(crate) async fn detail(shared: &Shared, session: &mut Session, id: TaskId) -> Done<Option<TaskDetail>> {
    let Some(task) = tasks::read(session, id.0).await? else { return Ok(None) };
    let running = holdings::running(session).await?;
    let Some(view) = views(session, vec![id.0], &running).await?.pop() else { return Ok(None) };
    let definition = match task.version() {
        Some(version) => Some(shared.definitions.get(session, version).await?),
        None => None,
    };
    let (args, _, options) = task.call(definition.as_ref())?;
    let answers =
        session.ask(vec![step!(attempts::OF_TASK, id.0), step!(keys::HELD, id.0), step!(progress::OF, id.0)]).await?;
    let [records, held, progress] = answers.as_slice() else { return Err(Fault::bug("a task got no answer")) };
    let attempts = records.iter().map(attempts::from_row).collect::<Done<_>>()?;
    let key = held.first().map(|row| row.try_get(0)).transpose()?;
    let progress = progress.first().map(progress::from_row).transpose()?;
    Ok(Some(TaskDetail { view, args, options, key, progress, attempts }))
}

/// A filter whose names were looked up.
struct Search {
    before: i64,
    limit: i64,
    lanes: Vec<i32>,
    restricted: bool,
    schedule: Option<i64>,
}

impl Search {
    /// What reads the ids, newest first.
    fn step(self, state: Option<TaskState>) -> Step {
        let Search { before, limit, lanes, restricted, schedule } = self;
        match (state, schedule) {
            (Some(TaskState::Waiting), None) => step!(WAITING, before, limit, lanes),
            (Some(TaskState::Waiting), Some(schedule)) => step!(LIVE, before, limit, lanes, schedule),
            (None, Some(schedule)) => step!(OF_SCHEDULE, before, limit, lanes, schedule),
            (None, None) if restricted => step!(OF_LANES, before, limit, lanes),
            (None, None) => step!(ALL, before, limit),
            (Some(state), None) => step!(ENDED, before, limit, lanes, state.code()),
            (Some(state), Some(schedule)) => {
                step!(ENDED_OF_SCHEDULE, before, limit, lanes, schedule, state.code())
            }
        }
    }

    fn running(&self, running: &BTreeMap<i64, Held>) -> Vec<i64> {
        let lanes: BTreeSet<i32> = self.lanes.iter().copied().collect();
        let matches = |held: &&Held| {
            held.task < self.before
                && lanes.contains(&held.lane.cast_signed())
                && self.schedule.is_none_or(|schedule| held.gate == schedule)
        };
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        running.values().rev().filter(matches).take(limit).map(|held| held.task).collect()
    }
}

/// Turns ids into lines of a list.
async fn views(session: &mut Session, ids: Vec<i64>, running: &BTreeMap<i64, Held>) -> Done<Vec<TaskView>> {
    let rows = session.rows(step!(VIEWS, ids)).await?;
    rows.iter().map(|row| view(row, running)).collect()
}

/// The columns of [`VIEWS`], in its order.
fn view(row: &Row, running: &BTreeMap<i64, Held>) -> Done<TaskView> {
    let id: i64 = row.try_get(0)?;
    let level: i16 = row.try_get(3)?;
    let first_due = Timestamp::from_micros(row.try_get(5)?);
    let waiting: Option<i64> = row.try_get(12)?;
    let last: Option<i32> = row.try_get(14)?;
    let count = |n: Option<i32>| n.unwrap_or(0).cast_unsigned();
    let (state, due, attempts) = if let Some(due) = waiting {
        (TaskState::Waiting, Timestamp::from_micros(due), count(row.try_get(13)?))
    } else if let Some(held) = running.get(&id) {
        (TaskState::Running, first_due, held.n)
    } else {
        let code: Option<i16> = row.try_get(17)?;
        let code = code.ok_or_else(|| Fault::corrupt(format!("task {} is in no state", TaskId(id))))?;
        (TaskState::of(code.into())?, first_due, count(last))
    };
    let error = match last {
        None => None,
        Some(n) => {
            let outcome = Outcome::of(row.try_get::<_, i16>(15)?.into())?;
            let out = Bytes::copy_from_slice(row.try_get(16)?);
            let record = AttemptRecord::lost(n.cast_unsigned(), WorkerId(0), first_due, first_due);
            AttemptRecord { outcome, out, ..record }.error()
        }
    };
    Ok(TaskView {
        id: TaskId(id),
        method: row.try_get(2)?,
        queue: row.try_get(1)?,
        level: u8::try_from(level).unwrap_or(u8::MAX),
        state,
        created: Timestamp::from_micros(row.try_get(4)?),
        due,
        attempts,
        occurrence: occurrence(row)?,
        error,
    })
}

fn occurrence(row: &Row) -> Done<Option<Occurrence>> {
    let schedule: Option<i64> = row.try_get(6)?;
    let Some(schedule) = schedule else { return Ok(None) };
    let name: Option<String> = row.try_get(7)?;
    let slot: Option<i64> = row.try_get(8)?;
    Ok(Some(Occurrence {
        schedule: ScheduleId(schedule),
        name: name.ok_or_else(|| Fault::corrupt(format!("schedule {schedule} has no name")))?,
        slot: slot.map(SlotKey::from_raw),
        at: Timestamp::from_micros(row.try_get(9)?),
        run: row.try_get::<_, i64>(10)?.cast_unsigned(),
        catch_up: row.try_get(11)?,
        pass: row.try_get::<_, i32>(18)?.cast_unsigned(),
    }))
}
