//! Hosts whose time zone databases differ, on one store.
//!
//! All that one host sees of another's database is the stamp in the schedule's row; so the other host is played by that.

use super::stand::*;
use punctual_task::planner::LEFT_WAIT;
use punctual_task::schedule::{Cron, Rule, Slot, ZoneStamp, tzdb_version};
use punctual_task::{Resume, ScheduleCommand, ScheduleSpec, Steered, StoreErrorKind};

/// Daily at 01:30 in Rome: a wall-clock rule, due half an hour after START for the first time.
fn rome() -> ScheduleSpec {
    let rule = Rule::from(Cron::parse("30 1 * * *").unwrap()).zone("Europe/Rome");
    ScheduleSpec { rule, ..minutely("rome") }
}

/// What a host with this database stamps, which says something else of the zone than this one's.
fn stamp(tzdb: &str) -> ZoneStamp {
    ZoneStamp { tzdb: tzdb.to_owned(), from: START, hash: 1 }
}

/// The host with the older database decides nothing of such a schedule, says why, and goes on with all others; the stamp and
/// the cursor stay as they are for the host with the newer one.
pub async fn an_older_zone_database_leaves_a_schedule_alone(stand: Stand) {
    stand.declare(rome()).await;
    stand.declare(minutely("utc")).await;
    stand.restamp("rome", &stamp("2999a"));
    let before = stand.view("rome").await.position;
    for minute in [60, 61] {
        stand.advance(if minute == 60 { 3_600 } else { 60 });
        let report = stand.sweep().await;
        let left: Vec<_> = report.schedules.iter().filter(|one| one.left.is_some()).collect();
        assert_eq!(left.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["rome"]);
        let why = left[0].left.as_ref().unwrap();
        assert!(why.contains("2999a") && why.contains(tzdb_version()) && why.contains("Europe/Rome"), "{why}");
        assert!(left[0].slots.is_empty() && left[0].tasks.is_empty() && left[0].losses.is_empty());
        assert_eq!(stand.runs("utc").await.len(), minute);
        let after = stand.view("rome").await.position;
        assert_eq!((after.cursor, after.runs, after.zone), (before.cursor, 0, before.zone.clone()));
    }
    let refused = stand.steer("rome", ScheduleCommand::CheckZone).await;
    assert_eq!(kind(refused), StoreErrorKind::Refused);
    stand.steer("rome", ScheduleCommand::Pause { note: String::new() }).await.unwrap();
    assert_eq!(kind(stand.steer("rome", ScheduleCommand::Resume(Resume::FromNow)).await), StoreErrorKind::Refused);
    assert!(stand.runs("rome").await.is_empty() && stand.lost("rome").await.is_empty());
}

/// The host with the newer database takes over what an older one has computed and what another one has left: it stamps the
/// schedule, and creates the slot once, at the instant that it knows.
pub async fn a_newer_zone_database_decides(stand: Stand) {
    stand.declare(rome()).await;
    let right = stand.view("rome").await.position.cursor.expect("a first slot");
    assert_eq!(right.at, at(1_800));
    // Left alone by one that is older still, and the older host's zone was an hour behind.
    stand.restamp("rome", &stamp("2999a"));
    stand.advance(1_700);
    stand.rewind("rome", Slot { at: at(1_700), ..right });
    assert!(stand.sweep().await.schedules[0].left.is_some());
    stand.rewind("rome", Slot { at: at(5_400), ..right });
    stand.restamp("rome", &stamp("1999a"));
    assert_eq!(stand.steer("rome", ScheduleCommand::CheckZone).await, Ok(Steered::Applied));
    let position = stand.view("rome").await.position;
    assert_eq!((position.cursor, position.zone.unwrap().tzdb), (Some(right), tzdb_version().to_owned()));
    stand.advance(100 + LEFT_WAIT.as_secs());
    stand.sweep_all(500).await;
    assert_eq!(stand.runs("rome").await, [(1_800, 1)]);
    // A sweep does the same with one that is due by the older host's reckoning only.
    let next = stand.view("rome").await.position.cursor.expect("the next day's");
    stand.rewind("rome", Slot { at: stand.now(), ..next });
    stand.restamp("rome", &stamp("1999a"));
    stand.sweep_all(500).await;
    let position = stand.view("rome").await.position;
    assert_eq!((position.cursor, position.zone.unwrap().tzdb), (Some(next), tzdb_version().to_owned()));
    stand.advance(86_400);
    stand.sweep_all(500).await;
    assert_eq!(stand.runs("rome").await, [(1_800, 1), (1_800 + 86_400, 2)]);
    assert!(stand.lost("rome").await.is_empty());
}
