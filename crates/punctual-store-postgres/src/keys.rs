//! Unique keys: one live task a key and scope, enforced by the table's own key.
//!
//! Keys are always locked in their own order, so that transactions that meet on several of them wait and do not deadlock.

use crate::errors::{Done, Fault};
use crate::names::Lane;
use crate::session::{Asking, Step, step};
use punctual_task::rows::Code;
use punctual_task::{KeyHold, KeyMode, KeyScope, UniqueKey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How often keys are asked for whose holders let go of them meanwhile.
const TRIES_MAX: u32 = 10;

/// An expired holder is replaced in the same statement, and a task's own key is taken again.
const TAKE: &str = "INSERT INTO unique_key (scope, target, text, task, waiting, plus)
    SELECT * FROM unnest($1::smallint[], $2::int[], $3::text[], $4::bigint[], $5::bool[], $6::bigint[])
        u (scope, target, text, task, waiting, plus) ORDER BY scope, target, text COLLATE \"C\"
    ON CONFLICT (scope, target, text) DO UPDATE
    SET task = excluded.task, waiting = excluded.waiting, plus = excluded.plus, until = NULL
    WHERE unique_key.until <= current_setting('punctual.now')::bigint OR unique_key.task = excluded.task
    RETURNING scope, target, text";
const HOLDERS: &str = "SELECT k.scope, k.target, k.text, k.task
    FROM unnest($1::smallint[], $2::int[], $3::text[]) u (scope, target, text)
    JOIN unique_key k ON k.scope = u.scope AND k.target = u.target AND k.text = u.text
    WHERE k.until IS NULL OR k.until > current_setting('punctual.now')::bigint";
const CLAIMED: &str = "DELETE FROM unique_key WHERE (scope, target, text) IN
    (SELECT scope, target, text FROM unique_key WHERE task = ANY($1) AND waiting ORDER BY scope, target, text FOR UPDATE)
    AND waiting";
const ENDED: &str = "WITH held AS (SELECT scope, target, text, plus FROM unique_key WHERE task = ANY($1)
        ORDER BY scope, target, text FOR UPDATE),
    gone AS (DELETE FROM unique_key k USING held h WHERE h.plus IS NULL AND k.scope = h.scope AND k.target = h.target
        AND k.text = h.text)
    UPDATE unique_key k SET until = current_setting('punctual.now')::bigint + k.plus FROM held h
        WHERE h.plus IS NOT NULL AND k.scope = h.scope AND k.target = h.target AND k.text = h.text";
pub(crate) const HELD: &str = "SELECT text FROM unique_key WHERE task = $1
    AND (until IS NULL OR until > current_setting('punctual.now')::bigint) LIMIT 1";
const EXPIRED: &str =
    "DELETE FROM unique_key WHERE (scope, target, text) IN (SELECT scope, target, text FROM unique_key
    WHERE until <= current_setting('punctual.now')::bigint ORDER BY until LIMIT $1 FOR UPDATE SKIP LOCKED)";

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

/// A key where it counts, in the order of the table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    scope: i16,
    target: i32,
    text: String,
}

impl Place {
    pub(crate) fn new(key: &UniqueKey, lane: Lane) -> Self {
        let target = match key.scope {
            KeyScope::Method => lane.method,
            KeyScope::Queue => lane.queue,
        };
        Place { scope: key.scope.code(), target, text: key.text.clone() }
    }
}

/// Takes keys for tasks. Gives the tasks that hold those which others hold.
pub(crate) async fn take(
    session: &mut impl Asking,
    wanted: &BTreeMap<Place, (i64, KeyHold)>,
) -> Done<BTreeMap<Place, i64>> {
    let mut left: BTreeMap<&Place, (i64, KeyHold)> = wanted.iter().map(|(place, taker)| (place, *taker)).collect();
    let mut held = BTreeMap::new();
    for _ in 0..TRIES_MAX {
        if left.is_empty() {
            return Ok(held);
        }
        let (scopes, targets, texts) = columns(left.keys().copied());
        let tasks: Vec<i64> = left.values().map(|(task, _)| *task).collect();
        let waiting: Vec<bool> = left.values().map(|(_, hold)| *hold == KeyHold::Waiting).collect();
        let plus: Vec<Option<i64>> = left.values().map(|(_, hold)| plus(*hold)).collect();
        let taken = step!(TAKE, scopes.clone(), targets.clone(), texts.clone(), tasks, waiting, plus);
        // The second statement sees who committed while the first one waited.
        let mut answers = session.ask(vec![taken, step!(HOLDERS, scopes, targets, texts)]).await?;
        let (holders, taken) = (answers.pop().unwrap_or_default(), answers.pop().unwrap_or_default());
        for row in taken {
            left.remove(&Place { scope: row.try_get(0)?, target: row.try_get(1)?, text: row.try_get(2)? });
        }
        for row in holders {
            let place = Place { scope: row.try_get(0)?, target: row.try_get(1)?, text: row.try_get(2)? };
            if left.remove(&place).is_some() {
                held.insert(place, row.try_get(3)?);
            }
        }
    }
    if left.is_empty() { Ok(held) } else { Err(Fault::Again("the unique keys")) }
}

fn columns<'a>(places: impl Iterator<Item = &'a Place>) -> (Vec<i16>, Vec<i32>, Vec<String>) {
    let (mut scopes, mut targets, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    for place in places {
        scopes.push(place.scope);
        targets.push(place.target);
        texts.push(place.text.clone());
    }
    (scopes, targets, texts)
}

fn plus(hold: KeyHold) -> Option<i64> {
    match hold {
        KeyHold::Waiting | KeyHold::Finished => None,
        KeyHold::FinishedPlus(time) => Some(i64::try_from(time.as_micros()).unwrap_or(i64::MAX / 4)),
    }
}

/// Tasks were claimed: keys that are held while waiting only are free.
pub(crate) fn claimed(tasks: Vec<i64>) -> Step {
    step!(CLAIMED, tasks)
}

/// Tasks have ended.
pub(crate) fn ended(tasks: Vec<i64>) -> Step {
    step!(ENDED, tasks)
}

/// Removes at most `limit` keys that nobody holds any more.
pub(crate) fn prune(limit: i64) -> Step {
    step!(EXPIRED, limit)
}
