//! The handlers' own book: one line for each execution, appended by one write, so that a SIGKILL leaves whole lines only.

use crate::exit::Failure;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// An open ledger. Several processes may append to one file.
#[derive(Debug)]
pub(crate) struct Ledger(File);

/// One execution of a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The task's id.
    pub(crate) task: u64,
    /// Which attempt.
    pub(crate) attempt: u32,
    /// The schedule and its slot's instant in microseconds, for an occurrence.
    pub(crate) slot: Option<(String, i64)>,
    /// The number that the task was enqueued with, or the schedule's run number.
    pub(crate) number: u64,
}

impl Ledger {
    /// Opens `path` to append, creating it.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.map(Ledger).map_err(|error| Failure::failed(format!("cannot open the ledger {}: {error}", path.display())))
    }

    /// Appends one line.
    pub(crate) fn write(&self, entry: &Entry) -> io::Result<()> {
        let (schedule, slot) = entry.slot.clone().unwrap_or_else(|| ("-".to_owned(), 0));
        let line = format!("{} {} {schedule} {slot} {}\n", entry.task, entry.attempt, entry.number);
        let mut file = &self.0;
        // One write of a line is one append: with `write_all` a short write would show as a torn line and fail the proof.
        file.write_all(line.as_bytes())
    }
}

/// All lines of a ledger.
pub(crate) fn read(path: &Path) -> Result<Vec<Entry>, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::failed(format!("cannot read the ledger {}: {error}", path.display())))?;
    text.lines()
        .map(|line| {
            parse(line).ok_or_else(|| Failure::failed(format!("the ledger has a line that does not read: {line:?}")))
        })
        .collect()
}

fn parse(line: &str) -> Option<Entry> {
    let mut words = line.split(' ');
    let task = words.next()?.parse().ok()?;
    let attempt = words.next()?.parse().ok()?;
    let schedule = words.next()?;
    let slot = words.next()?.parse().ok()?;
    let number = words.next()?.parse().ok()?;
    let slot = (schedule != "-").then(|| (schedule.to_owned(), slot));
    words.next().is_none().then_some(Entry { task, attempt, slot, number })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What handlers write is what the proof reads, whole lines only.
    #[test]
    fn lines_round_trip() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let entries = [
            Entry { task: 7, attempt: 1, slot: None, number: 3 },
            Entry { task: 8, attempt: 2, slot: Some(("all-0".to_owned(), -5)), number: 9 },
        ];
        let ledger = Ledger::open(&path).unwrap();
        entries.iter().for_each(|entry| ledger.write(entry).unwrap());
        assert_eq!(read(&path).unwrap(), entries);
        for torn in ["7 1 - 0", "7 1 - 0 3 4", "x 1 - 0 3", ""] {
            assert_eq!(parse(torn), None, "{torn:?}");
        }
    }
}
