//! The clock trait and the operating system's clock. Virtual clocks are the testkit's.

use crate::{Instant, Timestamp};
use std::fmt::Debug;
use std::sync::OnceLock;

/// A source of both times.
///
/// Implementations must be cheap (a call reads it twice) and must never step backwards on [`Clock::now`].
/// [`Clock::timestamp`] may jump either way, as wall clocks do.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The monotonic instant: what budgets, leases and waits are measured with.
    fn now(&self) -> Instant;
    /// The wall clock, UTC.
    fn timestamp(&self) -> Timestamp;
}

/// The operating system's clock. All values of it in one process share one origin.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this crate is the one that asks")]
    fn now(&self) -> Instant {
        let now = std::time::Instant::now();
        // The origin lies a second before the first read, so that no instant of a process is zero.
        let origin = *ORIGIN.get_or_init(|| now.checked_sub(std::time::Duration::from_secs(1)).unwrap_or(now));
        let nanos = now.saturating_duration_since(origin).as_nanos();
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    #[expect(clippy::disallowed_methods, reason = "this crate is the one that asks")]
    fn timestamp(&self) -> Timestamp {
        match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
            Ok(after) => Timestamp::from_micros(i64::try_from(after.as_micros()).unwrap_or(i64::MAX)),
            Err(before) => {
                Timestamp::from_micros(i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros))
            }
        }
    }
}
