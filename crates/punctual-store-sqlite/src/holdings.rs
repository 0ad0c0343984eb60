//! What workers hold: the rows of `claim`, unpacked once and kept while no other process writes.

use crate::connection::Db;
use crate::errors::Done;
use crate::packed::CLAIM_TASKS_MAX;
use punctual_clock::Timestamp;
use punctual_task::rows::{Held, Holding, pack_held, unpack_held};
use rusqlite::{Row, params};
use std::collections::BTreeMap;

const OF_WORKER: &str = "SELECT id, worker, at, tasks FROM claim WHERE worker = ?1 ORDER BY id";
const OF_ALL: &str = "SELECT id, worker, at, tasks FROM claim ORDER BY id";
const ADD: &str = "INSERT INTO claim (worker, at, tasks) VALUES (?1, ?2, ?3)";
const UPDATE: &str = "UPDATE claim SET tasks = ?2 WHERE id = ?1";
const DELETE: &str = "DELETE FROM claim WHERE id = ?1";

/// What workers hold, as far as it was read.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    workers: BTreeMap<i64, Holding>,
    all: bool,
}

impl Holdings {
    /// What one worker holds.
    pub(crate) fn of(&mut self, db: &Db, worker: i64) -> Done<&mut Holding> {
        if !self.all && !self.workers.contains_key(&worker) {
            let holding = self.workers.entry(worker).or_default();
            let mut statement = db.sql(OF_WORKER)?;
            let mut rows = statement.query(params![worker])?;
            while let Some(row) = rows.next()? {
                put(holding, row)?;
            }
        }
        Ok(self.workers.entry(worker).or_default())
    }

    /// The worker that holds a task, and how.
    pub(crate) fn find(&mut self, db: &Db, task: i64) -> Done<Option<(i64, Held)>> {
        if !self.all {
            self.workers.clear();
            let mut statement = db.sql(OF_ALL)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                put(self.workers.entry(row.get(1)?).or_default(), row)?;
            }
            self.all = true;
        }
        Ok(self.workers.iter().find_map(|(worker, holding)| holding.get(task).map(|held| (*worker, *held))))
    }
}

/// A row whose columns are those of [`OF_WORKER`].
fn put(holding: &mut Holding, row: &Row<'_>) -> Done<()> {
    let at = Timestamp::from_micros(row.get(2)?);
    holding.put(row.get(0)?, row.get(1)?, at, unpack_held(row.get_ref(3)?.as_blob()?)?);
    Ok(())
}

/// Writes what was claimed now.
pub(crate) fn add(holding: &mut Holding, db: &Db, worker: i64, now: Timestamp, tasks: &[Held]) -> Done<()> {
    let mut statement = db.sql(ADD)?;
    for part in tasks.chunks(CLAIM_TASKS_MAX) {
        let row = statement.insert(params![worker, now.as_micros(), pack_held(part.iter())])?;
        holding.put(row, worker, now, part.to_vec());
    }
    Ok(())
}

/// Writes what was let go of.
pub(crate) fn flush(holding: &mut Holding, db: &Db) -> Done<()> {
    for (id, tasks) in holding.changes() {
        match tasks {
            Some(tasks) => db.sql(UPDATE)?.execute(params![id, tasks])?,
            None => db.sql(DELETE)?.execute(params![id])?,
        };
    }
    Ok(())
}
