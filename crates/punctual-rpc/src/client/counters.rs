//! What a channel counts of its calls beyond what its connections count.

use crate::stats::ChannelStats;
use std::sync::atomic::{AtomicU64, Ordering};

/// Touched only by calls that are not plain.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    retries: AtomicU64,
    resends: AtomicU64,
    hedges: AtomicU64,
}

impl Counters {
    pub(crate) fn count_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_resend(&self) {
        self.resends.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_hedge(&self) {
        self.hedges.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_to(&self, stats: &mut ChannelStats) {
        stats.retries = self.retries.load(Ordering::Relaxed);
        stats.hedges = self.hedges.load(Ordering::Relaxed);
        stats.resends = self.resends.load(Ordering::Relaxed);
    }
}
