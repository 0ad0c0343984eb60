//! Definitions of schedules: stored once a version, kept in memory with their rules compiled.

use crate::connection::{Db, Sql};
use crate::errors::{Done, Fault};
use bytes::Bytes;
use punctual_clock::Timestamp;
use punctual_task::schedule::{CompiledRule, RuleError};
use punctual_task::{ScheduleId, ScheduleSpec};
use rusqlite::{OptionalExtension, params};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// How much memory remembered definitions may take before all are forgotten: a sweep of 100,000 schedules stays bounded.
const BYTES_MAX: usize = 64 << 20;
/// What one definition takes beside its arguments: the spec's strings and the compiled rule.
const BYTES_EACH: usize = 2048;

/// One version of a schedule's definition.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) spec: ScheduleSpec,
    /// When the schedule was created.
    pub(crate) created: Timestamp,
    rule: OnceLock<Result<CompiledRule, RuleError>>,
}

impl Definition {
    /// The rule, compiled at its first use, or why this build cannot compile it.
    pub(crate) fn rule(&self) -> &Result<CompiledRule, RuleError> {
        self.rule.get_or_init(|| CompiledRule::new(&self.spec.rule, self.created))
    }
}

/// The definitions known so far. A version never changes, so that what is known stays right.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    known: BTreeMap<(i64, u32), Arc<Definition>>,
    bytes: usize,
}

const READ: &str = "SELECT d.spec, d.args, s.created FROM definition d JOIN schedule s ON s.id = d.schedule
    WHERE d.schedule = ?1 AND d.version = ?2";
const ADD: &str = "INSERT INTO definition (schedule, version, spec, args) VALUES (?1, ?2, ?3, ?4)";

impl Definitions {
    /// One version of a schedule's definition.
    pub(crate) fn get(&mut self, db: &dyn Sql, schedule: ScheduleId, version: u32) -> Done<Arc<Definition>> {
        if let Some(known) = self.known.get(&(schedule.0, version)) {
            return Ok(known.clone());
        }
        let row = db.sql(READ)?.query_row(params![schedule.0, version], |row| read_row(row, 0)).optional()?;
        let missing = || Fault::corrupt(format!("schedule {} has no definition of version {version}", schedule.0));
        let (json, args, created) = row.ok_or_else(missing)?;
        let spec = spec_from(&json, args)?;
        let definition = Arc::new(Definition { spec, created, rule: OnceLock::new() });
        self.remember(schedule, version, definition.clone());
        Ok(definition)
    }

    fn remember(&mut self, schedule: ScheduleId, version: u32, definition: Arc<Definition>) {
        let bytes = BYTES_EACH + definition.spec.args.len();
        if self.bytes.saturating_add(bytes) > BYTES_MAX {
            self.known.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.known.insert((schedule.0, version), definition);
    }
}

/// Writes a version of a definition.
pub(crate) fn add(db: &Db, schedule: ScheduleId, version: u32, spec: &ScheduleSpec) -> Done<()> {
    // The arguments go beside the JSON: as JSON they would be a list of numbers, four times as long.
    let json = serde_json::to_string(&ScheduleSpec { args: Bytes::new(), ..spec.clone() })
        .map_err(|error| Fault::bug(format!("a definition is no JSON: {error}")))?;
    db.sql(ADD)?.execute(params![schedule.0, version, json, &spec.args[..]])?;
    Ok(())
}

/// The columns `spec`, `args` and `created`, in this order, from column `at` on.
pub(crate) fn read_row(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<(String, Bytes, Timestamp)> {
    let args = Bytes::copy_from_slice(row.get_ref(at + 1)?.as_blob()?);
    Ok((row.get(at)?, args, Timestamp::from_micros(row.get(at + 2)?)))
}

/// The definition that a row holds.
pub(crate) fn spec_from(json: &str, args: Bytes) -> Done<ScheduleSpec> {
    let spec: ScheduleSpec = serde_json::from_str(json)
        .map_err(|error| Fault::unread(format!("a schedule's definition cannot be read ({error})")))?;
    Ok(ScheduleSpec { args, ..spec })
}

#[cfg(test)]
mod tests;
