//! A civil pattern: a set of wall times, as days of months times times of day, without any zone.
//!
//! Cron and calendar rules both compile to one. The search looks at a month as one mask of days, so that a month
//! without a matching day costs one step and a day without one costs none.

use super::calendar::CalendarDays;
use super::compiled::Steps;
use super::cron::CronDays;
use super::day::{self, DAY_SECONDS};
use super::error::RuleError;
use super::zone::HORIZON;

/// A set of wall times.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    days: Days,
    times: Times,
    /// Weekdays that the rule excludes, bit 0 for Sunday.
    without: u8,
}

#[derive(Debug, Clone)]
pub(crate) enum Days {
    Cron(CronDays),
    Calendar(CalendarDays),
}

/// A set of times of day, never empty.
#[derive(Debug, Clone)]
pub(crate) enum Times {
    /// Every combination of an hour, a minute and a second of three sets.
    Sets { hours: u32, minutes: u64, seconds: u64 },
    /// Seconds of the day, sorted.
    List(Box<[u32]>),
}

impl Pattern {
    pub(crate) fn new(days: Days, times: Times, without: u8) -> Self {
        Pattern { days, times, without }
    }

    /// The matching days of a month as a mask, bit `d` for day `d`.
    pub(crate) fn month_days(&self, year: i64, month: u8) -> u64 {
        let first = day::day_number(year, month, 1);
        let length = day::month_length(year, month);
        let days = match &self.days {
            Days::Cron(days) => days.in_month(month, length, day::weekday(first)),
            Days::Calendar(days) => days.in_month(year, month, first, length),
        };
        if self.without == 0 { days } else { days & !day::weekdays_in_month(self.without, day::weekday(first)) }
    }

    /// The first wall time of the pattern at or after `from`, both in seconds as if they were UTC; `None` if there is
    /// none before the horizon. Takes one step a month.
    pub(crate) fn next(&self, from: i64, steps: &mut Steps) -> Result<Option<i64>, RuleError> {
        let number = from.div_euclid(DAY_SECONDS);
        let (mut year, mut month, day) = day::civil(number);
        // A day's number is below 32 and a time of day below 86,400: neither conversion can lose anything.
        let time = from.rem_euclid(DAY_SECONDS) as u32;
        let mut days = self.month_days(year, month) & (u64::MAX << day);
        if days >> day & 1 == 1 {
            if let Some(time) = self.times.at_or_after(time) {
                return Ok(Some(number * DAY_SECONDS + i64::from(time)));
            }
            days &= !(1 << day);
        }
        loop {
            steps.take()?;
            if days != 0 {
                let number = day::day_number(year, month, i64::from(days.trailing_zeros()));
                return Ok(self.times.at_or_after(0).map(|time| number * DAY_SECONDS + i64::from(time)));
            }
            (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
            if day::day_number(year, month, 1) * DAY_SECONDS >= HORIZON {
                return Ok(None);
            }
            days = self.month_days(year, month);
        }
    }
}

impl Times {
    /// The first time of the set at or after a second of the day.
    fn at_or_after(&self, time: u32) -> Option<u32> {
        match self {
            Times::List(times) => times.get(times.partition_point(|at| *at < time)).copied(),
            Times::Sets { hours, minutes, seconds } => {
                let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
                let hours = u64::from(*hours);
                let first_minute = minutes.trailing_zeros();
                let first_second = seconds.trailing_zeros();
                if hours >> hour & 1 == 1 {
                    if minutes >> minute & 1 == 1
                        && let Some(second) = bit_from(*seconds, second)
                    {
                        return Some(hour * 3600 + minute * 60 + second);
                    }
                    if let Some(minute) = bit_from(*minutes, minute + 1) {
                        return Some(hour * 3600 + minute * 60 + first_second);
                    }
                }
                let hour = bit_from(hours, hour + 1)?;
                Some(hour * 3600 + first_minute * 60 + first_second)
            }
        }
    }
}

/// The lowest bit of a set at or above `low`, which is at most 63.
fn bit_from(set: u64, low: u32) -> Option<u32> {
    let rest = set & (u64::MAX << low);
    if rest == 0 { None } else { Some(rest.trailing_zeros()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time sets answer as counting through every second of a day does.
    #[test]
    fn the_next_time_of_day_is_the_one_that_counting_finds() {
        let sets = Times::Sets { hours: 1 << 3 | 1 << 23, minutes: 1 << 59 | 1, seconds: 1 << 30 };
        let holds = |time: u32| match &sets {
            Times::Sets { hours, minutes, seconds } => {
                hours >> (time / 3600) & 1 == 1
                    && minutes >> (time / 60 % 60) & 1 == 1
                    && seconds >> (time % 60) & 1 == 1
            }
            Times::List(_) => false,
        };
        let all: Vec<u32> = (0..86_400).filter(|time| holds(*time)).collect();
        assert_eq!(all.len(), 4);
        let list = Times::List(all.clone().into_boxed_slice());
        for time in 0..86_400 {
            let expected = all.iter().copied().find(|at| *at >= time);
            assert_eq!(sets.at_or_after(time), expected);
            assert_eq!(list.at_or_after(time), expected);
        }
    }
}
