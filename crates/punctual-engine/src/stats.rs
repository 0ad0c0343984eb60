//! What an engine has done since it started, as counters: for benches, the command line and metrics.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What an engine has done since it started.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The live counters. Each has one writer, or few: lanes, which are many, do not touch them.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
        }

        impl Counters {
            /// All of them now. They are read one after another: sums may be off by what happened meanwhile.
            pub(crate) fn read(&self) -> Stats {
                Stats { $($name: self.$name.get(),)* }
            }
        }
    };
}

counters! {
    /// Tasks enqueued by this engine.
    enqueued,
    /// Claims sent to the store.
    claims,
    /// Tasks that they gave.
    claimed,
    /// Batches of finished attempts sent to the store.
    finish_calls,
    /// Attempts that the store recorded.
    finished,
    /// Of these, attempts that succeeded.
    succeeded,
    /// Attempts that failed, panicked or timed out and were the task's last.
    failed,
    /// Attempts that failed, panicked or timed out and will be followed by another.
    retried,
    /// Attempts whose handler panicked.
    panicked,
    /// Attempts whose budget ended.
    timed_out,
    /// Attempts whose handler asked for a later time.
    snoozed,
    /// Tasks that ended as cancelled here.
    cancelled,
    /// Tasks that were claimed too late to be started.
    expired,
    /// Finishes that the store refused, since the task had been taken from this worker.
    refused,
    /// Tasks given back without an end: after a shutdown, a lost lease or an unknown claim.
    handed_back,
    /// Handlers that blocked their thread beyond every bound and were given up.
    abandoned,
    /// Times that this engine lost its registration.
    leases_lost,
    /// Times that handlers were stopped because the lease was in doubt.
    doubts,
    /// Renewals that the store accepted.
    renewals,
    /// Dead workers that this engine fenced off.
    workers_rescued,
    /// Tasks that they had held.
    tasks_rescued,
    /// Passes over due schedules.
    sweeps,
    /// Occurrences created by them.
    slots_created,
    /// Slots that they decided not to run.
    slots_lost,
    /// Times that a schedule was left to hosts with a newer time zone database.
    schedules_left,
    /// Ended tasks removed.
    pruned,
    /// Calls that the store failed.
    store_errors,
}

/// One counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: usize) {
        if count > 0 {
            self.0.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
