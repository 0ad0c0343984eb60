//! Time and chance: the only crate that asks the operating system for either.
//!
//! Everything else takes a [`Clock`] or an [`Entropy`], so that a test, a simulation or a replay owns both. A call's
//! budget lives on the monotonic [`Instant`]; a task's due time and a schedule's slot live on the wall clock's
//! [`Timestamp`]. The two never mix: there is no conversion between them.
//!
//! Besides the system's there are two clocks for tests: [`VirtualClock`] is moved by hand, and `TokioClock` (feature `tokio`)
//! follows tokio's paused time.

mod clock;
mod entropy;
mod instant;
mod timestamp;
#[cfg(feature = "tokio")]
mod tokio_clock;
mod virtual_clock;

pub use clock::{Clock, SystemClock};
pub use entropy::{Entropy, SeededEntropy, SystemEntropy};
pub use instant::Instant;
pub use timestamp::Timestamp;
#[cfg(feature = "tokio")]
pub use tokio_clock::TokioClock;
pub use virtual_clock::VirtualClock;
