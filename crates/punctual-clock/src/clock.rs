//! The clock trait and the operating system's clock.

use crate::{Instant, Timestamp};
use std::fmt::Debug;

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

/// Added to every instant, so that none of a process is zero.
const HEAD_START_NANOS: u64 = 1_000_000_000;

/// The nanoseconds of the monotonic clock. A call asks twice, so the system's own two numbers are taken as they are: the
/// standard library's instant would have to be subtracted from another one first.
#[cfg(unix)]
#[inline]
fn monotonic_nanos() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // Neither is ever negative, and their sum overflows after some five hundred years of uptime.
    now.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec.cast_unsigned())
}

#[cfg(not(unix))]
#[expect(clippy::disallowed_methods, reason = "this crate is the one that asks")]
fn monotonic_nanos() -> u64 {
    static ORIGIN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let now = std::time::Instant::now();
    let nanos = now.saturating_duration_since(*ORIGIN.get_or_init(|| now)).as_nanos();
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::from_nanos(monotonic_nanos().saturating_add(HEAD_START_NANOS))
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
