//! Definitions of schedules: stored once a version, kept in memory with their rules compiled.

use crate::errors::{Done, Fault};
use crate::session::{Session, Step, step};
use bytes::Bytes;
use punctual_clock::Timestamp;
use punctual_task::schedule::{CompiledRule, RuleError};
use punctual_task::{ScheduleId, ScheduleSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio_postgres::Row;

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

/// A schedule and a version of its definition.
pub(crate) type Version = (ScheduleId, i32);
/// Definitions that were read, each readable or not.
pub(crate) type Read = BTreeMap<Version, Done<Arc<Definition>>>;

/// The definitions known so far. A version never changes, so that what is known stays right.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    definitions: BTreeMap<Version, Arc<Definition>>,
    bytes: usize,
}

const READ: &str = "SELECT d.schedule, d.version, d.spec, d.args, s.created
    FROM unnest($1::bigint[], $2::int[]) u (schedule, version)
    JOIN definition d ON d.schedule = u.schedule AND d.version = u.version JOIN schedule s ON s.id = d.schedule";
const ADD: &str = "INSERT INTO definition (schedule, version, spec, args) VALUES ($1, $2, $3, $4)";

impl Definitions {
    /// Versions of definitions: those that are known, and the others from the database.
    pub(crate) async fn get_all(&self, session: &mut Session, versions: &BTreeSet<Version>) -> Done<Read> {
        let mut found = Read::new();
        let mut missing = Vec::new();
        {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            for version in versions {
                match known.definitions.get(version) {
                    Some(definition) => drop(found.insert(*version, Ok(definition.clone()))),
                    None => missing.push(*version),
                }
            }
        }
        if missing.is_empty() {
            return Ok(found);
        }
        let (schedules, numbers): (Vec<i64>, Vec<i32>) = missing.iter().map(|(id, version)| (id.0, *version)).unzip();
        for row in session.rows(step!(READ, schedules, numbers)).await? {
            let version = (ScheduleId(row.try_get(0)?), row.try_get(1)?);
            let definition = read_row(&row, 2).map(|(spec, created)| {
                let definition = Arc::new(Definition { spec, created, rule: OnceLock::new() });
                self.remember(version, definition.clone());
                definition
            });
            found.insert(version, definition);
        }
        for version in missing {
            found.entry(version).or_insert_with(|| {
                Err(Fault::corrupt(format!("schedule {} has no definition of version {}", version.0.0, version.1)))
            });
        }
        Ok(found)
    }

    /// One version of a schedule's definition.
    pub(crate) async fn get(&self, session: &mut Session, version: Version) -> Done<Arc<Definition>> {
        let mut found = self.get_all(session, &BTreeSet::from([version])).await?;
        found.remove(&version).unwrap_or_else(|| Err(Fault::bug("a definition that was asked for was not read")))
    }

    fn remember(&self, version: Version, definition: Arc<Definition>) {
        let bytes = BYTES_EACH + definition.spec.args.len();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.bytes.saturating_add(bytes) > BYTES_MAX {
            *known = Known::default();
        }
        known.bytes += bytes;
        known.definitions.insert(version, definition);
    }
}

/// Writes a version of a definition.
pub(crate) fn add(schedule: ScheduleId, version: u32, spec: &ScheduleSpec) -> Done<Step> {
    // The arguments go beside the JSON: as JSON they would be a list of numbers, four times as long.
    let json = serde_json::to_string(&ScheduleSpec { args: Bytes::new(), ..spec.clone() })
        .map_err(|error| Fault::bug(format!("a definition is no JSON: {error}")))?;
    Ok(step!(ADD, schedule.0, version.cast_signed(), json, spec.args.to_vec()))
}

/// The columns `spec`, `args` and `created`, in this order, from column `at` on.
pub(crate) fn read_row(row: &Row, at: usize) -> Done<(ScheduleSpec, Timestamp)> {
    let (json, args): (&str, &[u8]) = (row.try_get(at)?, row.try_get(at + 1)?);
    let spec: ScheduleSpec = serde_json::from_str(json)
        .map_err(|error| Fault::unread(format!("a schedule's definition cannot be read ({error})")))?;
    let created = Timestamp::from_micros(row.try_get(at + 2)?);
    Ok((ScheduleSpec { args: Bytes::copy_from_slice(args), ..spec }, created))
}
