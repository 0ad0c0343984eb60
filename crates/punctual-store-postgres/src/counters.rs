//! What the store counts of its own work: for metrics, and for tests that hold the ratios.

use std::sync::atomic::{AtomicU64, Ordering};

/// How much a store has done since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostgresCounters {
    /// Operations that callers asked for.
    pub operations: u64,
    /// Round trips to the server, preparing statements and connecting aside.
    pub round_trips: u64,
    /// Statements sent, those that begin and commit aside.
    pub statements: u64,
    /// Commits sent by writing transactions.
    pub commits: u64,
    /// Operations that were begun anew: after a deadlock, or on a fresh connection.
    pub retries: u64,
    /// Enqueues that shared another one's commit.
    pub grouped: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    operations: AtomicU64,
    round_trips: AtomicU64,
    statements: AtomicU64,
    commits: AtomicU64,
    retries: AtomicU64,
    grouped: AtomicU64,
}

impl Counters {
    pub(crate) fn operation(&self) {
        self.operations.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn grouped(&self, count: usize) {
        self.grouped.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// One round trip.
    pub(crate) fn sent(&self, statements: usize, commits: u64) {
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        self.statements.fetch_add(u64::try_from(statements).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.commits.fetch_add(commits, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> PostgresCounters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PostgresCounters {
            operations: get(&self.operations),
            round_trips: get(&self.round_trips),
            statements: get(&self.statements),
            commits: get(&self.commits),
            retries: get(&self.retries),
            grouped: get(&self.grouped),
        }
    }
}
