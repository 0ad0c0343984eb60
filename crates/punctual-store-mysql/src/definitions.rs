//! Definitions of schedules: stored once a version, kept in memory with their rules compiled.

use crate::answers::cell;
use crate::connection::Session;
use crate::errors::{Done, Fault};
use crate::script::{Script, Value};
use bytes::Bytes;
use punctual_clock::Timestamp;
use punctual_task::schedule::{CompiledRule, RuleError};
use punctual_task::{ScheduleId, ScheduleSpec};
use std::collections::{BTreeMap, BTreeSet};
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

/// A schedule and a version of its definition.
pub(crate) type Version = (ScheduleId, u32);

/// The definitions known so far. A version never changes, so that what is known stays right.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    known: BTreeMap<(i64, u32), Arc<Definition>>,
    bytes: usize,
}

impl Definitions {
    fn get(&self, (schedule, version): Version) -> Option<Arc<Definition>> {
        self.known.get(&(schedule.0, version)).cloned()
    }

    fn remember(&mut self, (schedule, version): Version, definition: Arc<Definition>) {
        let bytes = BYTES_EACH + definition.spec.args.len();
        if self.bytes.saturating_add(bytes) > BYTES_MAX {
            self.known.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.known.insert((schedule.0, version), definition);
    }
}

const READ: &str = "SELECT d.schedule, d.version, d.spec, d.args, s.created FROM punctual_definition d
    FORCE INDEX (PRIMARY) STRAIGHT_JOIN punctual_schedule s ON s.id = d.schedule WHERE ";
const IS: &str = "(d.schedule = ? AND d.version = ?)";
const ADD: &str = "INSERT INTO punctual_definition (schedule, version, spec, args) VALUES ";

/// Definitions by version; each is there or is why it cannot be read.
pub(crate) type Read = BTreeMap<(i64, u32), Result<Arc<Definition>, Fault>>;

/// Reads those that are not known yet, in one round trip.
pub(crate) async fn read(session: &mut Session, versions: impl IntoIterator<Item = Version>) -> Done<Read> {
    let wanted: BTreeSet<(i64, u32)> = versions.into_iter().map(|(schedule, version)| (schedule.0, version)).collect();
    let mut found = Read::new();
    let mut missing = Vec::new();
    {
        let known = session.shared.definitions();
        for (schedule, version) in wanted {
            match known.get((ScheduleId(schedule), version)) {
                Some(definition) => drop(found.insert((schedule, version), Ok(definition))),
                None => missing.push((schedule, version)),
            }
        }
    }
    if missing.is_empty() {
        return Ok(found);
    }
    let mut script = Script::new();
    let branches = missing.iter().map(|(schedule, version)| [Value::from(*schedule), Value::from(*version)]);
    let statements = script.either(READ, IS, branches);
    for row in session.run(&script).await?.rows_of(statements)? {
        let key: (i64, u32) = (cell(&row, 0)?, cell(&row, 1)?);
        let (json, args): (Bytes, Bytes) = (cell(&row, 2)?, cell(&row, 3)?);
        let created = Timestamp::from_micros(cell(&row, 4)?);
        let definition =
            spec_from(&json, args).map(|spec| Arc::new(Definition { spec, created, rule: OnceLock::new() }));
        if let Ok(definition) = &definition {
            session.shared.definitions().remember((ScheduleId(key.0), key.1), Arc::clone(definition));
        }
        found.insert(key, definition);
    }
    for (schedule, version) in missing {
        found.entry((schedule, version)).or_insert_with(|| {
            Err(Fault::corrupt(format!("schedule {schedule} has no definition of version {version}")))
        });
    }
    Ok(found)
}

/// One version of a schedule's definition.
pub(crate) async fn get(session: &mut Session, version: Version) -> Done<Arc<Definition>> {
    let mut read = read(session, [version]).await?;
    read.remove(&(version.0.0, version.1)).unwrap_or_else(|| Err(Fault::bug("a definition was not read")))
}

/// Adds what writes a version of a definition.
pub(crate) fn add(script: &mut Script, schedule: ScheduleId, version: u32, spec: &ScheduleSpec) -> Done<()> {
    // The arguments go beside the JSON: as JSON they would be a list of numbers, four times as long.
    let json = serde_json::to_vec(&ScheduleSpec { args: Bytes::new(), ..spec.clone() })
        .map_err(|error| Fault::bug(format!("a definition is no JSON: {error}")))?;
    script.insert(ADD, [[schedule.0.into(), version.into(), json.as_slice().into(), (&spec.args[..]).into()]], "");
    Ok(())
}

/// The definition that a row holds.
pub(crate) fn spec_from(json: &[u8], args: Bytes) -> Done<ScheduleSpec> {
    let spec: ScheduleSpec = serde_json::from_slice(json)
        .map_err(|error| Fault::unread(format!("a schedule's definition cannot be read ({error})")))?;
    Ok(ScheduleSpec { args, ..spec })
}
