//! Unique keys: one live task a key and scope, enforced by the table's own key.

use crate::connection::{Db, Sql};
use crate::errors::{Done, Fault};
use crate::names::{Lane, Names};
use punctual_clock::Timestamp;
use punctual_task::rows::Code;
use punctual_task::{KeyHold, KeyMode, KeyScope, NewTask, UniqueKey};
use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};

/// An expired holder is replaced in the same statement.
const TAKE: &str = "INSERT INTO unique_key (scope, target, text, task, waiting, plus) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (scope, target, text) DO UPDATE
    SET task = excluded.task, waiting = excluded.waiting, plus = excluded.plus, until = NULL
    WHERE unique_key.until <= ?7 OR unique_key.task = excluded.task";
const HOLDER: &str = "SELECT task, until FROM unique_key WHERE scope = ?1 AND target = ?2 AND text = ?3";
const CLAIMED: &str = "DELETE FROM unique_key WHERE task = ?1 AND waiting = 1";
const ENDED: &str = "DELETE FROM unique_key WHERE task = ?1 AND plus IS NULL";
const OUTLIVES: &str = "UPDATE unique_key SET until = ?2 + plus WHERE task = ?1";
const HELD: &str = "SELECT text FROM unique_key WHERE task = ?1 AND (until IS NULL OR until > ?2)";
const EXPIRED: &str = "DELETE FROM unique_key WHERE (scope, target, text) IN
    (SELECT scope, target, text FROM unique_key WHERE until <= ?1 ORDER BY until LIMIT ?2)";

/// A key as the task's row keeps it.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    text: String,
    scope: KeyScope,
    hold: KeyHold,
    mode: KeyMode,
}

/// A key as text for the task's row.
pub(crate) fn to_row(key: &UniqueKey) -> Done<String> {
    let UniqueKey { text, scope, hold, mode } = key.clone();
    serde_json::to_string(&Stored { text, scope, hold, mode })
        .map_err(|error| Fault::bug(format!("a unique key is no JSON: {error}")))
}

/// A key from the task's row.
pub(crate) fn from_row(json: &str) -> Done<UniqueKey> {
    let Stored { text, scope, hold, mode } = serde_json::from_str(json)
        .map_err(|error| Fault::corrupt(format!("a task's unique key cannot be read ({error})")))?;
    Ok(UniqueKey { text, scope, hold, mode })
}

/// The task that holds a key which a new task asks for.
pub(crate) fn holder(
    db: &dyn Sql,
    names: &Names,
    key: &UniqueKey,
    task: &NewTask,
    now: Timestamp,
) -> Done<Option<i64>> {
    let target = match key.scope {
        KeyScope::Method => names.find_method(&task.method),
        KeyScope::Queue => names.find_queue(&task.queue),
    };
    let Some(target) = target else { return Ok(None) };
    find_holder(db, key, target, now)
}

fn find_holder(db: &dyn Sql, key: &UniqueKey, target: i64, now: Timestamp) -> Done<Option<i64>> {
    let found: Option<(i64, Option<i64>)> = db
        .sql(HOLDER)?
        .query_row(params![key.scope.code(), target, key.text], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(found.filter(|(_, until)| until.is_none_or(|until| until > now.as_micros())).map(|(task, _)| task))
}

/// Takes a key for a task. Gives the task that holds it, if another does.
pub(crate) fn take(db: &dyn Sql, key: &UniqueKey, lane: &Lane, task: i64, now: Timestamp) -> Done<Option<i64>> {
    let target = match key.scope {
        KeyScope::Method => lane.method,
        KeyScope::Queue => lane.queue,
    };
    let (waiting, plus) = match key.hold {
        KeyHold::Waiting => (true, None),
        KeyHold::Finished => (false, None),
        KeyHold::FinishedPlus(time) => (false, Some(i64::try_from(time.as_micros()).unwrap_or(i64::MAX / 4))),
    };
    let scope = key.scope.code();
    let taken = db.sql(TAKE)?.execute(params![scope, target, key.text, task, waiting, plus, now.as_micros()])? == 1;
    if taken {
        return Ok(None);
    }
    find_holder(db, key, target, now)?.map(Some).ok_or_else(|| Fault::bug("a unique key was neither free nor held"))
}

/// The task was claimed: keys that are held while waiting only are free.
pub(crate) fn claimed(db: &Db, task: i64) -> Done<()> {
    db.sql(CLAIMED)?.execute(params![task])?;
    Ok(())
}

/// The task has ended.
pub(crate) fn ended(db: &Db, task: i64, now: Timestamp) -> Done<()> {
    db.sql(ENDED)?.execute(params![task])?;
    db.sql(OUTLIVES)?.execute(params![task, now.as_micros()])?;
    Ok(())
}

/// The key that a task holds.
pub(crate) fn held(db: &Db, task: i64, now: Timestamp) -> Done<Option<String>> {
    Ok(db.sql(HELD)?.query_row(params![task, now.as_micros()], |row| row.get(0)).optional()?)
}

/// Removes at most `limit` keys that nobody holds any more.
pub(crate) fn prune(db: &Db, now: Timestamp, limit: u32) -> Done<()> {
    db.sql(EXPIRED)?.execute(params![now.as_micros(), limit])?;
    Ok(())
}
