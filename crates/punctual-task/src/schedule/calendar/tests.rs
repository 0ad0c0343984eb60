//! Which days calendar rules name.

use super::*;
use crate::schedule::civil::Weekday;

const ANCHOR: &str = "2026-01-31";

fn days(calendar: &Calendar, year: i64, month: u8) -> Vec<u8> {
    let days = CalendarDays::new(calendar, ANCHOR.parse().unwrap()).unwrap();
    let mask = days.in_month(year, month, day::day_number(year, month, 1), day::month_length(year, month));
    (0..64).filter(|day| mask >> day & 1 == 1).collect()
}

/// Each choice of overflow does with the days that a month lacks what its name says.
#[test]
fn a_day_that_a_month_lacks_is_skipped_moved_to_the_last_or_rolled_over() {
    let rule = |overflow| Calendar::months(1, [1, 30, 31], overflow);
    assert_eq!(days(&rule(Overflow::Skip), 2026, 2), [1]);
    assert_eq!(days(&rule(Overflow::Skip), 2026, 4), [1, 30]);
    assert_eq!(days(&rule(Overflow::LastDay), 2026, 2), [1, 28]);
    assert_eq!(days(&rule(Overflow::LastDay), 2028, 2), [1, 29]);
    assert_eq!(days(&rule(Overflow::LastDay), 2026, 4), [1, 30]);
    assert_eq!(days(&rule(Overflow::RollOver), 2026, 2), [1]);
    assert_eq!(days(&rule(Overflow::RollOver), 2026, 3), [1, 2, 3, 30, 31]);
    assert_eq!(days(&rule(Overflow::RollOver), 2028, 3), [1, 2, 30, 31]);
    assert_eq!(days(&rule(Overflow::RollOver), 2026, 5), [1, 30, 31], "31 April and 1 May are one");
    assert_eq!(days(&rule(Overflow::RollOver), 2026, 1), [1, 30, 31], "December lacks nothing");
}

/// Every N months counts from the anchor's month, backwards too, and what rolls over stays with its month.
#[test]
fn every_nth_month_counts_from_the_anchor() {
    let rule = Calendar::months(3, [31], Overflow::RollOver);
    let months: Vec<(u8, Vec<u8>)> = (1..=12).map(|month| (month, days(&rule, 2027, month))).collect();
    let expected = [(1, vec![31]), (5, vec![1]), (7, vec![31]), (10, vec![31])];
    assert_eq!(months.into_iter().filter(|(_, days)| !days.is_empty()).collect::<Vec<_>>(), expected);
    assert_eq!(days(&rule, 2025, 10), [31]);
    let from = Calendar::months(3, [15, 31], Overflow::LastDay).from("2026-01-20".parse().unwrap());
    assert_eq!(days(&from, 2026, 1), [31], "not before its first day");
    assert_eq!(days(&from, 2025, 10), [0; 0]);
    assert_eq!(days(&from, 2026, 4), [15, 30]);
}

/// Every N days and every N weeks count from the anchor; weeks begin on Monday.
#[test]
fn every_nth_day_and_week_count_from_the_anchor() {
    assert_eq!(days(&Calendar::days(10), 2026, 2), [10, 20]);
    assert_eq!(days(&Calendar::days(10), 2026, 1), [1, 11, 21, 31]);
    assert_eq!(days(&Calendar::days(40), 2026, 2), [0; 0]);
    assert_eq!(days(&Calendar::days(10).from("2026-02-15".parse().unwrap()), 2026, 2), [15, 25]);
    assert_eq!(days(&Calendar::days(1), 2026, 2).len(), 28);
    // 2026-01-31 is a Saturday of the week that begins on Monday the 26th.
    let weekly = Calendar::weeks(2, [Weekday::Sunday, Weekday::Wednesday]);
    assert_eq!(days(&weekly, 2026, 2), [1, 11, 15, 25]);
    assert_eq!(days(&Calendar::weeks(1, Weekdays::WORKDAYS), 2026, 2).len(), 20);
}

/// A rule that has no day, no time or an N out of range is refused, and so is one that never meets a day it names.
#[test]
fn rules_without_days_or_times_are_refused() {
    let anchor: CivilDate = ANCHOR.parse().unwrap();
    for calendar in [
        Calendar::days(0),
        Calendar::days(CALENDAR_EVERY_MAX + 1),
        Calendar::weeks(1, Weekdays::NONE),
        Calendar::months(1, [], Overflow::Skip),
        Calendar::months(1, [0], Overflow::Skip),
        Calendar::months(1, [32], Overflow::Skip),
    ] {
        assert!(CalendarDays::new(&calendar, anchor).is_err(), "{calendar:?}");
    }
    assert!(Calendar::days(1).times().is_err());
    let never = |calendar: &Calendar, from: &str, without: u8| {
        CalendarDays::new(calendar, from.parse().unwrap()).unwrap().never(without)
    };
    let yearly = |day| Calendar::months(12, [day], Overflow::Skip);
    assert!(never(&yearly(30), "2026-02-01", 0));
    assert!(!never(&yearly(29), "2026-02-01", 0));
    assert!(!never(&Calendar::months(12, [30], Overflow::RollOver), "2026-02-01", 0));
    assert!(never(&Calendar::months(48, [29], Overflow::Skip), "2026-02-01", 0), "no leap year among its years");
    assert!(!never(&Calendar::months(48, [29], Overflow::Skip), "2028-02-01", 0));
    assert!(never(&Calendar::days(7), "2026-02-01", 1), "every Sunday, less Sundays");
    assert!(!never(&Calendar::days(7), "2026-02-02", 1));
    assert!(never(&Calendar::weeks(3, [Weekday::Sunday]), "2026-02-01", 1));
}
