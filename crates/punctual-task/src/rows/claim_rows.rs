//! Which rows hold what this process has claimed.

use super::Held;
use std::collections::{BTreeSet, HashMap};

/// How many tasks' rows are remembered; beyond it all are forgotten.
const TASKS_MAX: usize = 200_000;

/// Which row of its store's table holds a task that was claimed through it. A finish locks those rows and no others: to look for them
/// by the worker steps over all of its finished ones for as long as somebody's snapshot keeps them. What is not known, or wrong,
/// is looked for by the worker after all.
///
/// Only looked up, so that its order decides nothing.
#[derive(Debug, Default)]
pub struct ClaimRows(HashMap<i64, i64>);

impl ClaimRows {
    /// Remembers that these tasks were written in this order, so many to a row, to rows of these ids.
    pub fn added(&mut self, tasks: &[Held], to_a_row: usize, rows: impl Iterator<Item = i64>) {
        if self.0.len().saturating_add(tasks.len()) > TASKS_MAX {
            self.0.clear();
        }
        for (part, row) in tasks.chunks(to_a_row).zip(rows) {
            self.0.extend(part.iter().map(|held| (held.task, row)));
        }
    }

    /// The rows of these tasks, in order. `None` where one is not known.
    #[must_use]
    pub fn of(&self, tasks: impl Iterator<Item = i64>) -> Option<Vec<i64>> {
        let rows: BTreeSet<i64> = tasks.map(|task| self.0.get(&task).copied()).collect::<Option<_>>()?;
        Some(rows.into_iter().collect())
    }

    /// These are held no more.
    pub fn forget(&mut self, tasks: impl Iterator<Item = i64>) {
        for task in tasks {
            self.0.remove(&task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(task: i64) -> Held {
        Held { task, gate: 0, lane: 1, level: 1, flags: 0, n: 1, spent: 0, losses: 0, due: task }
    }

    /// Each row is named once and in order; where one task is not known nothing is; and no more is remembered than may be.
    #[test]
    fn rows_are_found_by_their_tasks() {
        let mut rows = ClaimRows::default();
        let tasks: Vec<Held> = (0..5).map(held).collect();
        rows.added(&tasks, 2, [30, 10, 20].into_iter());
        assert_eq!(rows.of([4, 0, 1].into_iter()), Some(vec![20, 30]));
        assert_eq!(rows.of([4, 9].into_iter()), None);
        rows.forget([0, 4].into_iter());
        assert_eq!((rows.of([4].into_iter()), rows.of([1, 2].into_iter())), (None, Some(vec![10, 30])));
        let many: Vec<Held> = (10..10 + 199_999).map(held).collect();
        rows.added(&many, 200_000, [40].into_iter());
        assert_eq!(rows.of([1].into_iter()), None, "all were forgotten");
        assert_eq!(rows.of([10].into_iter()), Some(vec![40]));
    }
}
