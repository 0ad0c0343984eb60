//! How a call ends without a result, and who is told: its handler, and whoever watches it.

use crate::frame::CallId;
use crate::session::effects::Effects;
use crate::session::server::{RunKey, ServerSession, State};
use punctual_context::CancelReason;
use std::task::Waker;

/// Calls that are remembered after they were cancelled. Whoever watches one asks as soon as it is woken, and of an older
/// one it is told that the handler has ended.
const CANCELLED_MAX: usize = 1_024;

/// Tasks that wait for the cancel of one call at once without being woken in between.
const WATCHERS_MAX: usize = 64;

/// What a handler that waits is told.
#[derive(Debug, PartialEq, Eq)]
pub enum HandlerPoll {
    /// Go on waiting; the waker is parked.
    Wait,
    /// Go on waiting, and another waker is parked: call again with a clone of it.
    NeedsWaker,
    /// The call is over: the handler is to be dropped.
    Over(CancelReason),
}

impl ServerSession {
    /// Why a call was cancelled, if it was.
    #[must_use]
    pub fn cancel_reason(&self, call: CallId) -> Option<CancelReason> {
        match self.find(call).and_then(|at| self.runs.get(at)).map(|run| run.state) {
            Some(State::Over(reason)) => Some(reason),
            Some(_) => None,
            None => self.cancelled.iter().rev().find(|(over, _)| *over == call).map(|(_, reason)| *reason),
        }
    }

    /// As [`ServerSession::cancel_reason`]; where the call still runs, `waker` is woken when it is cancelled or ends, and
    /// sometimes before, and of a call that has ended otherwise it tells that. What comes back in `waker` is to be dropped
    /// outside of the lock.
    pub fn watch(&mut self, call: CallId, waker: &mut Option<Waker>, effects: &mut Effects) -> Option<CancelReason> {
        let reason = self.cancel_reason(call);
        if reason.is_some() {
            return reason;
        }
        let Some(run) = self.find(call).and_then(|at| self.runs.get_mut(at)) else {
            return Some(CancelReason::Ended);
        };
        if let Some(new) = waker.take() {
            match run.watchers.iter_mut().find(|parked| parked.will_wake(&new)) {
                Some(parked) => *waker = Some(std::mem::replace(parked, new)),
                None => {
                    if run.watchers.len() >= WATCHERS_MAX {
                        // Nobody says that it watches no more. Those that still do ask again.
                        effects.wakers.append(&mut run.watchers);
                    }
                    run.watchers.push(new);
                }
            }
        }
        None
    }

    /// Asks, for a handler that waits, whether its call is over; else parks `waker`.
    pub fn poll_handler(&mut self, key: RunKey, waker: &Waker, fresh: &mut Option<Waker>) -> HandlerPoll {
        let Some(run) = self.runs.get_mut(key.at as usize).filter(|run| run.call == key.call) else {
            return HandlerPoll::Over(CancelReason::Disconnected);
        };
        match run.state {
            State::Over(reason) => HandlerPoll::Over(reason),
            State::Free => HandlerPoll::Over(CancelReason::Disconnected),
            State::Live | State::Assembling => {
                if run.waker.as_ref().is_some_and(|parked| parked.will_wake(waker)) {
                    return HandlerPoll::Wait;
                }
                let Some(new) = fresh.take() else { return HandlerPoll::NeedsWaker };
                *fresh = run.waker.replace(new);
                HandlerPoll::Wait
            }
        }
    }

    /// A call ends without a result: its handler is told, and whoever watches it.
    pub(super) fn end(&mut self, at: usize, reason: CancelReason, effects: &mut Effects) {
        let Some(run) = self.runs.get_mut(at) else { return };
        let key = RunKey { at: u32::try_from(at).unwrap_or(u32::MAX), call: run.call };
        match run.state {
            State::Live => {
                if run.call.is_pending() {
                    self.live -= 1;
                }
                run.state = State::Over(reason);
                effects.wakers.extend(run.waker.take());
                if let Some(mut streams) = run.streams.take() {
                    streams.close(&mut self.flow, &mut self.out, effects);
                }
                effects.wakers.append(&mut run.watchers);
                if self.cancelled.len() >= CANCELLED_MAX {
                    self.cancelled.pop_front();
                }
                self.cancelled.push_back((key.call, reason));
            }
            // It has no handler yet.
            State::Assembling => self.release(key).into_effects(effects),
            State::Over(_) | State::Free => {}
        }
    }
}
