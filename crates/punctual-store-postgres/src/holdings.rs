//! What workers hold: the rows of `claim`, unpacked.

use crate::errors::Done;
use crate::packed::CLAIM_TASKS_MAX;
use crate::session::{Session, Step, step};
use punctual_clock::Timestamp;
use punctual_task::rows::{Held, pack_held, unpack_held};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tokio_postgres::Row;

/// Whoever changes what a worker holds locks its rows first, always in this order.
pub(crate) const LOCK: &str = "SELECT id, worker, at, tasks FROM claim WHERE worker = ANY($1) ORDER BY id FOR UPDATE";
pub(crate) const LOCK_ROWS: &str = "SELECT id, worker, at, tasks FROM claim WHERE id = ANY($1) ORDER BY id FOR UPDATE";
pub(crate) const ALL: &str = "SELECT id, worker, at, tasks FROM claim ORDER BY id";
const ADD: &str = "INSERT INTO claim (worker, at, tasks) SELECT $1, $2, u.tasks FROM unnest($3::bytea[]) u (tasks)";
const UPDATE: &str =
    "UPDATE claim c SET tasks = u.tasks FROM unnest($1::bigint[], $2::bytea[]) u (id, tasks) WHERE c.id = u.id";
const DELETE: &str = "DELETE FROM claim WHERE id = ANY($1)";

/// What some workers hold. Changes stay in memory until [`Holding::flush`].
#[derive(Debug, Default)]
pub(crate) struct Holding {
    rows: BTreeMap<i64, Claim>,
    /// Which row holds a task; only looked up, never walked, so that its order decides nothing.
    places: HashMap<i64, i64>,
    changed: BTreeSet<i64>,
}

/// One row of `claim`.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) worker: i64,
    /// When it was claimed.
    pub(crate) at: Timestamp,
    pub(crate) tasks: Vec<Held>,
}

/// What a statement gave whose columns are those of [`LOCK`].
pub(crate) fn unpack(row: &Row) -> Done<(i64, Claim)> {
    let tasks = unpack_held(row.try_get(3)?)?;
    Ok((row.try_get(0)?, Claim { worker: row.try_get(1)?, at: Timestamp::from_micros(row.try_get(2)?), tasks }))
}

impl Holding {
    /// From rows whose columns are those of [`LOCK`].
    pub(crate) fn new(rows: &[Row]) -> Done<Self> {
        let mut holding = Holding::default();
        for row in rows {
            let (id, claim) = unpack(row)?;
            for held in &claim.tasks {
                holding.places.insert(held.task, id);
            }
            holding.rows.insert(id, claim);
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

    /// The rows, in the order of the claims.
    pub(crate) fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.rows.values()
    }

    /// What writes what [`Holding::take`] changed.
    pub(crate) fn flush(&mut self) -> Vec<Step> {
        let (mut changed, mut packed, mut empty) = (Vec::new(), Vec::new(), Vec::new());
        for id in std::mem::take(&mut self.changed) {
            match self.rows.get(&id) {
                Some(Claim { tasks, .. }) if !tasks.is_empty() => {
                    changed.push(id);
                    packed.push(pack_held(tasks.iter()));
                }
                _ => empty.push(id),
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
}

/// What writes what was claimed now.
pub(crate) fn add(worker: i64, now: Timestamp, tasks: &[Held]) -> Step {
    let packed: Vec<Vec<u8>> = tasks.chunks(CLAIM_TASKS_MAX).map(|part| pack_held(part.iter())).collect();
    step!(ADD, worker, now.as_micros(), packed)
}

/// Every running task. They are few: what workers have claimed and not finished.
pub(crate) async fn running(session: &mut Session) -> Done<BTreeMap<i64, Held>> {
    let rows = session.rows(step!(ALL)).await?;
    let mut running = BTreeMap::new();
    for row in &rows {
        running.extend(unpack(row)?.1.tasks.into_iter().map(|held| (held.task, held)));
    }
    Ok(running)
}
