//! Enqueues: how tasks are written. The usual batch, without unique keys and with fresh ids, is one statement that is its own
//! transaction; what needs a second look is one of a few round trips.

use crate::errors::{Done, Fault};
use crate::keys::{self, Place};
use crate::names::Lane;
use crate::session::{Asking, Session, Step, step};
use crate::store::Shared;
use crate::tasks::{self, INLINE_BYTES_MAX, TaskRow};
use punctual_clock::Timestamp;
use punctual_task::{Due, Enqueued, KeyHold, KeyMode, NewTask, StoreError, TaskId, TaskOptions};
use std::collections::BTreeMap;

/// How many tasks one enqueue may write: they are one transaction.
pub const ENQUEUE_TASKS_MAX: usize = 100_000;
/// How many bytes of arguments one enqueue may write, for the same reason.
pub const ENQUEUE_BYTES_MAX: usize = 256 << 20;
/// About how many bytes go into one statement: a longer one costs more than two shorter ones.
const STATEMENT_BYTES_MAX: usize = 3 << 20;
/// How many tasks go into one statement.
const STATEMENT_TASKS_MAX: usize = 5_000;
/// What a task takes in a statement beside its arguments.
const TASK_BYTES: usize = 100;

pub(crate) const ADD: &str = "WITH c AS MATERIALIZED
        (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now),
    u AS MATERIALIZED (SELECT u.*, c.now, greatest(c.now, coalesce(u.at, c.now + u.after)) AS due FROM c,
        unnest($2::bigint[], $3::int[], $4::smallint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bytea[], $9::text[],
            $10::text[]) u (id, lane, lvl, at, after, schema, args, options, unique_key)),
    t AS (INSERT INTO task (id, lane, lvl, created, due, schema, args, options, unique_key)
        SELECT id, lane, lvl, now, due, schema, CASE WHEN length(args) <= 1024 THEN args END, options, unique_key FROM u),
    b AS (INSERT INTO task_body (id, args) SELECT id, args FROM u WHERE length(args) > 1024)
    INSERT INTO ready (id, due, lane, n, spent, losses, class) SELECT id, due, lane, 0, 0, 0, lvl FROM u";

const _: () = assert!(INLINE_BYTES_MAX == 1024, "the statement says so too");

/// Checks every limit before anything is sent.
pub(crate) fn check(tasks: &[NewTask]) -> Result<(), StoreError> {
    if tasks.len() > ENQUEUE_TASKS_MAX {
        return Err(StoreError::refused(format!(
            "{} tasks in one enqueue are more than the limit of {ENQUEUE_TASKS_MAX}; enqueue them in parts",
            tasks.len()
        )));
    }
    let bytes = bytes_of(tasks);
    if bytes > ENQUEUE_BYTES_MAX {
        return Err(StoreError::refused(format!(
            "{bytes} bytes of arguments in one enqueue are more than the limit of {ENQUEUE_BYTES_MAX}; enqueue them in parts"
        )));
    }
    tasks.iter().try_for_each(NewTask::validate)
}

pub(crate) fn bytes_of(tasks: &[NewTask]) -> usize {
    tasks.iter().fold(0usize, |sum, task| sum.saturating_add(task.args.len()))
}

/// Writes tasks.
pub(crate) async fn enqueue(shared: &Shared, session: &mut Session, batch: &[NewTask]) -> Done<Vec<Enqueued>> {
    let Some(last) = batch.iter().map(|task| task.id.0).max() else { return Ok(Vec::new()) };
    let pairs: Vec<(&str, &str)> = batch.iter().map(|task| (&*task.queue, &*task.method)).collect();
    let lanes = shared.names.lanes(session, &pairs).await?;
    shared.sequence.pass(session, last).await?;
    let list = shared.names.list(&lanes);
    let all: Vec<(&NewTask, Lane)> = batch.iter().zip(lanes.iter().copied()).collect();
    if list.is_none() && batch.iter().all(|task| task.key.is_none()) {
        let mut steps = additions(&all, shared.own_now())?;
        if let (Some(step), true) = (steps.pop(), steps.is_empty()) {
            match session.once(step).await {
                Ok(_) => return Ok(batch.iter().map(|task| Enqueued { id: task.id, inserted: true }).collect()),
                // An id is there already: nothing was written, and a closer look says what it is.
                Err(fault) if fault.is_duplicate() => {}
                Err(fault) => return Err(fault),
            }
        }
    }
    let (new, given) = sort_out(session, &all).await?;
    let now = session.now()?;
    let mut steps = additions(&new, Some(now))?;
    steps.extend(list);
    session.commit(steps).await.map_err(|fault| {
        // Between the look and the write another call wrote one of the tasks: the same call again, most likely.
        if fault.is_duplicate() { Fault::Again("the tasks") } else { fault }
    })?;
    shared.names.listed(&lanes);
    Ok(given)
}

/// The statements that write these tasks, each of a bounded size.
pub(crate) fn additions(tasks: &[(&NewTask, Lane)], now: Option<Timestamp>) -> Done<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = tasks;
    while !rest.is_empty() {
        let mut bytes = 0usize;
        let fits = |(task, _): &&(&NewTask, Lane)| {
            bytes = bytes.saturating_add(task.args.len() + TASK_BYTES);
            bytes <= STATEMENT_BYTES_MAX
        };
        let count = rest.iter().take(STATEMENT_TASKS_MAX).take_while(fits).count().max(1);
        let (part, others) = rest.split_at(count);
        steps.push(addition(part, now)?);
        rest = others;
    }
    Ok(steps)
}

fn addition(tasks: &[(&NewTask, Lane)], now: Option<Timestamp>) -> Done<Step> {
    let (mut ids, mut lanes, mut levels) = (Vec::new(), Vec::new(), Vec::new());
    let (mut ats, mut afters, mut schemas) = (Vec::new(), Vec::new(), Vec::new());
    let (mut args, mut options, mut unique) = (Vec::new(), Vec::new(), Vec::new());
    for (task, lane) in tasks {
        let (at, after) = match task.due {
            Due::Now => (None, 0),
            Due::After(time) => (None, i64::try_from(time.as_micros()).unwrap_or(i64::MAX).min(i64::MAX / 2)),
            Due::At(at) => (Some(at.as_micros()), 0),
        };
        ids.push(task.id.0);
        lanes.push(lane.id);
        levels.push(i16::from(task.level));
        ats.push(at);
        afters.push(after);
        schemas.push(task.schema.cast_signed());
        args.push(task.args.to_vec());
        options.push(options_to_row(&task.options)?);
        unique.push(task.key.as_ref().map(keys::to_row).transpose()?);
    }
    let now = now.map(Timestamp::as_micros);
    Ok(step!(ADD, now, ids, lanes, levels, ats, afters, schemas, args, options, unique))
}

/// What is really new in a batch, and the answer for all of it. Takes the keys of what is new.
pub(crate) async fn sort_out<'a>(
    session: &mut impl Asking,
    batch: &[(&'a NewTask, Lane)],
) -> Done<(Vec<(&'a NewTask, Lane)>, Vec<Enqueued>)> {
    let ids: Vec<i64> = batch.iter().map(|(task, _)| task.id.0).collect();
    let there = tasks::read_all(session, ids).await?;
    let there: BTreeMap<i64, TaskRow> = there.into_iter().map(|row| (row.id, row)).collect();
    let mut first: BTreeMap<i64, &NewTask> = BTreeMap::new();
    let mut wanted: BTreeMap<Place, (i64, KeyHold)> = BTreeMap::new();
    for (task, lane) in batch {
        // A resend must not take its key again: the task may have ended and another may hold the key.
        if let Some(row) = there.get(&task.id.0) {
            check_resend(task, *lane, row)?;
            continue;
        }
        match first.get(&task.id.0) {
            Some(same) if *same == *task => continue,
            Some(_) => return Err(other_content(task.id)),
            None => drop(first.insert(task.id.0, task)),
        }
        if let Some(key) = &task.key {
            wanted.entry(Place::new(key, *lane)).or_insert((task.id.0, key.hold));
        }
    }
    let held = if wanted.is_empty() { BTreeMap::new() } else { keys::take(session, &wanted).await? };
    let mut new = Vec::new();
    let mut given = Vec::with_capacity(batch.len());
    for (task, lane) in batch {
        let fresh = first.get(&task.id.0).is_some_and(|first| std::ptr::eq(*first, *task));
        if let Some(key) = task.key.as_ref().filter(|_| fresh) {
            let place = Place::new(key, *lane);
            let taker = wanted.get(&place).map(|(taker, _)| *taker);
            let holder = held.get(&place).copied().or(taker).filter(|holder| *holder != task.id.0);
            match (holder, key.mode) {
                (None, _) => {}
                (Some(holder), KeyMode::Keep) => {
                    given.push(Enqueued { id: TaskId(holder), inserted: false });
                    continue;
                }
                (Some(holder), KeyMode::Reject) => {
                    return Err(Fault::Store(StoreError::refused(format!(
                        "the unique key {:?} is held by task {}; nothing of this batch was written",
                        key.text,
                        TaskId(holder)
                    ))));
                }
            }
        }
        if fresh {
            new.push((*task, *lane));
        }
        given.push(Enqueued { id: task.id, inserted: true });
    }
    Ok((new, given))
}

/// With the same content, a task that is there already is the resend of a write whose reply was lost; with other content two
/// callers use one id.
fn check_resend(task: &NewTask, lane: Lane, row: &TaskRow) -> Done<()> {
    if row.series.is_some() {
        return Err(other_content(task.id));
    }
    let (args, schema, options) = row.call(None)?;
    let same = row.lane == lane.id
        && row.level == task.level
        && args == task.args
        && schema == task.schema
        && options == task.options;
    if same { Ok(()) } else { Err(other_content(task.id)) }
}

fn other_content(task: TaskId) -> Fault {
    Fault::Store(StoreError::refused(format!(
        "task {task} is there already with another content; draw a fresh id for each task"
    )))
}

fn options_to_row(options: &TaskOptions) -> Done<Option<String>> {
    if options.is_default() {
        return Ok(None);
    }
    serde_json::to_string(options)
        .map(Some)
        .map_err(|error| Fault::bug(format!("a task's options are no JSON: {error}")))
}
