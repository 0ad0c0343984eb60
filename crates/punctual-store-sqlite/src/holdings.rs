//! What workers hold: the rows of `claim`, unpacked once and kept while no other process writes.

use crate::connection::Db;
use crate::errors::Done;
use crate::packed::CLAIM_TASKS_MAX;
use punctual_clock::Timestamp;
use punctual_task::rows::{Held, pack_held, unpack_held};
use rusqlite::params;
use std::collections::{BTreeMap, BTreeSet, HashMap};

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

/// What one worker holds. Changes stay in memory until [`Holding::flush`].
#[derive(Debug, Default)]
pub(crate) struct Holding {
    rows: BTreeMap<i64, Row>,
    /// Which row holds a task; only looked up, never walked, so that its order decides nothing.
    places: HashMap<i64, i64>,
    changed: BTreeSet<i64>,
}

/// One row of `claim`.
#[derive(Debug)]
struct Row {
    /// When it was claimed.
    at: i64,
    tasks: Vec<Held>,
}

impl Holdings {
    /// What one worker holds.
    pub(crate) fn of(&mut self, db: &Db, worker: i64) -> Done<&mut Holding> {
        if !self.all && !self.workers.contains_key(&worker) {
            let holding = self.workers.entry(worker).or_default();
            let mut statement = db.sql(OF_WORKER)?;
            let mut rows = statement.query(params![worker])?;
            while let Some(row) = rows.next()? {
                holding.put(row.get(0)?, Row { at: row.get(2)?, tasks: unpack_held(row.get_ref(3)?.as_blob()?)? });
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
                let holding = self.workers.entry(row.get(1)?).or_default();
                holding.put(row.get(0)?, Row { at: row.get(2)?, tasks: unpack_held(row.get_ref(3)?.as_blob()?)? });
            }
            self.all = true;
        }
        Ok(self.workers.iter().find_map(|(worker, holding)| holding.get(task).map(|held| (*worker, *held))))
    }
}

impl Holding {
    fn put(&mut self, id: i64, row: Row) {
        for held in &row.tasks {
            self.places.insert(held.task, id);
        }
        self.rows.insert(id, row);
    }

    /// Writes what was claimed now.
    pub(crate) fn add(&mut self, db: &Db, worker: i64, now: Timestamp, tasks: &[Held]) -> Done<()> {
        let mut statement = db.sql(ADD)?;
        for part in tasks.chunks(CLAIM_TASKS_MAX) {
            let row = statement.insert(params![worker, now.as_micros(), pack_held(part.iter())])?;
            self.put(row, Row { at: now.as_micros(), tasks: part.to_vec() });
        }
        Ok(())
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

    /// Writes what [`Holding::take`] changed.
    pub(crate) fn flush(&mut self, db: &Db) -> Done<()> {
        for row in std::mem::take(&mut self.changed) {
            match self.rows.get(&row) {
                Some(Row { tasks, .. }) if !tasks.is_empty() => {
                    db.sql(UPDATE)?.execute(params![row, pack_held(tasks.iter())])?;
                }
                _ => {
                    self.rows.remove(&row);
                    db.sql(DELETE)?.execute(params![row])?;
                }
            }
        }
        Ok(())
    }
}
