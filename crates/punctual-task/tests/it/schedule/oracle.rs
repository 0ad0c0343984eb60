//! Another implementation as a witness: croner on chrono-tz, which shares neither code nor zone data with ours.
//!
//! Where the two are meant to differ, the difference is named in [`Difference`] and shown by a test of its own; all
//! else must agree. Windows end in 2024, since the zone data of the witness is of early 2025.

use super::generate::{cron, window};
use chrono::{DateTime, TimeZone as _, Utc};
use chrono_tz::Tz;
use croner::Direction;
use croner::parser::CronParser;
use jiff::tz::TimeZoneDatabase;
use proptest::prelude::*;
use punctual_clock::Timestamp;
use punctual_task::schedule::{CompiledRule, Cron, DayMode, Kind};

/// How many slots of a window are compared.
const ENOUGH: usize = 300;

/// Zones with gaps of at most two hours that do not end on another date than they begin on.
const ZONES: [&str; 14] = [
    "UTC",
    "America/New_York",
    "Europe/London",
    "Europe/Rome",
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Sao_Paulo",
    "America/Havana",
    "America/St_Johns",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Pacific/Chatham",
];

/// Where the witness is known to read an expression differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Difference {
    /// It refuses wrap-around ranges, `5/15`, `L-3` and other things that we read.
    Refused,
    /// It takes a day field for unrestricted only if its text is `*` or `?` alone; we, as Vixie's cron, if it begins so.
    StarWithMore,
    /// It calls an expression fixed if each time field has one value; we, if no text of them has `*`, `/` or `-`.
    Class,
    /// It reads a range from Sunday to Sunday by name as the whole week; we as the Sunday.
    SundayToSunday,
    /// It reads `L` and `LW` in one list as `LW` alone.
    LastAndLastWorkday,
}

fn difference(text: &str, mode: DayMode) -> Result<croner::Cron, Difference> {
    let fields: Vec<&str> = text.split(' ').collect();
    let [times @ .., date, _, weekday] = &fields[..] else { panic!("{text}") };
    let more = |field: &str| field.starts_with(['*', '?']) && field.len() > 1;
    if more(date) || more(weekday) {
        return Err(Difference::StarWithMore);
    }
    if ["0-SUN", "SUN-SUN"].iter().any(|range| weekday.contains(range)) {
        return Err(Difference::SundayToSunday);
    }
    if ["L", "LW"].iter().all(|last| date.split(',').any(|item| item == *last)) {
        return Err(Difference::LastAndLastWorkday);
    }
    let parser = CronParser::builder().dom_and_dow(mode == DayMode::And).build();
    let witness = parser.parse(text).map_err(|_| Difference::Refused)?;
    let ours = times.iter().any(|field| field.contains(['*', '/', '-']));
    let theirs = witness.determine_job_type() == croner::JobType::IntervalWildcard;
    if ours == theirs { Ok(witness) } else { Err(Difference::Class) }
}

fn witness_slots(cron: &croner::Cron, zone: Tz, from: i64, to: i64) -> Vec<i64> {
    let start: DateTime<Tz> = Utc.timestamp_micros(from).unwrap().with_timezone(&zone);
    cron.iter_from(start, Direction::Forward)
        .map(|at| at.timestamp_micros())
        .take_while(|at| *at < to)
        .take(ENOUGH)
        .collect()
}

fn our_slots(cron: Cron, zone: &str, from: i64, to: i64) -> Vec<i64> {
    let rule = CompiledRule::new(&cron.zone(zone), Timestamp::EPOCH).unwrap();
    rule.slots_after(Timestamp::from_micros(from - 1))
        .map(|slot| slot.unwrap().at.as_micros())
        .take_while(|at| *at < to)
        .take(ENOUGH)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 100_000, ..ProptestConfig::with_cases(600) })]

    /// Around clock changes, the slots are those that the witness finds, unless a known difference is in the text.
    #[test]
    fn slots_are_those_of_the_witness(
        (kind, _) in cron(),
        zone in proptest::sample::select(ZONES.to_vec()),
        seed in 946_684_800..1_690_000_000i64,
        lead in 0..1_500i64,
        days in 1..=40i64,
    ) {
        let Kind::Cron(cron) = kind else { unreachable!("the generator makes cron rules") };
        let tz = TimeZoneDatabase::bundled().get(zone).unwrap();
        // On whole minutes: the witness takes a start with a fraction of a second for the second itself.
        let (from, to) = window(&tz, seed / 60 * 60, lead * 60_000_000, days * 86_400_000_000);
        prop_assume!(to < 1_735_000_000_000_000);
        let Ok(witness) = difference(cron.text(), cron.mode()) else { return Err(TestCaseError::reject("known difference")) };
        let expected = witness_slots(&witness, zone.parse().unwrap(), from, to);
        let says = format!("{cron} ({:?}) in {zone}", cron.mode());
        let found = our_slots(cron, zone, from, to);
        if let Some(at) = (0..found.len().max(expected.len())).find(|n| found.get(*n) != expected.get(*n)) {
            prop_assert!(false, "{}, slot {}: {:?}, the witness has {:?}", says, at, found.get(at), expected.get(at));
        }
    }
}

/// Each known difference is one: were the witness to change its mind, the list above would hide agreement.
#[test]
fn the_known_differences_are_there() {
    use Difference::{Class, LastAndLastWorkday, Refused, StarWithMore, SundayToSunday};
    for (text, known) in [
        ("0 0 * * FRI-MON", Refused),
        ("0 22-2 * * *", Refused),
        ("5/15 * * * *", Refused),
        ("0 0 L-3 * *", Refused),
        ("0 0 */2 * 1", StarWithMore),
        ("0 1,2 * * *", Class),
        ("0-0 3 * * *", Class),
        ("0 0 * * SUN-SUN", SundayToSunday),
        ("0 0 LW,L * *", LastAndLastWorkday),
    ] {
        assert_eq!(difference(text, DayMode::Or).err(), Some(known), "{text}");
        assert!(Cron::parse(text).is_ok(), "{text}");
    }
    // Mondays with an odd date for us, either for the witness.
    let (from, to) = (1_767_225_600_000_000, 1_769_904_000_000_000);
    let witness = CronParser::builder().build().parse("0 0 */2 * 1").unwrap();
    assert_eq!(witness_slots(&witness, Tz::UTC, from, to).len(), 18);
    assert_eq!(our_slots(Cron::parse("0 0 */2 * 1").unwrap(), "UTC", from, to).len(), 2);
    // The witness ends its iteration at Apia's lost day.
    let (from, to) = (1_325_052_000_000_000, 1_325_599_200_000_000);
    let witness = CronParser::builder().build().parse("0 12 * * *").unwrap();
    assert_eq!(witness_slots(&witness, Tz::Pacific__Apia, from, to).len(), 2);
    assert_eq!(our_slots(Cron::parse("0 12 * * *").unwrap(), "Pacific/Apia", from, to).len(), 7);
}
