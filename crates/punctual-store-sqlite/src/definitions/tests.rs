//! What is remembered of definitions stays bounded, however many schedules are swept.

use super::*;
use crate::config::SqliteConfig;
use crate::location::Location;
use crate::schedules::{commands, sweeps};
use crate::session::Session;
use punctual_task::schedule::Every;
use punctual_task::{Declaration, Sweep};
use punctual_testkit::VirtualClock;
use std::time::Duration;

/// How many schedules are due at once.
const SCHEDULES: u32 = 100_000;

/// A hundred thousand schedules that are due at once are swept in windows, each created once; no sweep reports more than it
/// was asked for, and no more definitions are remembered than there is room for.
#[test]
fn a_hundred_thousand_schedules_at_once() {
    let clock = Arc::new(VirtualClock::starting_at(Timestamp::from_secs(1_772_409_600)));
    let config = SqliteConfig { clock: clock.clone(), ..SqliteConfig::default() };
    let mut session = Session::open(Location::Memory, config).expect("memory opens");
    session.begin().expect("begin");
    let rule = Every::new(Duration::from_secs(60)).into();
    let spec = ScheduleSpec::new("1", rule, "Demo/run", Bytes::from(vec![b'1'; 200]));
    commands::declare(&mut session, &Declaration { spec, revision: 0 }).expect("a declaration");
    for copy in [
        "INSERT INTO schedule SELECT i, i, created, hash, revision FROM n, schedule WHERE id = 1",
        "INSERT INTO definition SELECT i, version, spec, args FROM n, definition WHERE schedule = 1",
        "INSERT INTO position SELECT i, state, note, rev, era, version, cursor_slot, cursor_at, cursor_gap, runs, kept_to, wake,
         backfill, backfilling, known_from, zone FROM n, position WHERE id = 1",
    ] {
        let numbers = format!("WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {SCHEDULES}) ");
        // SQL-FORMAT: the number is a constant of this test.
        let (insert, select) = copy.split_once(" SELECT ").expect("a copy");
        session.db.conn().execute_batch(&format!("{insert} {numbers} SELECT {select}")).expect("rows");
    }
    clock.advance(Duration::from_secs(60));
    let (mut swept, mut created) = (0, 0);
    loop {
        let report = sweeps::materialise(&mut session, Sweep::default()).expect("a sweep");
        assert!(report.schedules.len() <= 500);
        swept += report.schedules.len();
        created += report.schedules.iter().map(|done| done.tasks.len()).sum::<usize>();
        let Definitions { known, bytes } = &session.definitions;
        assert!(*bytes <= BYTES_MAX && known.len() * BYTES_EACH <= BYTES_MAX, "{bytes} bytes, {} kept", known.len());
        if report.schedules.is_empty() {
            break;
        }
    }
    assert_eq!((swept, created), (SCHEDULES as usize, SCHEDULES as usize));
}
