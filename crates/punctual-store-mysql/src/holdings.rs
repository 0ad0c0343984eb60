//! What a worker holds: its rows of `claim`, locked and unpacked for one transaction.

use crate::answers::cell;
use crate::errors::Done;
use crate::packed::CLAIM_TASKS_MAX;
use crate::script::Script;
use bytes::Bytes;
use mysql_async::Row;
use punctual_clock::Timestamp;
use punctual_task::rows::{Held, pack_held, unpack_held};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Whoever changes what a worker holds has these rows locked.
pub(crate) const LOCK: &str = "SELECT id, at, tasks FROM punctual_claim FORCE INDEX (punctual_claim_worker)
    WHERE worker = ? ORDER BY id FOR UPDATE";
const ADD: &str = "INSERT INTO punctual_claim (worker, at, tasks) VALUES ";
const UPDATE: &str = "UPDATE punctual_claim SET tasks = ? WHERE id = ?";
const DELETE: &str = "DELETE FROM punctual_claim WHERE id = ?";

/// What one worker holds. Changes stay in memory until [`Holding::write`].
#[derive(Debug, Default)]
pub(crate) struct Holding {
    rows: BTreeMap<i64, Part>,
    /// Which row holds a task; only looked up, never walked, so that its order decides nothing.
    places: HashMap<i64, i64>,
    changed: BTreeSet<i64>,
}

/// One row of `claim`.
#[derive(Debug)]
struct Part {
    /// When it was claimed.
    at: i64,
    tasks: Vec<Held>,
}

impl Holding {
    /// The rows that [`LOCK`] gave.
    pub(crate) fn from_rows(rows: &[Row]) -> Done<Self> {
        let mut holding = Holding::default();
        for row in rows {
            let (id, bytes): (i64, Bytes) = (cell(row, 0)?, cell(row, 2)?);
            let tasks = unpack_held(&bytes)?;
            for held in &tasks {
                holding.places.insert(held.task, id);
            }
            holding.rows.insert(id, Part { at: cell(row, 1)?, tasks });
        }
        Ok(holding)
    }

    /// How a task is held.
    pub(crate) fn get(&self, task: i64) -> Option<&Held> {
        let row = self.places.get(&task)?;
        self.rows.get(row)?.tasks.iter().find(|held| held.task == task)
    }

    /// Lets go of a task.
    pub(crate) fn take(&mut self, task: i64) -> Option<Held> {
        let row = self.places.remove(&task)?;
        let tasks = &mut self.rows.get_mut(&row)?.tasks;
        let at = tasks.iter().position(|held| held.task == task)?;
        self.changed.insert(row);
        // Finishes come mostly in the order of the claim, from the front: keeping the order keeps the search short.
        Some(tasks.remove(at))
    }

    /// Everything held and when it was claimed, in the order of the claims.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = (Timestamp, &Held)> {
        self.rows.values().flat_map(|row| row.tasks.iter().map(|held| (Timestamp::from_micros(row.at), held)))
    }

    /// Adds what writes the changes, a row a statement: it is found by its key whatever the optimizer thinks of the table.
    pub(crate) fn write(&self, script: &mut Script) {
        for row in &self.changed {
            match self.rows.get(row).filter(|part| !part.tasks.is_empty()) {
                Some(part) => script.add(UPDATE, &[pack_held(part.tasks.iter()).as_slice().into(), (*row).into()]),
                None => script.add(DELETE, &[(*row).into()]),
            }
        }
    }
}

/// Adds what writes a claim.
pub(crate) fn add(script: &mut Script, worker: i64, now: Timestamp, tasks: &[Held]) {
    let parts: Vec<Vec<u8>> = tasks.chunks(CLAIM_TASKS_MAX).map(|part| pack_held(part.iter())).collect();
    script.insert(ADD, parts.iter().map(|part| [worker.into(), now.as_micros().into(), part.as_slice().into()]), "");
}
