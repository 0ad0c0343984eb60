//! A rule that has been checked: what answers "which slot comes next?".

mod walk;

use super::calendar::CalendarDays;
use super::civil::CivilDate;
use super::day::{self, DAY_SECONDS};
use super::error::{RuleError, RuleErrorKind};
use super::exclusion::Exclusions;
use super::interval::Grid;
use super::pattern::{Days, Pattern};
use super::rule::{EXCLUSIONS_MAX, Fold, Gap, Kind, Rule};
use super::slot::{KeyClass, Slot, SlotKey};
use super::zone::{FLOOR, HORIZON, Place, Zone};
use punctual_clock::Timestamp;

/// How many steps one search for a slot may take: a month, a stretch between two clock changes, or an excluded
/// candidate costs one each, about 100 ns. A rule without exclusions needs at most a few hundred (29 February on a given
/// weekday comes every 40 years at worst); the rest is room for exclusions.
pub const SEARCH_STEPS_MAX: u32 = 50_000;

const MICROS: i64 = 1_000_000;

/// What a search may still spend.
#[derive(Debug)]
pub(crate) struct Steps {
    left: u32,
}

impl Steps {
    pub(crate) const fn new() -> Self {
        Steps { left: SEARCH_STEPS_MAX }
    }

    pub(crate) fn take(&mut self) -> Result<(), RuleError> {
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            RuleError::new(
                RuleErrorKind::SearchExhausted,
                format!(
                    "no slot found within {SEARCH_STEPS_MAX} steps of search: the exclusions leave out too much; \
                     remove some, or bound the rule with `until`"
                ),
            )
        })?;
        Ok(())
    }

    #[cfg(test)]
    pub(crate) const fn spent(&self) -> u32 {
        SEARCH_STEPS_MAX - self.left
    }
}

/// A checked [`Rule`]: its zone found, its expression compiled to sets of days and times.
///
/// Its answers depend on the rule, the schedule's creation and the bundled zone database alone: not on when or where
/// the process runs, nor on what was asked before. Slots lie between the years 1 and 9998; finding one takes
/// microseconds and is bounded by [`SEARCH_STEPS_MAX`].
#[derive(Debug, Clone)]
pub struct CompiledRule {
    zone: Zone,
    times: Series,
    exclusions: Exclusions,
    start: Option<Timestamp>,
    until: Option<Timestamp>,
    max_occurrences: Option<u64>,
}

#[derive(Debug, Clone)]
enum Series {
    /// Instants `anchor + k × step`.
    Grid(Grid),
    /// Every instant whose wall time the pattern holds.
    Elapsed(Pattern),
    /// Every wall time of the pattern, laid on the time line by the two choices.
    Nominal { pattern: Pattern, gap: Gap, fold: Fold },
}

impl CompiledRule {
    /// Checks a rule. `creation` is when the schedule was created: the anchor of an interval that has neither an anchor
    /// nor a start, and of a calendar rule with N above 1 that has neither a `from` nor a start. It must be stored with
    /// the schedule and be the same for the life of an era.
    ///
    /// # Errors
    /// If the zone is unknown, a number is out of its range, parts contradict each other, or no slot could ever come.
    pub fn new(rule: &Rule, creation: Timestamp) -> Result<Self, RuleError> {
        let zone = Zone::find(&rule.zone)?;
        if rule.exclusions.len() > EXCLUSIONS_MAX {
            return Err(RuleError::out_of_range(format!(
                "the rule has {} exclusions; at most {EXCLUSIONS_MAX} are allowed: join dates into windows",
                rule.exclusions.len()
            )));
        }
        if let (Some(start), Some(until)) = (rule.start, rule.until)
            && start >= until
        {
            return Err(RuleError::invalid(format!(
                "the rule has no time to run: it starts at {} and `until` is {}, which must be later",
                super::utc_text(start),
                super::utc_text(until)
            )));
        }
        if rule.max_occurrences == Some(0) {
            return Err(RuleError::out_of_range("at most 0 occurrences leave nothing to run; give 1 or more, or none"));
        }
        let exclusions = Exclusions::new(&rule.exclusions)?;
        let without = exclusions.weekdays();
        let times = match &rule.kind {
            Kind::Interval(every) => Series::Grid(Grid::new(every, rule.start, creation)?),
            Kind::Cron(cron) => {
                if cron.never(without) {
                    return Err(only_excluded_days());
                }
                let pattern = cron.pattern(without);
                if cron.is_elapsed() {
                    Series::Elapsed(pattern)
                } else {
                    Series::Nominal { pattern, gap: rule.gap, fold: rule.fold }
                }
            }
            Kind::Calendar(calendar) => {
                let anchor = second_of(rule.start.unwrap_or(creation)).clamp(FLOOR, HORIZON - 1);
                let anchor = CivilDate::from_number((anchor + zone.offset(anchor)).div_euclid(DAY_SECONDS));
                let days = CalendarDays::new(calendar, anchor)?;
                if days.never(0) {
                    return Err(RuleError::never_fires(
                        "the calendar rule can never fire: none of its months has one of its days; \
                         choose other days, or an overflow other than skip",
                    ));
                }
                if days.never(without) {
                    return Err(only_excluded_days());
                }
                let pattern = Pattern::new(Days::Calendar(days), calendar.times()?, without);
                Series::Nominal { pattern, gap: rule.gap, fold: rule.fold }
            }
        };
        let Rule { start, until, max_occurrences, .. } = *rule;
        Ok(CompiledRule { zone, times, exclusions, start, until, max_occurrences })
    }

    /// The first slot strictly later than `t`; `None` if the series has ended.
    ///
    /// # Errors
    /// If nothing was found within [`SEARCH_STEPS_MAX`] steps, which only exclusions can cause.
    pub fn next_after(&self, t: Timestamp) -> Result<Option<Slot>, RuleError> {
        self.next_within(t, &mut Steps::new())
    }

    pub(crate) fn next_within(&self, t: Timestamp, steps: &mut Steps) -> Result<Option<Slot>, RuleError> {
        let bound = self.start.map_or(i64::MIN, |start| start.as_micros().saturating_sub(1));
        let t = t.as_micros().max(bound);
        let slot = match &self.times {
            Series::Grid(grid) => self.next_of_grid(grid, t, steps)?,
            Series::Elapsed(pattern) => self.next_elapsed(pattern, t, steps)?,
            Series::Nominal { pattern, gap, fold } => self.next_nominal(pattern, *gap, *fold, t, steps)?,
        };
        Ok(slot.filter(|slot| self.until.is_none_or(|until| slot.at < until)))
    }

    /// All slots strictly later than `t`, in the order of their instants.
    #[must_use]
    pub fn slots_after(&self, t: Timestamp) -> Slots<'_> {
        Slots { rule: self, last: Some(t) }
    }

    /// What this rule's slot keys count in.
    #[must_use]
    pub const fn key_class(&self) -> KeyClass {
        match self.times {
            Series::Grid(_) | Series::Elapsed(_) => KeyClass::Utc,
            Series::Nominal { .. } => KeyClass::Local,
        }
    }

    /// The instant of a slot that is known by its key, under the zone's rules as they are compiled in now; see
    /// [`CompiledRule::slot`].
    #[must_use]
    pub fn resolve(&self, key: SlotKey) -> Option<Timestamp> {
        self.slot(key).map(|slot| slot.at)
    }

    /// The slot of a key, under the zone's rules as they are compiled in now. `None` if the key names nothing: it lies
    /// outside the years that slots lie in, or it is the second copy of a wall time that no longer comes twice. Whether
    /// the rule ever had such a slot is not looked at.
    #[must_use]
    pub fn slot(&self, key: SlotKey) -> Option<Slot> {
        let Series::Nominal { gap, fold, .. } = &self.times else {
            let at = Timestamp::from_micros(key.micros());
            return if key.is_second_copy() { None } else { Some(Slot { key, at, gap: false }) };
        };
        let local = key.micros().div_euclid(MICROS);
        if !(FLOOR..HORIZON).contains(&local) {
            return None;
        }
        let (at, missing) = match (self.zone.place(local), fold) {
            (Place::Twice(_, second), Fold::Both) if key.is_second_copy() => (second * MICROS, false),
            _ if key.is_second_copy() => return None,
            (Place::Once(at) | Place::Twice(at, _), Fold::First | Fold::Both) => (at * MICROS, false),
            (Place::Once(at) | Place::Twice(_, at), Fold::Second) => (at * MICROS, false),
            (Place::Gap { end, shifted }, _) => match gap {
                Gap::End => (end * MICROS, false),
                Gap::Shift => (shifted * MICROS, false),
                Gap::Skip => (end * MICROS - 1, true),
            },
        };
        Some(Slot { key, at: Timestamp::from_micros(at), gap: missing })
    }

    /// The first instant that may have a slot, if the rule says one.
    #[must_use]
    pub const fn start(&self) -> Option<Timestamp> {
        self.start
    }

    /// The first instant that may no longer have a slot, if the rule says one.
    #[must_use]
    pub const fn until(&self) -> Option<Timestamp> {
        self.until
    }

    /// How many occurrences may be created, if the rule says so. The planner counts them.
    #[must_use]
    pub const fn max_occurrences(&self) -> Option<u64> {
        self.max_occurrences
    }

    /// The zone's IANA name, spelt as in the database.
    #[must_use]
    pub fn zone_name(&self) -> &str {
        self.zone.name()
    }

    /// Whether the zone's clock decides when slots are due: not for intervals, nor in UTC.
    pub(crate) fn zone_matters(&self) -> bool {
        !matches!(self.times, Series::Grid(_)) && self.zone.name() != "UTC"
    }

    /// A number that changes if the zone's clock changes in the three years from `from` on do. Two hosts whose databases
    /// agree on them give the same number for the same `from`, so `from` must be stored with it.
    #[must_use]
    pub fn transitions_hash(&self, from: Timestamp) -> u64 {
        self.zone.transitions_hash(second_of(from))
    }

    /// An instant as wall time in the rule's zone with its offset: `2026-03-08T03:00:00-04:00`.
    #[must_use]
    pub fn local(&self, at: Timestamp) -> String {
        let second = second_of(at).clamp(FLOOR, HORIZON - 1);
        let offset = self.zone.offset(second);
        let (sign, ahead) = if offset < 0 { ('-', -offset) } else { ('+', offset) };
        let (hours, minutes, seconds) = (ahead / 3600, ahead / 60 % 60, ahead % 60);
        let time = civil_text((second + offset) * MICROS + at.as_micros().rem_euclid(MICROS));
        // Offsets with seconds are those of local mean time, before zones.
        let rest = if seconds == 0 { String::new() } else { format!(":{seconds:02}") };
        format!("{time}{sign}{hours:02}:{minutes:02}{rest}")
    }

    /// The nominal time that a key of this rule stands for, on the clock that it counts in: wall time without an offset
    /// for [`KeyClass::Local`] (it may not exist, or come twice), UTC with `Z` for [`KeyClass::Utc`].
    #[must_use]
    pub fn nominal(&self, key: SlotKey) -> String {
        match self.key_class() {
            KeyClass::Local => civil_text(key.micros()),
            KeyClass::Utc => super::utc_text(Timestamp::from_micros(key.micros())),
        }
    }
}

/// The slots of a rule after an instant, in order. Ends with the series, or after an error.
#[derive(Debug, Clone)]
pub struct Slots<'a> {
    rule: &'a CompiledRule,
    last: Option<Timestamp>,
}

impl Iterator for Slots<'_> {
    type Item = Result<Slot, RuleError>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.rule.next_after(self.last?).transpose();
        self.last = match &found {
            Some(Ok(slot)) => Some(slot.at),
            Some(Err(_)) | None => None,
        };
        found
    }
}

impl std::iter::FusedIterator for Slots<'_> {}

fn only_excluded_days() -> RuleError {
    RuleError::never_fires(
        "the rule can never fire: every day that it names is an excluded weekday; change one of them",
    )
}

/// The second that an instant lies in.
pub(crate) fn second_of(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(MICROS)
}

/// Microseconds since 1970 as `2026-03-08T03:00:00`, with a fraction if there is one.
pub(crate) fn civil_text(micros: i64) -> String {
    let (second, fraction) = (micros.div_euclid(MICROS), micros.rem_euclid(MICROS));
    let (year, month, day) = day::civil(second.div_euclid(DAY_SECONDS));
    let time = second.rem_euclid(DAY_SECONDS);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    let fraction = if fraction == 0 { String::new() } else { format!(".{fraction:06}") };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}")
}

#[cfg(test)]
mod tests;
