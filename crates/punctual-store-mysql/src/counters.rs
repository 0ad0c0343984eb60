//! What the store counts of its own work: for metrics, and for tests that hold the ratios.

use std::sync::atomic::{AtomicU64, Ordering};

/// How much a store has done since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MysqlCounters {
    /// Operations that callers asked for.
    pub operations: u64,
    /// Packets sent to the server, each of which cost one round trip.
    pub round_trips: u64,
    /// Statements in them.
    pub statements: u64,
    /// Commits of transactions that wrote.
    pub commits: u64,
    /// Operations that were run again since other transactions were in their way.
    pub retries: u64,
    /// Commits whose answer was lost, so that the tables had to tell what became of them.
    pub unknown_commits: u64,
    /// Connections opened.
    pub connections: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) operations: Counter,
    pub(crate) round_trips: Counter,
    pub(crate) statements: Counter,
    pub(crate) commits: Counter,
    pub(crate) retries: Counter,
    pub(crate) unknown_commits: Counter,
    pub(crate) connections: Counter,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: usize) {
        self.0.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    pub(crate) fn snapshot(&self) -> MysqlCounters {
        MysqlCounters {
            operations: self.operations.get(),
            round_trips: self.round_trips.get(),
            statements: self.statements.get(),
            commits: self.commits.get(),
            retries: self.retries.get(),
            unknown_commits: self.unknown_commits.get(),
            connections: self.connections.get(),
        }
    }
}
