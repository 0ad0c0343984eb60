//! The search for the next slot.
//!
//! Wall time patterns are walked stretch by stretch, a stretch being the time between two changes of the zone's offset:
//!
//! ```text
//!            stretch A                        stretch B            clocks forward at S: the wall times between
//!   ──────────────────────────────┤├──────────────────────────→   S + offset A and S + offset B are missing; their
//!                      01:59:59   S   03:00                        slots belong to the beginning of B
//!
//!   ──────────────────────────────┤├──────────────────────────→   clocks back at S: the wall times between
//!                      01:59:59   S   01:00 ... 01:59 02:00        S + offset B and S + offset A are shown twice, at
//!                                                                  the end of A and at the beginning of B
//! ```
//!
//! Inside a stretch, instants and wall times differ by a constant, so that the order of wall times is the order of
//! instants, whatever happened at its ends. That is what makes "strictly later" and "in order" hold by construction.

use super::{CompiledRule, MICROS, Steps};
use crate::schedule::error::RuleError;
use crate::schedule::interval::Grid;
use crate::schedule::pattern::Pattern;
use crate::schedule::rule::{Fold, Gap};
use crate::schedule::slot::{Slot, SlotKey};
use crate::schedule::zone::{FLOOR, HORIZON, Stretch};
use punctual_clock::Timestamp;

impl CompiledRule {
    pub(super) fn next_of_grid(&self, grid: &Grid, t: i64, steps: &mut Steps) -> Result<Option<Slot>, RuleError> {
        let mut from = t.saturating_add(1).max(FLOOR * MICROS);
        loop {
            let Some(at) = grid.at_or_after(from).filter(|at| *at < HORIZON * MICROS) else { return Ok(None) };
            let end = if self.exclusions.is_empty() { None } else { self.excluded_until(at) };
            let Some(end) = end else {
                return Ok(Some(Slot { key: SlotKey::of_micros(at), at: Timestamp::from_micros(at), gap: false }));
            };
            steps.take()?;
            from = end;
        }
    }

    /// If an instant is left out: the first microsecond at which that may have changed.
    fn excluded_until(&self, at: i64) -> Option<i64> {
        if let Some(end) = self.exclusions.utc_end(at) {
            return Some(end);
        }
        let second = at.div_euclid(MICROS);
        let local = second + self.zone.offset(second);
        let end = self.exclusions.civil_end(local)?;
        // Past the stretch's end the same wall time may come again or be jumped over.
        let stretch = self.zone.stretch(second);
        Some((end - stretch.offset).min(stretch.end) * MICROS)
    }

    pub(super) fn next_elapsed(&self, pattern: &Pattern, t: i64, steps: &mut Steps) -> Result<Option<Slot>, RuleError> {
        let Some(first) = first_second(t) else { return Ok(None) };
        let mut times = WallTimes::new(self, pattern);
        let mut stretch = self.zone.stretch(first);
        let mut from = first;
        loop {
            if let Some(local) = times.next(&stretch, from + stretch.offset, stretch.end + stretch.offset, steps)? {
                let at = (local - stretch.offset) * MICROS;
                return Ok(Some(Slot { key: SlotKey::of_micros(at), at: Timestamp::from_micros(at), gap: false }));
            }
            if stretch.end >= HORIZON || times.ended {
                return Ok(None);
            }
            steps.take()?;
            from = stretch.end;
            stretch = self.zone.following(&stretch);
        }
    }

    pub(super) fn next_nominal(
        &self,
        pattern: &Pattern,
        gap: Gap,
        fold: Fold,
        t: i64,
        steps: &mut Steps,
    ) -> Result<Option<Slot>, RuleError> {
        let Some(first) = first_second(t) else { return Ok(None) };
        let mut times = WallTimes::new(self, pattern);
        // A mark for a skipped gap lies just before the gap: with `t` in that very second it may still be to come.
        let mut stretch = self.zone.stretch(first);
        let mut from = first;
        loop {
            let missing = self.missing(&mut times, gap, &stretch, t, steps)?;
            let shown = shown(&mut times, fold, &stretch, from, steps)?;
            // At one instant the missing wall time, being the earlier one, gives the slot its key.
            let best = match (missing, shown) {
                (Some(missing), Some(shown)) => Some(if missing.at <= shown.at { missing } else { shown }),
                (missing, shown) => missing.or(shown),
            };
            if best.is_some() {
                return Ok(best);
            }
            if stretch.end >= HORIZON || times.ended {
                return Ok(None);
            }
            steps.take()?;
            from = stretch.end;
            stretch = self.zone.following(&stretch);
        }
    }

    /// The first slot after `t` that stands for a wall time missing at the stretch's beginning.
    fn missing(
        &self,
        times: &mut WallTimes<'_>,
        gap: Gap,
        stretch: &Stretch,
        t: i64,
        steps: &mut Steps,
    ) -> Result<Option<Slot>, RuleError> {
        let (first, end) = (stretch.start + stretch.before, stretch.start + stretch.offset);
        let at = match gap {
            Gap::End => stretch.start * MICROS,
            Gap::Skip => stretch.start * MICROS - 1,
            // Shifted slots go on until as long after the change as the gap is wide.
            Gap::Shift => (end - stretch.before) * MICROS,
        };
        if first >= end || at <= t {
            return Ok(None);
        }
        if gap == Gap::Shift {
            // As if the offset had not changed yet.
            let unchanged = Stretch { offset: stretch.before, ..*stretch };
            let from = first.max(t.div_euclid(MICROS) + 1 + stretch.before);
            let local = times.next(&unchanged, from, end, steps)?;
            return Ok(local.map(|local| slot_of(local, false, (local - stretch.before) * MICROS, false)));
        }
        // All wall times of the gap land on one instant and are one slot, known by the first of them.
        if self.exclusions.utc_end(stretch.start * MICROS).is_some() {
            return Ok(None);
        }
        let local = times.next_nominal(first, end, steps)?;
        Ok(local.map(|local| slot_of(local, false, at, gap == Gap::Skip)))
    }
}

/// The first slot from the second `from` on that stands for a wall time which the stretch shows.
fn shown(
    times: &mut WallTimes<'_>,
    fold: Fold,
    stretch: &Stretch,
    from: i64,
    steps: &mut Steps,
) -> Result<Option<Slot>, RuleError> {
    let Stretch { start, end, offset, before, after } = *stretch;
    let (mut first, mut last) = (from + offset, end + offset);
    // Up to here the wall times at the stretch's beginning are second copies.
    let second_copies_end = start + before;
    match fold {
        Fold::First => first = first.max(second_copies_end),
        Fold::Second => last = last.min(end + after),
        Fold::Both => {}
    }
    let local = times.next(stretch, first, last, steps)?;
    Ok(local.map(|local| {
        let second_copy = fold == Fold::Both && local < second_copies_end;
        slot_of(local, second_copy, (local - offset) * MICROS, false)
    }))
}

fn slot_of(local: i64, second_copy: bool, at: i64, gap: bool) -> Slot {
    Slot { key: SlotKey::of_seconds(local, second_copy), at: Timestamp::from_micros(at), gap }
}

/// The first whole second after an instant, inside the years that slots lie in.
fn first_second(t: i64) -> Option<i64> {
    let second = (t.div_euclid(MICROS) + 1).max(FLOOR);
    if second < HORIZON { Some(second) } else { None }
}

/// The pattern's wall times less the exclusions. Remembers the last search, since neighbouring stretches of a rare
/// pattern ask for the same wall time again and again.
struct WallTimes<'a> {
    rule: &'a CompiledRule,
    pattern: &'a Pattern,
    /// The pattern has nothing in `known.0..known.1`, and holds `known.1`.
    known: (i64, i64),
    /// The pattern has nothing up to the horizon.
    ended: bool,
}

impl<'a> WallTimes<'a> {
    fn new(rule: &'a CompiledRule, pattern: &'a Pattern) -> Self {
        WallTimes { rule, pattern, known: (0, i64::MIN), ended: false }
    }

    fn pattern_next(&mut self, from: i64, steps: &mut Steps) -> Result<Option<i64>, RuleError> {
        let (low, high) = self.known;
        if low <= from && from <= high {
            return Ok(Some(high));
        }
        let found = self.pattern.next(from, steps)?;
        match found {
            Some(found) => self.known = (from, found),
            None => self.ended = true,
        }
        Ok(found)
    }

    /// The first wall time in `from..to` that no civil exclusion holds.
    fn next_nominal(&mut self, mut from: i64, to: i64, steps: &mut Steps) -> Result<Option<i64>, RuleError> {
        while from < to {
            let Some(local) = self.pattern_next(from, steps)?.filter(|local| *local < to) else { return Ok(None) };
            let Some(end) = self.rule.exclusions.civil_end(local) else { return Ok(Some(local)) };
            steps.take()?;
            from = end;
        }
        Ok(None)
    }

    /// The same, where wall times lie on the time line at the stretch's offset and UTC exclusions count too.
    fn next(&mut self, stretch: &Stretch, mut from: i64, to: i64, steps: &mut Steps) -> Result<Option<i64>, RuleError> {
        loop {
            let Some(local) = self.next_nominal(from, to, steps)? else { return Ok(None) };
            let Some(end) = self.rule.exclusions.utc_end((local - stretch.offset) * MICROS) else {
                return Ok(Some(local));
            };
            steps.take()?;
            // Rounded up to the second: what lies before the end is left out.
            from = end.div_euclid(MICROS).saturating_add(i64::from(end.rem_euclid(MICROS) != 0)) + stretch.offset;
        }
    }
}
