//! What a worker holds: its rows of `claim`, locked and unpacked for one transaction.

use crate::answers::cell;
use crate::errors::Done;
use crate::packed::CLAIM_TASKS_MAX;
use crate::script::Script;
use crate::shared::Shared;
use bytes::Bytes;
use mysql_async::Row;
use punctual_clock::Timestamp;
use punctual_task::rows::{Held, Holding, pack_held, unpack_held};

/// Whoever changes what a worker holds has these rows locked.
pub(crate) const LOCK: &str = "SELECT id, at, tasks FROM punctual_claim FORCE INDEX (punctual_claim_worker)
    WHERE worker = ? ORDER BY id FOR UPDATE";
/// The same of these rows only.
pub(crate) const LOCK_OWN: &str = "SELECT id, at, tasks FROM punctual_claim FORCE INDEX (PRIMARY)
    WHERE id IN (?) AND worker = ? ORDER BY id FOR UPDATE";
/// The id of the first row that the last insert wrote: one insert draws the ids of its rows together.
const FIRST_ADDED: &str = "SELECT LAST_INSERT_ID()";
const ADD: &str = "INSERT INTO punctual_claim (worker, at, tasks) VALUES ";
const UPDATE: &str = "UPDATE punctual_claim SET tasks = ? WHERE id = ?";
const DELETE: &str = "DELETE FROM punctual_claim WHERE id = ?";

/// The rows that [`LOCK`] gave of a worker.
pub(crate) fn unpack(rows: &[Row], worker: i64) -> Done<Holding> {
    let mut holding = Holding::default();
    for row in rows {
        let (id, at, bytes): (i64, i64, Bytes) = (cell(row, 0)?, cell(row, 1)?, cell(row, 2)?);
        holding.put(id, worker, Timestamp::from_micros(at), unpack_held(&bytes)?);
    }
    Ok(holding)
}

/// Adds what writes what was let go of, a row a statement: it is found by its key whatever the optimizer thinks of the table.
pub(crate) fn write(holding: &mut Holding, script: &mut Script) {
    for (id, tasks) in holding.changes() {
        match tasks {
            Some(tasks) => script.add(UPDATE, &[tasks.as_slice().into(), id.into()]),
            None => script.add(DELETE, &[id.into()]),
        }
    }
}

/// Adds what writes a claim, and in the end asks where it was written: see [`remember`].
pub(crate) fn add(script: &mut Script, worker: i64, now: Timestamp, tasks: &[Held]) {
    let parts: Vec<Vec<u8>> = tasks.chunks(CLAIM_TASKS_MAX).map(|part| pack_held(part.iter())).collect();
    script.insert(ADD, parts.iter().map(|part| [worker.into(), now.as_micros().into(), part.as_slice().into()]), "");
    script.add(FIRST_ADDED, &[]);
}

/// Remembers which rows these tasks were written to, by what the last statement of [`add`] gave. Where a server counts its ids in other
/// steps, or the rows took several inserts, this is wrong, and who finds nothing there looks by the worker.
pub(crate) fn remember(shared: &Shared, tasks: &[Held], first: &[Row]) -> Done<()> {
    if let Some(first) = first.first().map(|row| cell::<i64>(row, 0)).transpose()? {
        shared.claim_rows().added(tasks, CLAIM_TASKS_MAX, first..);
    }
    Ok(())
}
