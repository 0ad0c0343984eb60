//! The circuit breaker of one endpoint: a pure machine that is told how calls ended and says whether the next may go.
//!
//! ```text
//!            too many of the last calls failed
//!   Closed ──────────────────────────────────▶ Open ◀──────────┐
//!     ▲                                          │ time passed  │ a probe failed: twice as long
//!     │            enough probes succeeded       ▼              │
//!     └──────────────────────────────────── HalfOpen ───────────┘
//! ```
//! In HalfOpen one call at a time goes through. What ends from before a change of state counts no more.

#[cfg(test)]
mod tests;

use punctual_clock::Instant;
use punctual_proto::status::{Code, Status};
use std::collections::VecDeque;
use std::time::Duration;

/// The most calls whose ends a breaker looks at.
pub const BREAKER_WINDOW_MAX: u32 = 1_024;

/// When an endpoint whose calls fail is left alone for a while.
///
/// Calls go past an endpoint whose breaker is open. Where all are, a call fails at once with Unavailable and the time of the
/// next probe, unless it waits ([`CallOptions::wait_for_ready`](crate::CallOptions::wait_for_ready)).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakerPolicy {
    /// Ends that are looked at, the last ones. 20; 1 to [`BREAKER_WINDOW_MAX`]. Fewer never open it.
    pub window: u32,
    /// The share of failures among them that opens it, in per cent. 50; 1 to 100.
    pub failure_percent: u32,
    /// How long it stays open at first. 5 s; 1 ms to an hour. Each time that a probe fails it doubles.
    pub open_first: Duration,
    /// The longest that it stays open. 60 s; at least `open_first`, to an hour.
    pub open_max: Duration,
    /// Probes that must succeed, one after the other, to close it. 3; 1 to 100.
    pub probes: u32,
    /// What counts as a failure of the endpoint. Unavailable, ConnectionClosed, HeartbeatLost and DeadlineExceeded; every
    /// other end that the server gave counts as a success, an application's error too.
    pub failures: Vec<Code>,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        BreakerPolicy {
            window: 20,
            failure_percent: 50,
            open_first: Duration::from_secs(5),
            open_max: Duration::from_secs(60),
            probes: 3,
            failures: vec![Code::Unavailable, Code::ConnectionClosed, Code::HeartbeatLost, Code::DeadlineExceeded],
        }
    }
}

impl BreakerPolicy {
    /// Refuses settings outside their ranges.
    ///
    /// # Errors
    /// The first one, with what to set instead.
    pub fn validate(&self) -> Result<(), Status> {
        let numbers = [
            ("window", self.window, BREAKER_WINDOW_MAX),
            ("failure_percent", self.failure_percent, 100),
            ("probes", self.probes, 100),
        ];
        for (name, value, max) in numbers {
            if !(1..=max).contains(&value) {
                return Err(Status::invalid_argument(format!("a breaker's {name} is {value}; set 1 to {max}")));
            }
        }
        let hour = Duration::from_secs(3_600);
        if self.open_first < Duration::from_millis(1) || self.open_max < self.open_first || self.open_max > hour {
            return Err(Status::invalid_argument(format!(
                "a breaker's open_first is {:?} and its open_max {:?}; set the first to at least 1 ms and the other from \
                 that to an hour",
                self.open_first, self.open_max
            )));
        }
        Ok(())
    }

    /// How the end of a call counts.
    pub(crate) fn judge(&self, status: Option<&Status>) -> End {
        match status {
            Some(status) if self.failures.contains(&status.code()) => End::Failure,
            // The caller went away: the endpoint said nothing.
            Some(status) if status.code() == Code::Cancelled => End::Unknown,
            _ => End::Success,
        }
    }
}

/// How a call ended, as far as it tells of its endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Success,
    Failure,
    /// It was dropped, or never sent.
    Unknown,
}

/// The leave to make one call. Its end is told with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Permit(u64);

/// One endpoint's breaker.
#[derive(Debug)]
pub(crate) struct Breaker {
    state: State,
    /// Changes of state, by which ends from before one are known.
    epoch: u64,
    /// Times in a row that it opened, by which the wait doubles.
    opened: u32,
}

#[derive(Debug)]
enum State {
    Closed { ends: VecDeque<bool>, failures: u32 },
    Open { until: Instant },
    HalfOpen { is_probing: bool, successes: u32 },
}

impl Default for Breaker {
    fn default() -> Self {
        Breaker { state: State::closed(), epoch: 0, opened: 0 }
    }
}

impl State {
    fn closed() -> Self {
        State::Closed { ends: VecDeque::new(), failures: 0 }
    }
}

impl Breaker {
    /// Whether a call would be let through.
    ///
    /// # Errors
    /// When it is worth asking again; [`Instant::FAR`] where that depends on a probe that is under way.
    pub(crate) fn check(&self, now: Instant) -> Result<(), Instant> {
        match self.state {
            State::Open { until } if now < until => Err(until),
            State::HalfOpen { is_probing: true, .. } => Err(Instant::FAR),
            _ => Ok(()),
        }
    }

    /// Lets a call through, or not.
    ///
    /// # Errors
    /// As [`Breaker::check`].
    pub(crate) fn admit(&mut self, now: Instant) -> Result<Permit, Instant> {
        self.check(now)?;
        match &mut self.state {
            State::Closed { .. } => {}
            State::Open { .. } => self.enter(State::HalfOpen { is_probing: true, successes: 0 }),
            State::HalfOpen { is_probing, .. } => *is_probing = true,
        }
        Ok(Permit(self.epoch))
    }

    /// A call that was let through has ended. True where that changed what the next ones are told.
    pub(crate) fn record(&mut self, policy: &BreakerPolicy, permit: Permit, end: End, now: Instant) -> bool {
        if permit.0 != self.epoch {
            return false;
        }
        match (&mut self.state, end) {
            (State::Closed { .. } | State::Open { .. }, End::Unknown) | (State::Open { .. }, _) => false,
            (State::Closed { ends, failures }, end) => {
                ends.push_back(end == End::Failure);
                *failures += u32::from(end == End::Failure);
                while ends.len() > policy.window as usize {
                    *failures -= u32::from(ends.pop_front() == Some(true));
                }
                let is_full = ends.len() == policy.window as usize;
                let too_many =
                    u64::from(*failures) * 100 >= u64::from(policy.window) * u64::from(policy.failure_percent);
                // A success never opens it, whatever the settings became.
                if is_full && too_many && end == End::Failure {
                    self.open(policy, now);
                    return true;
                }
                false
            }
            (State::HalfOpen { is_probing, .. }, End::Unknown) => {
                *is_probing = false;
                true
            }
            (State::HalfOpen { .. }, End::Failure) => {
                self.open(policy, now);
                true
            }
            (State::HalfOpen { is_probing, successes }, End::Success) => {
                *is_probing = false;
                *successes += 1;
                if *successes >= policy.probes {
                    self.opened = 0;
                    self.enter(State::closed());
                }
                true
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed { .. })
    }

    fn open(&mut self, policy: &BreakerPolicy, now: Instant) {
        let wait = policy.open_first.saturating_mul(1 << self.opened.min(16)).min(policy.open_max);
        self.opened = self.opened.saturating_add(1);
        self.enter(State::Open { until: now.after(wait) });
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.epoch += 1;
    }
}
