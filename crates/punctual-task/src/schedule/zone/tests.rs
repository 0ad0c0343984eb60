//! The zone's stretches against the time library's own answers, over the whole database.

use super::*;
use jiff::tz::AmbiguousOffset;

/// Every zone of the bundled database.
pub(crate) fn every_zone() -> impl Iterator<Item = Zone> {
    database().available().map(|name| Zone::find(name.as_str()).unwrap())
}

fn second(text: &str) -> i64 {
    text.parse::<Stamp>().unwrap().as_second()
}

/// The stretches of a zone tile the time line from 1800 on; each is at least as long as the jumps at its ends, which
/// the slot search relies on, and walking from one to the next gives what looking it up gives.
#[test]
fn stretches_tile_the_time_line_and_are_longer_than_their_jumps() {
    let mut zones = 0;
    for zone in every_zone() {
        zones += 1;
        let mut stretch = zone.stretch(second("1800-01-01T00:00:00Z"));
        while stretch.end < second("2101-01-01T00:00:00Z") {
            let next = zone.following(&stretch);
            assert_eq!((next.start, next.before, stretch.after), (stretch.end, stretch.offset, next.offset));
            let jump = |a: i64, b: i64| (a - b).abs();
            let least = jump(next.before, next.offset).max(jump(next.offset, next.after));
            assert!(next.end - next.start >= least, "{} has a short stretch: {next:?}", zone.name());
            assert_eq!(zone.stretch(next.start), next, "{}", zone.name());
            let last = zone.stretch(next.end - 1);
            assert_eq!((last.end, last.offset, last.after), (next.end, next.offset, next.after), "{}", zone.name());
            // Some seconds between the changes, to catch a change that the walk does not know of.
            for part in 0..=16 {
                let inside = next.start + (next.end - 1 - next.start) / 16 * part;
                assert_eq!(zone.offset(inside), next.offset, "{} at {inside}", zone.name());
                let change = zone.next_change(inside, next.offset);
                assert_eq!(change.unwrap_or((HORIZON, next.offset)), (next.end, next.after), "{}", zone.name());
            }
            stretch = next;
        }
    }
    assert!(zones > 590, "{zones} zones");
}

/// Around every clock change of every zone from 2000 to 2040, a wall time lies where the time library says it does.
#[test]
fn wall_times_lie_where_the_time_library_says() {
    let end = second("2041-01-01T00:00:00Z");
    for zone in every_zone() {
        let mut stretch = zone.stretch(second("2000-01-01T00:00:00Z"));
        while stretch.end < end {
            let (at, jump) = (stretch.end, stretch.after - stretch.offset);
            for local in [0, 1, jump.abs() / 2, jump.abs() - 1, jump.abs(), jump.abs() + 1, -1] {
                let local = at + stretch.offset.min(stretch.after) + local;
                let civil = jiff::tz::Offset::UTC.to_datetime(stamp(local));
                let shift = |offset: jiff::tz::Offset| local - i64::from(offset.seconds());
                let expected = match zone.zone.to_ambiguous_timestamp(civil).offset() {
                    AmbiguousOffset::Unambiguous { offset } => Place::Once(shift(offset)),
                    AmbiguousOffset::Gap { before, .. } => Place::Gap { end: at, shifted: shift(before) },
                    AmbiguousOffset::Fold { before, after } => Place::Twice(shift(before), shift(after)),
                };
                assert_eq!(zone.place(local), expected, "{} {civil}", zone.name());
            }
            stretch = zone.following(&stretch);
        }
    }
}

/// An unknown name is refused with the nearest known one, and stand-ins for "not known" are unknown too.
#[test]
fn unknown_names_are_refused_with_the_nearest() {
    let refused = |name: &str| {
        let error = Zone::find(name).unwrap_err();
        assert_eq!(error.kind(), RuleErrorKind::UnknownZone);
        error.to_string()
    };
    assert!(refused("Europe/Rom").contains("did you mean `Europe/Rome`?"));
    assert!(refused("Rome").contains("did you mean `Europe/Rome`?"));
    assert!(refused("America/New York").contains("did you mean `America/New_York`?"));
    assert!(refused("Mars/Olympus_Mons").contains("write an IANA name"));
    assert!(refused("Etc/Unknown").contains("unknown time zone"));
    assert!(refused("").contains("unknown time zone"));
    assert!(refused(&"x".repeat(1_000_000)).len() < 300);
    assert_eq!(Zone::find("europe/rome").unwrap().name(), "Europe/Rome");
    assert_eq!(tzdb_version().len(), 5);
}

/// The hash is the same for zones with the same clock changes in the window and differs where they differ.
#[test]
fn the_hash_follows_the_clock_changes_of_its_window() {
    let hash = |name: &str, from: &str| Zone::find(name).unwrap().transitions_hash(second(from));
    let now = "2026-01-01T00:00:00Z";
    assert_eq!(hash("Europe/Rome", now), hash("Europe/Berlin", now));
    assert_ne!(hash("Europe/Rome", now), hash("Europe/London", now));
    assert_ne!(hash("Europe/Rome", now), hash("Africa/Lagos", now));
    // A change that lies past the window does not count, one inside it does: Fakaofo crossed the date line at the end of
    // 2011 and knows no other change.
    assert_eq!(hash("Pacific/Fakaofo", "2008-06-01T00:00:00Z"), hash("Etc/GMT+11", "2008-06-01T00:00:00Z"));
    assert_ne!(hash("Pacific/Fakaofo", "2009-06-01T00:00:00Z"), hash("Etc/GMT+11", "2009-06-01T00:00:00Z"));
}
