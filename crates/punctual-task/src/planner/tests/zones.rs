//! Hosts whose zone databases differ: the newer one decides, the other one leaves the schedule alone.

use super::*;
use crate::error::StoreErrorKind;
use crate::schedule::{Cron, Slot, SlotKey, ZoneStamp, tzdb_version};
use crate::series::{ScheduleCommand, Steered, Window};

/// Daily at 01:30 in Rome: a wall-clock rule.
fn daily() -> Rule {
    Rule::from(Cron::parse("30 1 * * *").unwrap()).zone("Europe/Rome")
}

/// A schedule stamped by a host with another database that says something else of the zone.
fn stamped(rule: Rule, tzdb: &str) -> Series {
    let mut series = Series::new(rule, Missed::default());
    series.position.zone = Some(ZoneStamp { tzdb: tzdb.to_owned(), from: T0, hash: 1 });
    series
}

/// A host with the older database decides nothing of such a schedule, by a sweep, a window or a resume, and says why; an
/// edit of its rule is not kept from an operator.
#[test]
fn an_older_database_leaves_the_schedule_alone() {
    let series = stamped(daily(), "2999a");
    let now = at(40 * 86_400);
    let plan = series.pass(now, 0);
    assert!(plan.left.as_ref().is_some_and(|why| why.contains("2999a") && why.contains(tzdb_version())), "{plan:?}");
    assert!(!plan.change.moved && plan.slots.is_empty() && plan.change.losses.is_empty());
    // Those who know better are not kept waiting.
    assert_eq!(plan.change.wake, Some(now.after(LEFT_WAIT)));

    let snapshot = series.snapshot();
    let cursor = series.position.cursor.unwrap();
    let window = Window { schedule: ScheduleId(1), version: 1, cursor, slots: vec![cursor] };
    let walk = Walk::for_window(&snapshot, &window, now);
    assert_eq!(decide_window(&snapshot, &window, &walk, &[], 0).unwrap_err().kind(), StoreErrorKind::Refused);
    let paused = series.in_state(ScheduleState::Paused);
    let steer = |command: ScheduleCommand| {
        let snapshot = paused.snapshot();
        let walk = Walk::for_command(&snapshot, &command, now);
        decide_command(&snapshot, &command, &walk, &[], 0)
    };
    for refused in [ScheduleCommand::Resume(crate::series::Resume::FromNow), ScheduleCommand::CheckZone] {
        assert_eq!(steer(refused).unwrap_err().kind(), StoreErrorKind::Refused);
    }
    let edited = steer(ScheduleCommand::edit(ScheduleSpec { rule: minutely(), ..series.spec.clone() }, 1)).unwrap();
    assert_eq!((edited.answer, edited.change.position.zone), (Steered::Applied, None));
}

/// A host with the newer database stamps the schedule and computes the cursor's instant anew: the slot keeps its key, and its
/// instant may have moved either way.
#[test]
fn a_newer_database_moves_the_instant_and_keeps_the_slot() {
    for moved in [-3_600, 3_600] {
        let mut series = stamped(daily(), "1999a");
        let right = series.position.cursor.unwrap();
        let wrong = Timestamp::from_micros(right.at.as_micros() + moved * 1_000_000);
        series.position.cursor = Some(Slot { at: wrong, ..right });
        let snapshot = series.snapshot();
        let walk = Walk::for_command(&snapshot, &ScheduleCommand::CheckZone, T0);
        let plan = decide_command(&snapshot, &ScheduleCommand::CheckZone, &walk, &[], 0).unwrap();
        let position = &plan.change.position;
        assert_eq!((plan.answer, position.cursor), (Steered::Applied, Some(right)));
        assert_eq!(position.zone, series.rule.zone_stamp(T0));
        assert_eq!(plan.change.wake, Some(right.at));
        // A sweep does the same, and creates the slot at its new instant, once.
        let plan = series.pass(right.at.before(Duration::from_secs(1)), 0);
        assert!(plan.change.grants.is_empty());
        assert_eq!(plan.change.position.cursor, Some(right));
        let plan = series.pass(right.at, 0);
        assert_eq!(plan.change.grants.len(), 1);
        assert_eq!((plan.change.grants[0].slot, plan.change.grants[0].at), (Some(right.key), right.at));
        assert_eq!(plan.change.position.zone.as_ref().map(|zone| zone.tzdb.as_str()), Some(tzdb_version()));
    }
}

/// A slot known by its UTC instant keeps that instant.
#[test]
fn a_utc_slot_keeps_its_instant() {
    let hourly = Rule::from(Cron::parse("30 * * * *").unwrap()).zone("Europe/Rome");
    let series = stamped(hourly, "1999a");
    let right = series.position.cursor.unwrap();
    assert_eq!(right.key, SlotKey::from_raw(right.at.as_micros() * 2));
    let snapshot = series.snapshot();
    let walk = Walk::for_command(&snapshot, &ScheduleCommand::CheckZone, T0);
    let plan = decide_command(&snapshot, &ScheduleCommand::CheckZone, &walk, &[], 0).unwrap();
    assert_eq!(plan.change.position.cursor, Some(right));
}

/// A schedule from before stamps gets one with its first sweep, and nothing else of it changes.
#[test]
fn an_old_row_is_stamped() {
    let mut series = Series::new(daily(), Missed::default());
    series.position.zone = None;
    let plan = series.pass(T0, 0);
    assert_eq!(plan.change.position.zone, series.rule.zone_stamp(T0));
    assert_eq!(plan.change.position.cursor, series.position.cursor);
    assert!(plan.change.moved && plan.slots.is_empty());
}
