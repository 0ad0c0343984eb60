//! The server's pool of running calls. Connections take permits in handfuls, so that a call costs no shared counter.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Permits that a connection takes and keeps at once.
pub(crate) const HANDFUL: usize = 32;

#[derive(Debug)]
pub(crate) struct Permits(AtomicUsize);

impl Permits {
    pub(crate) fn new(count: usize) -> Self {
        Permits(AtomicUsize::new(count))
    }

    /// Takes up to `wanted` permits, rounded up to a handful.
    pub(crate) fn take(&self, wanted: usize) -> usize {
        let wanted = wanted.next_multiple_of(HANDFUL);
        let before = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| Some(free.saturating_sub(wanted)));
        before.unwrap_or_else(|free| free).min(wanted)
    }

    pub(crate) fn give(&self, permits: usize) {
        if permits > 0 {
            self.0.fetch_add(permits, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No more permits are given out than there are, and what comes back can be given out again.
    #[test]
    fn the_pool_is_never_overdrawn() {
        let permits = Permits::new(40);
        assert_eq!(permits.take(1), HANDFUL);
        assert_eq!(permits.take(1), 40 - HANDFUL);
        assert_eq!(permits.take(1), 0);
        permits.give(40);
        assert_eq!(permits.take(33), 40);
    }
}
