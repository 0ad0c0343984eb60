//! Tasks: what is written when they are enqueued, and what a row says of one.

use crate::connection::{Db, Sql};
use crate::definitions::{Definition, Definitions};
use crate::errors::{Done, Fault};
use crate::keys;
use crate::names::Names;
use crate::sequence::Sequence;
use crate::session::Session;
use bytes::Bytes;
use punctual_clock::Timestamp;
use punctual_task::schedule::SlotKey;
use punctual_task::{
    Due, Enqueued, IdBlock, KeyMode, NewTask, Occurrence, ScheduleId, StoreError, TaskId, TaskOptions,
};
use rusqlite::{OptionalExtension, Row, params};
use std::sync::Arc;

/// Arguments above this go to a table of their own, so that reading tasks does not read over them.
pub(crate) const INLINE_BYTES_MAX: usize = 1024;
/// How many tasks one enqueue may write: they are one transaction, which holds the write lock for some tenths of a second.
pub const ENQUEUE_TASKS_MAX: usize = 100_000;
/// How many bytes of arguments one enqueue may write, for the same reason.
pub const ENQUEUE_BYTES_MAX: usize = 256 << 20;

const DRAW: &str = "UPDATE sequence SET next = next + ?2 WHERE name = ?1 RETURNING next - ?2";
const ADD: &str = "INSERT INTO task (id, lane, lvl, created, due, schema, args, options, unique_key)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (id) DO NOTHING";
const ADD_BODY: &str = "INSERT INTO task_body (id, args) VALUES (?1, ?2)";
const BODY: &str = "SELECT args FROM task_body WHERE id = ?1";
pub(crate) const ADD_READY: &str = "INSERT INTO ready (lane, class, due, id, n, spent, losses)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
pub(crate) const READ: &str = "SELECT id, lane, lvl, created, due, schema, args, options, unique_key,
    schedule, slot, at, run, catch_up, version, pass FROM task WHERE id = ?1";

/// Draws `count` numbers of a kind.
pub(crate) fn draw(db: &Db, kind: &str, count: u32) -> Done<i64> {
    Ok(db.sql(DRAW)?.query_row(params![kind, count], |row| row.get(0))?)
}

/// Draws task ids.
pub(crate) fn draw_ids(session: &mut Session, count: u32) -> Done<IdBlock> {
    let Session { db, sequence, .. } = session;
    Ok(IdBlock::new(sequence.draw(db, count)?, count))
}

/// Checks every limit before the tasks are queued with others.
pub(crate) fn check(tasks: &[NewTask]) -> Result<(), StoreError> {
    if tasks.len() > ENQUEUE_TASKS_MAX {
        return Err(StoreError::refused(format!(
            "{} tasks in one enqueue are more than the limit of {ENQUEUE_TASKS_MAX}; enqueue them in parts",
            tasks.len()
        )));
    }
    let bytes = tasks.iter().fold(0usize, |sum, task| sum.saturating_add(task.args.len()));
    if bytes > ENQUEUE_BYTES_MAX {
        return Err(StoreError::refused(format!(
            "{bytes} bytes of arguments in one enqueue are more than the limit of {ENQUEUE_BYTES_MAX}; enqueue them in parts"
        )));
    }
    tasks.iter().try_for_each(NewTask::validate)
}

/// Writes tasks.
pub(crate) fn enqueue(session: &mut Session, tasks: &[NewTask]) -> Done<Vec<Enqueued>> {
    let now = session.now();
    let Session { db, names, definitions, sequence, .. } = session;
    write(&*db, Memory { names, definitions, sequence }, tasks, now)
}

/// What is remembered of the database that tasks are written to.
pub(crate) struct Memory<'a> {
    pub(crate) names: &'a mut Names,
    pub(crate) definitions: &'a mut Definitions,
    pub(crate) sequence: &'a mut Sequence,
}

/// Writes tasks, wherever statements run.
pub(crate) fn write(db: &dyn Sql, memory: Memory<'_>, tasks: &[NewTask], now: Timestamp) -> Done<Vec<Enqueued>> {
    let Memory { names, definitions, sequence } = memory;
    let mut add = db.sql(ADD)?;
    let mut add_ready = db.sql(ADD_READY)?;
    let mut given = Vec::with_capacity(tasks.len());
    for task in tasks {
        // A resend must not take its key again: the task may have ended and another may hold the key.
        if task.key.is_some() && check_resend(db, names, definitions, task)? {
            given.push(Enqueued { id: task.id, inserted: true });
            continue;
        }
        if let Some(key) = &task.key
            && let Some(holder) = keys::holder(db, names, key, task, now)?
        {
            match key.mode {
                KeyMode::Keep => given.push(Enqueued { id: TaskId(holder), inserted: false }),
                KeyMode::Reject => {
                    return Err(Fault::Store(StoreError::refused(format!(
                        "the unique key {:?} is held by task {}; nothing of this batch was written",
                        key.text,
                        TaskId(holder)
                    ))));
                }
            }
            continue;
        }
        let lane = names.lane(db, &task.queue, &task.method)?;
        if let Some(key) = &task.key
            && keys::take(db, key, names.pair(lane)?, task.id.0, now)?.is_some()
        {
            return Err(Fault::bug("a unique key was free and then held"));
        }
        let due = match task.due {
            Due::Now => now,
            Due::After(time) => now.after(time),
            Due::At(at) => at.max(now),
        };
        let inline = (task.args.len() <= INLINE_BYTES_MAX).then_some(&task.args[..]);
        let options = options_to_row(&task.options)?;
        let key = task.key.as_ref().map(keys::to_row).transpose()?;
        let schema = task.schema.cast_signed();
        let (id, due) = (task.id.0, due.as_micros());
        let inserted =
            add.execute(params![id, lane, task.level, now.as_micros(), due, schema, inline, options, key])? == 1;
        if inserted {
            if inline.is_none() {
                db.sql(ADD_BODY)?.execute(params![id, &task.args[..]])?;
            }
            add_ready.execute(params![lane, task.level, due, id, 0, 0, 0])?;
        } else if !check_resend(db, names, definitions, task)? {
            return Err(Fault::bug("a task's id was neither free nor taken"));
        }
        given.push(Enqueued { id: task.id, inserted: true });
    }
    // Ids that were not drawn here (a restored export, a test) must not be drawn later.
    if let Some(last) = tasks.iter().map(|task| task.id.0).max() {
        sequence.pass(db, last)?;
    }
    Ok(given)
}

/// Whether the task is there already. With the same content it is the resend of a write whose reply was lost; with other
/// content two callers use one id.
fn check_resend(db: &dyn Sql, names: &Names, definitions: &mut Definitions, task: &NewTask) -> Done<bool> {
    let Some(written) = read(db, task.id.0)? else { return Ok(false) };
    let (args, schema, options) = written.call(db, definitions)?;
    let same = names.find_lane(&task.queue, &task.method) == Some(written.lane)
        && written.level == task.level
        && args == task.args
        && schema == task.schema
        && options == task.options
        && written.series.is_none();
    if same {
        return Ok(true);
    }
    Err(Fault::Store(StoreError::refused(format!(
        "task {} is there already with another content; draw a fresh id for each task",
        task.id
    ))))
}

pub(crate) fn options_to_row(options: &TaskOptions) -> Done<Option<String>> {
    if options.is_default() {
        return Ok(None);
    }
    serde_json::to_string(options)
        .map(Some)
        .map_err(|error| Fault::bug(format!("a task's options are no JSON: {error}")))
}

/// A row of `task`.
#[derive(Debug)]
pub(crate) struct TaskRow {
    pub(crate) id: i64,
    pub(crate) lane: u32,
    pub(crate) level: u8,
    pub(crate) created: Timestamp,
    pub(crate) due: Timestamp,
    schema: Option<i64>,
    args: Option<Bytes>,
    options: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) series: Option<Series>,
}

/// What the row of an occurrence says more.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) schedule: ScheduleId,
    slot: Option<i64>,
    at: Timestamp,
    run: i64,
    catch_up: bool,
    version: u32,
    pass: u32,
}

impl TaskRow {
    /// The columns of [`READ`], in its order.
    pub(crate) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let schedule: Option<i64> = row.get(9)?;
        let series = match schedule {
            None => None,
            Some(schedule) => Some(Series {
                schedule: ScheduleId(schedule),
                slot: row.get(10)?,
                at: Timestamp::from_micros(row.get(11)?),
                run: row.get(12)?,
                catch_up: row.get(13)?,
                version: row.get(14)?,
                pass: row.get(15)?,
            }),
        };
        Ok(TaskRow {
            id: row.get(0)?,
            lane: row.get(1)?,
            level: row.get(2)?,
            created: Timestamp::from_micros(row.get(3)?),
            due: Timestamp::from_micros(row.get(4)?),
            schema: row.get(5)?,
            args: row.get_ref(6)?.as_blob_or_null()?.map(Bytes::copy_from_slice),
            options: row.get(7)?,
            key: row.get(8)?,
            series,
        })
    }

    /// The schedule whose occurrence it is; 0 for none.
    pub(crate) fn gate(&self) -> i64 {
        self.series.as_ref().map_or(0, |series| series.schedule.0)
    }

    /// The backfill that created it; 0 for none.
    pub(crate) fn pass(&self) -> u32 {
        self.series.as_ref().map_or(0, |series| series.pass)
    }

    /// Arguments, schema and options: the task's own, or those of the definition that it is an occurrence of.
    pub(crate) fn call(&self, db: &dyn Sql, definitions: &mut Definitions) -> Done<(Bytes, u64, TaskOptions)> {
        if let Some(series) = &self.series {
            let definition = definitions.get(db, series.schedule, series.version)?;
            let spec = &definition.spec;
            return Ok((spec.args.clone(), spec.schema, spec.options.clone()));
        }
        let args = match &self.args {
            Some(args) => args.clone(),
            None => db
                .sql(BODY)?
                .query_row(params![self.id], |row| Ok(Bytes::copy_from_slice(row.get_ref(0)?.as_blob()?)))
                .optional()?
                .ok_or_else(|| Fault::corrupt(format!("the arguments of task {} are missing", TaskId(self.id))))?,
        };
        let options = match &self.options {
            None => TaskOptions::default(),
            Some(json) => serde_json::from_str(json).map_err(|error| {
                Fault::unread(format!("the options of task {} cannot be read ({error})", TaskId(self.id)))
            })?,
        };
        Ok((args, self.schema.unwrap_or(0).cast_unsigned(), options))
    }

    /// The schedule's slot, for an occurrence.
    pub(crate) fn occurrence(&self, db: &Db, definitions: &mut Definitions) -> Done<Option<Occurrence>> {
        let Some(series) = &self.series else { return Ok(None) };
        let definition: Arc<Definition> = definitions.get(db, series.schedule, series.version)?;
        Ok(Some(series.occurrence(&definition.spec.name)))
    }
}

impl Series {
    /// Whether it was triggered beside the slots.
    pub(crate) fn is_trigger(&self) -> bool {
        self.slot.is_none()
    }

    pub(crate) fn occurrence(&self, name: &str) -> Occurrence {
        Occurrence {
            schedule: self.schedule,
            name: name.to_owned(),
            slot: self.slot.map(SlotKey::from_raw),
            at: self.at,
            run: self.run.cast_unsigned(),
            catch_up: self.catch_up,
            pass: self.pass,
        }
    }
}

/// One task's row.
pub(crate) fn read(db: &dyn Sql, id: i64) -> Done<Option<TaskRow>> {
    Ok(db.sql(READ)?.query_row(params![id], TaskRow::from_row).optional()?)
}
