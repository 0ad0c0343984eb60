//! Which expressions are read, what they mean in days of a month, and how the others are refused.

use super::*;
use crate::schedule::RuleErrorKind;

/// The matching days of a month, as a list.
fn days(text: &str, year: i64, month: u8) -> Vec<u8> {
    days_with(text, DayMode::Or, year, month)
}

fn days_with(text: &str, mode: DayMode, year: i64, month: u8) -> Vec<u8> {
    let mask = Cron::parse_with(text, mode).unwrap().pattern(0).month_days(year, month);
    (0..64).filter(|day| mask >> day & 1 == 1).collect()
}

fn count(text: &str, mode: DayMode, year: i64) -> usize {
    (1..=12).map(|month| days_with(text, mode, year, month).len()).sum()
}

/// Both day fields restricted: either is enough by default, both are needed by choice.
#[test]
fn restricted_day_fields_combine_by_or_unless_told_otherwise() {
    assert_eq!(count("0 0 13 * 5", DayMode::Or, 2026), 61);
    assert_eq!(count("0 0 13 * 5", DayMode::And, 2026), 3);
    // Restricted by its text, although it holds every day.
    assert_eq!(count("0 9 1-31 * 1", DayMode::Or, 2026), 365);
    assert_eq!(count("0 9 1-31 * 1", DayMode::And, 2026), 52);
    // A field that begins with a star or a question mark is unrestricted, and then both must match.
    assert_eq!(days("0 0 */2 * 1", 2026, 6), [1, 15, 29]);
    assert_eq!(days("0 0 1 * */2", 2026, 2), [1]);
    assert_eq!(days("0 0 ? * MON", 2026, 6), [1, 8, 15, 22, 29]);
    assert_eq!(days("0 0 1,15 * ?", 2026, 6), [1, 15]);
    assert_eq!(days("0 0 *,5 * 1", 2026, 6), [1, 8, 15, 22, 29]);
    assert_eq!(Cron::parse("0 0 13 * 5").unwrap().days(DayMode::And).unwrap().mode(), DayMode::And);
}

/// `L`, `W` and `#` mean what the table of the type says, in short and long months.
#[test]
fn the_day_fields_know_last_nearest_and_nth() {
    let cases: [(&str, i64, u8, &[u8]); 26] = [
        ("0 0 L * *", 2026, 2, &[28]),
        ("0 0 L * *", 2028, 2, &[29]),
        ("0 0 L-3 * *", 2026, 6, &[27]),
        ("0 0 l-30 * *", 2026, 1, &[1]),
        ("0 0 L-30 * *", 2026, 2, &[]),
        ("0 0 L,15 * *", 2026, 4, &[15, 30]),
        ("0 0 LW * *", 2026, 5, &[29]),
        ("0 0 LW * *", 2026, 4, &[30]),
        ("0 0 15W * *", 2026, 8, &[14]),
        ("0 0 15W * *", 2026, 2, &[16]),
        ("0 0 15W * *", 2026, 6, &[15]),
        ("0 0 1W * *", 2026, 8, &[3]),
        ("0 0 31W * *", 2026, 5, &[29]),
        ("0 0 31W * *", 2026, 6, &[]),
        ("0 0 1W,LW * *", 2026, 8, &[3, 31]),
        ("0 0 * * 5L", 2026, 6, &[26]),
        ("0 0 * * FRIL", 2026, 7, &[31]),
        ("0 0 * * fril,monL", 2026, 6, &[26, 29]),
        ("0 0 * * 0L", 2026, 5, &[31]),
        ("0 0 * * 7L", 2026, 5, &[31]),
        ("0 0 * * FRI#2", 2026, 6, &[12]),
        ("0 0 * * 5#5", 2026, 6, &[]),
        ("0 0 * * 5#5", 2026, 5, &[29]),
        ("0 0 * * 7#1", 2026, 6, &[7]),
        ("0 0 * * MON#1,MON#3", 2026, 6, &[1, 15]),
        ("0 0 L * FRI#2", 2026, 6, &[12, 30]),
    ];
    for (text, year, month, expected) in cases {
        assert_eq!(days(text, year, month), expected, "{text} in {year}-{month}");
    }
}

fn sets(text: &str) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let cron = Cron::parse(text).unwrap();
    let list = |set: u64| (0..64).filter(|n| set >> n & 1 == 1).collect();
    (list(cron.seconds), list(cron.minutes), list(u64::from(cron.hours)))
}

/// Lists, ranges, steps and wrap-around ranges in the time fields, with and without seconds.
#[test]
fn time_fields_are_lists_ranges_and_steps() {
    assert_eq!(sets("5 4 * * *"), (vec![0], vec![5], vec![4]));
    assert_eq!(sets("30 5 4 * * *"), (vec![30], vec![5], vec![4]));
    assert_eq!(sets("*/20 22-2 * * *").1, [0, 20, 40]);
    assert_eq!(sets("*/20 22-2 * * *").2, [0, 1, 2, 22, 23]);
    assert_eq!(sets("0 22-6/3 * * *").2, [1, 4, 22]);
    assert_eq!(sets("50/3 0,12,5-7 * * *").1, [50, 53, 56, 59]);
    assert_eq!(sets("50/3 0,12,5-7 * * *").2, [0, 5, 6, 7, 12]);
    assert_eq!(sets("*/60 */24 * * *"), (vec![0], vec![0], vec![0]));
    assert_eq!(sets("00 007 * * *").2, [7]);
    assert_eq!(sets("0 0 * * *\t").2, [0]);
}

/// Weekday ranges may wrap around, and Sunday is 0 as well as 7.
#[test]
fn weekday_ranges_wrap_around_and_sunday_has_two_numbers() {
    // June 2026 begins on a Monday.
    let week = |field: &str| -> Vec<u8> {
        days(&format!("0 0 * * {field}"), 2026, 6).into_iter().filter(|day| *day <= 7).collect()
    };
    assert_eq!(week("FRI-MON"), [1, 5, 6, 7]);
    assert_eq!(week("5-1"), [1, 5, 6, 7]);
    assert_eq!(week("5-7"), [5, 6, 7]);
    assert_eq!(week("7-2"), [1, 2, 7]);
    assert_eq!(week("0-7"), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(week("1-7/2"), [1, 3, 5, 7]);
    assert_eq!(week("5-0"), [5, 6, 7]);
    assert_eq!(week("7"), [7]);
    assert_eq!(week("7-7"), [7]);
    assert_eq!(week("sun"), [7]);
    assert_eq!(week("sat-sun"), [6, 7]);
    assert_eq!(week("*/2"), [2, 4, 6, 7]);
    assert_eq!(week("5/2"), [5]);
    let months: Vec<u8> = (1..=12).filter(|month| !days("0 0 1 NOV-FEB *", 2026, *month).is_empty()).collect();
    assert_eq!(months, [1, 2, 11, 12]);
    assert_eq!(days("0 0 30-2 * *", 2026, 6), [1, 2, 30]);
}

/// The macros are what they stand for.
#[test]
fn macros_are_their_fields() {
    let same = [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@Midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ];
    for (name, fields) in same {
        let (a, b) = (Cron::parse(name).unwrap(), Cron::parse(fields).unwrap());
        assert_eq!(
            (a.seconds, a.minutes, a.hours, a.days, a.elapsed),
            (b.seconds, b.minutes, b.hours, b.days, b.elapsed)
        );
        assert_eq!(a.text(), name, "the text stays as it was written");
    }
}

/// The text of the time fields alone says whether an expression names instants or wall times.
#[test]
fn the_text_says_whether_an_expression_is_elapsed() {
    for text in ["* * * * *", "0 9-17 * * *", "30 * * * *", "*/15 3 * * *", "3-3 2 * * *", "@hourly"] {
        assert!(Cron::parse(text).unwrap().is_elapsed(), "{text}");
    }
    for text in ["0 1,2 * * *", "30 2 * * *", "0 0 */2 * 1-5", "0,30 1 L-3 */2 *", "15 30 2 * * *", "@daily"] {
        assert!(!Cron::parse(text).unwrap().is_elapsed(), "{text}");
    }
}

/// A refusal names the field, its text, what is wrong and what is allowed or to be done.
#[test]
fn refusals_name_the_field_the_text_and_the_way_out() {
    use RuleErrorKind::{NeverFires, OutOfRange, Syntax, Unsupported};
    let cases = [
        ("60 * * * *", OutOfRange, "minute field `60`: 60 is out of range 0-59; allowed: 0-59"),
        ("* 24 * * *", OutOfRange, "hour field `24`: 24 is out of range 0-23; allowed: 0-23"),
        ("60 * * * * *", OutOfRange, "second field `60`: 60 is out of range 0-59; allowed: 0-59"),
        ("0 0 0 * *", OutOfRange, "day-of-month field `0`: 0 is out of range 1-31"),
        ("0 0 32 * *", OutOfRange, "day-of-month field `32`: 32 is out of range 1-31"),
        ("0 0 1 13 *", OutOfRange, "month field `13`: 13 is out of range 1-12; allowed: 1-12 or JAN-DEC"),
        ("0 0 * * 8", OutOfRange, "day-of-week field `8`: 8 is out of range 0-7"),
        ("1,,2 * * * *", Syntax, "minute field `1,,2`: a value is missing"),
        ("1- * * * *", Syntax, "minute field `1-`: a value is missing"),
        ("a * * * *", Syntax, "minute field `a`: `a` is not a value of this field"),
        ("+1 * * * *", Syntax, "`+1` is not a value"),
        ("* * * MON *", Syntax, "month field `MON`"),
        ("* * * * JANUARY", Syntax, "day-of-week field `JANUARY`"),
        ("? * * * *", Syntax, "`?` may only stand alone, in a day field"),
        ("0 0 ?/2 * *", Syntax, "`?` may only stand alone, in a day field"),
        ("*/0 * * * *", OutOfRange, "a step of 0 goes nowhere"),
        ("*/90 * * * *", OutOfRange, "a step of 90 is longer than the field"),
        ("*/x * * * *", Syntax, "the step `x` is not a number"),
        ("1/2/3 * * * *", Syntax, "the step `2/3` is not a number"),
        ("0 0 L-0 * *", OutOfRange, "must be L- and a number of days from 1 to 30"),
        ("0 0 L-31 * *", OutOfRange, "must be L- and a number of days from 1 to 30"),
        ("0 0 32W * *", OutOfRange, "32 is out of range 1-31"),
        ("0 0 W * *", Syntax, "a value is missing"),
        ("0 0 * * L", Syntax, "`L` alone does not say the last of which weekday"),
        ("0 0 * * FRI#6", OutOfRange, "must end in #1, #2, #3, #4 or #5"),
        ("0 0 * * FRI#0", OutOfRange, "must end in #1"),
        ("0 0 * * #2", Syntax, "a value is missing"),
        ("", Syntax, "has 0 fields; write minute"),
        ("* * *", Syntax, "has 3 fields; there must be 5"),
        ("0 0 0 1 1 ? 2026", Syntax, "has 7 fields; a year field is not supported"),
        ("@reboot", Unsupported, "enqueue the task when your service starts"),
        ("@every 5m", Unsupported, "use an interval rule"),
        ("@fortnightly", Syntax, "unknown macro `@fortnightly`; there are @yearly"),
        (
            "0 0 30 2 *",
            NeverFires,
            "no day of any year has day of month `30` in month `2` (its longest month has 29 days)",
        ),
        ("0 0 31 2,4,6,9,11 *", NeverFires, "(its longest month has 30 days)"),
        ("0 0 L-30 FEB ?", NeverFires, "can never fire"),
    ];
    for (text, kind, part) in cases {
        let error = Cron::parse(text).unwrap_err();
        assert_eq!(error.kind(), kind, "{text}: {error}");
        assert!(error.to_string().contains(part), "{text}: {error}");
    }
    let long = "1,".repeat(CRON_TEXT_BYTES_MAX);
    assert!(Cron::parse(&long).unwrap_err().to_string().contains("at most 640"));
}

/// Whether an expression can fire depends on how the day fields combine.
#[test]
fn an_impossible_date_can_be_saved_by_a_weekday_only_under_or() {
    assert_eq!(days("0 0 31 2 1", 2026, 2), [2, 9, 16, 23]);
    let error = Cron::parse_with("0 0 31 2 1", DayMode::And).unwrap_err();
    assert!(error.to_string().contains("and day of week `1` in month `2`"), "{error}");
    assert_eq!(Cron::parse("0 0 31 2 1").unwrap().days(DayMode::And).unwrap_err().kind(), RuleErrorKind::NeverFires);
    // Fires, but only in leap years that begin on the right weekday.
    assert_eq!(days_with("0 0 29 2 1", DayMode::And, 2044, 2), [29]);
    assert_eq!(days_with("0 0 29 2 MON#5", DayMode::And, 2016, 2), [29]);
}

/// Seven expressions in every size of list still fit into the bound on an expression's length.
#[test]
fn the_longest_useful_expression_fits() {
    let list = |range: std::ops::RangeInclusive<u32>| range.map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let text = [list(0..=59), list(0..=59), list(0..=23), list(1..=31), list(1..=12), list(0..=7)].join(" ");
    assert!(text.len() <= CRON_TEXT_BYTES_MAX, "{}", text.len());
    assert!(Cron::parse(&text).is_ok());
}
