//! The end of a connection in good order: no new calls, the count of those accepted, and the end of what is left.

use crate::frame::{GoAway, GoAwayReason, NO_NEW_CALLS, Ping};
use crate::session::effects::Effects;
use crate::session::server::{ServerSession, State};
use crate::status::Status;
use punctual_context::CancelReason;
use std::task::Waker;

impl ServerSession {
    /// Says "no new calls" and asks for a pong: whatever the client sent before it heard, comes before that pong.
    pub fn begin_drain(&mut self, reason: GoAwayReason, text: &str, ping: Ping) -> Option<Waker> {
        if self.closed.is_some() || self.draining {
            return None;
        }
        self.draining = true;
        self.out.push_go_away(&GoAway { accepted: NO_NEW_CALLS, reason, text });
        self.out.push_ping(ping);
        self.pong = Some(ping.0);
        self.out.rouse_driver()
    }

    /// Says how many calls were accepted; no further one is.
    pub fn end_drain(&mut self, reason: GoAwayReason, text: &str) -> Option<Waker> {
        if self.closed.is_some() || self.accept_max != u64::MAX {
            return None;
        }
        self.draining = true;
        self.accept_max = self.heads;
        self.out.push_go_away(&GoAway { accepted: self.heads, reason, text });
        self.out.rouse_driver()
    }

    /// Whether the pong that [`ServerSession::begin_drain`] asked for is still to come.
    #[must_use]
    pub fn awaits_pong(&self) -> bool {
        self.closed.is_none() && self.pong.is_some()
    }

    /// Ends every call that is under way with `status`: the grace of a stop is over.
    pub fn cancel_all(&mut self, reason: CancelReason, status: &Status, effects: &mut Effects) {
        let mut bytes = Vec::with_capacity(status.encoded_len());
        status.encode(&mut bytes);
        for at in 0..self.runs.len() {
            let Some(run) = self.runs.get(at) else { continue };
            if matches!(run.state, State::Live | State::Assembling) {
                self.answer_run(at, &bytes);
                self.end(at, reason, effects);
            }
        }
        effects.wakers.extend(self.out.take_driver());
    }
}
