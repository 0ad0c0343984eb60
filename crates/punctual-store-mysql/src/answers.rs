//! What a script's statements gave: rows, read without trust, and counts.

use crate::errors::{Done, Fault};
use bytes::Bytes;
use mysql_async::{Row, Value};
use std::vec::IntoIter;

/// What one statement gave.
#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) rows: Vec<Row>,
    /// How many rows it changed.
    pub(crate) affected: u64,
    /// The first number that it drew from an `AUTO_INCREMENT` or `LAST_INSERT_ID(..)`.
    pub(crate) drawn: u64,
}

/// What a script gave, a set a statement.
#[derive(Debug)]
pub(crate) struct Answers {
    sets: IntoIter<Set>,
}

impl Answers {
    pub(crate) fn new(sets: Vec<Set>) -> Self {
        Answers { sets: sets.into_iter() }
    }

    /// The next statement's.
    pub(crate) fn set(&mut self) -> Done<Set> {
        self.sets.next().ok_or_else(|| Fault::bug("a script gave fewer answers than it has statements"))
    }

    /// The rows of the next statement.
    pub(crate) fn rows(&mut self) -> Done<Vec<Row>> {
        Ok(self.set()?.rows)
    }

    /// The rows of the next so many statements, in one list.
    pub(crate) fn rows_of(&mut self, statements: usize) -> Done<Vec<Row>> {
        let mut rows = Vec::new();
        for _ in 0..statements {
            rows.append(&mut self.rows()?);
        }
        Ok(rows)
    }

    /// Passes over so many statements.
    pub(crate) fn skip(&mut self, statements: usize) -> Done<()> {
        for _ in 0..statements {
            self.set()?;
        }
        Ok(())
    }
}

/// A value of a column.
pub(crate) trait Cell: Sized {
    fn from_cell(value: Option<&Value>) -> Option<Self>;
}

fn text(value: Option<&Value>) -> Option<&str> {
    match value {
        Some(Value::Bytes(bytes)) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

impl Cell for i64 {
    fn from_cell(value: Option<&Value>) -> Option<Self> {
        match value {
            Some(Value::Int(number)) => Some(*number),
            Some(Value::UInt(number)) => i64::try_from(*number).ok(),
            _ => text(value)?.parse().ok(),
        }
    }
}

macro_rules! narrow {
    ($($name:ty),*) => {
        $(impl Cell for $name {
            fn from_cell(value: Option<&Value>) -> Option<Self> {
                <$name>::try_from(i64::from_cell(value)?).ok()
            }
        })*
    };
}
narrow!(u8, u32, u64, usize);

impl Cell for bool {
    fn from_cell(value: Option<&Value>) -> Option<Self> {
        i64::from_cell(value).map(|number| number != 0)
    }
}

impl Cell for String {
    fn from_cell(value: Option<&Value>) -> Option<Self> {
        text(value).map(str::to_owned)
    }
}

impl Cell for Bytes {
    fn from_cell(value: Option<&Value>) -> Option<Self> {
        match value {
            Some(Value::Bytes(bytes)) => Some(Bytes::copy_from_slice(bytes)),
            _ => None,
        }
    }
}

impl<T: Cell> Cell for Option<T> {
    fn from_cell(value: Option<&Value>) -> Option<Self> {
        match value {
            Some(Value::NULL) => Some(None),
            other => T::from_cell(other).map(Some),
        }
    }
}

/// The value of a column, counted from 0.
pub(crate) fn cell<T: Cell>(row: &Row, at: usize) -> Done<T> {
    T::from_cell(row.as_ref(at)).ok_or_else(|| {
        let name = row.columns_ref().get(at).map(|column| column.name_str().into_owned()).unwrap_or_default();
        Fault::corrupt(format!("column {at} ({name}) of a row holds what was never written"))
    })
}
