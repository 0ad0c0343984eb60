//! The days that a cron expression names: its month and its two day fields, with `L`, `W` and `#`.

use super::DayMode;
use super::field::{Field, digits};
use crate::schedule::civil::shown;
use crate::schedule::day::{month_mask, weekdays_in_month};
use crate::schedule::error::{RuleError, RuleErrorKind};

/// The three fields as sets, ready to be laid over a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CronDays {
    /// Bit `m` for month `m`.
    months: u16,
    by_date: ByDate,
    by_weekday: ByWeekday,
    /// Both day fields are restricted and one of them is enough.
    either: bool,
}

/// The day-of-month field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ByDate {
    /// Bit `d` for day `d`.
    days: u32,
    /// Bit `n` for the day `n` days before the last.
    before_last: u32,
    /// Bit `d` for the workday nearest to day `d`.
    nearest_workday: u32,
    last_workday: bool,
}

/// The day-of-week field. All sets are of weekdays, bit 0 for Sunday.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ByWeekday {
    all: u8,
    last: u8,
    /// The first, second ... fifth of a month.
    nth: [u8; 5],
}

impl CronDays {
    pub(super) fn parse(date: &str, month: &str, weekday: &str, mode: DayMode) -> Result<Self, RuleError> {
        let restricted = |text: &str| !text.starts_with(['*', '?']);
        Ok(CronDays {
            // Months are 12 and weekdays 7: their sets fit.
            months: Field::Month.set(month)? as u16,
            by_date: ByDate::parse(date)?,
            by_weekday: ByWeekday::parse(weekday)?,
            either: mode == DayMode::Or && restricted(date) && restricted(weekday),
        })
    }

    pub(super) fn has_month(&self, month: u8) -> bool {
        self.months >> month & 1 == 1
    }

    /// The matching days of a month of `length` days that begins on `first_weekday`, as a mask.
    pub(crate) fn in_month(&self, month: u8, length: u8, first_weekday: u8) -> u64 {
        if !self.has_month(month) {
            return 0;
        }
        let by_date = self.by_date.in_month(length, first_weekday);
        let by_weekday = self.by_weekday.in_month(length, first_weekday);
        let days = if self.either { by_date | by_weekday } else { by_date & by_weekday };
        days & month_mask(length)
    }
}

impl ByDate {
    fn parse(text: &str) -> Result<Self, RuleError> {
        let field = Field::DayOfMonth;
        if text == "?" {
            return ByDate::parse("*");
        }
        let mut set = ByDate::default();
        for item in text.split(',') {
            let upper = item.to_ascii_uppercase();
            if upper == "L" {
                set.before_last |= 1;
            } else if upper == "LW" || upper == "WL" {
                set.last_workday = true;
            } else if let Some(before) = upper.strip_prefix("L-") {
                let before = digits(before).filter(|n| (1..=30).contains(n)).ok_or_else(|| {
                    let what = format!("`{}` must be L- and a number of days from 1 to 30", shown(item));
                    field.error(text, RuleErrorKind::OutOfRange, what)
                })?;
                set.before_last |= 1 << before;
            } else if let Some(day) = upper.strip_suffix('W') {
                set.nearest_workday |= 1 << field.value(text, day)?;
            } else {
                set.days |= field.item(text, item)? as u32;
            }
        }
        Ok(set)
    }

    fn in_month(&self, length: u8, first_weekday: u8) -> u64 {
        let mut days = u64::from(self.days);
        if self.before_last != 0 {
            // Day `length - n` for each n: the set read backwards from the last day.
            days |= u64::from(self.before_last.reverse_bits()) >> (31 - length) & month_mask(length);
        }
        let mut nearest = self.nearest_workday;
        while nearest != 0 {
            let day = nearest.trailing_zeros() as u8;
            nearest &= nearest - 1;
            if day <= length {
                days |= 1 << nearest_workday(day, length, first_weekday);
            }
        }
        if self.last_workday {
            days |= 1 << nearest_workday(length, length, first_weekday);
        }
        days
    }
}

/// The workday nearest to a day, in the same month.
fn nearest_workday(day: u8, length: u8, first_weekday: u8) -> u8 {
    match (first_weekday + day - 1) % 7 {
        6 if day == 1 => 3,
        6 => day - 1,
        0 if day == length => day - 2,
        0 => day + 1,
        _ => day,
    }
}

impl ByWeekday {
    fn parse(text: &str) -> Result<Self, RuleError> {
        let field = Field::DayOfWeek;
        if text == "?" {
            return ByWeekday::parse("*");
        }
        let mut set = ByWeekday::default();
        let weekday = |day: &str| Ok::<u8, RuleError>(1 << (field.value(text, day)? % 7));
        for item in text.split(',') {
            if let Some((day, nth)) = item.split_once('#') {
                let place =
                    digits(nth).and_then(|nth| set.nth.get_mut((nth as usize).checked_sub(1)?)).ok_or_else(|| {
                        let what = format!("`{}` must end in #1, #2, #3, #4 or #5", shown(item));
                        field.error(text, RuleErrorKind::OutOfRange, what)
                    })?;
                *place |= weekday(day)?;
            } else if let Some(day) = item.strip_suffix(['L', 'l']) {
                if day.is_empty() {
                    return Err(
                        field.syntax(text, "`L` alone does not say the last of which weekday; write 5L or FRIL")
                    );
                }
                set.last |= weekday(day)?;
            } else {
                set.all |= field.item(text, item)? as u8;
            }
        }
        Ok(set)
    }

    fn in_month(&self, length: u8, first_weekday: u8) -> u64 {
        let mut days = weekdays_in_month(self.all, first_weekday);
        if self.last != 0 {
            days |= weekdays_in_month(self.last, first_weekday) & (month_mask(length) << (length - 7));
        }
        for (nth, set) in self.nth.iter().enumerate() {
            if *set != 0 {
                days |= weekdays_in_month(*set, first_weekday) & (month_mask(7) << (7 * nth));
            }
        }
        days
    }
}
