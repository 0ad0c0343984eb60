//! The server's half of a session: the calls that it runs for one client.
//!
//! ```text
//!   head of a request, whole ─────────▶ Live ──── finish ───────────────────────▶ Free
//!   head of a request in pieces ─▶ Assembling ─┘  │ cancel, deadline, close,        ▲
//!                                       │         ▼ shutdown                        │
//!                                       │       Over ── the handler was dropped ────┤
//!                                       └────────── cancel, deadline ───────────────┘
//! ```
//! A call that is `Over` was answered, or nobody waits for its answer; its place is free only when its handler is gone.

mod answers;
mod cancelled;
mod drain;
mod inbound;
mod reply_metadata;
mod run;
mod streams;

pub use cancelled::HandlerPoll;
pub use inbound::{Incoming, Refused, Start};
pub use run::RunKey;
pub use streams::{Opened, Remains};

use crate::frame::{CallId, ResponseHead, Violation};
use crate::handshake::Agreement;
use crate::limits::Limits;
use crate::session::batch::Batch;
use crate::session::client::IN_FLIGHT_OF_STREAMS;
use crate::session::closure::Closure;
use crate::session::deadlines::Deadlines;
use crate::session::effects::Effects;
use crate::session::message::Body;
use crate::session::outbox::{Outbox, message_size};
use crate::session::reader::Item;
use crate::session::stream::{Flow, FlowStats, Waits};
use crate::session::{Session, Turn};
use punctual_clock::Instant;
use punctual_context::CancelReason;
use run::{Run, State};
use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

/// What a server makes of the budgets that callers send.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BudgetPolicy {
    /// A budget below this is refused with DeadlineExceeded, never raised. Zero: none is.
    pub min: Duration,
    /// A budget above this is cut to it.
    pub max: Option<Duration>,
    /// The budget of a call that came without one.
    pub default: Option<Duration>,
}

/// What a server's session counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerCounters {
    /// Request heads accepted.
    pub accepted: u64,
    /// Calls refused for a limit.
    pub refused: u64,
    /// Results that came for a call that was over.
    pub late_results: u64,
    /// Calls that the client cancelled.
    pub cancelled: u64,
    /// Calls whose budget ended here.
    pub expired: u64,
}

/// One connection as the server sees it.
#[derive(Debug)]
pub struct ServerSession {
    out: Outbox,
    /// What the streams of its calls have in common.
    flow: Flow,
    runs: Vec<Run>,
    free: Vec<u32>,
    deadlines: Deadlines,
    /// From the client's slot to the place of its newest call here, plus one.
    places: Vec<u32>,
    limits: Limits,
    budgets: BudgetPolicy,
    /// Handlers that this connection may start at once, out of those of the whole server.
    permits: usize,
    /// Calls with a reply that are live or assembling, one-way ones, and places that are not free.
    live: usize,
    oneways: usize,
    occupied: usize,
    incoming: Vec<Incoming>,
    /// The highest slot that the client used lately, plus one. It gives out the lowest ones first, so that this is about
    /// how many calls it has under way, most of them between the two sides.
    slots_in_use: usize,
    /// Request heads in wire order; those above `accept_max` are not accepted any more.
    heads: u64,
    draining: bool,
    accept_max: u64,
    pong: Option<u64>,
    /// Calls that were cancelled, the newest last: a context may outlive its handler.
    cancelled: VecDeque<(CallId, CancelReason)>,
    paused: bool,
    closed: Option<Closure>,
    counters: ServerCounters,
}

/// How a handler's result was taken.
#[derive(Debug)]
pub enum Finished {
    /// It is queued, or nobody waits for it; the place is free. The driver's waker is to be woken, the rest dropped.
    Done {
        /// To be woken outside of the lock.
        driver: Option<Waker>,
        /// To be dropped outside of the lock.
        stale: Remains,
    },
    /// There is no room in the queue: wait for it and try again.
    NoRoom,
}

impl ServerSession {
    /// A session under what the handshake agreed on.
    #[must_use]
    pub fn new(agreement: &Agreement, budgets: BudgetPolicy) -> Self {
        ServerSession {
            out: Outbox::for_limits(&agreement.limits),
            flow: Flow::new(agreement),
            runs: Vec::new(),
            free: Vec::new(),
            deadlines: Deadlines::default(),
            places: Vec::new(),
            limits: agreement.limits,
            budgets,
            permits: 0,
            live: 0,
            oneways: 0,
            occupied: 0,
            incoming: Vec::new(),
            slots_in_use: 0,
            heads: 0,
            draining: false,
            accept_max: u64::MAX,
            pong: None,
            cancelled: VecDeque::new(),
            paused: false,
            closed: None,
            counters: ServerCounters::default(),
        }
    }

    /// What was counted so far.
    #[must_use]
    pub fn counters(&self) -> ServerCounters {
        ServerCounters { accepted: self.heads, ..self.counters }
    }

    /// What of the streams can be counted.
    #[must_use]
    pub fn flow(&self) -> FlowStats {
        self.flow.stats()
    }

    /// Exchanges the calls and queries that came with an empty vector.
    pub fn take_incoming(&mut self, incoming: &mut Vec<Incoming>) {
        std::mem::swap(&mut self.incoming, incoming);
    }

    /// Handlers that are running or winding up.
    #[must_use]
    pub fn running(&self) -> usize {
        self.occupied
    }

    /// Calls of which the first piece has come and the last has not.
    #[must_use]
    pub fn assembling(&self) -> usize {
        self.runs.iter().filter(|run| run.state == State::Assembling).count()
    }

    /// How many permits of the server's pool are missing for `more` further calls.
    #[must_use]
    pub fn permits_wanted(&self, more: usize) -> usize {
        (self.occupied + more).saturating_sub(self.permits)
    }

    /// Adds permits from the server's pool.
    pub fn grant_permits(&mut self, permits: usize) {
        self.permits += permits;
    }

    /// Takes the permits beyond what runs and `keep` more, to go back to the pool.
    #[must_use]
    pub fn take_permits(&mut self, keep: usize) -> usize {
        let surplus = self.permits.saturating_sub(self.occupied + keep);
        self.permits -= surplus;
        surplus
    }

    /// Whether reading must pause: as many one-way calls run as are allowed here or by the server's pool, which cannot be
    /// refused, or the peer does not read what it asked for.
    pub fn must_pause(&mut self) -> bool {
        self.paused = self.oneways >= self.running_max()
            || self.occupied > self.permits
            || self.out.queued_bytes() > self.out.queue_bytes_max();
        self.paused
    }

    fn running_max(&self) -> usize {
        self.limits.running_calls_max as usize
    }

    /// Queues the result of a call and frees its place; a result that nobody waits for is only counted. Where there is no
    /// room, `waker` is parked until there may be, and what was parked before is left in its place.
    pub fn finish(
        &mut self,
        key: RunKey,
        head: ResponseHead<'_>,
        body: &mut Body<'_>,
        waker: &mut Option<Waker>,
    ) -> Finished {
        let at = key.at as usize;
        let Some(run) = self.runs.get(at).filter(|run| run.call == key.call && run.state != State::Free) else {
            return Finished::Done { driver: None, stale: Remains::default() };
        };
        let mut driver = None;
        if run.streams.as_deref().is_some_and(|streams| streams.is_open()) {
            return self.finish_stream(key, &head, body, waker);
        }
        if run.state == State::Live && key.call.is_pending() {
            let metadata = self.take_metadata(at);
            let mut head = head;
            if let Some(metadata) = &metadata {
                head.metadata = metadata.as_encoded();
                body.unframe();
            }
            let fits = self.out.fits(message_size(&head, body), 0);
            if !fits || self.out.is_bulk(&head, body) && !self.out.bulk_fits(body.len()) {
                if let Some(new) = waker.take() {
                    // What is waited for is what was missing: a ring that is full may go with a queue that has room.
                    *waker = self.park(key, fits, new);
                }
                self.keep_metadata(at, metadata);
                return Finished::NoRoom;
            }
            self.out.push_message(key.call, head, body, None);
            driver = self.out.take_driver();
        } else if matches!(run.state, State::Over(_)) {
            self.counters.late_results += 1;
        }
        let stale = self.release(key);
        if driver.is_none() {
            driver = self.driver_after_release();
        }
        Finished::Done { driver, stale }
    }

    /// The driver's waker, where it waits for a handler to end.
    #[must_use]
    #[inline]
    pub fn driver_after_release(&mut self) -> Option<Waker> {
        // With the last handler's end the connection gives its permits back, and a stop goes on.
        let waits = self.paused || self.occupied == 0 && (self.permits > 0 || self.accept_max != u64::MAX);
        if waits { self.out.rouse_driver() } else { None }
    }

    /// Frees the place of a call whose handler is gone. What it had parked is returned.
    #[inline]
    pub fn release(&mut self, key: RunKey) -> Remains {
        let Some(run) = self.runs.get_mut(key.at as usize).filter(|run| run.call == key.call) else {
            return Remains::default();
        };
        match run.state {
            State::Free => return Remains::default(),
            State::Live | State::Assembling => {
                if key.call.is_pending() {
                    self.live -= 1;
                }
            }
            State::Over(_) => {}
        }
        if !key.call.is_pending() {
            self.oneways -= 1;
        }
        run.state = State::Free;
        let mut stale = Remains::default();
        if !run.watchers.is_empty() {
            stale.effects.get_or_insert_default().wakers.append(&mut run.watchers);
        }
        stale.waker = run.waker.take();
        if let Some(metadata) = run.metadata.take() {
            stale.effects.get_or_insert_default().garbage.push(metadata.as_encoded().clone());
        }
        if let Some(mut streams) = run.streams.take() {
            let effects = stale.effects.get_or_insert_default();
            streams.close(&mut self.flow, &mut self.out, effects);
        }
        if std::mem::take(&mut run.waits_for_room) {
            stale.room = self.out.leave_room(u64::from(key.at));
        }
        self.occupied -= 1;
        self.free.push(key.at);
        stale
    }

    /// Parks a handler that has a result and no room to encode it. What it had parked before is returned.
    pub fn wait_for_room(&mut self, key: RunKey, waker: Waker) -> Option<Waker> {
        self.park(key, false, waker)
    }

    fn park(&mut self, key: RunKey, ring: bool, waker: Waker) -> Option<Waker> {
        match self.runs.get_mut(key.at as usize).filter(|run| run.call == key.call && run.state != State::Free) {
            Some(run) => run.waits_for_room = true,
            None => return Some(waker),
        }
        self.out.wait_for_room(u64::from(key.at), ring, waker)
    }

    /// The place of the call that holds its slot, or of a one-way call. Those have no slot, and are looked for so rarely
    /// that going through all places is cheaper than an index.
    fn find_newest(&self, call: CallId) -> Option<usize> {
        if !call.is_pending() {
            return self.find(call);
        }
        let place = self.places.get(call.slot() as usize).copied().unwrap_or(0);
        let at = usize::try_from(place).unwrap_or(0).checked_sub(1)?;
        self.runs.get(at).filter(|run| run.call == call && run.state != State::Free).map(|_| at)
    }

    /// The place of any call, also of one that is over and whose slot has a newer call.
    fn find(&self, call: CallId) -> Option<usize> {
        self.runs.iter().position(|run| run.call == call && run.state != State::Free)
    }
}

impl Session for ServerSession {
    fn outbox(&mut self) -> &mut Outbox {
        &mut self.out
    }

    fn note_written(&mut self, bytes: usize, effects: &mut Effects) {
        self.out.note_written(bytes, &mut effects.reached, &mut effects.wakers);
        if self.flow.has_waiters(Waits::Queue) && self.out.take_stream_room() {
            self.wake_line(Waits::Queue, effects);
        }
        if self.flow.is_busy() && self.flow.must_sweep(&self.out) {
            self.sweep();
        }
    }

    fn apply(&mut self, items: &mut Vec<Item>, turn: &Turn<'_>, effects: &mut Effects) -> Result<(), Violation> {
        self.apply_items(items, turn, effects)
    }

    fn due_at(&self) -> Instant {
        self.deadlines.due_at()
    }

    fn expire(&mut self, now: Instant, effects: &mut Effects) {
        let mut due = std::mem::take(&mut effects.due);
        self.deadlines.scan(now, &mut due);
        for at in due.drain(..) {
            let Some(run) = self.runs.get(at) else { continue };
            if matches!(run.state, State::Live | State::Assembling) {
                self.counters.expired += 1;
                self.answer_run(at, run::expired_status());
                self.end(at, CancelReason::Deadline, effects);
            }
        }
        effects.due = due;
    }

    fn close(&mut self, closure: Closure, effects: &mut Effects) -> Batch {
        if self.closed.is_some() {
            return Batch::default();
        }
        let reason = match closure {
            Closure::Shutdown | Closure::Local => CancelReason::Shutdown,
            _ => CancelReason::Disconnected,
        };
        self.closed = Some(closure);
        self.pong = None;
        for at in 0..self.runs.len() {
            // A plain one-way call has no caller that could go away: it runs to its end.
            if self.runs.get(at).is_some_and(|run| run.call.is_pending() || run.state == State::Assembling) {
                self.end(at, reason, effects);
            }
        }
        self.out.clear(&mut effects.garbage, &mut effects.wakers)
    }

    fn closure(&self) -> Option<&Closure> {
        self.closed.as_ref()
    }

    fn accepted(&self) -> u64 {
        self.heads
    }

    fn is_finished(&self) -> bool {
        self.accept_max != u64::MAX && self.occupied == 0 && self.out.is_flushed()
    }

    fn is_draining(&self) -> bool {
        self.draining
    }

    fn load(&self) -> usize {
        self.occupied
    }

    fn in_flight(&self) -> usize {
        let calls = self.slots_in_use.max(self.occupied);
        if self.flow.is_busy() { IN_FLIGHT_OF_STREAMS.max(calls) } else { calls }
    }
}
