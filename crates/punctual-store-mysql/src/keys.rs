//! Unique keys: one live task a key and scope, enforced by the table's own key.

use crate::answers::cell;
use crate::connection::Session;
use crate::errors::{Done, Fault};
use crate::names::Lane;
use crate::script::Script;
use punctual_clock::Timestamp;
use punctual_task::rows::Code;
use punctual_task::{KeyHold, KeyMode, KeyScope, UniqueKey};
use serde::{Deserialize, Serialize};

/// An expired holder is replaced. Assignments see those before them: once the task is the new one, the rest follows it.
const TAKE: &str =
    "INSERT INTO punctual_unique_key (scope, target, name, task, waiting, plus) VALUES (?, ?, ?, ?, ?, ?)
    ON DUPLICATE KEY UPDATE task = IF(until <= @now, VALUES(task), task),
    waiting = IF(task = VALUES(task), VALUES(waiting), waiting), plus = IF(task = VALUES(task), VALUES(plus), plus),
    until = IF(task = VALUES(task), NULL, until)";
const HOLDER: &str = "SELECT task FROM punctual_unique_key WHERE scope = ? AND target = ? AND name = ?
    AND (until IS NULL OR until > @now)";
const CLAIMED: &str = "DELETE k FROM punctual_unique_key k FORCE INDEX (punctual_unique_key_task)
    WHERE k.task IN (?) AND k.waiting = 1";
const ENDED: &str = "DELETE k FROM punctual_unique_key k FORCE INDEX (punctual_unique_key_task)
    WHERE k.task IN (?) AND k.plus IS NULL";
const OUTLIVES: &str = "UPDATE punctual_unique_key FORCE INDEX (punctual_unique_key_task) SET until = ? + plus
    WHERE task IN (?)";
pub(crate) const HELD: &str = "SELECT name FROM punctual_unique_key FORCE INDEX (punctual_unique_key_task)
    WHERE task = ? AND (until IS NULL OR until > @now)";
const EXPIRED: &str = "DELETE FROM punctual_unique_key WHERE until <= ? ORDER BY until LIMIT ?";

/// A key as the task's row keeps it.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    text: String,
    scope: KeyScope,
    hold: KeyHold,
    mode: KeyMode,
}

/// A key as JSON for the task's row.
pub(crate) fn to_row(key: &UniqueKey) -> Done<Vec<u8>> {
    let UniqueKey { text, scope, hold, mode } = key.clone();
    serde_json::to_vec(&Stored { text, scope, hold, mode })
        .map_err(|error| Fault::bug(format!("a unique key is no JSON: {error}")))
}

/// A key from the task's row.
pub(crate) fn from_row(json: &[u8]) -> Done<UniqueKey> {
    let Stored { text, scope, hold, mode } = serde_json::from_slice(json)
        .map_err(|error| Fault::corrupt(format!("a task's unique key cannot be read ({error})")))?;
    Ok(UniqueKey { text, scope, hold, mode })
}

/// The task that holds a key now. `target` is the number of the method or queue in which it counts.
pub(crate) async fn holder(session: &mut Session, key: &UniqueKey, target: u32) -> Done<Option<i64>> {
    let script = Script::of(HOLDER, &[key.scope.code().into(), target.into(), key.text.as_str().into()]);
    let rows = session.run(&script).await?.rows()?;
    rows.first().map(|row| cell(row, 0)).transpose()
}

/// The number of the method or queue in which a key counts.
pub(crate) fn target(key: &UniqueKey, lane: &Lane) -> u32 {
    match key.scope {
        KeyScope::Method => lane.method,
        KeyScope::Queue => lane.queue,
    }
}

/// Adds what takes a key for a task unless another holds it.
pub(crate) fn add_take(script: &mut Script, key: &UniqueKey, target: u32, task: i64) {
    let (waiting, plus) = match key.hold {
        KeyHold::Waiting => (true, None),
        KeyHold::Finished => (false, None),
        KeyHold::FinishedPlus(time) => (false, Some(i64::try_from(time.as_micros()).unwrap_or(i64::MAX / 4))),
    };
    let (scope, text) = (key.scope.code(), key.text.as_str());
    script.add(TAKE, &[scope.into(), target.into(), text.into(), task.into(), waiting.into(), plus.into()]);
}

/// Takes a key for a task. Gives the task that holds it, if another does. The key's row is locked afterwards.
pub(crate) async fn take(session: &mut Session, key: &UniqueKey, lane: &Lane, task: i64) -> Done<Option<i64>> {
    let target = target(key, lane);
    let mut script = Script::new();
    add_take(&mut script, key, target, task);
    script.add(HOLDER, &[key.scope.code().into(), target.into(), key.text.as_str().into()]);
    let mut answers = session.run(&script).await?;
    answers.skip(1)?;
    let rows = answers.rows()?;
    let row = rows.first().ok_or_else(|| Fault::bug("a unique key was neither free nor held"))?;
    Ok(Some(cell::<i64>(row, 0)?).filter(|holder| *holder != task))
}

/// Tasks were claimed: keys that are held while waiting only are free.
pub(crate) fn claimed(script: &mut Script, tasks: &[i64]) {
    script.parts(CLAIMED, tasks);
}

/// Tasks have ended.
pub(crate) fn ended(script: &mut Script, tasks: &[i64], now: Timestamp) {
    for part in tasks.chunks(1_000) {
        script.add(ENDED, &[part.into()]);
        script.add(OUTLIVES, &[now.as_micros().into(), part.into()]);
    }
}

/// Adds what removes at most `limit` keys that nobody holds any more.
pub(crate) fn prune(script: &mut Script, now: Timestamp, limit: u32) {
    script.add(EXPIRED, &[now.as_micros().into(), limit.into()]);
}
