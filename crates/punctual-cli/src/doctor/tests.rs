//! What each check makes of what it sees.

use super::*;
use punctual::task::schedule::{Cron, Rule, ZoneStamp};
use punctual::task::{Position, ScheduleId, ScheduleSpec, ScheduleState, WorkerId};

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

/// Clocks that differ are told apart by how much, ahead and behind alike, and the time that a question takes is no difference.
#[test]
fn clocks_are_judged_by_their_difference() {
    let secs = Duration::from_secs;
    for (theirs, state, words) in [
        (NOW.after(secs(1)), State::Ok, "agree"),
        (NOW.after(secs(2)), State::Ok, "agree"),
        (NOW.after(secs(4)), State::Warn, "2s ahead of"),
        (NOW.before(secs(1)), State::Warn, "1s behind"),
        (NOW.before(secs(61)), State::Fail, "1m 1s behind"),
        (NOW.after(secs(62)), State::Fail, "1m ahead of"),
    ] {
        // The question took two seconds.
        let finding = judge_clock(NOW, theirs, NOW.after(secs(2)));
        assert_eq!(finding.state, state, "{finding:?}");
        assert!(finding.finding.contains(words), "{finding:?}");
        assert_eq!(finding.advice.is_some(), state != State::Ok, "{finding:?}");
    }
}

fn worker(name: &str, until: Timestamp, alive: bool) -> WorkerView {
    WorkerView { id: WorkerId(7), name: name.to_owned(), slots: 1, holds: 3, until, alive }
}

/// A worker whose lease ended long ago and that nobody has declared dead is told by name; without one that works, nothing runs.
#[test]
fn leases_that_nobody_looks_at_are_told() {
    let rescue = Duration::from_secs(5);
    let live = worker("live", NOW.after(Duration::from_secs(9)), true);
    let late = worker("late", NOW.before(Duration::from_secs(9)), true);
    let stuck = worker("stuck", NOW.before(Duration::from_secs(3_600)), true);
    let dead = worker("dead", NOW.before(Duration::from_secs(3_600)), false);
    let judge = |workers: &[WorkerView]| judge_workers(workers, NOW, rescue);
    assert_eq!(judge(&[live.clone(), dead.clone(), late]).state, State::Ok);
    let finding = judge(&[live, stuck]);
    assert_eq!(finding.state, State::Warn);
    assert!(finding.finding.contains("stuck") && finding.finding.contains("3 tasks"), "{finding:?}");
    let finding = judge(&[dead]);
    assert!(finding.state == State::Warn && finding.finding.contains("nothing runs"), "{finding:?}");
    assert_eq!(judge(&[]).state, State::Warn);
}

/// A schedule that was last computed by a newer database of zones than this build's is told, since this host leaves it alone;
/// one of an older database is only said to be computed anew.
#[test]
fn zones_that_this_host_knows_less_of_are_told() {
    let rule = Rule::from(Cron::parse("0 3 * * *").unwrap()).zone("Europe/Rome");
    let view = |name: &str, zone: Option<ZoneStamp>| ScheduleView {
        spec: ScheduleSpec::new(name, rule.clone(), "Demo/run", "{}".into()),
        position: Position {
            id: ScheduleId(1),
            state: ScheduleState::Active,
            note: String::new(),
            rev: 1,
            era: 1,
            version: 1,
            cursor: None,
            runs: 0,
            kept_to: None,
            known_from: None,
            zone,
            backfill: None,
        },
        created: NOW,
        live: 0,
        live_backfilled: 0,
        lost: Vec::new(),
    };
    let stamp = |tzdb: &str| Some(ZoneStamp { tzdb: tzdb.to_owned(), from: NOW, hash: 1 });
    let newer = view("newer", stamp("2999z"));
    let older = view("older", stamp("1999a"));
    let finding = judge_zones(&[newer, older.clone(), view("none", None)], NOW);
    assert_eq!(finding.state, State::Warn);
    assert!(finding.finding.contains("1 of 3") && finding.finding.contains("newer"), "{finding:?}");
    let finding = judge_zones(&[older], NOW);
    assert_eq!(finding.state, State::Ok);
    assert!(finding.finding.contains("compute 1 anew"), "{finding:?}");
}
