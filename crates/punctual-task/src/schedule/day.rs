//! Day numbers: days since 1970-01-01 in the proleptic Gregorian calendar, and back.
//!
//! Plain integer arithmetic (Hinnant, "chrono-Compatible Low-Level Date Algorithms", 2013), since the slot search does
//! it for every month that it looks at and must neither fail nor allocate. A test compares it with the time library.

/// Seconds in a civil day. Time zones stretch real days, never this one.
pub(crate) const DAY_SECONDS: i64 = 86_400;

/// The day number of a civil date. `month` is 1 to 12; `day` may lie outside the month and then counts on.
pub(crate) const fn day_number(year: i64, month: u8, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = (month as i64 + 9) % 12;
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The civil date (year, month, day) of a day number.
pub(crate) const fn civil(day_number: i64) -> (i64, u8, u8) {
    let shifted = day_number + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month as u8, day as u8)
}

/// The weekday of a day number, 0 for Sunday to 6 for Saturday, as cron counts.
pub(crate) const fn weekday(day_number: i64) -> u8 {
    // 1970-01-01 was a Thursday.
    (day_number + 4).rem_euclid(7) as u8
}

/// Days in a month of a year.
pub(crate) const fn month_length(year: i64, month: u8) -> u8 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The days of a month whose weekday is in `weekdays` (bit 0 is Sunday). Bit `d` of the result is day `d`, 1 to 35: the
/// caller cuts what lies past the month's end.
pub(crate) const fn weekdays_in_month(weekdays: u8, first_weekday: u8) -> u64 {
    let set = (weekdays & 0x7f) as u64;
    let turned = ((set >> first_weekday) | (set << (7 - first_weekday))) & 0x7f;
    // Five copies, a week apart.
    (turned * 0x1020_4081) << 1
}

/// The days 1 to `length` as a mask.
pub(crate) const fn month_mask(length: u8) -> u64 {
    (2u64 << length) - 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::ToSpan;
    use jiff::civil::date;

    /// The arithmetic agrees with the time library on every day of a whole 400-year cycle, and at far ends.
    #[test]
    fn day_numbers_agree_with_the_time_library() {
        let mut day = date(1799, 12, 28);
        let end = date(2203, 1, 3);
        let mut number = day_number(1799, 12, 28);
        while day < end {
            assert_eq!(civil(number), (i64::from(day.year()), day.month() as u8, day.day() as u8));
            assert_eq!(day_number(i64::from(day.year()), day.month() as u8, i64::from(day.day())), number);
            assert_eq!(weekday(number), day.weekday().to_sunday_zero_offset() as u8);
            assert_eq!(month_length(i64::from(day.year()), day.month() as u8), day.days_in_month() as u8);
            day = day.checked_add(1.day()).unwrap();
            number += 1;
        }
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(day_number(9999, 12, 31)), (9999, 12, 31));
        assert_eq!(civil(day_number(-9998, 1, 1)), (-9998, 1, 1));
    }

    /// The weekday mask names exactly the days that have those weekdays.
    #[test]
    fn weekday_masks_are_the_days_of_those_weekdays() {
        for first in 0..7u8 {
            for set in 0..128u8 {
                let mask = weekdays_in_month(set, first) & month_mask(31);
                for day in 1..=31u8 {
                    let weekday = (first + day - 1) % 7;
                    assert_eq!(mask >> day & 1 == 1, set >> weekday & 1 == 1);
                }
            }
        }
    }
}
