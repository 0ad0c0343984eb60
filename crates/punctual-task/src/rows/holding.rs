//! What workers hold, out of the rows that have many tasks each.

use super::{Held, pack_held};
use punctual_clock::Timestamp;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What was read of the rows of claimed tasks. Changes stay in memory until [`changes`](Self::changes) gives what to write.
///
/// Finding a task and letting go of it take the same time however many there are.
#[derive(Debug, Default)]
pub struct Holding {
    rows: BTreeMap<i64, HeldRow>,
    /// Where a task is: its row, and its place in that. Only looked up, never walked, so that its order decides nothing.
    places: HashMap<i64, (i64, usize)>,
    changed: BTreeSet<i64>,
}

/// One row: the tasks that a worker claimed at once.
#[derive(Debug)]
pub struct HeldRow {
    /// Its key.
    pub id: i64,
    /// Who holds them.
    pub worker: i64,
    /// When they were claimed.
    pub at: Timestamp,
    /// Empty places are of tasks that were let go of.
    tasks: Vec<Option<Held>>,
}

impl HeldRow {
    /// The tasks that are still held, in the order of the claim.
    pub fn tasks(&self) -> impl Iterator<Item = &Held> {
        self.tasks.iter().flatten()
    }
}

impl Holding {
    /// Takes up a row as it is stored. Rows may come in any order; a row that is there already is replaced.
    pub fn put(&mut self, id: i64, worker: i64, at: Timestamp, tasks: Vec<Held>) {
        for (place, held) in tasks.iter().enumerate() {
            self.places.insert(held.task, (id, place));
        }
        let tasks = tasks.into_iter().map(Some).collect();
        self.rows.insert(id, HeldRow { id, worker, at, tasks });
    }

    /// How a task is held.
    #[must_use]
    pub fn get(&self, task: i64) -> Option<&Held> {
        let (row, place) = self.places.get(&task)?;
        self.rows.get(row)?.tasks.get(*place)?.as_ref()
    }

    /// Lets go of a task.
    pub fn take(&mut self, task: i64) -> Option<Held> {
        let (row, place) = self.places.remove(&task)?;
        let held = self.rows.get_mut(&row)?.tasks.get_mut(place)?.take();
        self.changed.insert(row);
        held
    }

    /// The rows, in the order of their ids, which is that of the claims.
    pub fn rows(&self) -> impl Iterator<Item = &HeldRow> {
        self.rows.values()
    }

    /// Everything held and when it was claimed, in the order of the claims.
    pub fn tasks(&self) -> impl Iterator<Item = (Timestamp, &Held)> {
        self.rows().flat_map(|row| row.tasks().map(|held| (row.at, held)))
    }

    /// What writes what [`take`](Self::take) changed since the last call: each row's id and its new bytes, or `None` where it
    /// is to be deleted.
    pub fn changes(&mut self) -> Vec<(i64, Option<Vec<u8>>)> {
        let change = |id: i64| {
            let left: Vec<&Held> = self.rows.get(&id).map_or_else(Vec::new, |row| row.tasks().collect());
            let packed = (!left.is_empty()).then(|| pack_held(left.into_iter()));
            if packed.is_none() {
                self.rows.remove(&id);
            }
            (id, packed)
        };
        std::mem::take(&mut self.changed).into_iter().map(change).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::unpack_held;

    fn held(task: i64) -> Held {
        Held { task, gate: 0, lane: 1, level: 1, flags: 0, n: 1, spent: 0, losses: 0, due: task }
    }

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    /// What is let go of, in any order, is gone from its row; rows that were not touched are not written, and those in which
    /// nothing is left are deleted, each once.
    #[test]
    fn only_what_changed_is_written() {
        let mut holding = Holding::default();
        holding.put(2, 7, at(20), vec![held(20), held(21)]);
        holding.put(1, 7, at(10), vec![held(10), held(11), held(12)]);
        holding.put(3, 8, at(30), vec![held(30)]);
        assert_eq!(holding.take(11), Some(held(11)));
        assert_eq!((holding.take(11), holding.take(99)), (None, None));
        assert_eq!(holding.get(11), None);
        assert_eq!(holding.get(12), Some(&held(12)));
        assert_eq!(holding.take(21), Some(held(21)));
        assert_eq!(holding.take(20), Some(held(20)));
        let left: Vec<(Timestamp, i64)> = holding.tasks().map(|(at, held)| (at, held.task)).collect();
        assert_eq!(left, [(at(10), 10), (at(10), 12), (at(30), 30)]);
        let changes = holding.changes();
        let [(1, Some(packed)), (2, None)] = changes.as_slice() else { panic!("{changes:?}") };
        assert_eq!(unpack_held(packed), Ok(vec![held(10), held(12)]));
        assert_eq!(holding.changes(), []);
        assert_eq!(holding.rows().map(|row| row.worker).collect::<Vec<_>>(), [7, 8]);
        assert_eq!(holding.take(12), Some(held(12)));
        assert_eq!(holding.changes(), [(1, Some(pack_held([held(10)].iter())))]);
    }
}
