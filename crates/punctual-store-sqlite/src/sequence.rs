//! Task ids: the next one to be drawn, kept in memory and written once an operation.

use crate::connection::Sql;
use crate::errors::{Done, Fault};
use rusqlite::params;

const READ: &str = "SELECT next FROM sequence WHERE name = 'task'";
const WRITE: &str = "UPDATE sequence SET next = ?1 WHERE name = 'task'";

/// The sequence of task ids, as far as it was read in this transaction or none of another process came between.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    next: Option<i64>,
    changed: bool,
}

impl Sequence {
    /// Draws `count` ids; gives the first.
    pub(crate) fn draw(&mut self, db: &dyn Sql, count: u32) -> Done<i64> {
        let first = self.next(db)?;
        let next = first.checked_add(i64::from(count)).ok_or_else(|| Fault::bug("all task ids are used up"))?;
        self.set(next);
        Ok(first)
    }

    /// Never draws `id`, nor one below it: it came from elsewhere.
    pub(crate) fn pass(&mut self, db: &dyn Sql, id: i64) -> Done<()> {
        if id >= self.next(db)? {
            self.set(id.saturating_add(1));
        }
        Ok(())
    }

    fn next(&mut self, db: &dyn Sql) -> Done<i64> {
        if let Some(next) = self.next {
            return Ok(next);
        }
        let next = db.sql(READ)?.query_row([], |row| row.get(0))?;
        self.next = Some(next);
        Ok(next)
    }

    fn set(&mut self, next: i64) {
        self.next = Some(next);
        self.changed = true;
    }

    /// Writes what was drawn, before the operation is answered.
    pub(crate) fn flush(&mut self, db: &dyn Sql) -> Done<()> {
        if std::mem::take(&mut self.changed)
            && let Some(next) = self.next
        {
            db.sql(WRITE)?.execute(params![next])?;
        }
        Ok(())
    }
}
