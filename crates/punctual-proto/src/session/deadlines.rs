//! The deadlines of a table of calls: a dense array beside the slots.
//!
//! A call's end does not touch it: most calls end long before their deadline, and an entry of a call that is over costs
//! nothing until a scan meets it. What is cheap per call stays cheap (one store), and a scan of all entries is rare.

use punctual_clock::Instant;
use std::time::Duration;

/// The shortest time between two scans, so that many near deadlines cost one scan a millisecond and not one each.
const SCAN_EVERY: Duration = Duration::from_millis(1);

/// One deadline for each slot of a table; [`Instant::FAR`] where there is none.
#[derive(Debug)]
pub(crate) struct Deadlines {
    at: Vec<Instant>,
    /// Not later than the earliest entry.
    earliest: Instant,
    /// No scan before this instant.
    rest_until: Instant,
    /// The earliest one moved ahead since this was last asked: the driver's timer is late.
    moved_ahead: bool,
}

impl Default for Deadlines {
    fn default() -> Self {
        Deadlines { at: Vec::new(), earliest: Instant::FAR, rest_until: Instant::from_nanos(0), moved_ahead: false }
    }
}

impl Deadlines {
    /// Makes room for one more slot.
    pub(crate) fn push(&mut self) {
        self.at.push(Instant::FAR);
    }

    #[inline]
    pub(crate) fn set(&mut self, slot: usize, deadline: Instant) {
        if let Some(at) = self.at.get_mut(slot) {
            *at = deadline;
            if deadline < self.earliest {
                self.earliest = deadline;
                self.moved_ahead = true;
            }
        }
    }

    /// Whether the driver's timer must be set anew since this was last asked.
    #[inline]
    pub(crate) fn take_moved_ahead(&mut self) -> bool {
        std::mem::take(&mut self.moved_ahead)
    }

    /// Whether the deadline of `slot` has passed.
    #[inline]
    pub(crate) fn has_passed(&self, slot: usize, now: Instant) -> bool {
        self.at.get(slot).is_some_and(|at| *at <= now)
    }

    /// The deadline of `slot`.
    #[inline]
    pub(crate) fn get(&self, slot: usize) -> Instant {
        self.at.get(slot).copied().unwrap_or(Instant::FAR)
    }

    /// When to look next.
    #[inline]
    pub(crate) fn due_at(&self) -> Instant {
        if self.earliest == Instant::FAR { Instant::FAR } else { self.earliest.max(self.rest_until) }
    }

    /// Collects the slots whose deadline has passed into `due` and forgets their deadlines. Slots that are over by now
    /// may be among them.
    pub(crate) fn scan(&mut self, now: Instant, due: &mut Vec<usize>) {
        if now < self.due_at() {
            return;
        }
        let mut earliest = Instant::FAR;
        for (slot, at) in self.at.iter_mut().enumerate() {
            if *at <= now {
                *at = Instant::FAR;
                due.push(slot);
            } else {
                earliest = earliest.min(*at);
            }
        }
        self.earliest = earliest;
        self.rest_until = now.after(SCAN_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// Exactly the entries that have passed are given out, once, and the next look is at the earliest that is left.
    #[test]
    fn a_scan_gives_each_passed_entry_once() {
        let mut deadlines = Deadlines::default();
        (0..4).for_each(|_| deadlines.push());
        deadlines.set(0, at(30));
        deadlines.set(1, at(10));
        deadlines.set(2, at(10));
        assert_eq!(deadlines.due_at(), at(10));
        let mut due = Vec::new();
        deadlines.scan(at(9), &mut due);
        assert!(due.is_empty());
        deadlines.scan(at(10), &mut due);
        assert_eq!(due, [1, 2]);
        assert_eq!(deadlines.due_at(), at(30));
        due.clear();
        deadlines.scan(at(40), &mut due);
        assert_eq!(due, [0]);
        assert_eq!(deadlines.due_at(), Instant::FAR);
    }

    /// Two scans are at least a millisecond apart, however dense the deadlines are.
    #[test]
    fn scans_are_a_millisecond_apart() {
        let mut deadlines = Deadlines::default();
        (0..2).for_each(|_| deadlines.push());
        deadlines.set(0, Instant::from_nanos(1_000));
        let mut due = Vec::new();
        deadlines.scan(Instant::from_nanos(1_000), &mut due);
        deadlines.set(1, Instant::from_nanos(2_000));
        deadlines.scan(Instant::from_nanos(3_000), &mut due);
        assert_eq!(due, [0]);
        assert_eq!(deadlines.due_at(), Instant::from_nanos(1_001_000));
    }
}
