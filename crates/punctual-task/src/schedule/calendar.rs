//! Calendar rules: every N days, weeks or months, at wall times.

use super::civil::{CivilDate, WallTime, Weekdays};
use super::day::{self, month_mask, weekdays_in_month};
use super::error::RuleError;
use super::pattern::Times;
use super::rule::{Kind, Rule};
use serde::{Deserialize, Serialize};

/// The largest N of "every N days, weeks or months".
pub const CALENDAR_EVERY_MAX: u32 = 1_000;
/// The most times of day, and the most days of a month, that a rule may list.
pub const CALENDAR_TIMES_MAX: usize = 1_440;

/// What a day of the month means in a month that is too short for it. There is no default: each choice surprises
/// someone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// No slot in such a month.
    Skip,
    /// The month's last day.
    LastDay,
    /// The days too many count on into the next month: the 31st of April is the 1st of May, of February the 3rd of
    /// March, or the 2nd in a leap year.
    RollOver,
}

/// What a calendar rule counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum CalendarUnit {
    /// Days.
    Days,
    /// Weeks, which begin on Monday.
    Weeks {
        /// The days of such a week; at least one.
        on: Weekdays,
    },
    /// Months.
    Months {
        /// The days of such a month, 1 to 31; at least one.
        on: Vec<u8>,
        /// What a day means that the month does not have.
        overflow: Overflow,
    },
}

/// Every N days, weeks or months, at one or more times of day.
///
/// With N above 1 something must say which days, weeks or months are meant: `from`, or without it the date of the
/// rule's start, or without that the date of the schedule's creation, each in the rule's zone.
///
/// ```
/// use punctual_task::schedule::{Calendar, Overflow, Rule, Weekday};
///
/// let payday: Rule = Calendar::months(1, [31], Overflow::LastDay).at("09:00".parse()?).zone("Europe/Rome");
/// let review: Rule =
///     Calendar::weeks(2, [Weekday::Tuesday]).from("2026-01-06".parse()?).at("14:30".parse()?).into();
/// # Ok::<(), punctual_task::schedule::RuleError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Calendar {
    /// N, 1 to [`CALENDAR_EVERY_MAX`].
    pub every: u32,
    /// What N counts.
    pub unit: CalendarUnit,
    /// The times of day, 1 to [`CALENDAR_TIMES_MAX`].
    pub at: Vec<WallTime>,
    /// A date in the first day, week or month that is meant; no slot lies before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<CivilDate>,
}

impl Calendar {
    fn new(every: u32, unit: CalendarUnit) -> Self {
        Calendar { every, unit, at: Vec::new(), from: None }
    }

    /// Every `every` days.
    #[must_use]
    pub fn days(every: u32) -> Self {
        Calendar::new(every, CalendarUnit::Days)
    }

    /// On some weekdays of every `every`-th week.
    #[must_use]
    pub fn weeks(every: u32, on: impl Into<Weekdays>) -> Self {
        Calendar::new(every, CalendarUnit::Weeks { on: on.into() })
    }

    /// On some days (1 to 31) of every `every`-th month.
    #[must_use]
    pub fn months(every: u32, on: impl IntoIterator<Item = u8>, overflow: Overflow) -> Self {
        Calendar::new(every, CalendarUnit::Months { on: on.into_iter().collect(), overflow })
    }

    /// At this time of day, in addition to those given before. A rule needs at least one.
    #[must_use]
    pub fn at(mut self, time: WallTime) -> Self {
        self.at.push(time);
        self
    }

    /// Counted from the day, week or month of `date`, and not before it.
    #[must_use]
    pub fn from(mut self, date: CivilDate) -> Self {
        self.from = Some(date);
        self
    }

    /// As a rule in the zone of this IANA name.
    #[must_use]
    pub fn zone(self, name: impl Into<String>) -> Rule {
        Rule::from(self).zone(name)
    }

    /// The times of day, sorted, each once.
    pub(crate) fn times(&self) -> Result<Times, RuleError> {
        if self.at.is_empty() {
            return Err(RuleError::invalid("a calendar rule has no time of day; give at least one, such as 09:00"));
        }
        if self.at.len() > CALENDAR_TIMES_MAX {
            return Err(RuleError::out_of_range(format!(
                "a calendar rule has {} times of day; at most {CALENDAR_TIMES_MAX} are allowed, or use a cron rule",
                self.at.len()
            )));
        }
        let mut times: Vec<u32> = self.at.iter().map(|time| time.seconds()).collect();
        times.sort_unstable();
        times.dedup();
        Ok(Times::List(times.into_boxed_slice()))
    }
}

impl From<Calendar> for Rule {
    fn from(calendar: Calendar) -> Rule {
        Rule::new(Kind::Calendar(calendar))
    }
}

/// The days of a checked calendar rule.
#[derive(Debug, Clone)]
pub(crate) struct CalendarDays {
    every: i64,
    unit: Unit,
    /// No slot lies on an earlier day number.
    first_day: i64,
}

/// A unit with the number, in its own count, of one day, week or month that is meant.
#[derive(Debug, Clone, Copy)]
enum Unit {
    Days { anchor: i64 },
    Weeks { anchor: i64, on: u8 },
    Months { anchor: i64, on: u64, overflow: Overflow },
}

impl CalendarDays {
    /// `anchor` is used where the rule itself has no `from`.
    pub(crate) fn new(calendar: &Calendar, anchor: CivilDate) -> Result<Self, RuleError> {
        if calendar.every == 0 || calendar.every > CALENDAR_EVERY_MAX {
            return Err(RuleError::out_of_range(format!(
                "a calendar rule runs every {}; it may be every 1 to {CALENDAR_EVERY_MAX} days, weeks or months",
                calendar.every
            )));
        }
        let anchor = calendar.from.unwrap_or(anchor).number();
        let unit = match &calendar.unit {
            CalendarUnit::Days => Unit::Days { anchor },
            CalendarUnit::Weeks { on } if on.is_empty() => {
                return Err(RuleError::invalid("a weekly rule has no weekday; give at least one"));
            }
            CalendarUnit::Weeks { on } => Unit::Weeks { anchor: week(anchor), on: on.bits() },
            CalendarUnit::Months { on, overflow } => {
                let (year, month, _) = day::civil(anchor);
                Unit::Months { anchor: month_number(year, month), on: days_of_month(on)?, overflow: *overflow }
            }
        };
        let first_day = calendar.from.map_or(i64::MIN, CivilDate::number);
        Ok(CalendarDays { every: i64::from(calendar.every), unit, first_day })
    }

    /// The rule's days in a month whose first day has number `first`, as a mask.
    pub(crate) fn in_month(&self, year: i64, month: u8, first: i64, length: u8) -> u64 {
        let days = match self.unit {
            Unit::Days { anchor } => {
                let mut days = 0;
                let mut day = 1 + (anchor - first).rem_euclid(self.every);
                while day <= i64::from(length) {
                    days |= 1 << day;
                    day += self.every;
                }
                days
            }
            Unit::Weeks { anchor, on } => {
                let mut days = weekdays_in_month(on, day::weekday(first));
                if self.every > 1 {
                    for day in 1..=i64::from(length) {
                        if (week(first + day - 1) - anchor).rem_euclid(self.every) != 0 {
                            days &= !(1 << day);
                        }
                    }
                }
                days
            }
            Unit::Months { anchor, on, overflow } => {
                let number = month_number(year, month);
                let meant = |number: i64| (number - anchor).rem_euclid(self.every) == 0;
                let mut days = if meant(number) { on & month_mask(length) } else { 0 };
                match overflow {
                    Overflow::Skip => {}
                    Overflow::LastDay if meant(number) && on & !month_mask(length) != 0 => days |= 1 << length,
                    Overflow::LastDay => {}
                    Overflow::RollOver if meant(number - 1) => {
                        let (year, month) = if month == 1 { (year - 1, 12) } else { (year, month - 1) };
                        let before = day::month_length(year, month);
                        days |= (on & !month_mask(before)) >> before;
                    }
                    Overflow::RollOver => {}
                }
                days
            }
        };
        let days = days & month_mask(length);
        if first >= self.first_day {
            days
        } else if first + i64::from(length) <= self.first_day {
            0
        } else {
            // The month of the first day: what lies before it goes.
            days & (u64::MAX << (self.first_day - first + 1))
        }
    }

    /// Whether no day ever matches, once the weekdays `without` are taken away.
    pub(crate) fn never(&self, without: u8) -> bool {
        match self.unit {
            // The weekdays of every N-th day repeat after seven of them.
            Unit::Days { anchor } => (0..7).all(|k| without >> day::weekday(anchor + k * self.every) & 1 == 1),
            Unit::Weeks { on, .. } => on & !without == 0,
            // The calendar, weekdays included, repeats after 400 years, and so does the place of the rule's months in it.
            // What rolls over lies in the month after.
            Unit::Months { anchor, .. } => (0..=4_800).all(|k| {
                let number = anchor + k * self.every;
                [number, number + 1].into_iter().all(|number| {
                    let (year, month) = (number.div_euclid(12), number.rem_euclid(12) as u8 + 1);
                    let first = day::day_number(year, month, 1);
                    let days = self.in_month(year, month, first, day::month_length(year, month));
                    days & !weekdays_in_month(without, day::weekday(first)) == 0
                })
            }),
        }
    }
}

/// Months since the beginning of year 0.
fn month_number(year: i64, month: u8) -> i64 {
    year * 12 + i64::from(month) - 1
}

/// The number of the week, from Monday on, that a day lies in.
fn week(day_number: i64) -> i64 {
    // Day 0 was a Thursday.
    (day_number + 3).div_euclid(7)
}

fn days_of_month(on: &[u8]) -> Result<u64, RuleError> {
    if on.is_empty() {
        return Err(RuleError::invalid("a monthly rule has no day; give at least one, 1 to 31"));
    }
    if on.len() > CALENDAR_TIMES_MAX {
        return Err(RuleError::out_of_range(format!(
            "a monthly rule lists {} days; at most {CALENDAR_TIMES_MAX} are allowed",
            on.len()
        )));
    }
    on.iter().try_fold(0, |days, day| match day {
        1..=31 => Ok(days | 1 << day),
        _ => Err(RuleError::out_of_range(format!("day {day} of a month is out of range 1-31"))),
    })
}

#[cfg(test)]
mod tests;
