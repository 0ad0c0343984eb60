//! Backfills by passes of any size, against the plain description of what they create.

use super::generate::{Case, cases};
use proptest::prelude::*;
use punctual_clock::Timestamp;
use punctual_task::planner::{Snapshot, Walk, decide_command, plan_reading, with_backfill};
use punctual_task::schedule::{CompiledRule, SlotKey};
use punctual_task::{BackfillRequest, Position, ScheduleCommand, SlotOutcome, Steered};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

/// What a run of sweeps created for the backfill, oldest first, with what was left of it.
fn run(case: &Case, request: BackfillRequest, window_max: u32, each_ends: bool) -> (Vec<SlotKey>, Position) {
    let rule = case.rule();
    let mut taken: BTreeSet<SlotKey> = case.taken.iter().copied().collect();
    let mut position = case.position.clone();
    let steer = |position: &Position| {
        let snapshot = Snapshot { spec: &case.spec, rule: &rule, position, created: Timestamp::EPOCH };
        let command = ScheduleCommand::Backfill(request);
        let walk = Walk::for_command(&snapshot, &command, case.now);
        decide_command(&snapshot, &command, &walk, &[], 0)
    };
    let Ok(begun) = steer(&position) else { return (Vec::new(), position) };
    assert_eq!(begun.answer, Steered::Backfilling(request.pass));
    position = begun.change.position;
    let (mut created, mut live) = (Vec::new(), 0);
    for round in 0.. {
        assert!(round < 20_000, "sweeps do not end");
        let snapshot = Snapshot { spec: &case.spec, rule: &rule, position: &position, created: Timestamp::EPOCH };
        let Some(walk) = Walk::for_backfill(&snapshot, case.now, window_max) else { break };
        let mut series = Walk::for_sweep(&snapshot, case.now, window_max);
        // The series has nothing to say here: all its capacity is used.
        let none = plan_reading(&snapshot, &mut series, u32::MAX, |_| Ok::<_, Infallible>(Vec::new())).unwrap();
        let known: Vec<SlotKey> = taken.iter().copied().collect();
        let done = with_backfill(&snapshot, none, &walk, &known, live);
        let grants: Vec<_> = done.change.grants.iter().filter(|grant| grant.pass > 0).collect();
        let outcomes = done.backfilled.iter().filter(|(_, outcome)| *outcome == SlotOutcome::Created).count();
        assert_eq!(grants.len(), outcomes);
        assert!(live as usize + grants.len() <= request.max_pending as usize, "the gate holds");
        for grant in &grants {
            let key = grant.slot.unwrap();
            assert_eq!((grant.pass, grant.run, grant.due), (request.pass, 0, case.now));
            assert!(taken.insert(key) || request.rerun, "created although it exists");
            created.push(key);
        }
        live += u32::try_from(grants.len()).unwrap();
        let stuck = grants.is_empty() && done.change.position.backfill == position.backfill;
        position = done.change.position;
        if stuck {
            assert!(live >= request.max_pending, "it stops only at its gate");
            live = if each_ends { live - 1 } else { 0 };
        }
    }
    (created, position)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever the windows, the gate and the order of ends, a backfill creates exactly the slots of its range before the
    /// cursor that have no task and are known, oldest first, up to its limit; a rerun creates all of them.
    #[test]
    fn a_backfill_creates_what_it_says(
        case in cases(300),
        back in 0u64..4_000_000,
        span in 1u64..4_000_000,
        known in proptest::option::of(0u64..3_000_000),
        (max_pending, limit, rerun) in (1u32..9, proptest::option::of(1u64..40), any::<bool>()),
        window_max in 1u32..40,
        each_ends in any::<bool>(),
    ) {
        let mut case = case;
        let rule: CompiledRule = case.rule();
        // The series' own slots lie before the cursor now, and some of them have tasks.
        let start = case.position.cursor.unwrap().at;
        case.position.cursor = rule.next_after(case.now).unwrap();
        case.position.known_from = known.map(|seconds| start.after(Duration::from_secs(seconds)));
        let from = case.now.before(Duration::from_secs(back)).max(start);
        let to = from.after(Duration::from_secs(span));
        let request = BackfillRequest { max_pending, limit, rerun, ..BackfillRequest::new(1, from, to) };
        let end = case.position.cursor.map_or(to, |cursor| to.min(cursor.at));
        let end = if case.position.cursor.is_none() { end.min(case.now.after(Duration::from_micros(1))) } else { end };
        let expected: Vec<SlotKey> = rule
            .slots_after(from.before(Duration::from_micros(1)))
            .map(Result::unwrap)
            .take_while(|slot| slot.at < end)
            .filter(|slot| !slot.gap)
            .filter(|slot| rerun || !case.taken.contains(&slot.key))
            .filter(|slot| rerun || case.position.known_from.is_none_or(|known| slot.at >= known))
            .map(|slot| slot.key)
            .take(limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap()))
            .take(2_000)
            .collect();
        prop_assume!(expected.len() < 2_000);
        // A schedule whose series has ended is filled in all the same.
        if case.position.cursor.is_none() {
            case.position.state = punctual_task::ScheduleState::Ended;
        }
        let (created, position) = run(&case, request, window_max, each_ends);
        prop_assert_eq!(&created, &expected);
        if let Some(backfill) = position.backfill {
            prop_assert!(!backfill.is_active());
            prop_assert_eq!(backfill.created, created.len() as u64);
        }
    }
}
