//! Random rules, each as the crate reads it and as the model understands it.

use super::model::{CalendarModel, CronModel, DateItem, KindModel, OverflowModel, RuleModel, UnitModel, WeekdayItem};
use jiff::Timestamp as Stamp;
use jiff::civil::{Date, DateTime, Weekday as Day};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use punctual_clock::Timestamp;
use punctual_task::schedule::{
    Calendar, Cron, DayMode, Every, Exclusion, Fold, Gap, Kind, Overflow, Rule, WallTime, Weekday, Weekdays,
};
use std::time::Duration;

/// A rule, its model, the schedule's creation and a window around a clock change of its zone.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) rule: Rule,
    pub(crate) model: RuleModel,
    pub(crate) creation: Timestamp,
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// Zones with every sort of clock change: at midnight, by half an hour, by a day, twice in a Ramadan year, never.
const ZONES: [&str; 20] = [
    "UTC",
    "America/New_York",
    "Europe/London",
    "Europe/Rome",
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Sao_Paulo",
    "America/Havana",
    "America/Nuuk",
    "America/St_Johns",
    "Asia/Amman",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Asia/Tehran",
    "Asia/Tokyo",
    "Australia/Lord_Howe",
    "Europe/Dublin",
    "Pacific/Apia",
    "Pacific/Chatham",
    "America/Ciudad_Juarez",
];

const WEEKDAYS: [(Weekday, Day); 7] = [
    (Weekday::Sunday, Day::Sunday),
    (Weekday::Monday, Day::Monday),
    (Weekday::Tuesday, Day::Tuesday),
    (Weekday::Wednesday, Day::Wednesday),
    (Weekday::Thursday, Day::Thursday),
    (Weekday::Friday, Day::Friday),
    (Weekday::Saturday, Day::Saturday),
];
const WEEKDAY_NAMES: [&str; 7] = ["SUN", "mon", "Tue", "WED", "thu", "FRI", "SAT"];
const MONTH_NAMES: [&str; 12] = ["JAN", "feb", "MAR", "Apr", "MAY", "JUN", "jul", "AUG", "SEP", "OCT", "NOV", "dec"];

/// A field item with the values that it holds.
type Item = (String, Vec<i8>);

/// Every `step`-th value on the way from `a` up to `b`, around the end of the field if need be.
fn walk(low: i8, high: i8, a: i8, b: i8, step: i8) -> Vec<i8> {
    let mut all = Vec::new();
    let mut value = a;
    loop {
        all.push(value);
        if value == b {
            break;
        }
        value = if value == high { low } else { value + 1 };
    }
    all.into_iter().step_by(step as usize).collect()
}

/// An item of a plain field. `name` writes a value as text.
fn item(low: i8, high: i8, name: fn(i8, bool) -> String) -> impl Strategy<Value = Item> + Clone {
    let value = low..=high;
    let step = 1..=high - low + 1;
    prop_oneof![
        3 => Just(("*".to_owned(), walk(low, high, low, high, 1))),
        2 => step.clone().prop_map(move |n| (format!("*/{n}"), walk(low, high, low, high, n))),
        5 => (value.clone(), any::<bool>()).prop_map(move |(a, named)| (name(a, named), vec![a])),
        2 => (value.clone(), value.clone(), any::<bool>()).prop_map(move |(a, b, named)| {
            (format!("{}-{}", name(a, named), name(b, !named)), walk(low, high, a, b, 1))
        }),
        1 => (value.clone(), value.clone(), step.clone()).prop_map(move |(a, b, n)| {
            (format!("{}-{}/{n}", name(a, false), name(b, false)), walk(low, high, a, b, n))
        }),
        1 => (value, step).prop_map(move |(a, n)| {
            (format!("{}/{n}", name(a, false)), walk(low, high, a, high, n))
        }),
    ]
}

fn number(value: i8, padded: bool) -> String {
    if padded { format!("{value:02}") } else { value.to_string() }
}

fn month_name(value: i8, named: bool) -> String {
    if named { MONTH_NAMES[value as usize - 1].to_owned() } else { value.to_string() }
}

fn weekday_name(value: i8, named: bool) -> String {
    if named { WEEKDAY_NAMES[value as usize].to_owned() } else { value.to_string() }
}

/// A plain field: text and values.
fn field(low: i8, high: i8, name: fn(i8, bool) -> String) -> impl Strategy<Value = Item> + Clone {
    vec(item(low, high, name), 1..=3).prop_map(|items| {
        let text = items.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>().join(",");
        let mut values: Vec<i8> = items.into_iter().flat_map(|(_, values)| values).collect();
        values.sort_unstable();
        values.dedup();
        (text, values)
    })
}

/// A list of single values: what keeps an expression fixed.
fn list(low: i8, high: i8) -> impl Strategy<Value = Item> + Clone {
    vec((low..=high, any::<bool>()), 1..=3).prop_map(|items| {
        let text = items.iter().map(|(value, padded)| number(*value, *padded)).collect::<Vec<_>>().join(",");
        let mut values: Vec<i8> = items.into_iter().map(|(value, _)| value).collect();
        values.sort_unstable();
        values.dedup();
        (text, values)
    })
}

/// Minutes or seconds, half of them fixed.
fn sixtieths() -> impl Strategy<Value = Item> + Clone {
    prop_oneof![field(0, 59, number), list(0, 59)]
}

/// Hours, half of them fixed and those at which clocks change.
fn hours() -> impl Strategy<Value = Item> + Clone {
    prop_oneof![field(0, 23, number), list(0, 3)]
}

fn dates() -> impl Strategy<Value = (String, Vec<DateItem>)> + Clone {
    let one = prop_oneof![
        6 => item(1, 31, number).prop_map(|(text, days)| (text, DateItem::Days(days))),
        1 => (0..=5i8).prop_map(|n| (if n == 0 { "L".to_owned() } else { format!("L-{n}") }, DateItem::BeforeLast(n))),
        1 => (1..=31i8).prop_map(|n| (format!("{n}W"), DateItem::Nearest(n))),
        1 => Just(("LW".to_owned(), DateItem::LastWorkday)),
    ];
    let all = || vec![DateItem::Days((1..=31).collect())];
    prop_oneof![
        3 => Just(("*".to_owned(), all())),
        1 => Just(("?".to_owned(), all())),
        3 => vec(one, 1..=3).prop_map(|items| {
            let text = items.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>().join(",");
            (text, items.into_iter().map(|(_, item)| item).collect())
        }),
    ]
}

fn weekdays() -> impl Strategy<Value = (String, Vec<WeekdayItem>)> + Clone {
    let one = prop_oneof![
        6 => item(0, 6, weekday_name).prop_map(|(text, days)| (text, WeekdayItem::Days(days))),
        1 => Just(("7".to_owned(), WeekdayItem::Days(vec![0]))),
        1 => (1..=6i8).prop_map(|a| (format!("{a}-7"), WeekdayItem::Days(walk(0, 6, a, 0, 1)))),
        1 => (0..=6i8, any::<bool>()).prop_map(|(a, named)| (weekday_name(a, named) + "L", WeekdayItem::Last(a))),
        1 => (0..=6i8, 1..=5i8, any::<bool>()).prop_map(|(a, n, named)| {
            (format!("{}#{n}", weekday_name(a, named)), WeekdayItem::Nth(a, n))
        }),
    ];
    let all = || vec![WeekdayItem::Days((0..=6).collect())];
    prop_oneof![
        3 => Just(("*".to_owned(), all())),
        1 => Just(("?".to_owned(), all())),
        3 => vec(one, 1..=2).prop_map(|items| {
            let text = items.iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>().join(",");
            (text, items.into_iter().map(|(_, item)| item).collect())
        }),
    ]
}

pub(crate) fn cron() -> impl Strategy<Value = (Kind, KindModel)> {
    let months = prop_oneof![2 => Just(("*".to_owned(), (1..=12).collect())), 1 => field(1, 12, month_name)];
    let seconds = option::weighted(0.3, sixtieths());
    (seconds, sixtieths(), hours(), dates(), months, weekdays(), any::<bool>()).prop_filter_map(
        "can fire",
        |(seconds, minutes, hours, dates, months, weekdays, and)| {
            let mut text = [&minutes.0, &hours.0, &dates.0, &months.0, &weekdays.0].map(String::as_str).join(" ");
            let mut time_text = format!("{} {}", minutes.0, hours.0);
            if let Some((seconds, _)) = &seconds {
                text = format!("{seconds} {text}");
                time_text = format!("{seconds} {time_text}");
            }
            let mode = if and { DayMode::And } else { DayMode::Or };
            let restricted = |text: &str| !text.starts_with('*') && !text.starts_with('?');
            let model = CronModel {
                seconds: seconds.map_or(vec![0], |(_, values)| values),
                minutes: minutes.1,
                hours: hours.1,
                either: !and && restricted(&dates.0) && restricted(&weekdays.0),
                dates: dates.1,
                months: months.1,
                weekdays: weekdays.1,
                elapsed: time_text.contains(['*', '/', '-']),
            };
            let cron = Cron::parse_with(&text, mode).ok()?;
            Some((Kind::Cron(cron), KindModel::Cron(model)))
        },
    )
}

fn date(days: std::ops::Range<i64>) -> impl Strategy<Value = Date> {
    days.prop_map(|day| jiff::tz::Offset::UTC.to_datetime(Stamp::from_second(day * 86_400).unwrap()).date())
}

/// A calendar rule with its anchor written into it.
fn calendar() -> impl Strategy<Value = (Kind, KindModel)> {
    let unit = prop_oneof![
        Just(UnitModel::Days),
        vec(0..7usize, 1..=4).prop_map(|on| UnitModel::Weeks(on.into_iter().map(|n| WEEKDAYS[n].1).collect())),
        (vec(1..=31i8, 1..=4), 0..3usize).prop_map(|(on, overflow)| {
            let overflow = [OverflowModel::Skip, OverflowModel::LastDay, OverflowModel::RollOver][overflow];
            UnitModel::Months(on, overflow)
        }),
    ];
    let time = prop_oneof![(0..4i64).prop_map(|n| n * 1_800 + 1_800), (0..86_400i64)];
    // Most anchors lie before every window, some inside or after.
    (1..=5u32, unit, date(7_000..22_000), vec(time, 1..=4)).prop_map(|(every, unit, anchor, times)| {
        let mut calendar = match &unit {
            UnitModel::Days => Calendar::days(every),
            UnitModel::Weeks(on) => {
                let on: Weekdays = WEEKDAYS.iter().filter(|(_, day)| on.contains(day)).map(|(day, _)| *day).collect();
                Calendar::weeks(every, on)
            }
            UnitModel::Months(on, overflow) => {
                let overflow = match overflow {
                    OverflowModel::Skip => Overflow::Skip,
                    OverflowModel::LastDay => Overflow::LastDay,
                    OverflowModel::RollOver => Overflow::RollOver,
                };
                Calendar::months(every, on.iter().map(|day| *day as u8), overflow)
            }
        };
        calendar = calendar.from(anchor.to_string().parse().unwrap());
        for time in &times {
            let part = |n: i64| u8::try_from(n).unwrap();
            calendar = calendar.at(WallTime::new(part(time / 3600), part(time / 60 % 60), part(time % 60)).unwrap());
        }
        let model = CalendarModel { every: i64::from(every), unit, anchor, not_before: Some(anchor), times };
        (Kind::Calendar(calendar), KindModel::Calendar(model))
    })
}

fn interval() -> impl Strategy<Value = (Kind, KindModel)> {
    let step = prop_oneof![(60..100_000i64).prop_map(|seconds| seconds * 1_000_000), 50_000_000..90_000_000_000i64];
    (step, 946_684_800_000_000..1_700_000_000_000_000i64).prop_map(|(step, anchor)| {
        let every = Every::new(Duration::from_micros(step.unsigned_abs())).anchor(Timestamp::from_micros(anchor));
        (Kind::Interval(every), KindModel::Interval(anchor, step))
    })
}

pub(crate) fn zones() -> impl Strategy<Value = String> {
    let all: Vec<String> = TimeZoneDatabase::bundled().available().map(|name| name.as_str().to_owned()).collect();
    prop_oneof![
        3 => proptest::sample::select(ZONES.to_vec()).prop_map(str::to_owned),
        1 => proptest::sample::select(all),
    ]
}

/// A window of one to four days that begins up to a day and a half before a clock change from 2000 to 2040.
pub(crate) fn window(zone: &TimeZone, seed: i64, lead: i64, length: i64) -> (i64, i64) {
    let somewhen = Stamp::from_second(seed).unwrap();
    let change = zone.following(somewhen).next().map_or(somewhen, |change| change.timestamp());
    let change = if change.as_second() < 2_240_524_800 { change } else { somewhen };
    let from = change.as_microsecond() - lead;
    (from, from + length)
}

/// Exclusions inside a window that begins at `from`, as pairs of offsets in minutes.
fn exclusions(from: i64, zone: &TimeZone, civil: &[(i64, i64)], utc: &[(i64, i64)]) -> Exclusions {
    let instant = |minutes: i64| from.div_euclid(60_000_000) * 60_000_000 + minutes * 60_000_000;
    let wall = |minutes: i64| -> DateTime {
        let at = zone.to_datetime(Stamp::from_microsecond(instant(minutes)).unwrap());
        at.with().second(0).subsec_nanosecond(0).build().unwrap()
    };
    Exclusions {
        civil: civil
            .iter()
            .map(|(begin, length)| (wall(*begin), wall(begin + length)))
            .filter(|(from, to)| from < to)
            .collect(),
        utc: utc.iter().map(|(begin, length)| (instant(*begin), instant(begin + length) + 1)).collect(),
    }
}

struct Exclusions {
    civil: Vec<(DateTime, DateTime)>,
    utc: Vec<(i64, i64)>,
}

pub(crate) fn case() -> impl Strategy<Value = Case> {
    let kind = prop_oneof![6 => cron(), 2 => calendar(), 1 => interval()];
    let spot = (946_684_800..2_200_000_000i64, 0..130_000_000_000i64, 86_400_000_000..345_600_000_000i64);
    let stretch = || (0..5_000i64, 1..600i64);
    let extras = (
        vec(0..7usize, 0..=1),
        vec(stretch(), 0..=2),
        vec(stretch(), 0..=2),
        option::weighted(0.2, 0..2_000i64),
        option::weighted(0.2, 2_000..5_000i64),
    );
    let choices = (0..3usize, 0..3usize);
    (kind, zones(), spot, choices, option::weighted(0.4, extras)).prop_filter_map(
        "compiles",
        |((kind, kind_model), zone_name, (seed, lead, length), (gap, fold), extras)| {
            let zone = TimeZoneDatabase::bundled().get(&zone_name).unwrap();
            let (from, to) = window(&zone, seed, lead, length);
            let (gap, fold) = ([Gap::End, Gap::Shift, Gap::Skip][gap], [Fold::First, Fold::Second, Fold::Both][fold]);
            let mut rule = Rule::new(kind).zone(zone_name).gap(gap).fold(fold);
            let mut model = RuleModel {
                kind: kind_model,
                zone,
                gap,
                fold,
                start: None,
                until: None,
                without_weekdays: Vec::new(),
                without_civil: Vec::new(),
                without_utc: Vec::new(),
            };
            if let Some((days, civil, utc, start, until)) = extras {
                let left_out = exclusions(from, &model.zone, &civil, &utc);
                for day in days {
                    rule = rule.except(Exclusion::Weekday(WEEKDAYS[day].0));
                    model.without_weekdays.push(WEEKDAYS[day].1);
                }
                for (from, to) in &left_out.civil {
                    let text = |at: &DateTime| at.strftime("%Y-%m-%dT%H:%M").to_string().parse().unwrap();
                    rule = rule.except(Exclusion::Civil { from: text(from), to: text(to) });
                }
                for (from, to) in &left_out.utc {
                    let (from, to) = (Timestamp::from_micros(*from), Timestamp::from_micros(*to));
                    rule = rule.except(Exclusion::Utc { from, to });
                }
                model.without_civil = left_out.civil;
                model.without_utc = left_out.utc;
                if let Some(minutes) = start {
                    model.start = Some(from + minutes * 60_000_000);
                    rule = rule.start(Timestamp::from_micros(from + minutes * 60_000_000));
                }
                if let Some(minutes) = until {
                    model.until = Some(from + minutes * 60_000_000);
                    rule = rule.until(Timestamp::from_micros(from + minutes * 60_000_000));
                }
            }
            let creation = Timestamp::from_micros(from);
            punctual_task::schedule::CompiledRule::new(&rule, creation).ok()?;
            Some(Case { rule, model, creation, from, to })
        },
    )
}
