//! Waiting tasks: rows of `ready`, clustered in the order of the claim.

use crate::answers::cell;
use crate::ends::Again;
use crate::errors::Done;
use crate::script::{Script, Value};
use mysql_async::Row;
use punctual_task::rows::Held;

/// What the class of a suspect is above its level.
pub(crate) const SUSPECT: u8 = 4;

const ADD: &str = "INSERT INTO punctual_ready (lane, class, due, id, n, spent, losses, gate, flags) VALUES ";
/// By the id alone: the rows before and after belong to other claims and must not be waited for.
const REMOVE: &str = "DELETE r FROM punctual_ready r FORCE INDEX (punctual_ready_id) WHERE r.id IN (?)";

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) lane: u32,
    pub(crate) class: u8,
    pub(crate) due: i64,
    pub(crate) id: i64,
    /// Attempts begun.
    pub(crate) n: u32,
    pub(crate) spent: u32,
    pub(crate) losses: u32,
    /// The schedule whose occurrence it is; 0 for none.
    pub(crate) gate: i64,
    pub(crate) flags: u8,
}

/// The class of a task of this level that was lost so often in a row.
pub(crate) fn class(level: u8, losses: u32) -> u8 {
    level + if losses > 0 { SUSPECT } else { 0 }
}

impl Ready {
    /// A task that was held waits again.
    pub(crate) fn again(held: &Held, again: Again) -> Self {
        let Again { due, n, spent, losses } = again;
        Ready {
            lane: held.lane,
            class: class(held.level, losses),
            due: due.as_micros(),
            id: held.task,
            n,
            spent,
            losses,
            gate: held.gate,
            flags: held.flags,
        }
    }

    /// The columns of a statement that reads all of them, in the table's order.
    pub(crate) fn from_row(row: &Row) -> Done<Self> {
        Ok(Ready {
            lane: cell(row, 0)?,
            class: cell(row, 1)?,
            due: cell(row, 2)?,
            id: cell(row, 3)?,
            n: cell(row, 4)?,
            spent: cell(row, 5)?,
            losses: cell(row, 6)?,
            gate: cell(row, 7)?,
            flags: cell(row, 8)?,
        })
    }

    /// The level that it is of.
    pub(crate) fn level(&self) -> u8 {
        self.class % SUSPECT
    }

    /// Adds what writes rows.
    pub(crate) fn write(script: &mut Script, rows: &[Ready]) {
        let rows = rows.iter().map(|row| {
            [
                Value::from(row.lane),
                row.class.into(),
                row.due.into(),
                row.id.into(),
                row.n.into(),
                row.spent.into(),
                row.losses.into(),
                row.gate.into(),
                row.flags.into(),
            ]
        });
        script.insert(ADD, rows, "");
    }

    /// Adds what removes tasks that this transaction has locked.
    pub(crate) fn remove(script: &mut Script, ids: &[i64]) {
        script.parts(REMOVE, ids);
    }
}
