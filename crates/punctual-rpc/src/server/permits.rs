//! The server's pool of running calls. Connections take permits in handfuls, so that a call costs no shared counter.

use crate::sync::atomic::{AtomicUsize, Ordering};

/// Permits that a connection takes at once, where the pool has so many for each.
const HANDFUL_MAX: usize = 32;

#[derive(Debug)]
pub(crate) struct Permits {
    free: AtomicUsize,
    handful: usize,
}

impl Permits {
    /// A pool of `count` permits for so many connections. A small pool is given out one by one: what one connection
    /// keeps must not be what another one lacks.
    pub(crate) fn new(count: usize, connections: usize) -> Self {
        let handful = (count / connections.max(1) / 2).clamp(1, HANDFUL_MAX);
        Permits { free: AtomicUsize::new(count), handful }
    }

    /// What a busy connection keeps beyond what it runs.
    pub(crate) fn spare(&self) -> usize {
        2 * (self.handful - 1)
    }

    /// Takes up to `wanted` permits, rounded up to a handful.
    pub(crate) fn take(&self, wanted: usize) -> usize {
        let wanted = wanted.next_multiple_of(self.handful);
        let before =
            self.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| Some(free.saturating_sub(wanted)));
        before.unwrap_or_else(|free| free).min(wanted)
    }

    pub(crate) fn give(&self, permits: usize) {
        if permits > 0 {
            self.free.fetch_add(permits, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No more permits are given out than there are, and what comes back can be given out again.
    #[test]
    fn the_pool_is_never_overdrawn() {
        let permits = Permits::new(80, 1);
        assert_eq!(permits.take(1), HANDFUL_MAX);
        assert_eq!(permits.take(33), 80 - HANDFUL_MAX);
        assert_eq!(permits.take(1), 0);
        permits.give(40);
        assert_eq!(permits.take(33), 40);
    }

    /// A pool with less than a few permits for each connection is given out one by one, and nothing is kept.
    #[test]
    fn a_small_pool_is_shared_one_by_one() {
        let permits = Permits::new(10, 1_024);
        assert_eq!((permits.take(1), permits.spare()), (1, 0));
    }
}
