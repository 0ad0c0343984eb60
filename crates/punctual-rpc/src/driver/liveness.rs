//! The driver's one timer: silence of the peer, and the earliest deadline of the session.

use punctual_clock::Instant;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Sleep;

/// What the silence so far means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Alive,
    /// Ask the peer for a sign.
    Ping,
    Dead,
}

/// When the peer was last heard, and the timer that wakes the driver.
pub(crate) struct Liveness {
    ping_after: Duration,
    dead_after: Duration,
    heard_at: Instant,
    /// Something came whose instant was not taken.
    heard: bool,
    pinged: bool,
    /// Reading is paused by us: that silence says nothing about the peer, and its pings go unread.
    paused: bool,
    /// When a paused connection last said that this side lives.
    spoke_at: Instant,
    /// Bytes were written since the last judgement.
    wrote: bool,
    /// The last judgement at which the peer took bytes, or had none to take.
    took_at: Instant,
    sleep: Pin<Box<Sleep>>,
    /// What the timer is set to; [`Instant::FAR`] where it is not set.
    armed: Instant,
}

impl Liveness {
    pub(crate) fn new(now: Instant, ping_after: Duration, dead_after: Duration) -> Self {
        Liveness {
            ping_after,
            dead_after,
            heard_at: now,
            heard: false,
            pinged: false,
            paused: false,
            spoke_at: Instant::from_nanos(0),
            wrote: false,
            took_at: now,
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
            armed: Instant::FAR,
        }
    }

    pub(crate) fn wrote(&mut self) {
        self.wrote = true;
    }

    pub(crate) fn heard(&mut self) {
        self.heard = true;
    }

    pub(crate) fn heard_at(&mut self, now: Instant) {
        self.heard_at = now;
        self.heard = false;
        self.pinged = false;
    }

    pub(crate) fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether the timer has fired.
    pub(crate) fn fired(&self) -> bool {
        self.armed != Instant::FAR && self.sleep.is_elapsed()
    }

    /// Judges the silence, and unsets the timer. `stalled` says that the peer takes no bytes for now.
    pub(crate) fn judge(&mut self, now: Instant, stalled: bool) -> Verdict {
        self.armed = Instant::FAR;
        if std::mem::take(&mut self.wrote) || !stalled {
            self.took_at = now;
        }
        if self.heard || self.paused {
            self.heard_at(now);
        }
        if self.paused {
            // It cannot be asked for a sign, as that would not be read. That it takes bytes is one.
            if now.since(self.took_at) >= self.dead_after {
                return Verdict::Dead;
            }
            if now.since(self.spoke_at) >= self.ping_after {
                self.spoke_at = now;
                return Verdict::Ping;
            }
            return Verdict::Alive;
        }
        let silence = now.since(self.heard_at);
        if silence >= self.dead_after {
            Verdict::Dead
        } else if silence >= self.ping_after && !self.pinged {
            self.pinged = true;
            Verdict::Ping
        } else {
            Verdict::Alive
        }
    }

    /// Whether the timer must be set anew for a deadline at `due`.
    pub(crate) fn must_arm(&self, due: Instant) -> bool {
        self.wanted(due) < self.armed
    }

    fn wanted(&self, due: Instant) -> Instant {
        if self.paused {
            return due.min(self.spoke_at.after(self.ping_after));
        }
        due.min(self.heard_at.after(if self.pinged { self.dead_after } else { self.ping_after }))
    }

    /// Sets the timer.
    pub(crate) fn arm(&mut self, due: Instant, now: Instant, cx: &mut Context<'_>) {
        let at = self.wanted(due);
        self.armed = at;
        self.sleep.set(tokio::time::sleep(at.since(now)));
        // Outside of the cooperative budget: without it the timer might not learn whom to wake.
        let mut sleep = tokio::task::unconstrained(self.sleep.as_mut());
        if let Poll::Ready(()) = Pin::new(&mut sleep).poll(cx) {
            cx.waker().wake_by_ref();
        }
    }
}
