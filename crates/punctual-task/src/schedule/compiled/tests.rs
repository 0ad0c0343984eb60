//! Slots across clock changes, bounds and exclusions: the cases that schedulers are known to get wrong.

mod every_zone;

use super::*;
use crate::schedule::{Calendar, CivilDate, Cron, DayMode, Every, Exclusion, Overflow, Weekday};
use std::time::Duration;

pub(super) fn at(text: &str) -> Timestamp {
    let stamp: jiff::Timestamp = text.parse().unwrap();
    Timestamp::from_micros(stamp.as_microsecond())
}

pub(super) fn cron(text: &str, zone: &str) -> Rule {
    Cron::parse(text).unwrap().zone(zone)
}

fn compiled(rule: &Rule) -> CompiledRule {
    CompiledRule::new(rule, at("2020-01-01T00:00:00Z")).unwrap()
}

/// The first `n` slots after an instant in wall time, with a mark on those that are skipped.
fn local(rule: &Rule, from: &str, n: usize) -> Vec<String> {
    let rule = compiled(rule);
    let mut last = at(from);
    rule.slots_after(last)
        .take(n)
        .map(|slot| {
            let slot = slot.unwrap();
            assert!(slot.at > last, "in order");
            assert_eq!(rule.slot(slot.key), Some(slot), "the key gives the slot back");
            last = slot.at;
            if slot.gap { format!("skipped {}", rule.nominal(slot.key)) } else { rule.local(slot.at) }
        })
        .collect()
}

/// The instants in `from..to`.
fn instants(rule: &Rule, from: &str, to: &str) -> Vec<Timestamp> {
    let to = at(to);
    let before = Timestamp::from_micros(at(from).as_micros() - 1);
    compiled(rule).slots_after(before).map(|slot| slot.unwrap().at).take_while(|at| *at < to).collect()
}

/// A daily 02:30 in New York over the spring gap: end of the gap, shifted, or skipped with a mark.
#[test]
fn a_missing_wall_time_goes_where_the_rule_says() {
    let rule = |gap| cron("30 2 * * *", "America/New_York").gap(gap);
    let from = "2026-03-07T00:00:00Z";
    let (before, after) = ("2026-03-07T02:30:00-05:00", "2026-03-09T02:30:00-04:00");
    assert_eq!(local(&rule(Gap::End), from, 3), [before, "2026-03-08T03:00:00-04:00", after]);
    assert_eq!(local(&rule(Gap::Shift), from, 3), [before, "2026-03-08T03:30:00-04:00", after]);
    assert_eq!(local(&rule(Gap::Skip), from, 3), [before, "skipped 2026-03-08T02:30:00", after]);
}

/// A daily 01:30 in New York over the autumn fold: first, second or both copies.
#[test]
fn a_double_wall_time_runs_as_often_as_the_rule_says() {
    let rule = |fold| cron("30 1 * * *", "America/New_York").fold(fold);
    let from = "2026-10-31T12:00:00Z";
    let (first, second) = ("2026-11-01T01:30:00-04:00", "2026-11-01T01:30:00-05:00");
    let after = "2026-11-02T01:30:00-05:00";
    assert_eq!(local(&rule(Fold::First), from, 2), [first, after]);
    assert_eq!(local(&rule(Fold::Second), from, 2), [second, after]);
    assert_eq!(local(&rule(Fold::Both), from, 3), [first, second, after]);
}

/// Where one wall time names one slot, its key is the same on either copy; only "both" needs the fold bit.
#[test]
fn the_fold_bit_tells_the_second_copy_of_both_only() {
    let key = |fold, n: usize| {
        let rule = compiled(&cron("30 1 * * *", "America/New_York").fold(fold));
        rule.slots_after(at("2026-10-31T12:00:00Z")).nth(n).unwrap().unwrap().key
    };
    let nominal = at("2026-11-01T01:30:00Z").as_micros();
    assert_eq!(key(Fold::First, 0).as_raw(), 2 * nominal);
    assert_eq!(key(Fold::Second, 0).as_raw(), 2 * nominal);
    assert_eq!(key(Fold::Both, 0).as_raw(), 2 * nominal);
    assert_eq!(key(Fold::Both, 1).as_raw(), 2 * nominal + 1);
    assert!(key(Fold::Both, 1).is_second_copy() && key(Fold::Both, 1).micros() == nominal);
    let once = compiled(&cron("30 1 * * *", "America/New_York"));
    assert_eq!(once.resolve(SlotKey::from_raw(2 * nominal + 1)), None);
    let both = compiled(&cron("30 1 * * *", "Asia/Tokyo").fold(Fold::Both));
    assert_eq!(both.resolve(SlotKey::from_raw(2 * nominal + 1)), None, "a copy that is none under this zone's rules");
}

/// Several wall times in one gap, and the one at its end, are one slot, known by the earliest of them; a skipped gap
/// does not hide the slot at its end.
#[test]
fn what_lands_on_one_instant_is_one_slot() {
    let rule = cron("0,30 1,2,3 * * *", "America/New_York");
    let from = "2026-03-08T06:00:00Z";
    let end = ["2026-03-08T01:30:00-05:00", "2026-03-08T03:00:00-04:00", "2026-03-08T03:30:00-04:00"];
    assert_eq!(local(&rule, from, 3), end);
    let slot = compiled(&rule).slots_after(at(from)).nth(1).unwrap().unwrap();
    assert_eq!(compiled(&rule).nominal(slot.key), "2026-03-08T02:00:00");
    assert_eq!(local(&rule.clone().gap(Gap::Shift), from, 3), end);
    let shifted = cron("15 2,3 * * *", "America/New_York").gap(Gap::Shift);
    assert_eq!(local(&shifted, from, 2), ["2026-03-08T03:15:00-04:00", "2026-03-09T02:15:00-04:00"]);
    let skipped = [end[0], "skipped 2026-03-08T02:00:00", end[1], end[2]];
    assert_eq!(local(&rule.gap(Gap::Skip), from, 4), skipped);
}

/// A shifted slot comes in the order of instants between those that the clocks show.
#[test]
fn shifted_slots_are_in_order_with_the_others() {
    let rule = cron("10,50 2,3 * * *", "America/New_York").gap(Gap::Shift);
    let times = local(&rule, "2026-03-08T06:00:00Z", 3);
    assert_eq!(times, ["2026-03-08T03:10:00-04:00", "2026-03-08T03:50:00-04:00", "2026-03-09T02:10:00-04:00"]);
    let rule = Calendar::days(1).at("02:40".parse().unwrap()).at("03:20".parse().unwrap());
    let rule = rule.zone("America/New_York").gap(Gap::Shift);
    assert_eq!(local(&rule, "2026-03-08T06:00:00Z", 2), ["2026-03-08T03:20:00-04:00", "2026-03-08T03:40:00-04:00"]);
}

/// Zones whose clocks change at midnight have days without one; the daily midnight job still runs on them.
#[test]
fn days_without_midnight_keep_their_midnight_job() {
    let daily = |zone| cron("0 0 * * *", zone);
    assert_eq!(
        local(&daily("Africa/Cairo"), "2026-04-23T12:00:00Z", 2),
        ["2026-04-24T01:00:00+03:00", "2026-04-25T00:00:00+03:00"]
    );
    assert_eq!(
        local(&daily("America/Sao_Paulo"), "2018-11-03T12:00:00Z", 2),
        ["2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"]
    );
    assert_eq!(
        local(&daily("Asia/Beirut"), "2026-03-28T12:00:00Z", 2),
        ["2026-03-29T01:00:00+03:00", "2026-03-30T00:00:00+03:00"]
    );
    // In Greenland the last hour of a day is missing: its jobs land on the next day's first instant.
    assert_eq!(
        local(&cron("30 23 * * *", "America/Nuuk"), "2025-03-29T12:00:00Z", 2),
        ["2025-03-30T00:00:00-01:00", "2025-03-30T23:30:00-01:00"]
    );
}

/// Apia left out 2011-12-30 altogether: what was due on it lands on the instant after it, once.
#[test]
fn a_lost_day_is_a_gap_like_any_other() {
    let from = "2011-12-29T12:00:00Z";
    let daily = cron("0 12 * * *", "Pacific/Apia");
    assert_eq!(
        local(&daily, from, 4),
        [
            "2011-12-29T12:00:00-10:00",
            "2011-12-31T00:00:00+14:00",
            "2011-12-31T12:00:00+14:00",
            "2012-01-01T12:00:00+14:00"
        ]
    );
    let midnight = cron("0 0 * * *", "Pacific/Apia");
    assert_eq!(local(&midnight, from, 2), ["2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"]);
    let on_the_day = cron("0 12 30 12 *", "Pacific/Apia");
    assert_eq!(local(&on_the_day, from, 2), ["2011-12-31T00:00:00+14:00", "2012-12-30T12:00:00+14:00"]);
    assert_eq!(local(&on_the_day.gap(Gap::Shift), from, 1), ["2011-12-31T12:00:00+14:00"]);
    let hourly = cron("0 * * * *", "Pacific/Apia");
    let hours = instants(&hourly, "2011-12-30T00:00:00Z", "2011-12-31T00:00:00Z");
    assert_eq!(hours.len(), 24, "real time goes on as ever");
}

/// Minutely in London over the autumn fold, and every half hour in New York: constant spacing of real time.
#[test]
fn elapsed_rules_keep_constant_real_spacing() {
    let check = |rule: Rule, from: &str, to: &str, step: u64| {
        let times = instants(&rule, from, to);
        let expected = at(to).since(at(from)).as_secs() / step;
        assert_eq!(times.len() as u64, expected);
        assert!(times.windows(2).all(|pair| pair[1].since(pair[0]) == Duration::from_secs(step)));
    };
    check(cron("* * * * *", "Europe/London"), "2026-10-25T00:00:00Z", "2026-10-25T04:00:00Z", 60);
    check(cron("* * * * *", "Europe/London"), "2026-03-29T00:00:00Z", "2026-03-29T04:00:00Z", 60);
    check(cron("*/30 * * * *", "America/New_York"), "2026-11-01T03:00:00Z", "2026-11-01T09:00:00Z", 1_800);
    check(cron("*/10 * * * * *", "Australia/Lord_Howe"), "2026-04-04T14:00:00Z", "2026-04-04T17:00:00Z", 10);
}

/// An elapsed rule on fixed hours runs in both copies of a fold and shifts nothing in a gap, whatever the choices.
#[test]
fn elapsed_rules_take_no_notice_of_the_choices() {
    for (gap, fold) in [(Gap::End, Fold::First), (Gap::Shift, Fold::Second), (Gap::Skip, Fold::Both)] {
        let rule = cron("30 1-2 * * *", "America/New_York").gap(gap).fold(fold);
        assert_eq!(local(&rule, "2026-03-08T06:00:00Z", 2), ["2026-03-08T01:30:00-05:00", "2026-03-09T01:30:00-04:00"]);
        assert_eq!(
            local(&rule, "2026-11-01T05:00:00Z", 3),
            ["2026-11-01T01:30:00-04:00", "2026-11-01T01:30:00-05:00", "2026-11-01T02:30:00-05:00"]
        );
        assert_eq!(compiled(&rule).key_class(), KeyClass::Utc);
    }
}

/// 29 February comes again after 2100, which has none; on a given weekday it can take forty years.
#[test]
fn leap_days_are_found_across_a_century_without_one() {
    let rule = cron("0 0 29 2 *", "UTC");
    assert_eq!(local(&rule, "2095-01-01T00:00:00Z", 2), ["2096-02-29T00:00:00+00:00", "2104-02-29T00:00:00+00:00"]);
    let mondays = Rule::from(Cron::parse_with("0 0 29 2 1", DayMode::And).unwrap()).zone("America/New_York");
    assert_eq!(local(&mondays, "2072-03-01T00:00:00Z", 2), ["2112-02-29T00:00:00-05:00", "2140-02-29T00:00:00-05:00"]);
}

/// An interval is counted in real time from its anchor, over every clock change; its keys are its instants.
#[test]
fn intervals_never_drift() {
    let rule =
        Rule::from(Every::new(Duration::from_secs(86_400)).anchor(at("2026-03-01T17:00:00Z"))).zone("Europe/Rome");
    let times = instants(&rule, "2026-03-20T00:00:00Z", "2026-04-05T00:00:00Z");
    assert_eq!(times.len(), 16);
    assert!(times.iter().all(|at| (at.as_micros() / 1_000_000) % 86_400 == 17 * 3_600));
    let slot = compiled(&rule).next_after(at("2026-03-20T00:00:00Z")).unwrap().unwrap();
    assert_eq!((slot.key.micros(), slot.key.is_second_copy()), (slot.at.as_micros(), false));
    let created = CompiledRule::new(&Every::new(Duration::from_secs(90)).into(), at("2026-01-01T00:00:00.5Z")).unwrap();
    assert_eq!(created.next_after(Timestamp::MIN).unwrap().unwrap().at, at("2026-01-01T00:01:30.5Z"));
}

/// Calendar rules run at wall times, and count days and weeks from the schedule's creation if nothing else says so.
#[test]
fn calendar_rules_run_at_wall_times() {
    let rule = Calendar::days(2).at("02:30".parse().unwrap()).zone("Europe/Rome");
    // Created at 01:00 on 1 January 2020 in Rome: every second day from there is an odd day number in 2020-03.
    assert_eq!(local(&rule, "2020-03-28T12:00:00Z", 2), ["2020-03-29T03:00:00+02:00", "2020-03-31T02:30:00+02:00"]);
    let late = CompiledRule::new(&rule, at("2019-12-31T23:30:00Z")).unwrap();
    assert_eq!(
        late.next_after(at("2020-03-28T12:00:00Z")).unwrap(),
        compiled(&rule).next_after(at("2020-03-28T12:00:00Z")).unwrap()
    );
    let payday = Calendar::months(1, [31], Overflow::LastDay).at("09:00".parse().unwrap()).zone("Asia/Kolkata");
    assert_eq!(local(&payday, "2027-01-31T12:00:00Z", 2), ["2027-02-28T09:00:00+05:30", "2027-03-31T09:00:00+05:30"]);
}

/// No slot before `start` or at or after `until`; both may lie between slots.
#[test]
fn bounds_hold_for_each_kind() {
    let kinds: [Rule; 3] = [
        Every::new(Duration::from_secs(3_600)).anchor(at("2026-01-01T00:00:00Z")).into(),
        cron("0 * * * *", "UTC"),
        (0..24).fold(Calendar::days(1), |rule, hour| rule.at(format!("{hour}:00").parse().unwrap())).into(),
    ];
    for rule in kinds {
        let rule = rule.start(at("2026-01-01T03:00:00Z")).until(at("2026-01-01T06:00:00Z"));
        let expected = [at("2026-01-01T03:00:00Z"), at("2026-01-01T04:00:00Z"), at("2026-01-01T05:00:00Z")];
        let found: Vec<_> = compiled(&rule).slots_after(Timestamp::MIN).map(|slot| slot.unwrap().at).collect();
        assert_eq!(found, expected);
        assert_eq!(compiled(&rule).next_after(expected[2]).unwrap(), None);
        let between = rule.start(at("2026-01-01T03:00:00.000001Z"));
        assert_eq!(compiled(&between).next_after(Timestamp::MIN).unwrap().unwrap().at, expected[1]);
    }
    // The mark of a skipped gap lies before the gap's end, and so does a bound at that end.
    let skip = cron("30 2 * * *", "America/New_York").gap(Gap::Skip).start(at("2026-03-08T07:00:00Z"));
    assert_eq!(local(&skip, "2026-03-01T00:00:00Z", 1), ["2026-03-09T02:30:00-04:00"]);
}

/// Exclusions take slots away by their nominal time, or by their instant where the window is in UTC.
#[test]
fn exclusions_leave_slots_out() {
    let date = |text: &str| text.parse::<CivilDate>().unwrap();
    let noon = cron("0 12 * * *", "Asia/Tokyo")
        .except(Exclusion::Weekday(Weekday::Sunday))
        .except(Exclusion::Date(date("2026-06-02")))
        .except(Exclusion::Civil { from: "2026-06-04T12:00".parse().unwrap(), to: "2026-06-05T12:00".parse().unwrap() })
        .except(Exclusion::Utc { from: at("2026-06-06T03:00:00Z"), to: at("2026-06-06T03:00:00.000001Z") });
    let days: Vec<String> = local(&noon, "2026-05-30T12:00:00Z", 4).iter().map(|text| text[..10].to_owned()).collect();
    assert_eq!(days, ["2026-06-01", "2026-06-03", "2026-06-05", "2026-06-08"]);
    // The same for a rule on UTC time, whose dates are those of its zone.
    let hourly = Rule::from(Every::new(Duration::from_secs(3_600)).anchor(at("2026-01-01T00:00:00Z")))
        .zone("Asia/Tokyo")
        .except(Exclusion::Date(date("2026-06-02")));
    let times = instants(&hourly, "2026-06-01T12:00:00Z", "2026-06-03T12:00:00Z");
    assert_eq!(times.len(), 24);
    assert_eq!((times[2], times[3]), (at("2026-06-01T14:00:00Z"), at("2026-06-02T15:00:00Z")));
    // A window that ends after the clocks have changed ends by the changed clock.
    let until_half_past = |day: &str| Exclusion::Civil {
        from: format!("{day}T00:00").parse().unwrap(),
        to: format!("{day}T03:30").parse().unwrap(),
    };
    let quarterly = Rule::from(Every::new(Duration::from_secs(900)).anchor(at("2026-01-01T00:00:00Z")))
        .zone("America/New_York")
        .except(until_half_past("2026-03-08"))
        .except(until_half_past("2026-11-01"));
    assert_eq!(local(&quarterly, "2026-03-08T05:00:00Z", 1), ["2026-03-08T03:30:00-04:00"]);
    assert_eq!(local(&quarterly, "2026-11-01T04:00:00Z", 1), ["2026-11-01T03:30:00-05:00"]);
    // A wall time that a gap moves to the next day is left out by its own date.
    let lost = cron("0 12 * * *", "Pacific/Apia").except(Exclusion::Date(date("2011-12-30")));
    assert_eq!(local(&lost, "2011-12-30T00:00:00Z", 1), ["2011-12-31T12:00:00+14:00"]);
}

/// A year-long window costs a step, not a step a slot; what leaves nothing within the bound is an error, not an end.
#[test]
fn exclusions_are_stepped_over_and_bounded() {
    let utc = Exclusion::Utc { from: at("2026-01-01T00:00:00Z"), to: at("2027-01-01T00:00:00Z") };
    let civil = Exclusion::Civil { from: "2026-01-01T00:00".parse().unwrap(), to: "2027-01-01T00:00".parse().unwrap() };
    let kinds: [Rule; 3] = [
        Every::new(Duration::from_millis(1)).anchor(at("2025-01-01T00:00:00Z")).into(),
        cron("* * * * * *", "UTC"),
        cron("0,1,2,3,4,5,6,7,8,9 0 0 * * *", "UTC"),
    ];
    for rule in kinds {
        for exclusion in [utc, civil] {
            let rule = compiled(&rule.clone().except(exclusion));
            let mut steps = Steps::new();
            let slot = rule.next_within(at("2025-12-31T23:59:59.999Z"), &mut steps).unwrap().unwrap();
            assert_eq!(slot.at, at("2027-01-01T00:00:00Z"));
            assert!(steps.spent() < 20, "{}", steps.spent());
        }
    }
    let week = Rule::from(Every::new(Duration::from_secs(7 * 86_400)).anchor(at("2026-06-07T00:00:00Z")))
        .except(Exclusion::Weekday(Weekday::Sunday));
    let error = compiled(&week).next_after(at("2026-06-07T00:00:00Z")).unwrap_err();
    assert_eq!(error.kind(), RuleErrorKind::SearchExhausted);
    assert_eq!(compiled(&week).slots_after(at("2026-06-07T00:00:00Z")).count(), 1, "an error ends the iteration");
}

/// What cannot be right is refused when the rule is compiled, with the reason.
#[test]
fn contradictions_are_refused() {
    use RuleErrorKind::{Invalid, NeverFires, OutOfRange, UnknownZone};
    let daily = || cron("0 3 * * *", "UTC");
    let instant = at("2026-01-01T00:00:00Z");
    let six = Weekday::ALL[..6].iter().fold(daily(), |rule, day| rule.except(Exclusion::Weekday(*day)));
    let window = |to: &str| Exclusion::Civil { from: "2026-01-01T00:00".parse().unwrap(), to: to.parse().unwrap() };
    let cases = [
        (daily().zone("Europe/Rom"), UnknownZone, "did you mean `Europe/Rome`?"),
        (daily().start(instant).until(instant), Invalid, "starts at 2026-01-01T00:00:00Z"),
        (daily().max_occurrences(0), OutOfRange, "at most 0 occurrences"),
        (six.clone().except(Exclusion::Weekday(Weekday::Sunday)), NeverFires, "all seven weekdays"),
        (cron("0 3 * * 1", "UTC").except(Exclusion::Weekday(Weekday::Monday)), NeverFires, "an excluded weekday"),
        (daily().except(window("2026-01-01T00:00")), Invalid, "is empty"),
        (Calendar::days(1).into(), Invalid, "no time of day"),
        (
            Calendar::months(12, [30], Overflow::Skip)
                .from("2026-02-01".parse().unwrap())
                .at("03:00".parse().unwrap())
                .into(),
            NeverFires,
            "none of its months has one of its days",
        ),
        (
            Calendar::weeks(1, Weekday::Monday)
                .at("03:00".parse().unwrap())
                .zone("UTC")
                .except(Exclusion::Weekday(Weekday::Monday)),
            NeverFires,
            "an excluded weekday",
        ),
    ];
    for (rule, kind, part) in cases {
        let error = CompiledRule::new(&rule, instant).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(local(&six, "2026-06-01T00:00:00Z", 1), ["2026-06-07T03:00:00+00:00"]);
    let many = (0..=EXCLUSIONS_MAX).fold(daily(), |rule, _| rule.except(window("2026-01-02T00:00")));
    assert_eq!(CompiledRule::new(&many, instant).unwrap_err().kind(), OutOfRange);
}

/// The ends of the number range, and of the years that slots lie in, are ends and not failures.
#[test]
fn the_ends_of_time_are_ends() {
    for rule in [cron("* * * * * *", "America/New_York"), cron("0 3 * * *", "Pacific/Apia"), Every::new(EVERY).into()] {
        let rule = compiled(&rule);
        assert!(rule.next_after(Timestamp::MIN).unwrap().is_some());
        assert_eq!(rule.next_after(Timestamp::MAX).unwrap(), None);
        assert_eq!(rule.next_after(at("9998-12-31T23:59:59Z")).unwrap(), None);
        assert!(rule.next_after(at("9998-12-01T00:00:00Z")).unwrap().is_some());
        for raw in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX] {
            if let Some(slot) = rule.slot(SlotKey::from_raw(raw)) {
                assert_eq!(slot.key.as_raw(), raw);
            }
        }
        assert!(!rule.local(Timestamp::MIN).is_empty() && !rule.local(Timestamp::MAX).is_empty());
    }
    const EVERY: Duration = Duration::from_secs(86_400);
}

/// A preview shows instants in UTC and wall time, and says from which wall time a slot was moved.
#[test]
fn a_preview_says_what_a_gap_moved() {
    let rule = cron("30 2 * * *", "America/New_York");
    let shown = super::super::preview(&rule, at("2026-03-07T12:00:00Z"), 2).unwrap();
    assert_eq!(shown[0].utc, "2026-03-08T07:00:00Z");
    assert_eq!(shown[0].local, "2026-03-08T03:00:00-04:00");
    assert_eq!(shown[0].moved_from.as_deref(), Some("2026-03-08T02:30:00"));
    assert_eq!(shown[1].moved_from, None);
    let many = super::super::preview(&cron("* * * * *", "UTC"), Timestamp::EPOCH, usize::MAX).unwrap();
    assert_eq!(many.len(), super::super::PREVIEW_MAX);
    assert!(many.iter().all(|upcoming| upcoming.moved_from.is_none()));
}
