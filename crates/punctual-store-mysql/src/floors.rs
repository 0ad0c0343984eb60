//! How far the dead rows of each lane reach.
//!
//! A claimed row stays in its place, marked as deleted, until no reader anywhere may want it. One long-lived snapshot of
//! somebody's report is enough to keep all of them, and every claim would step over them again. New tasks are never due
//! before the time of their write; so a claim begins a second before the head that it saw last, and looks below it once a
//! second and after a claim that found nothing: for tasks that were given back, and for those of a long transaction.

use punctual_clock::{Clock, Instant, SystemClock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long nothing is looked for below the floors.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How far below the head that was seen last a floor lies, in microseconds.
const BELOW: i64 = 1_000_000;
/// How many groups have a floor; beyond it all are forgotten.
const FLOORS_MAX: usize = 10_000;

/// The floors of one store's claims.
#[derive(Debug, Default)]
pub(crate) struct Floors {
    /// With a clock that may be set back there are none.
    off: bool,
    known: Arc<BTreeMap<(u32, u8), i64>>,
    looked: Option<Instant>,
}

/// The floors that one claim goes by.
#[derive(Debug)]
pub(crate) struct Look {
    floors: Option<Arc<BTreeMap<(u32, u8), i64>>>,
}

impl Look {
    /// Where a lane's class is read from.
    pub(crate) fn floor(&self, lane: u32, class: u8) -> i64 {
        self.floors.as_ref().and_then(|floors| floors.get(&(lane, class))).copied().unwrap_or(i64::MIN)
    }
}

impl Floors {
    pub(crate) fn new(off: bool) -> Self {
        Floors { off, ..Floors::default() }
    }

    /// What the next claim reads.
    pub(crate) fn look(&self) -> Look {
        let fresh = self.looked.is_some_and(|looked| SystemClock.now().since(looked) < LOOK_EVERY);
        Look { floors: (fresh && !self.off).then(|| Arc::clone(&self.known)) }
    }

    /// What it found: the head of each group, and whether none of them is due.
    pub(crate) fn seen(&mut self, look: &Look, heads: impl Iterator<Item = ((u32, u8), i64)>, none_due: bool) {
        if self.off {
            return;
        }
        let known = Arc::make_mut(&mut self.known);
        if known.len() > FLOORS_MAX {
            known.clear();
        }
        for (group, head) in heads {
            known.insert(group, head.saturating_sub(BELOW));
        }
        if none_due {
            self.looked = None;
        } else if look.floors.is_none() {
            self.looked = Some(SystemClock.now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A floor follows the heads that were seen, until a second has passed or nothing was found.
    #[test]
    fn floors_follow_the_heads() {
        let mut floors = Floors::default();
        let first = floors.look();
        assert_eq!(first.floor(1, 0), i64::MIN);
        floors.seen(&first, [((1, 0), 5_000_000)].into_iter(), false);
        let second = floors.look();
        assert_eq!((second.floor(1, 0), second.floor(2, 0)), (4_000_000, i64::MIN));
        floors.seen(&second, std::iter::empty(), true);
        assert_eq!(floors.look().floor(1, 0), i64::MIN);
        let mut off = Floors::new(true);
        off.seen(&first, [((1, 0), 5_000_000)].into_iter(), false);
        assert_eq!(off.look().floor(1, 0), i64::MIN);
    }
}
