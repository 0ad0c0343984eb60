//! The models, each a function that panics where an order of steps breaks its property.

pub mod client;
pub mod engine;
pub mod server;
pub mod shm;

use loom::model::Builder;

/// How often a thread may be interrupted where it would have gone on: nearly every fault shows itself with two, and the number
/// of orders grows with each.
const PREEMPTIONS_MAX: usize = 3;

/// Tries every order of the steps of `model`, within the bound.
fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS_MAX);
    builder.check(model);
}
