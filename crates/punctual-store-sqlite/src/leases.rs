//! The clock that leases are measured with: time since the machine booted, and the name of that boot.
//!
//! A lease on the wall clock would end when somebody sets the clock forward, and would live for ever when it is set
//! back. Time since boot does neither, goes on while the machine sleeps, and is the same for every process of the
//! machine, which is the farthest that one SQLite file reaches. It starts anew with a boot; so a lease also names its
//! boot, and one of an earlier boot is void.

use punctual_clock::{Clock, Timestamp};
use std::fmt::Debug;
use std::sync::Arc;

/// The machine's time since boot. All processes that open the same file must agree on it.
pub trait BootClock: Debug + Send + Sync + 'static {
    /// Names the boot; at most 64 bytes. Another boot has another name. Empty where it is not known: leases of an unknown
    /// boot, and those that a clock of an unknown boot looks at, end by time alone.
    fn boot(&self) -> String;
    /// Microseconds since boot, sleep included. Never steps back within one boot.
    fn micros(&self) -> i64;
}

/// The operating system's: `CLOCK_BOOTTIME` and `/proc/sys/kernel/random/boot_id` on Linux.
///
/// Elsewhere there is no boot time that all processes of the machine share without more dependencies: leases are then
/// measured with the wall clock, so that setting it forward by a lease's length can declare live workers dead. Their
/// finishes are refused and their tasks run again; nothing is lost or doubled.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemBoot;

/// This boot's name, read once: a process does not outlive its boot, and a read that failed for want of a descriptor
/// would name another boot than the read before it.
#[cfg(target_os = "linux")]
static BOOT: std::sync::OnceLock<String> = std::sync::OnceLock::new();

#[cfg(target_os = "linux")]
impl BootClock for SystemBoot {
    fn boot(&self) -> String {
        // A kernel without the file (a hardened container) has one boot as far as we can tell.
        let read = || std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let name = |id: String| id.trim().chars().take(64).collect();
        BOOT.get_or_init(|| read().map(name).unwrap_or_default()).clone()
    }

    fn micros(&self) -> i64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1_000)
    }
}

#[cfg(not(target_os = "linux"))]
impl BootClock for SystemBoot {
    fn boot(&self) -> String {
        "wall".to_owned()
    }

    fn micros(&self) -> i64 {
        punctual_clock::SystemClock.timestamp().as_micros()
    }
}

/// A boot time that is a [`Clock`]'s monotonic time, for tests and simulations that own all time. Only stores that share
/// the clock agree on it.
#[derive(Debug, Clone)]
pub struct MonotonicBoot {
    clock: Arc<dyn Clock>,
    boot: String,
}

impl MonotonicBoot {
    /// The time of `clock`, in a boot of this name.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, boot: impl Into<String>) -> Self {
        MonotonicBoot { clock, boot: boot.into() }
    }
}

impl BootClock for MonotonicBoot {
    fn boot(&self) -> String {
        self.boot.clone()
    }

    fn micros(&self) -> i64 {
        i64::try_from(self.clock.now().as_nanos() / 1_000).unwrap_or(i64::MAX)
    }
}

/// One reading of the boot clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BootTime {
    /// The boot's name.
    pub(crate) boot: String,
    /// Microseconds since.
    pub(crate) micros: i64,
}

impl BootTime {
    pub(crate) fn read(clock: &dyn BootClock) -> Self {
        BootTime { boot: clock.boot(), micros: clock.micros() }
    }

    /// When a lease ends on the wall clock, which now shows `now`. A lease of another boot ended long ago, at the latest now.
    pub(crate) fn on_wall(&self, boot: &str, until: i64, now: Timestamp) -> Timestamp {
        let same = boot == self.boot || boot.is_empty() || self.boot.is_empty();
        let ahead = if same { until.saturating_sub(self.micros) } else { 0 };
        Timestamp::from_micros(now.as_micros().saturating_add(ahead))
    }
}
