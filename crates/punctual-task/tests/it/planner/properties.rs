//! What must hold for every schedule at every moment.

use super::generate::{Case, cases};
use super::model::{Settled, settle};
use proptest::prelude::*;
use punctual_clock::Timestamp;
use punctual_task::planner::{Plan, Snapshot, WALK_MAX, Walk, plan, plan_reading};
use punctual_task::schedule::{CompiledRule, Cron, Every, Rule, SlotKey};
use punctual_task::{Loss, LossReason, Missed, Position, ScheduleId, ScheduleSpec, ScheduleState, SlotOutcome};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

/// What passes of a sweep came to at one instant.
struct Passes {
    settled: Settled,
    losses: Vec<Loss>,
    passes: u32,
}

/// Makes passes until nothing more can be decided, as an engine does.
fn sweep(case: &Case, window_max: u32) -> Passes {
    let rule = case.rule();
    let mut taken: Vec<SlotKey> = case.taken.iter().copied().collect();
    let mut position = case.position.clone();
    let mut live = case.live;
    let mut passes = Passes { settled: Settled::default(), losses: Vec::new(), passes: 0 };
    loop {
        let snapshot = Snapshot { spec: &case.spec, rule: &rule, position: &position, created: Timestamp::EPOCH };
        let mut walk = Walk::for_sweep(&snapshot, case.now, window_max);
        let read = |_: &Walk| Ok::<_, Infallible>(taken.clone());
        let Plan { change, slots, more, short, .. } = plan_reading(&snapshot, &mut walk, live, read).unwrap();
        assert!(!short, "a walk goes on once at most");
        passes.passes += 1;
        assert!(passes.passes < 10_000, "passes do not end");
        let settled = &mut passes.settled;
        let mut idle = 0;
        for (slot, outcome) in slots {
            match outcome {
                SlotOutcome::Created => {}
                SlotOutcome::Exists => assert!(settled.exists.insert(slot.key), "seen twice"),
                SlotOutcome::Lost(reason) => {
                    assert_eq!(settled.lost.insert(slot.key, reason), None, "lost twice");
                }
                SlotOutcome::NotReached => continue,
                other => panic!("{other:?} is no outcome of a sweep"),
            }
            idle += u32::from(outcome != SlotOutcome::Created);
        }
        assert!(idle <= WALK_MAX, "{idle} slots in one pass");
        assert!(change.grants.len() <= window_max as usize);
        for grant in &change.grants {
            let key = grant.slot.unwrap();
            settled.created.push((key, grant.run, grant.catch_up));
            assert_eq!(grant.due, case.now.max(grant.at));
            let at = taken.binary_search(&key).expect_err("a slot was created twice");
            taken.insert(at, key);
        }
        assert_eq!(change.moved, change.position != position);
        assert_eq!(change.position.rev, position.rev + u64::from(change.moved));
        live += u32::try_from(change.grants.len()).unwrap();
        passes.losses.extend(change.losses);
        position = change.position;
        settled.cancel = change.cancel_live;
        settled.cursor = position.cursor;
        settled.state = Some(position.state);
        if !more {
            let due = position.cursor.is_some_and(|slot| slot.at <= case.now);
            let expected = if due { None } else { position.cursor.map(|slot| slot.at) };
            let active = position.state == ScheduleState::Active;
            assert_eq!(change.wake, expected.filter(|_| active));
            return passes;
        }
        assert_eq!(change.wake, Some(case.now));
    }
}

fn check(case: &Case, window_max: u32) -> Result<(), TestCaseError> {
    let mut expected = settle(&case.rule(), &case.spec, &case.position, &case.taken, case.live, case.now);
    let mut got = sweep(case, window_max);
    let inexact = got.losses.iter().any(|loss| !loss.exact);
    let counted: u64 = got.losses.iter().map(|loss| loss.count).sum();
    if inexact {
        prop_assert!(counted <= expected.lost.len() as u64);
        expected.lost.clear();
        got.settled.lost.clear();
        expected.exists.clear();
        got.settled.exists.clear();
    } else {
        prop_assert_eq!(counted, got.settled.lost.len() as u64);
    }
    for loss in &got.losses {
        prop_assert!(loss.from <= loss.to && (loss.count > 1) == (loss.from != loss.to) || !loss.exact, "{loss:?}");
    }
    prop_assert_eq!(got.settled, expected);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    /// Passes of any window come to what deciding slot by slot comes to: the same slots created with the same numbers,
    /// the same lost for the same reasons, the same cursor and state; each slot is decided once.
    #[test]
    fn bulk_equals_slot_by_slot(case in cases(60), window_max in 1u32..40) {
        check(&case, window_max)?;
    }

    /// Run numbers continue where they stood, without a hole, in the order of instants.
    #[test]
    fn run_numbers_are_contiguous(case in cases(60), window_max in 1u32..40) {
        let got = sweep(&case, window_max);
        let runs: Vec<u64> = got.settled.created.iter().map(|(_, run, _)| *run).collect();
        let expected: Vec<u64> = (1..=runs.len() as u64).map(|run| case.position.runs + run).collect();
        prop_assert_eq!(runs, expected);
    }

    /// The slots decided are exactly those of the rule from the old cursor to the new one: windows tile.
    #[test]
    fn windows_tile(case in cases(60), window_max in 1u32..40) {
        let got = sweep(&case, window_max).settled;
        let mut decided: BTreeSet<SlotKey> = got.created.iter().map(|(key, ..)| *key).collect();
        decided.extend(got.lost.keys().chain(&got.exists).copied());
        let rule = case.rule();
        let all = rule.slots_after(case.position.cursor.unwrap().at.before(Duration::from_micros(1)))
            .map(Result::unwrap)
            .take_while(|slot| slot.at <= case.now && got.cursor.is_none_or(|cursor| slot.at < cursor.at))
            .map(|slot| slot.key);
        if got.state == Some(ScheduleState::Ended) && case.rule().max_occurrences().is_some() {
            let all: BTreeSet<SlotKey> = all.collect();
            prop_assert!(decided.is_subset(&all));
        } else {
            prop_assert_eq!(decided, all.collect::<BTreeSet<SlotKey>>());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// A walk that goes on only where it must decides what one decides that went on at once: its shortness costs no slot.
    #[test]
    fn a_short_walk_decides_what_a_whole_one_does(case in cases(2_500), window_max in 1u32..600) {
        let rule = case.rule();
        let taken: Vec<SlotKey> = case.taken.iter().copied().collect();
        let snapshot = Snapshot { spec: &case.spec, rule: &rule, position: &case.position, created: Timestamp::EPOCH };
        let mut whole = Walk::for_sweep(&snapshot, case.now, window_max);
        let mut short = whole.clone();
        whole.go_on(&snapshot);
        let expected = plan(&snapshot, &whole, &taken, case.live);
        let read = |_: &Walk| Ok::<_, Infallible>(taken.clone());
        let got = plan_reading(&snapshot, &mut short, case.live, read).unwrap();
        let reached = |plan: &Plan| -> Vec<_> {
            plan.slots.iter().copied().filter(|(_, outcome)| *outcome != SlotOutcome::NotReached).collect()
        };
        prop_assert!(!expected.short);
        prop_assert_eq!(reached(&got), reached(&expected));
        prop_assert_eq!(got.change, expected.change);
        prop_assert_eq!(got.more, expected.more);
    }

    /// The same over stretches that take several passes.
    #[test]
    fn long_stretches_resume(case in cases(2_500), window_max in 1u32..600) {
        check(&case, window_max)?;
    }
}

fn spec(rule: Rule, missed: Missed) -> ScheduleSpec {
    ScheduleSpec { missed, ..ScheduleSpec::new("s", rule, "Demo/run", "{}".into()) }
}

fn case(spec: ScheduleSpec, from: Timestamp, now: Timestamp) -> Case {
    let rule = CompiledRule::new(&spec.rule, Timestamp::EPOCH).unwrap();
    let position = Position {
        id: ScheduleId(1),
        state: ScheduleState::Active,
        note: String::new(),
        rev: 1,
        era: 1,
        version: 1,
        cursor: rule.next_after(from).unwrap(),
        runs: 0,
        kept_to: None,
        known_from: None,
        zone: rule.zone_stamp(now),
        backfill: None,
    };
    Case { spec, position, taken: BTreeSet::new(), live: 0, now }
}

/// A rule that fires a thousand times a second is caught up after a year in a handful of passes, under every policy that
/// loses: the stretch is one range whose count is a lower bound, and the slots that are kept are exactly the right ones,
/// whether or not one on time follows them.
#[test]
fn a_year_of_milliseconds_ends_in_a_few_passes() {
    let from = Timestamp::from_secs(1_700_000_000);
    let now = from.after(Duration::from_secs(365 * 86_400));
    let day = Duration::from_secs(86_400);
    let skip_oldest = Missed::All { max_count: 3, max_age: day, overflow: punctual_task::series::Overflow::SkipOldest };
    let milliseconds = |slot: u64| from.after(Duration::from_millis(slot));
    let last = 365 * 86_400_000 - 100_001;
    for (missed, kept) in [
        (Missed::Skip, vec![]),
        (Missed::Latest { max_age: day }, vec![last]),
        (Missed::Earliest, vec![1]),
        (skip_oldest, vec![last - 2, last - 1, last]),
    ] {
        for goes_on in [false, true] {
            let rule = Rule::from(Every::new(Duration::from_millis(1)));
            let rule = if goes_on { rule } else { rule.until(milliseconds(last + 1)) };
            let mut case = case(spec(rule, missed), from, now);
            case.spec.max_pending = 3;
            let got = sweep(&case, 500);
            assert!(got.passes <= 30, "{missed:?}: {} passes", got.passes);
            let ranges: Vec<_> = got.losses.iter().filter(|loss| !loss.exact).collect();
            assert!(!ranges.is_empty() && ranges.len() <= 2, "{missed:?}: {ranges:?}");
            let created: Vec<Timestamp> =
                got.settled.created.iter().map(|(key, ..)| Timestamp::from_micros(key.micros())).collect();
            if goes_on {
                assert_eq!(created.len(), 3, "{missed:?}");
            } else {
                let kept: Vec<Timestamp> = kept.iter().map(|slot| milliseconds(*slot)).collect();
                assert_eq!(created, kept, "{missed:?}");
                assert_eq!(got.settled.state, Some(ScheduleState::Ended));
            }
            let first = got.losses.first().unwrap().from;
            assert_eq!(first, milliseconds(if missed == Missed::Earliest { 2 } else { 1 }), "{missed:?}");
        }
    }
}

/// Below the bound every lost slot is counted: a week of a minutely job is 10,080 of them in one pass after another.
#[test]
fn a_week_of_minutes_is_counted_exactly() {
    let from = Timestamp::from_secs(1_772_323_200);
    let now = from.after(Duration::from_secs(7 * 86_400 + 30));
    let got = sweep(&case(spec(Cron::parse("* * * * *").unwrap().into(), Missed::default()), from, now), 500);
    assert_eq!(got.losses.iter().map(|loss| loss.count).sum::<u64>(), 10_079);
    assert!(got.losses.iter().all(|loss| loss.exact && loss.reason == LossReason::Policy));
    assert_eq!(got.settled.created.len(), 1);
    assert_eq!(got.passes, 10_080u32.div_ceil(WALK_MAX));
}

/// A clock that went back, or a cursor that lies ahead, decides nothing and changes nothing.
#[test]
fn before_the_cursor_nothing_happens() {
    let from = Timestamp::from_secs(1_772_323_200);
    for back in [0, 1, 86_400 * 400] {
        let now = from.before(Duration::from_secs(back));
        let got = sweep(&case(spec(Every::new(Duration::from_secs(60)).into(), Missed::default()), from, now), 500);
        assert_eq!(got.passes, 1);
        assert!(got.losses.is_empty() && got.settled.created.is_empty());
    }
}
