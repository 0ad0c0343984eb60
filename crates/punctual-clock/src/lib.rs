//! Time and chance: the only crate that asks the operating system for either.
//!
//! Everything else takes a [`Clock`] or an [`Entropy`], so that a test, a simulation or a replay owns both. A call's
//! budget lives on the monotonic [`Instant`]; a task's due time and a schedule's slot live on the wall clock's
//! [`Timestamp`]. The two never mix: there is no conversion between them.

mod clock;
mod entropy;
mod instant;
mod timestamp;

pub use clock::{Clock, SystemClock};
pub use entropy::{Entropy, SeededEntropy, SystemEntropy};
pub use instant::Instant;
pub use timestamp::Timestamp;
