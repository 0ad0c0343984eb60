//! The cases at which cron evaluators are known to part ways, one a row.

use punctual_clock::Timestamp;
use punctual_task::schedule::{CompiledRule, Cron, DayMode, Rule, RuleErrorKind, utc_text};

fn at(text: &str) -> Timestamp {
    Timestamp::from_micros(text.parse::<jiff::Timestamp>().unwrap().as_microsecond())
}

fn compiled(text: &str, mode: DayMode, zone: &str) -> CompiledRule {
    let rule = Rule::from(Cron::parse_with(text, mode).unwrap()).zone(zone);
    CompiledRule::new(&rule, Timestamp::EPOCH).unwrap()
}

/// Expression, zone, an instant, and the first slots after it in wall time.
type Row = (&'static str, &'static str, &'static str, &'static [&'static str]);

const ROWS: [Row; 24] = [
    // Day fields that begin with a star are unrestricted: Mondays with an odd date.
    ("0 0 */2 * 1", "UTC", "2026-06-01T12:00:00Z", &["2026-06-15T00:00:00+00:00", "2026-06-29T00:00:00+00:00"]),
    // Both restricted: either.
    ("0 9 1-31 * 1", "UTC", "2026-06-02T12:00:00Z", &["2026-06-03T09:00:00+00:00", "2026-06-04T09:00:00+00:00"]),
    // Weekdays are POSIX's: 1 is Monday, 0 and 7 are Sunday.
    ("0 0 * * 1", "UTC", "2026-06-02T00:00:00Z", &["2026-06-08T00:00:00+00:00"]),
    ("0 0 * * 0", "UTC", "2026-06-02T00:00:00Z", &["2026-06-07T00:00:00+00:00"]),
    ("0 0 * * 7", "UTC", "2026-06-02T00:00:00Z", &["2026-06-07T00:00:00+00:00"]),
    // L, L-3, LW, 15W, 5L, FRI#2.
    ("0 0 L * *", "UTC", "2026-02-01T00:00:00Z", &["2026-02-28T00:00:00+00:00", "2026-03-31T00:00:00+00:00"]),
    ("0 0 L-3 * *", "UTC", "2026-02-01T00:00:00Z", &["2026-02-25T00:00:00+00:00", "2026-03-28T00:00:00+00:00"]),
    ("0 0 LW * *", "UTC", "2026-05-01T00:00:00Z", &["2026-05-29T00:00:00+00:00", "2026-06-30T00:00:00+00:00"]),
    ("0 0 15W * *", "UTC", "2026-02-01T00:00:00Z", &["2026-02-16T00:00:00+00:00", "2026-03-16T00:00:00+00:00"]),
    ("0 0 * * 5L", "UTC", "2026-06-01T00:00:00Z", &["2026-06-26T00:00:00+00:00", "2026-07-31T00:00:00+00:00"]),
    ("0 0 * * FRI#2", "UTC", "2026-06-01T00:00:00Z", &["2026-06-12T00:00:00+00:00", "2026-07-10T00:00:00+00:00"]),
    // Seconds in front, and a range that wraps around.
    ("*/20 0 0 * * *", "UTC", "2026-06-01T00:00:30Z", &["2026-06-01T00:00:40+00:00", "2026-06-02T00:00:00+00:00"]),
    ("0 0 * * FRI-MON", "UTC", "2026-06-01T12:00:00Z", &["2026-06-05T00:00:00+00:00", "2026-06-06T00:00:00+00:00"]),
    // A daily 02:30 in New York's gap: once, at its end.
    (
        "30 2 * * *",
        "America/New_York",
        "2026-03-08T00:00:00Z",
        &["2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"],
    ),
    // A daily 01:30 in its fold: once, on the first copy.
    (
        "30 1 * * *",
        "America/New_York",
        "2026-11-01T04:00:00Z",
        &["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"],
    ),
    // Every half hour over the fold: in order, on both copies, never in the past.
    (
        "*/30 * * * *",
        "America/New_York",
        "2026-11-01T04:45:00Z",
        &[
            "2026-11-01T01:00:00-04:00",
            "2026-11-01T01:30:00-04:00",
            "2026-11-01T01:00:00-05:00",
            "2026-11-01T01:30:00-05:00",
            "2026-11-01T02:00:00-05:00",
        ],
    ),
    ("*/30 * * * *", "America/New_York", "2026-11-01T06:15:00Z", &["2026-11-01T01:30:00-05:00"]),
    // Cairo's midnight gap.
    ("0 0 * * *", "Africa/Cairo", "2026-04-23T00:00:00Z", &["2026-04-24T01:00:00+03:00", "2026-04-25T00:00:00+03:00"]),
    // Apia's lost day.
    ("0 0 * * *", "Pacific/Apia", "2011-12-29T11:00:00Z", &["2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"]),
    // A daily midnight in London runs once on the day of the spring change.
    ("0 0 * * *", "Europe/London", "2026-03-28T12:00:00Z", &["2026-03-29T00:00:00+00:00", "2026-03-30T00:00:00+01:00"]),
    // A gap and a fold of half an hour.
    (
        "15 2 * * *",
        "Australia/Lord_Howe",
        "2026-10-03T12:00:00Z",
        &["2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"],
    ),
    (
        "45 1 * * *",
        "Australia/Lord_Howe",
        "2026-04-04T12:00:00Z",
        &["2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"],
    ),
    // 29 February over a century that has none.
    ("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", &["2104-02-29T00:00:00+00:00"]),
    // Hours by range are instants of real time: nothing is shifted in the gap.
    (
        "30 1-3 * * *",
        "America/New_York",
        "2026-03-08T06:00:00Z",
        &["2026-03-08T01:30:00-05:00", "2026-03-08T03:30:00-04:00"],
    ),
];

/// Each row gives the slots that it says.
#[test]
fn each_case_gives_the_slots_that_it_says() {
    for (text, zone, from, expected) in ROWS {
        let rule = compiled(text, DayMode::Or, zone);
        let found: Vec<String> =
            rule.slots_after(at(from)).take(expected.len()).map(|slot| rule.local(slot.unwrap().at)).collect();
        assert_eq!(found, expected, "{text} in {zone} after {from}");
    }
}

/// `0 0 13 * 5` in 2026: 61 days by "or", 3 by "and".
#[test]
fn friday_the_thirteenth_depends_on_how_the_day_fields_combine() {
    for (mode, days) in [(DayMode::Or, 61), (DayMode::And, 3)] {
        let rule = compiled("0 0 13 * 5", mode, "UTC");
        let end = at("2027-01-01T00:00:00Z");
        let slots = rule.slots_after(at("2025-12-31T23:59:59Z")).take_while(|slot| slot.as_ref().unwrap().at < end);
        assert_eq!(slots.count(), days, "{mode:?}");
    }
}

/// An expression that no calendar can satisfy is refused with the reason.
#[test]
fn the_thirtieth_of_february_is_refused() {
    let error = Cron::parse("0 0 30 2 *").unwrap_err();
    assert_eq!(error.kind(), RuleErrorKind::NeverFires);
    assert_eq!(
        error.to_string(),
        "cron expression `0 0 30 2 *` can never fire: no day of any year has day of month `30` in month `2` \
         (its longest month has 29 days); change one of them"
    );
}

/// A daily job in a zone that changes its clocks does not disturb a minutely one beside it.
#[test]
fn a_daily_job_over_the_gap_leaves_a_minutely_one_alone() {
    let (from, to) = (at("2026-03-08T05:00:00Z"), at("2026-03-08T10:00:00Z"));
    let count = |rule: &CompiledRule| rule.slots_after(from).take_while(|slot| slot.as_ref().unwrap().at <= to).count();
    assert_eq!(count(&compiled("30 2 * * *", DayMode::Or, "America/New_York")), 1);
    assert_eq!(count(&compiled("* * * * *", DayMode::Or, "UTC")), 300);
}

/// A slot of a rule on wall time keeps its key when the zone's rules move it, so that it cannot be run twice: here two
/// zones that part ways stand for a zone before and after its rules changed.
#[test]
fn a_key_outlives_a_change_of_the_zones_rules() {
    let (before, after) =
        (compiled("0 3 * * *", DayMode::Or, "Europe/Moscow"), compiled("0 3 * * *", DayMode::Or, "Europe/Volgograd"));
    // Volgograd kept an hour ahead of Moscow from October 2018 to December 2020.
    let slot = before.next_after(at("2019-06-01T12:00:00Z")).unwrap().unwrap();
    let moved = after.slot(slot.key).unwrap();
    assert_eq!(
        (utc_text(slot.at).as_str(), utc_text(moved.at).as_str()),
        ("2019-06-02T00:00:00Z", "2019-06-01T23:00:00Z")
    );
    assert_eq!(after.next_after(at("2019-06-01T12:00:00Z")).unwrap().unwrap().key, slot.key);
    assert_ne!(before.transitions_hash(at("2018-01-01T00:00:00Z")), after.transitions_hash(at("2018-01-01T00:00:00Z")));
}
