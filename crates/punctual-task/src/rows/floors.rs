//! How far the dead rows of each lane reach.
//!
//! A claimed row stays in its place, marked as deleted, until no reader anywhere may want it. One long-lived snapshot of
//! somebody's report is enough to keep all of them, and every claim would step over them again. New tasks are never due
//! before the time of their write; so a claim begins at the head that it saw last, or a second before it while that head is
//! fresh, and looks below it once a second and after a claim that found nothing: for tasks that were given back, and for those of
//! a long transaction.

use punctual_clock::{Instant, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long nothing is looked for below the floors.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Tasks whose writes are under way may come before the head by so much.
const BELOW: Duration = Duration::from_secs(1);
/// How many groups have a floor; beyond it all are forgotten.
const FLOORS_MAX: usize = 10_000;

/// A lane and a class.
pub type FloorGroup = (u32, u8);
/// Where a row lies in its group: when it is due, then its number.
pub type FloorPlace = (i64, i64);

/// The floors of one store's claims or sweeps.
#[derive(Debug, Default)]
pub struct Floors {
    off: bool,
    known: Arc<BTreeMap<FloorGroup, FloorPlace>>,
    looked: Option<Instant>,
}

/// The floors that one claim or sweep goes by.
#[derive(Debug)]
pub struct FloorLook {
    floors: Option<Arc<BTreeMap<FloorGroup, FloorPlace>>>,
}

impl FloorLook {
    /// Where a group is read from; the lowest place where it has no floor.
    #[must_use]
    pub fn floor(&self, group: FloorGroup) -> FloorPlace {
        self.known(group).unwrap_or((i64::MIN, i64::MIN))
    }

    fn known(&self, group: FloorGroup) -> Option<FloorPlace> {
        self.floors.as_ref().and_then(|floors| floors.get(&group)).copied()
    }

    /// All floors.
    pub fn iter(&self) -> impl Iterator<Item = (FloorGroup, FloorPlace)> {
        self.floors.iter().flat_map(|floors| floors.iter().map(|(group, place)| (*group, *place)))
    }
}

impl Floors {
    /// None yet. With a clock that may be set back there are never any: such a store is to be `off`.
    #[must_use]
    pub fn new(off: bool) -> Self {
        Floors { off, ..Floors::default() }
    }

    /// What the next claim reads; `now` is the monotonic time.
    #[must_use]
    pub fn look(&self, now: Instant) -> FloorLook {
        let fresh = self.looked.is_some_and(|looked| now.since(looked) < LOOK_EVERY);
        FloorLook { floors: (fresh && !self.off).then(|| Arc::clone(&self.known)) }
    }

    /// The next claim looks below the floors.
    pub fn forget(&mut self) {
        self.looked = None;
    }

    /// What a claim found that went by `look`: the head of each group, by the database's time `at`. If none of them is due, the next
    /// claim looks below the floors.
    pub fn seen(
        &mut self,
        look: &FloorLook,
        heads: impl Iterator<Item = (FloorGroup, FloorPlace)>,
        at: Timestamp,
        now: Instant,
    ) {
        if self.off {
            return;
        }
        let known = Arc::make_mut(&mut self.known);
        if known.len() > FLOORS_MAX {
            known.clear();
        }
        let fresh = at.before(BELOW).as_micros();
        let mut due = false;
        for (group, head) in heads {
            due |= head.0 <= at.as_micros();
            let below = i64::try_from(BELOW.as_micros()).unwrap_or(i64::MAX);
            let floor = if head.0 < fresh { head } else { (head.0.saturating_sub(below), i64::MIN) };
            known.insert(group, floor);
        }
        if !due {
            self.looked = None;
        } else if look.floors.is_none() {
            self.looked = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_clock::Clock;
    use punctual_clock::VirtualClock;

    const GROUP: FloorGroup = (1, 0);
    const LOWEST: FloorPlace = (i64::MIN, i64::MIN);

    /// A floor follows the heads that were seen, until a second has passed or nothing was due.
    #[test]
    fn floors_follow_the_heads() {
        let clock = VirtualClock::starting_at(Timestamp::from_secs(100));
        let mut floors = Floors::default();
        let first = floors.look(clock.now());
        assert_eq!(first.floor(GROUP), LOWEST);
        let old = (90_000_000, 7);
        floors.seen(&first, [(GROUP, old)].into_iter(), clock.timestamp(), clock.now());
        let second = floors.look(clock.now());
        assert_eq!((second.floor(GROUP), second.floor((2, 0))), (old, LOWEST));
        assert_eq!(second.iter().collect::<Vec<_>>(), [(GROUP, old)]);
        // What was written at this moment may come to lie before a head that is as fresh.
        floors.seen(&second, [(GROUP, (99_500_000, 8))].into_iter(), clock.timestamp(), clock.now());
        assert_eq!(floors.look(clock.now()).floor(GROUP), (98_500_000, i64::MIN));
        clock.advance(LOOK_EVERY);
        assert_eq!(floors.look(clock.now()).floor(GROUP), LOWEST, "a second has passed");
        floors.seen(&first, [(GROUP, old)].into_iter(), clock.timestamp(), clock.now());
        let third = floors.look(clock.now());
        floors.seen(&third, [(GROUP, (200_000_000, 9))].into_iter(), clock.timestamp(), clock.now());
        assert_eq!(floors.look(clock.now()).floor(GROUP), LOWEST, "nothing is due");
        floors.seen(&first, [(GROUP, old)].into_iter(), clock.timestamp(), clock.now());
        assert_eq!(floors.look(clock.now()).floor(GROUP), old);
        floors.forget();
        assert_eq!(floors.look(clock.now()).floor(GROUP), LOWEST, "it was to be forgotten");
        let mut off = Floors::new(true);
        off.seen(&first, [(GROUP, old)].into_iter(), clock.timestamp(), clock.now());
        assert_eq!(off.look(clock.now()).floor(GROUP), LOWEST);
    }
}
