//! What the store counts of its own work: for metrics, and for tests that hold the ratios.

use std::sync::atomic::{AtomicU64, Ordering};

/// How much a store has done since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SqliteCounters {
    /// Writing operations that callers asked for.
    pub writes: u64,
    /// Reading operations that callers asked for.
    pub reads: u64,
    /// Groups of writing operations.
    pub groups: u64,
    /// Groups that changed something: each is one commit and one sync of the log.
    pub commits: u64,
    /// Statements begun by the writer; a loop over one prepared statement counts once.
    pub statements: u64,
    /// Rows that the writer inserted, updated or deleted.
    pub rows: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    writes: AtomicU64,
    reads: AtomicU64,
    groups: AtomicU64,
    commits: AtomicU64,
    statements: AtomicU64,
    rows: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self) {
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// A group of `writes` operations that changed `rows` rows with `statements` statements.
    pub(crate) fn group(&self, writes: usize, rows: u64, statements: u64) {
        self.writes.fetch_add(u64::try_from(writes).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.commits.fetch_add(u64::from(rows > 0), Ordering::Relaxed);
        self.statements.fetch_add(statements, Ordering::Relaxed);
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> SqliteCounters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SqliteCounters {
            writes: get(&self.writes),
            reads: get(&self.reads),
            groups: get(&self.groups),
            commits: get(&self.commits),
            statements: get(&self.statements),
            rows: get(&self.rows),
        }
    }
}
