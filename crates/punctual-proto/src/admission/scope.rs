//! One scope: what it allows, and what it has let in.

use crate::admission::rate::{Pace, Rate};
use punctual_clock::Instant;
use std::time::Duration;

/// What one scope allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScopeLimits {
    /// Calls that run at once. `None`: any number.
    pub running_max: Option<u32>,
    /// Calls that begin in a time. `None`: any number.
    pub rate: Option<Rate>,
}

impl ScopeLimits {
    /// Everything.
    pub const NONE: ScopeLimits = ScopeLimits { running_max: None, rate: None };

    /// So many calls at once.
    #[must_use]
    pub const fn running(max: u32) -> Self {
        ScopeLimits { running_max: Some(max), rate: None }
    }

    /// The same with this rate.
    #[must_use]
    pub const fn rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }

    pub(super) fn validate(&self, of: &str) -> Result<(), String> {
        if self.running_max == Some(0) {
            return Err(format!("running_max of {of} is 0, which lets nothing in; set at least 1, or none"));
        }
        match self.rate {
            Some(rate) if rate.calls == 0 || rate.burst == 0 || rate.per.is_zero() => {
                Err(format!("the rate of {of} lets nothing in; set calls, burst and time above 0"))
            }
            Some(rate) if rate.per / rate.calls < Duration::from_nanos(1) => {
                Err(format!("the rate of {of} is more than a call a nanosecond; leave it out"))
            }
            _ => Ok(()),
        }
    }
}

/// Which kind of scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScopeKind {
    /// The server as a whole.
    Server,
    /// One service.
    Service,
    /// One method.
    Method,
    /// One partition.
    Partition,
}

impl ScopeKind {
    const fn running_limit(self) -> &'static str {
        match self {
            ScopeKind::Server => "server_running_max",
            ScopeKind::Service => "service_running_max",
            ScopeKind::Method => "method_running_max",
            ScopeKind::Partition => "partition_running_max",
        }
    }

    const fn rate_limit(self) -> &'static str {
        match self {
            ScopeKind::Server => "server_rate_max",
            ScopeKind::Service => "service_rate_max",
            ScopeKind::Method => "method_rate_max",
            ScopeKind::Partition => "partition_rate_max",
        }
    }
}

/// A limit without room.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blocked {
    pub(super) limit: &'static str,
    pub(super) value: u64,
    /// When there is room, where that is known.
    pub(super) free_at: Option<Instant>,
    pub(super) retry_after: Option<Duration>,
}

#[derive(Debug)]
pub(super) struct Scope {
    kind: ScopeKind,
    limits: ScopeLimits,
    running: usize,
    /// Calls in the line that want it.
    wanted: usize,
    pace: Pace,
}

impl Scope {
    pub(super) fn new(kind: ScopeKind, limits: ScopeLimits) -> Self {
        Scope { kind, limits, running: 0, wanted: 0, pace: Pace::rested() }
    }

    pub(super) fn running(&self) -> usize {
        self.running
    }

    pub(super) fn blocked(&self, now: Instant) -> Option<Blocked> {
        if let Some(max) = self.limits.running_max.filter(|max| self.running >= *max as usize) {
            let limit = self.kind.running_limit();
            return Some(Blocked { limit, value: u64::from(max), free_at: None, retry_after: None });
        }
        let rate = self.limits.rate?;
        let wait = self.pace.wait(rate, now);
        (!wait.is_zero()).then(|| Blocked {
            limit: self.kind.rate_limit(),
            value: u64::from(rate.calls),
            free_at: Some(now.after(wait)),
            retry_after: Some(wait),
        })
    }

    pub(super) fn take(&mut self, now: Instant) {
        self.running += 1;
        if let Some(rate) = self.limits.rate {
            self.pace.take(rate, now);
        }
    }

    pub(super) fn left(&mut self) {
        self.running -= 1;
    }

    pub(super) fn joined(&mut self) {
        self.wanted += 1;
    }

    pub(super) fn parted(&mut self) {
        self.wanted -= 1;
    }

    /// Whether it is as if it had never been.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        self.running == 0 && self.wanted == 0 && self.pace.is_rested(now)
    }
}
