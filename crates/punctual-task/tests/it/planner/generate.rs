//! Random schedules at random moments.

use proptest::collection::btree_set;
use proptest::prelude::*;
use punctual_clock::Timestamp;
use punctual_task::schedule::{CompiledRule, Cron, Every, Fold, Gap, Rule, SlotKey};
use punctual_task::series::Overflow;
use punctual_task::{Missed, Overlap, Position, ScheduleId, ScheduleSpec, ScheduleState};
use std::collections::BTreeSet;
use std::time::Duration;

/// A schedule that is due, with what a store would have read of it.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) spec: ScheduleSpec,
    pub(crate) position: Position,
    pub(crate) taken: BTreeSet<SlotKey>,
    pub(crate) live: u32,
    pub(crate) now: Timestamp,
}

impl Case {
    pub(crate) fn rule(&self) -> CompiledRule {
        CompiledRule::new(&self.spec.rule, Timestamp::EPOCH).unwrap()
    }
}

/// Two days before clocks go forward in New York; the autumn's is reached by the rules that start in October.
const SPRING: i64 = 1_772_755_200; // 2026-03-06T00:00:00Z
const AUTUMN: i64 = 1_793_318_400; // 2026-10-30T00:00:00Z

fn rules() -> impl Strategy<Value = (Rule, i64)> {
    let every = (1u64..7200).prop_map(|step| (Rule::from(Every::new(Duration::from_secs(step))), 1_000_000));
    let cron = (
        prop_oneof![
            Just("* * * * *"),
            Just("*/7 * * * *"),
            Just("30 2 * * *"),
            Just("0,30 1,2,3 * * *"),
            Just("15 9 1 * *"),
            Just("0,10,20,30,40,50 0,1,2,3,4,5 * * *"),
        ],
        prop_oneof![Just("UTC"), Just("America/New_York"), Just("Europe/London")],
        prop_oneof![Just(Gap::End), Just(Gap::Shift), Just(Gap::Skip)],
        prop_oneof![Just(Fold::First), Just(Fold::Second), Just(Fold::Both)],
        prop_oneof![Just(SPRING), Just(AUTUMN)],
    )
        .prop_map(|(text, zone, gap, fold, from)| {
            (Rule::from(Cron::parse(text).unwrap()).zone(zone).gap(gap).fold(fold), from)
        });
    prop_oneof![every, cron]
}

fn missed() -> impl Strategy<Value = Missed> {
    let age = (0u64..400_000).prop_map(Duration::from_secs);
    prop_oneof![
        Just(Missed::Skip),
        age.clone().prop_map(|max_age| Missed::Latest { max_age }),
        Just(Missed::Earliest),
        (0u32..40, age, any::<bool>()).prop_map(|(max_count, max_age, halt)| Missed::All {
            max_count,
            max_age,
            overflow: if halt { Overflow::Halt } else { Overflow::SkipOldest },
        }),
        Just(Missed::All { max_count: 10_000, max_age: Duration::from_secs(1 << 40), overflow: Overflow::Halt }),
    ]
}

/// Up to `slots_max` due slots.
pub(crate) fn cases(slots_max: u32) -> impl Strategy<Value = Case> {
    let overlap = prop_oneof![Just(Overlap::Wait), Just(Overlap::Skip), Just(Overlap::Cancel), Just(Overlap::Allow)];
    let spec = (rules(), missed(), overlap, 1u32..20, 0u64..4000, proptest::option::of(1u64..60));
    let moment = (0..slots_max, 0u64..3600, 0u32..25, proptest::option::of(0u64..100_000), 0u64..20);
    let taken = prop_oneof![Just(BTreeSet::new()), btree_set(0..slots_max, 0..(slots_max as usize / 2).max(2))];
    let until = proptest::option::weighted(0.2, 0u64..2_000_000);
    (spec, moment, taken, until).prop_filter_map("a rule without a slot", build)
}

type Spec = ((Rule, i64), Missed, Overlap, u32, u64, Option<u64>);
type Moment = (u32, u64, u32, Option<u64>, u64);

fn build(
    ((rule, missed, overlap, max_pending, late, budget), (slots, past, live, kept, runs), taken, until): (
        Spec,
        Moment,
        BTreeSet<u32>,
        Option<u64>,
    ),
) -> Option<Case> {
    let (mut rule, from) = rule;
    let from = Timestamp::from_secs(from);
    rule.max_occurrences = budget;
    rule.until = until.map(|seconds| from.after(Duration::from_secs(seconds + 1)));
    let compiled = CompiledRule::new(&rule, Timestamp::EPOCH).ok()?;
    let all: Vec<_> = compiled.slots_after(from).take(slots as usize + 1).collect::<Result<_, _>>().ok()?;
    let (first, last) = (all.first()?, all.last()?);
    let spec = ScheduleSpec {
        missed,
        overlap,
        max_pending,
        late_after: Duration::from_secs(late),
        ..ScheduleSpec::new("s", rule, "Demo/run", "{}".into())
    };
    let position = Position {
        id: ScheduleId(1),
        state: ScheduleState::Active,
        note: String::new(),
        rev: 1,
        era: 1,
        version: 1,
        cursor: Some(*first),
        runs,
        kept_to: kept.map(|seconds| from.after(Duration::from_secs(seconds))),
        known_from: None,
        zone: compiled.zone_stamp(last.at),
        backfill: None,
    };
    let taken = taken.into_iter().filter_map(|at| all.get(at as usize)).map(|slot| slot.key).collect();
    Some(Case { spec, position, taken, live, now: last.at.after(Duration::from_secs(past)) })
}
