//! The differential test of stores: one random history against two stores, which must answer the same and end the same.
//!
//! A history is drawn from a seed: tasks with and without keys, claims, finishes and their resends, cancels, retries, dead
//! workers, schedules of all policies, edits, sweeps and windows of any size, clocks that jump. Each operation goes to both
//! stores and the answers are compared, as is the whole visible state every so often. Ids that a store draws itself are
//! compared by the order in which they were drawn.
//!
//! On the way the history itself is checked: no slot is created or lost twice, and run numbers have no hole.

#![expect(clippy::unwrap_used, reason = "a comparison is a test and fails by panicking")]

mod check;
mod draw;
mod side;

use crate::VirtualClock;
use crate::store_suite::{Opened, START};
use check::Checks;
use draw::Script;
use punctual_clock::Clock;
use side::{Operation, Side};
use std::sync::Arc;

/// How often the whole visible state is compared, in operations.
const DUMP_EVERY: u32 = 25;

/// How many operations a failure prints before the one that went wrong.
const TRACE_MAX: usize = 12;

/// Runs the history of `seed`, `steps` operations long, against two empty stores that live by one clock.
///
/// # Panics
/// If the stores differ, or the history breaks an invariant. The message names seed and step, and prints the last
/// operations.
pub fn compare(
    open_model: impl FnOnce(Arc<dyn Clock>) -> Opened,
    open_other: impl FnOnce(Arc<dyn Clock>) -> Opened,
    seed: u64,
    steps: u32,
) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let clock = Arc::new(VirtualClock::starting_at(START));
    let (mut model, mut other) = {
        let _context = runtime.enter();
        let model = Side::new(open_model(Arc::clone(&clock) as Arc<dyn Clock>));
        (model, Side::new(open_other(Arc::clone(&clock) as Arc<dyn Clock>)))
    };
    runtime.block_on(async move {
        let mut script = Script::new(seed);
        let mut checks = Checks::default();
        let mut trace: Vec<String> = Vec::new();
        for step in 0..steps {
            let operation = script.draw(&clock);
            trace.push(format!("{operation:?}"));
            match operation {
                Operation::Advance(by) => clock.advance(by),
                Operation::SetWall(to) => clock.set_wall(to),
                _ => {}
            }
            let said = model.perform(&operation).await;
            let same = other.perform(&operation).await;
            let place = || {
                let last = &trace[trace.len().saturating_sub(TRACE_MAX)..];
                format!("seed {seed}, step {step}; the last operations:\n{}\n", last.join("\n"))
            };
            assert!(said == same, "{}the stores differ:\n{}\nand\n{}", place(), said.text(), same.text());
            if let Err(broken) = checks.see(&operation, &said) {
                panic!("{}{broken}", place());
            }
            script.learn(&operation, &said);
            if step % DUMP_EVERY == 0 || step + 1 == steps {
                let (left, right) = (model.dump().await, other.dump().await);
                let differing = left.iter().zip(&right).find(|(left, right)| left != right);
                if let Some((left, right)) = differing {
                    panic!("{}the stores' states differ:\n{left}\nand\n{right}", place());
                }
                assert_eq!(left.len(), right.len(), "{}the stores hold different numbers of rows", place());
            }
        }
    });
}

#[cfg(test)]
mod tests;
