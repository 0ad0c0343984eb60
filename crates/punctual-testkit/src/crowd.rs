//! Very many schedules that are due at once: how a store sweeps them, in passes whose size is bounded.

use crate::VirtualClock;
use bytes::Bytes;
use punctual_clock::Timestamp;
use punctual_task::schedule::Every;
use punctual_task::{Declaration, ScheduleId, ScheduleSpec, SlotOutcome, Store, Sweep};
use std::collections::BTreeSet;
use std::time::Duration;

/// How many schedules there are.
pub const SCHEDULES: u32 = 100_000;
/// The one that is declared; all others are copies of its rows.
pub const FIRST: &str = "s0";

/// Declares [`FIRST`], an hourly schedule, on a store whose clock stands. The caller then copies its rows with the names `s1`
/// to `s99999`, beside the store: declaring each would take longer than all that is looked at here.
///
/// # Panics
/// If the store refuses it.
pub async fn declare(store: &dyn Store, start: Timestamp) {
    let rule = Every::new(Duration::from_secs(3_600)).anchor(start);
    let spec = ScheduleSpec::new(FIRST, rule.into(), "Demo/run", Bytes::from_static(b"{}"));
    store.declare(Declaration { spec, revision: 0 }).await.expect("a declaration");
}

/// Lets an hour pass, so that all are due at once, and sweeps until none is left: each pass takes as many as it may and no
/// more, and each slot is decided once.
///
/// # Panics
/// If a pass is larger than it may be, or a slot is decided twice or not at all.
pub async fn sweep(store: &dyn Store, clock: &VirtualClock) {
    clock.advance(Duration::from_secs(3_600));
    let sweep = Sweep::default();
    let mut decided: BTreeSet<ScheduleId> = BTreeSet::new();
    let mut passes = 0;
    loop {
        let report = store.materialise(sweep).await.expect("a sweep");
        assert!(report.schedules.len() <= sweep.schedules_max as usize, "{} schedules", report.schedules.len());
        for one in &report.schedules {
            let outcomes: Vec<SlotOutcome> = one.slots.iter().map(|(_, outcome)| *outcome).collect();
            assert_eq!((outcomes.as_slice(), one.tasks.len()), (&[SlotOutcome::Created][..], 1), "{}", one.name);
            assert!(decided.insert(one.schedule), "{} was decided twice", one.name);
        }
        if report.schedules.is_empty() {
            break;
        }
        passes += 1;
    }
    assert_eq!(decided.len(), SCHEDULES as usize);
    assert_eq!(passes, SCHEDULES.div_ceil(sweep.schedules_max), "each pass is full");
}
