//! The per-slot path: a sweep made of many steps that create one occurrence each, for a store that writes nothing in bulk.

use super::Store;
use crate::error::StoreError;
use crate::series::{Materialised, Sweep, SweepReport};

/// A sweep of `sweep`'s bounds by [`Store::materialise_next`], a transaction a step. What a sweep in one commit would have
/// decided is decided here too, only that a crash between two steps leaves the rest for the next sweep.
///
/// # Errors
/// The store's, if the first step fails. A later failure ends the sweep, whose steps so far stand.
pub(super) async fn sweep<S: Store + ?Sized>(store: &S, sweep: Sweep) -> Result<SweepReport, StoreError> {
    let steps_max = u64::from(sweep.schedules_max).saturating_mul(u64::from(sweep.window_max.max(1)));
    let mut report = SweepReport::default();
    for step in 0..steps_max {
        let done = match store.materialise_next().await {
            Ok(done) => done,
            Err(error) if step == 0 => return Err(error),
            Err(_) => break,
        };
        report.next_due = done.next_due;
        if done.schedules.is_empty() {
            break;
        }
        for one in done.schedules {
            match report.schedules.iter_mut().find(|known| known.schedule == one.schedule) {
                Some(known) => join(known, one),
                None => report.schedules.push(one),
            }
        }
    }
    Ok(report)
}

/// Adds what a later step did to the same schedule.
fn join(known: &mut Materialised, mut later: Materialised) {
    // What an earlier step did not reach a later one looks at again.
    known.slots.retain(|(slot, _)| later.slots.iter().all(|(again, _)| again.key != slot.key));
    known.slots.append(&mut later.slots);
    known.tasks.append(&mut later.tasks);
    known.losses.append(&mut later.losses);
    known.backfilled.append(&mut later.backfilled);
    known.position = later.position;
    known.more = later.more;
    known.left = later.left;
}
