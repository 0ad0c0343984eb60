//! Turns due slots into tasks: sweeps when a schedule is due, when half of a window has ended, and at least once a poll.

use crate::pacing::{Pace, jittered};
use crate::shared::{Phase, Shared};
use punctual_task::{ScheduleId, SlotOutcome, SweepReport};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How many schedules that are left alone are remembered as reported.
const TOLD_MAX: usize = 1_000;

/// Runs until the engine drains.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut pace = Pace::default();
    let mut left = BTreeSet::new();
    while shared.phase() < Phase::Draining {
        shared.stats.sweeps.add(1);
        let wait = match shared.store.materialise(shared.config.sweep).await {
            Ok(report) => {
                pace.succeeded();
                tell_left(&shared, &report, &mut left);
                swept(&shared, &report)
            }
            Err(error) => {
                shared.store_failed("deciding due slots", &error);
                // The reply may be lost and the write done: the next sweep begins at the cursor that was written.
                shared.claims.due_now();
                pace.failed(&*shared.entropy)
            }
        };
        tokio::select! {
            biased;
            () = shared.reached(Phase::Draining) => return,
            () = shared.sweeps.wake.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Reports schedules that are left alone by this host: each once, not with every sweep.
fn tell_left(shared: &Shared, report: &SweepReport, told: &mut BTreeSet<ScheduleId>) {
    for schedule in &report.schedules {
        let Some(why) = &schedule.left else { continue };
        shared.stats.schedules_left.add(1);
        if told.len() >= TOLD_MAX {
            told.clear();
        }
        if told.insert(schedule.schedule) {
            tracing::error!(schedule = schedule.name, why, "a schedule is left alone by this host");
        }
    }
}

/// Counts what a sweep did, wakes the claimer, and gives how long to wait for the next.
fn swept(shared: &Shared, report: &SweepReport) -> Duration {
    let mut created = 0;
    let mut decided = false;
    for schedule in &report.schedules {
        created += schedule.tasks.len();
        decided |= !schedule.tasks.is_empty() || !schedule.losses.is_empty() || schedule.more;
        shared.sweeps.swept(schedule.schedule);
        let lost = schedule.slots.iter().filter(|(_, outcome)| matches!(outcome, SlotOutcome::Lost(_))).count();
        shared.stats.slots_lost.add(lost);
        if !schedule.losses.is_empty() {
            tracing::warn!(schedule = schedule.name, losses = ?schedule.losses, "slots were not run");
        }
    }
    shared.stats.slots_created.add(created);
    if created > 0 {
        shared.claims.due_now();
    }
    let poll = jittered(shared.config.poll, &*shared.entropy);
    match report.next_due.map(|due| due.since(shared.store_now())) {
        // More is due. A sweep that decided nothing would do the same again at once.
        Some(Duration::ZERO) if decided => Duration::ZERO,
        Some(Duration::ZERO) => poll.min(shared.config.poll_busy),
        // Timers fire by the millisecond: one more is on the safe side of the due instant.
        Some(due) => poll.min(due + Duration::from_millis(1)),
        None => poll,
    }
}
