//! Decisions one by one. What holds for all schedules at all moments is in the integration tests, against a model.

mod commands;
mod passes;
mod tails;
mod zones;

use super::*;
use crate::id::ScheduleId;
use crate::schedule::{CompiledRule, Every, Rule};
use crate::series::{Missed, Position, ScheduleSpec, ScheduleState};
use punctual_clock::Timestamp;
use std::time::Duration;

/// A multiple of every step that the tests use.
const T0: Timestamp = Timestamp::from_secs(1_800_000_000);

fn at(seconds: u64) -> Timestamp {
    T0.after(Duration::from_secs(seconds))
}

/// A slot each minute, counted from T0.
fn minutely() -> Rule {
    Every::new(Duration::from_secs(60)).anchor(T0).into()
}

/// A schedule with a position, at its first slot after T0.
#[derive(Debug, Clone)]
struct Series {
    spec: ScheduleSpec,
    rule: CompiledRule,
    position: Position,
}

impl Series {
    fn new(rule: Rule, missed: Missed) -> Self {
        let compiled = CompiledRule::new(&rule, T0).unwrap();
        let cursor = compiled.next_after(T0).unwrap();
        let spec = ScheduleSpec { missed, max_pending: 100, ..ScheduleSpec::new("s", rule, "Demo/run", "{}".into()) };
        let position = Position {
            id: ScheduleId(1),
            state: ScheduleState::Active,
            note: String::new(),
            rev: 1,
            era: 1,
            version: 1,
            cursor,
            runs: 0,
            kept_to: None,
            known_from: None,
            zone: compiled.zone_stamp(T0),
            backfill: None,
        };
        Series { spec, rule: compiled, position }
    }

    fn in_state(&self, state: ScheduleState) -> Self {
        let mut series = self.clone();
        series.position.state = state;
        if matches!(state, ScheduleState::Ended | ScheduleState::Cancelled) {
            series.position.cursor = None;
        }
        series
    }

    fn snapshot(&self) -> Snapshot<'_> {
        Snapshot { spec: &self.spec, rule: &self.rule, position: &self.position, created: T0 }
    }

    fn pass(&self, now: Timestamp, live: u32) -> Plan {
        let walk = Walk::for_sweep(&self.snapshot(), now, 500);
        plan(&self.snapshot(), &walk, &[], live)
    }
}
