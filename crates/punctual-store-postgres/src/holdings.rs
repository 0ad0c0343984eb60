//! What workers hold: the rows of `claim`, unpacked.

use crate::errors::Done;
use crate::packed::CLAIM_TASKS_MAX;
use crate::session::{Session, Step, step};
use crate::store::Shared;
use punctual_clock::Timestamp;
use punctual_task::rows::{Held, Holding, pack_held, unpack_held};
use std::collections::BTreeMap;
use tokio_postgres::Row;

/// Whoever changes what a worker holds locks its rows first, always in this order.
pub(crate) const LOCK: &str = "SELECT id, worker, at, tasks FROM claim WHERE worker = ANY($1) ORDER BY id FOR UPDATE";
pub(crate) const LOCK_ROWS: &str = "SELECT id, worker, at, tasks FROM claim WHERE id = ANY($1) ORDER BY id FOR UPDATE";
pub(crate) const LOCK_OWN: &str =
    "SELECT id, worker, at, tasks FROM claim WHERE id = ANY($1) AND worker = $2 ORDER BY id FOR UPDATE";
pub(crate) const ALL: &str = "SELECT id, worker, at, tasks FROM claim ORDER BY id";
const ADD: &str =
    "INSERT INTO claim (worker, at, tasks) SELECT $1, $2, u.tasks FROM unnest($3::bytea[]) u (tasks) RETURNING id";
const UPDATE: &str =
    "UPDATE claim c SET tasks = u.tasks FROM unnest($1::bigint[], $2::bytea[]) u (id, tasks) WHERE c.id = u.id";
const DELETE: &str = "DELETE FROM claim WHERE id = ANY($1)";

/// The rows of statements whose columns are those of [`LOCK`].
pub(crate) fn unpack(rows: &[Row]) -> Done<Holding> {
    let mut holding = Holding::default();
    for row in rows {
        let at = Timestamp::from_micros(row.try_get(2)?);
        holding.put(row.try_get(0)?, row.try_get(1)?, at, unpack_held(row.try_get(3)?)?);
    }
    Ok(holding)
}

/// What writes what was let go of.
pub(crate) fn flush(holding: &mut Holding) -> Vec<Step> {
    let (mut changed, mut packed, mut empty) = (Vec::new(), Vec::new(), Vec::new());
    for (id, tasks) in holding.changes() {
        match tasks {
            Some(tasks) => {
                changed.push(id);
                packed.push(tasks);
            }
            None => empty.push(id),
        }
    }
    let mut steps = Vec::new();
    if !changed.is_empty() {
        steps.push(step!(UPDATE, changed, packed));
    }
    if !empty.is_empty() {
        steps.push(step!(DELETE, empty));
    }
    steps
}

/// What writes what was claimed now; it gives the ids of its rows.
pub(crate) fn add(worker: i64, now: Timestamp, tasks: &[Held]) -> Step {
    let packed: Vec<Vec<u8>> = tasks.chunks(CLAIM_TASKS_MAX).map(|part| pack_held(part.iter())).collect();
    step!(ADD, worker, now.as_micros(), packed)
}

/// Remembers which rows these tasks were written to, by what the step of [`add`] gave.
pub(crate) fn remember(shared: &Shared, tasks: &[Held], rows: &[Row]) -> Done<()> {
    let ids: Vec<i64> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    shared.claim_rows().added(tasks, CLAIM_TASKS_MAX, ids.into_iter());
    Ok(())
}

/// Every running task. They are few: what workers have claimed and not finished.
pub(crate) async fn running(session: &mut Session) -> Done<BTreeMap<i64, Held>> {
    let rows = session.rows(step!(ALL)).await?;
    Ok(unpack(&rows)?.tasks().map(|(_, held)| (held.task, *held)).collect())
}
