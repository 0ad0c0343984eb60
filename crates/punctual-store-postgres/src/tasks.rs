//! What a task's row says.

use crate::definitions::{Definition, Definitions, Version};
use crate::errors::{Done, Fault};
use crate::session::{Asking, Session, step};
use bytes::Bytes;
use punctual_clock::Timestamp;
use punctual_task::schedule::SlotKey;
use punctual_task::{Occurrence, ScheduleId, TaskId, TaskOptions};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio_postgres::Row;

/// Arguments above this go to a table of their own, so that reading tasks does not read over them.
pub(crate) const INLINE_BYTES_MAX: usize = 1024;

pub(crate) const READ: &str =
    "SELECT t.id, t.lane, t.lvl, t.created, t.due, t.schema, t.options, t.unique_key, t.schedule,
    t.slot, t.at, t.run, t.catch_up, t.version, coalesce(t.args, b.args), t.pass
    FROM unnest($1::bigint[]) u (id) JOIN task t ON t.id = u.id LEFT JOIN task_body b ON b.id = t.id";

/// A row of `task`, with its arguments wherever they lie.
#[derive(Debug)]
pub(crate) struct TaskRow {
    pub(crate) id: i64,
    pub(crate) lane: i32,
    pub(crate) level: u8,
    pub(crate) created: Timestamp,
    schema: Option<i64>,
    options: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) series: Option<Series>,
    args: Option<Bytes>,
}

/// What the row of an occurrence says more.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) schedule: ScheduleId,
    slot: Option<i64>,
    at: Timestamp,
    run: i64,
    catch_up: bool,
    version: i32,
    pass: i32,
}

impl TaskRow {
    /// The columns of [`READ`], in its order, from column `at` on.
    pub(crate) fn from_row(row: &Row, at: usize) -> Done<Self> {
        let schedule: Option<i64> = row.try_get(at + 8)?;
        let series = match schedule {
            None => None,
            Some(schedule) => Some(Series {
                schedule: ScheduleId(schedule),
                slot: row.try_get(at + 9)?,
                at: Timestamp::from_micros(row.try_get(at + 10)?),
                run: row.try_get(at + 11)?,
                catch_up: row.try_get(at + 12)?,
                version: row.try_get(at + 13)?,
                pass: row.try_get(at + 15)?,
            }),
        };
        let args: Option<&[u8]> = row.try_get(at + 14)?;
        Ok(TaskRow {
            id: row.try_get(at)?,
            lane: row.try_get(at + 1)?,
            level: level(row.try_get(at + 2)?),
            created: Timestamp::from_micros(row.try_get(at + 3)?),
            schema: row.try_get(at + 5)?,
            options: row.try_get(at + 6)?,
            key: row.try_get(at + 7)?,
            series,
            args: args.map(Bytes::copy_from_slice),
        })
    }

    /// The schedule whose occurrence it is; 0 for none.
    pub(crate) fn gate(&self) -> i64 {
        self.series.as_ref().map_or(0, |series| series.schedule.0)
    }

    /// The backfill that created it; 0 for none.
    pub(crate) fn pass(&self) -> i32 {
        self.series.as_ref().map_or(0, |series| series.pass)
    }

    /// The definition that it is an occurrence of.
    pub(crate) fn version(&self) -> Option<Version> {
        self.series.as_ref().map(|series| (series.schedule, series.version))
    }

    /// Arguments, schema and options: the task's own, or those of the definition that it is an occurrence of.
    pub(crate) fn call(&self, definition: Option<&Arc<Definition>>) -> Done<(Bytes, u64, TaskOptions)> {
        if let Some(definition) = definition {
            let spec = &definition.spec;
            return Ok((spec.args.clone(), spec.schema, spec.options.clone()));
        }
        let missing = || Fault::corrupt(format!("the arguments of task {} are missing", TaskId(self.id)));
        let args = self.args.clone().ok_or_else(missing)?;
        let options = match &self.options {
            None => TaskOptions::default(),
            Some(json) => serde_json::from_str(json).map_err(|error| {
                Fault::unread(format!("the options of task {} cannot be read ({error})", TaskId(self.id)))
            })?,
        };
        Ok((args, self.schema.unwrap_or(0).cast_unsigned(), options))
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
            pass: self.pass.cast_unsigned(),
        }
    }
}

/// A level as a row holds it; a claim never reads another than 0 to 3.
fn level(number: i16) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// Tasks' rows, in no order.
pub(crate) async fn read_all(session: &mut impl Asking, ids: Vec<i64>) -> Done<Vec<TaskRow>> {
    let rows = session.ask(vec![step!(READ, ids)]).await?.pop().unwrap_or_default();
    rows.iter().map(|row| TaskRow::from_row(row, 0)).collect()
}

/// One task's row.
pub(crate) async fn read(session: &mut Session, id: i64) -> Done<Option<TaskRow>> {
    Ok(read_all(session, vec![id]).await?.pop())
}

/// The definitions that occurrences among these are of.
pub(crate) async fn definitions_of(
    session: &mut Session,
    definitions: &Definitions,
    tasks: impl Iterator<Item = &TaskRow>,
) -> Done<crate::definitions::Read> {
    let versions: BTreeSet<Version> = tasks.filter_map(TaskRow::version).collect();
    definitions.get_all(session, &versions).await
}
