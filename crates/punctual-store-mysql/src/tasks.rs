//! Tasks: what is written when they are enqueued, and what a row says of one.

use crate::answers::cell;
use crate::connection::Session;
use crate::definitions::{self, Definition};
use crate::errors::{Done, Fault};
use crate::ids;
use crate::keys;
use crate::names;
use crate::script::{Script, Value};
use bytes::Bytes;
use mysql_async::Row;
use punctual_clock::Timestamp;
use punctual_task::rows::FLAG_KEY;
use punctual_task::schedule::SlotKey;
use punctual_task::{
    Due, Enqueued, KeyMode, KeyScope, NewTask, Occurrence, ScheduleId, StoreError, TaskId, TaskOptions, UniqueKey,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Arguments above this go to a table of their own, so that reading tasks does not read over them.
pub(crate) const INLINE_BYTES_MAX: usize = 1024;
/// How many tasks one enqueue may write: they are one transaction, which takes some seconds.
pub const ENQUEUE_TASKS_MAX: usize = 100_000;
/// How many bytes of arguments one enqueue may write, for the same reason.
pub const ENQUEUE_BYTES_MAX: usize = 256 << 20;

const ADD: &str = "INSERT INTO punctual_task (id, lane, lvl, created, due, shape, args, options, unique_key) VALUES ";
const ADD_BODY: &str = "INSERT INTO punctual_task_body (id, args) VALUES ";
const ADD_READY: &str = "INSERT INTO punctual_ready (lane, class, due, id, n, spent, losses, gate, flags) VALUES ";
const BODIES: &str = "SELECT id, args FROM punctual_task_body FORCE INDEX (PRIMARY) WHERE id IN (?)";
pub(crate) const READ: &str = "SELECT id, lane, lvl, created, due, shape, args, options, unique_key,
    schedule, slot, at, run, catch_up, version, pass FROM punctual_task FORCE INDEX (PRIMARY) WHERE id IN (?)";

/// Checks every limit before anything is asked of the server.
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

/// Whether nothing has to be looked up before the tasks are written.
pub(crate) fn is_plain(tasks: &[NewTask]) -> bool {
    tasks.iter().all(|task| task.key.is_none())
}

/// Writes tasks, all or none.
pub(crate) async fn enqueue(session: &mut Session, tasks: &[NewTask], careful: bool) -> Done<Vec<Enqueued>> {
    if tasks.is_empty() {
        return Ok(Vec::new());
    }
    if !careful
        && is_plain(tasks)
        && let Some(lanes) = known_lanes(session, tasks)
    {
        let mut script = Script::new();
        let last = tasks.iter().map(|task| task.id.0).max().unwrap_or_default();
        ids::pass(session, last, &mut script).await?;
        write(&mut script, &tasks.iter().zip(lanes).collect::<Vec<_>>())?;
        session.write_at_once(&script).await?;
        return Ok(tasks.iter().map(|task| Enqueued { id: task.id, inserted: true }).collect());
    }
    enqueue_carefully(session, tasks).await
}

/// The lanes of all tasks, if no name is new.
fn known_lanes(session: &Session, tasks: &[NewTask]) -> Option<Vec<u32>> {
    let names = session.shared.names();
    tasks.iter().map(|task| names.find(&task.queue, &task.method)).collect()
}

/// Looks at what is there already, task by task as in the request: resends, and unique keys.
async fn enqueue_carefully(session: &mut Session, tasks: &[NewTask]) -> Done<Vec<Enqueued>> {
    let ids: Vec<i64> = tasks.iter().map(|task| task.id.0).collect();
    let mut first = Script::new();
    let parts = first.parts(READ, &ids);
    let (_, mut answers) = session.begin(&first).await?;
    let known = TaskRow::from_rows(&answers.rows_of(parts)?)?;
    check_resends(session, tasks, &known).await?;
    let mut given = Vec::with_capacity(tasks.len());
    let mut fresh: BTreeMap<TaskId, (&NewTask, u32)> = BTreeMap::new();
    for task in tasks {
        // A resend must not take its key again: the task may have ended and another may hold the key.
        if known.contains_key(&task.id.0) {
            given.push(Enqueued { id: task.id, inserted: true });
            continue;
        }
        if let Some((other, _)) = fresh.get(&task.id) {
            if *other != task {
                return Err(taken_id(task.id));
            }
            given.push(Enqueued { id: task.id, inserted: true });
            continue;
        }
        if let Some(key) = &task.key
            && let Some(holder) = holder(session, key, task).await?
        {
            given.push(held(key, holder)?);
            continue;
        }
        let lane = names::lane(session, &task.queue, &task.method).await?;
        if let Some(key) = &task.key {
            let pairs = names::pairs(session, [lane]).await?;
            let pair = pairs.get(&lane).ok_or_else(|| Fault::bug("a lane without its names"))?;
            // Somebody may have taken it since it was looked at.
            if let Some(holder) = keys::take(session, key, pair, task.id.0).await? {
                given.push(held(key, holder)?);
                continue;
            }
        }
        fresh.insert(task.id, (task, lane));
        given.push(Enqueued { id: task.id, inserted: true });
    }
    let mut script = Script::new();
    if let Some(last) = ids.iter().max() {
        ids::pass(session, *last, &mut script).await?;
    }
    // In the order of the request: tasks that are due at once are claimed in the order of their ids all the same.
    write(&mut script, &fresh.into_values().collect::<Vec<_>>())?;
    session.commit(script).await?;
    Ok(given)
}

pub(crate) fn held(key: &UniqueKey, holder: i64) -> Done<Enqueued> {
    match key.mode {
        KeyMode::Keep => Ok(Enqueued { id: TaskId(holder), inserted: false }),
        KeyMode::Reject => Err(Fault::Store(StoreError::refused(format!(
            "the unique key {:?} is held by task {}; nothing of this batch was written",
            key.text,
            TaskId(holder)
        )))),
    }
}

/// The task that holds a key which a new task asks for.
async fn holder(session: &mut Session, key: &UniqueKey, task: &NewTask) -> Done<Option<i64>> {
    let target = match key.scope {
        KeyScope::Method => names::find_method(session, &task.method).await?,
        KeyScope::Queue => names::find_queue(session, &task.queue).await?,
    };
    match target {
        Some(target) => keys::holder(session, key, target).await,
        None => Ok(None),
    }
}

/// Adds what writes tasks that are new, with their lanes.
pub(crate) fn write(script: &mut Script, tasks: &[(&NewTask, u32)]) -> Done<()> {
    let mut texts = Vec::with_capacity(tasks.len());
    for (task, _) in tasks {
        texts.push((options_to_row(&task.options)?, task.key.as_ref().map(keys::to_row).transpose()?));
    }
    let rows = tasks.iter().zip(&texts).map(|((task, lane), (options, key))| {
        let inline = (task.args.len() <= INLINE_BYTES_MAX).then_some(&task.args[..]);
        [
            Value::from(task.id.0),
            (*lane).into(),
            task.level.into(),
            Value::Now,
            due(task.due),
            task.schema.cast_signed().into(),
            inline.into(),
            options.as_deref().into(),
            key.as_deref().into(),
        ]
    });
    script.insert(ADD, rows, "");
    let large = tasks.iter().filter(|(task, _)| task.args.len() > INLINE_BYTES_MAX);
    script.insert(ADD_BODY, large.map(|(task, _)| [task.id.0.into(), (&task.args[..]).into()]), "");
    let rows = tasks.iter().map(|(task, lane)| {
        let flags = if task.key.is_some() { FLAG_KEY } else { 0 };
        [
            Value::from(*lane),
            task.level.into(),
            due(task.due),
            task.id.0.into(),
            Value::Int(0),
            Value::Int(0),
            Value::Int(0),
            Value::Int(0),
            flags.into(),
        ]
    });
    script.insert(ADD_READY, rows, "");
    Ok(())
}

fn due(due: Due) -> Value<'static> {
    match due {
        Due::Now => Value::Now,
        Due::After(time) => Value::After(i64::try_from(time.as_micros()).unwrap_or(i64::MAX / 4)),
        Due::At(at) => Value::NotBefore(at.as_micros()),
    }
}

fn taken_id(id: TaskId) -> Fault {
    Fault::Store(StoreError::refused(format!(
        "task {id} is there already with another content; draw a fresh id for each task"
    )))
}

/// A task that is there already with the same content is the resend of a write whose reply was lost; with other content
/// two callers use one id.
async fn check_resends(session: &mut Session, tasks: &[NewTask], known: &BTreeMap<i64, TaskRow>) -> Done<()> {
    if known.is_empty() {
        return Ok(());
    }
    let rows: Vec<&TaskRow> = known.values().collect();
    let calls = calls(session, &rows).await?;
    let pairs = names::pairs(session, rows.iter().map(|row| row.lane)).await?;
    let calls: BTreeMap<i64, Done<Call>> = rows.iter().map(|row| row.id).zip(calls).collect();
    for task in tasks {
        let Some(written) = known.get(&task.id.0) else { continue };
        let same = match (calls.get(&task.id.0), pairs.get(&written.lane)) {
            (Some(Ok(call)), Some(lane)) => {
                *lane.queue_name == *task.queue
                    && *lane.method_name == *task.method
                    && written.level == task.level
                    && call.args == task.args
                    && call.schema == task.schema
                    && call.options == task.options
                    && written.series.is_none()
            }
            _ => false,
        };
        if !same {
            return Err(taken_id(task.id));
        }
    }
    Ok(())
}

pub(crate) fn options_to_row(options: &TaskOptions) -> Done<Option<Vec<u8>>> {
    if options.is_default() {
        return Ok(None);
    }
    serde_json::to_vec(options).map(Some).map_err(|error| Fault::bug(format!("a task's options are no JSON: {error}")))
}

/// A row of `task`.
#[derive(Debug)]
pub(crate) struct TaskRow {
    pub(crate) id: i64,
    pub(crate) lane: u32,
    pub(crate) level: u8,
    pub(crate) created: Timestamp,
    pub(crate) due: Timestamp,
    shape: Option<i64>,
    args: Option<Bytes>,
    options: Option<Bytes>,
    pub(crate) key: Option<Bytes>,
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

/// What a worker needs to run a task.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) args: Bytes,
    pub(crate) schema: u64,
    pub(crate) options: TaskOptions,
    pub(crate) occurrence: Option<Occurrence>,
}

impl TaskRow {
    /// The columns of [`READ`], in its order.
    pub(crate) fn from_row(row: &Row) -> Done<Self> {
        let schedule: Option<i64> = cell(row, 9)?;
        let series = match schedule {
            None => None,
            Some(schedule) => Some(Series {
                schedule: ScheduleId(schedule),
                slot: cell(row, 10)?,
                at: Timestamp::from_micros(cell(row, 11)?),
                run: cell(row, 12)?,
                catch_up: cell(row, 13)?,
                version: cell(row, 14)?,
                pass: cell(row, 15)?,
            }),
        };
        Ok(TaskRow {
            id: cell(row, 0)?,
            lane: cell(row, 1)?,
            level: cell(row, 2)?,
            created: Timestamp::from_micros(cell(row, 3)?),
            due: Timestamp::from_micros(cell(row, 4)?),
            shape: cell(row, 5)?,
            args: cell(row, 6)?,
            options: cell(row, 7)?,
            key: cell(row, 8)?,
            series,
        })
    }

    pub(crate) fn from_rows(rows: &[Row]) -> Done<BTreeMap<i64, TaskRow>> {
        rows.iter().map(|row| TaskRow::from_row(row).map(|task| (task.id, task))).collect()
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
    fn call(&self, body: Option<&Bytes>, definition: Option<&Done<Arc<Definition>>>) -> Done<Call> {
        if let Some(series) = &self.series {
            let definition = match definition {
                Some(Ok(definition)) => definition,
                Some(Err(Fault::Store(error))) => return Err(Fault::Store(error.clone())),
                Some(Err(_)) | None => return Err(Fault::corrupt("an occurrence without its definition")),
            };
            let spec = &definition.spec;
            return Ok(Call {
                args: spec.args.clone(),
                schema: spec.schema,
                options: spec.options.clone(),
                occurrence: Some(series.occurrence(&spec.name)),
            });
        }
        let args = self
            .args
            .as_ref()
            .or(body)
            .cloned()
            .ok_or_else(|| Fault::corrupt(format!("the arguments of task {} are missing", TaskId(self.id))))?;
        let options = match &self.options {
            None => TaskOptions::default(),
            Some(json) => serde_json::from_slice(json).map_err(|error| {
                Fault::unread(format!("the options of task {} cannot be read ({error})", TaskId(self.id)))
            })?,
        };
        Ok(Call { args, schema: self.shape.unwrap_or(0).cast_unsigned(), options, occurrence: None })
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

/// What is needed to run these tasks, in their order; each is there or is why it cannot be read.
pub(crate) async fn calls(session: &mut Session, tasks: &[&TaskRow]) -> Done<Vec<Done<Call>>> {
    let series = tasks.iter().filter_map(|task| task.series.as_ref());
    let versions: Vec<_> = series.map(|series| (series.schedule, series.version)).collect();
    let read = definitions::read(session, versions).await?;
    let large = |task: &&&TaskRow| task.series.is_none() && task.args.is_none();
    let large: Vec<i64> = tasks.iter().filter(large).map(|task| task.id).collect();
    let mut bodies = BTreeMap::new();
    // Each may have some megabytes.
    for part in large.chunks(16) {
        for row in session.run(&Script::of(BODIES, &[part.into()])).await?.rows()? {
            bodies.insert(cell::<i64>(&row, 0)?, cell::<Bytes>(&row, 1)?);
        }
    }
    let call = |task: &&TaskRow| {
        let version = task.series.as_ref().map(|series| (series.schedule.0, series.version));
        task.call(bodies.get(&task.id), version.and_then(|version| read.get(&version)))
    };
    Ok(tasks.iter().map(call).collect())
}

/// Task rows by their ids.
pub(crate) async fn read(session: &mut Session, ids: &[i64]) -> Done<BTreeMap<i64, TaskRow>> {
    let mut script = Script::new();
    let parts = script.parts(READ, ids);
    TaskRow::from_rows(&session.run(&script).await?.rows_of(parts)?)
}
