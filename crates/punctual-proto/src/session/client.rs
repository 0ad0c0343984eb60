//! The client's half of a session: the table of its calls and the one gate through which they are published.

mod gate;
mod inbound;
mod slot;
mod streams;

pub use gate::{Opened, Opening, Refusal};
pub use slot::{CallKey, Reply, ReplyHead};
pub use streams::PumpPoll;

use crate::frame::{CallId, Cancel, CancelCause, Violation};
use crate::handshake::{Agreement, Capabilities};
use crate::limits::Limits;
use crate::session::batch::Batch;
use crate::session::closure::{Closure, Ending};
use crate::session::deadlines::Deadlines;
use crate::session::effects::Effects;
use crate::session::outbox::Outbox;
use crate::session::reader::Item;
use crate::session::stream::{Flow, FlowStats, Waits};
use crate::session::turnstile::{Ticket, Turnstile};
use crate::session::{Session, Turn};
use punctual_clock::Instant;
use slot::{Awaits, Slot, State};
use std::task::Waker;

/// One connection as the client sees it. A plain structure: the runtime owns the lock around it, and every method is
/// short. What must not happen under that lock (waking, dropping, encoding, asking a clock) is handed back.
#[derive(Debug)]
pub struct ClientSession {
    out: Outbox,
    /// What the streams of its calls have in common.
    flow: Flow,
    slots: Vec<Slot>,
    free: Vec<u32>,
    deadlines: Deadlines,
    limits: Limits,
    cancel_reason: bool,
    /// Whether the server knows streams.
    has_streams: bool,
    /// Calls that the server is running or will run.
    running: usize,
    /// Live slots: each may still need a cancel, for which the queue keeps room.
    live: usize,
    /// Slots that are not free.
    occupied: usize,
    /// Calls that wait for the server to have a place.
    line: Turnstile,
    /// Callers that ever waited for the ring of big messages.
    bulk_waiters: u64,
    /// Request heads published, in wire order.
    heads: u64,
    /// Ids without an entry in the table that were given out.
    counted: u64,
    /// Describe and health queries that wait for their answer.
    queries: Vec<(CallId, u32)>,
    going_away: bool,
    goodbye: Option<Closure>,
    closed: Option<Closure>,
    counters: ClientCounters,
}

/// What streams count for among calls: enough for the longest turn.
pub(crate) const IN_FLIGHT_OF_STREAMS: usize = 1_024;

/// What a client's session counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientCounters {
    /// Request heads published.
    pub published: u64,
    /// Responses that came for a call that was over, or behind its deadline.
    pub late_replies: u64,
    /// Cancels sent.
    pub cancels: u64,
}

/// How a poll for a reply ended.
#[derive(Debug)]
pub enum ReplyPoll {
    /// Not yet; the waker is parked.
    Pending,
    /// Not yet, and another waker than this one is parked: poll again with a clone of it.
    NeedsWaker,
    /// The call is over and its slot free.
    Ready(Reply),
}

impl ClientSession {
    /// A session under what the handshake agreed on.
    #[must_use]
    pub fn new(agreement: &Agreement) -> Self {
        let limits = agreement.limits;
        ClientSession {
            out: Outbox::for_limits(&limits),
            flow: Flow::new(agreement),
            slots: Vec::new(),
            free: Vec::new(),
            deadlines: Deadlines::default(),
            limits,
            cancel_reason: agreement.capabilities.contains(Capabilities::CANCEL_REASON),
            has_streams: agreement.capabilities.contains(Capabilities::STREAMS),
            running: 0,
            live: 0,
            occupied: 0,
            line: Turnstile::default(),
            bulk_waiters: 0,
            heads: 0,
            counted: 0,
            queries: Vec::new(),
            going_away: false,
            goodbye: None,
            closed: None,
            counters: ClientCounters::default(),
        }
    }

    /// What was counted so far.
    #[must_use]
    pub fn counters(&self) -> ClientCounters {
        ClientCounters { published: self.heads, ..self.counters }
    }

    /// What of the streams can be counted.
    #[must_use]
    pub fn flow(&self) -> FlowStats {
        self.flow.stats()
    }

    /// Whether calls can be opened.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.closed.is_none() && !self.going_away
    }

    /// Takes no more calls; the connection ends with the last of those under way.
    pub fn drain(&mut self, effects: &mut Effects) {
        self.going_away = true;
        // Those in line find that out and go elsewhere: nothing that is under way need ever grant them a place.
        self.line.clear(&mut effects.wakers);
        effects.wakers.extend(self.out.rouse_driver());
    }

    /// Whether a call would be let in at once as far as the server's places go.
    #[must_use]
    pub fn has_place(&self) -> bool {
        self.is_open() && !self.line.is_busy() && self.running < self.running_max()
    }

    /// Whether a call with so many streams would be let in as far as the bound of open streams goes.
    #[must_use]
    pub fn has_streams_left(&self, streams: usize) -> bool {
        self.is_open() && self.flow.check(streams).is_ok()
    }

    /// Looks for the reply of a call. A short reply's bytes are exchanged with `buffer`'s room. Where the parked waker is
    /// not `waker`, it is exchanged with `fresh`, or asked for.
    pub fn poll_reply(
        &mut self,
        key: CallKey,
        waker: &Waker,
        fresh: &mut Option<Waker>,
        buffer: &mut Vec<u8>,
    ) -> ReplyPoll {
        let gone = || ReplyPoll::Ready(Reply::Failed(Ending::Closed(Closure::Local)));
        // Only a key that was polled to its end before finds another generation.
        let Some(slot) = self.slots.get_mut(key.at()) else { return gone() };
        if slot.generation != key.0.generation() {
            return gone();
        }
        if let Some(reply) = slot.take(buffer) {
            slot.state = State::Free;
            slot.generation += 1;
            // What is left of its streams was emptied when the call ended.
            slot.streams = None;
            self.occupied -= 1;
            self.free.push(key.0.slot());
            return ReplyPoll::Ready(reply);
        }
        if let Some(metadata) = slot.streams.as_mut().and_then(|streams| streams.take_opened()) {
            return ReplyPoll::Ready(Reply::Opened(metadata));
        }
        if slot.waker.as_ref().is_some_and(|parked| parked.will_wake(waker)) {
            return ReplyPoll::Pending;
        }
        let Some(new) = fresh.take() else { return ReplyPoll::NeedsWaker };
        *fresh = slot.waker.replace(new);
        ReplyPoll::Pending
    }

    /// The caller gives the call up. A live one is cancelled on the server; either way its slot is free at once.
    pub fn abandon(&mut self, key: CallKey, cause: CancelCause, effects: &mut Effects) {
        let Some(slot) = self.slots.get_mut(key.at()).filter(|slot| slot.generation == key.0.generation()) else {
            return;
        };
        effects.stale.extend(slot.waker.take());
        effects.garbage.extend(slot.shared.take());
        slot.other = None;
        let (call, state) = (slot.call, slot.state);
        slot.state = State::Free;
        slot.generation += 1;
        self.occupied -= 1;
        self.free.push(key.0.slot());
        let streams = slot.streams.take();
        if let Some(mut streams) = streams {
            streams.end(&mut self.flow, &mut self.out, effects);
            effects.wakers.extend(self.out.take_driver());
        }
        if let State::Live(awaits) = state {
            self.end_live(awaits, effects);
            match awaits {
                Awaits::Answer => {
                    self.queries.retain(|(query, _)| *query != call);
                    // No cancel wakes the driver, and the connection may have waited for nothing else to end.
                    if self.going_away {
                        effects.wakers.extend(self.out.rouse_driver());
                    }
                }
                Awaits::Reply | Awaits::Emission => self.cancel(call, cause, effects),
            }
        }
    }

    fn cancel(&mut self, call: CallId, cause: CancelCause, effects: &mut Effects) {
        if self.closed.is_some() {
            return;
        }
        let cancel = Cancel(self.cancel_reason.then_some(cause));
        self.out.push_cancel(call, cancel, effects);
        self.flow.credit(self.out.take_refund());
        effects.wakers.extend(self.out.take_driver());
        self.counters.cancels += 1;
    }

    /// A live call ends: its reserve goes back, and its place on the server goes to the next in line.
    #[inline]
    fn end_live(&mut self, awaits: Awaits, effects: &mut Effects) {
        self.live -= 1;
        if awaits == Awaits::Reply {
            self.running -= 1;
            if self.line.is_busy() {
                self.line.grant(self.running_max().saturating_sub(self.running), &mut effects.wakers);
            }
        }
    }

    fn running_max(&self) -> usize {
        self.limits.running_calls_max as usize
    }

    /// Ends a live call with anything but a response.
    fn fail(&mut self, at: usize, ending: Ending, effects: &mut Effects) {
        let Some(slot) = self.slots.get_mut(at) else { return };
        let State::Live(awaits) = slot.state else { return };
        slot.end(Reply::Failed(ending));
        effects.wakers.extend(slot.waker.take());
        if let Some(streams) = &mut slot.streams {
            // What its consumer has not taken is given up with the call.
            streams.end(&mut self.flow, &mut self.out, effects);
        }
        let call = slot.call;
        if awaits == Awaits::Answer {
            self.queries.retain(|(query, _)| *query != call);
        }
        self.end_live(awaits, effects);
    }

    /// Enters the line of calls that wait for a place on the server. A place that became free since the gate refused is
    /// granted at once: nobody else would do it.
    pub fn enter_line(&mut self, waker: Waker, effects: &mut Effects) -> Ticket {
        let ticket = self.line.enter(waker);
        self.line.grant(self.running_max().saturating_sub(self.running), &mut effects.wakers);
        ticket
    }

    /// Whether the ticket was granted a place, or nothing will be granted any more. Else `waker` is parked.
    pub fn poll_line(&mut self, ticket: Ticket, waker: &mut Waker) -> bool {
        !self.is_open() || self.line.poll(ticket, waker)
    }

    /// Leaves the line, giving a granted place to the next.
    pub fn leave_line(&mut self, ticket: Ticket, effects: &mut Effects) {
        effects.stale.extend(self.line.leave(ticket));
        self.line.grant(self.running_max().saturating_sub(self.running), &mut effects.wakers);
    }

    /// Whether a body of `bytes` fits the ring of big messages, or nothing will any more. Else `waker` is parked under
    /// the number that `waiter` is given, and what was parked before is left in its place.
    pub fn poll_bulk(&mut self, bytes: usize, waiter: &mut Option<u64>, waker: &mut Option<Waker>) -> bool {
        if !self.is_open() || self.out.bulk_fits(bytes) {
            return true;
        }
        if let Some(new) = waker.take() {
            let key = *waiter.get_or_insert_with(|| {
                self.bulk_waiters += 1;
                self.bulk_waiters
            });
            *waker = self.out.wait_for_room(key, true, new);
        }
        false
    }

    /// Whether half of the queue is free, or nothing will be let in any more. Else `waker` is parked as in
    /// [`ClientSession::poll_bulk`].
    pub fn poll_room(&mut self, waiter: &mut Option<u64>, waker: &mut Option<Waker>) -> bool {
        if !self.is_open() || self.out.queued_bytes() <= self.out.queue_bytes_max() / 2 {
            return true;
        }
        if let Some(new) = waker.take() {
            let key = *waiter.get_or_insert_with(|| {
                self.bulk_waiters += 1;
                self.bulk_waiters
            });
            *waker = self.out.wait_for_room(key, false, new);
        }
        false
    }

    /// Takes a caller away that waited in [`ClientSession::poll_bulk`]. Its waker is to be dropped outside of the lock.
    pub fn leave_bulk(&mut self, waiter: u64) -> Option<Waker> {
        self.out.leave_room(waiter)
    }
}

impl Session for ClientSession {
    fn outbox(&mut self) -> &mut Outbox {
        &mut self.out
    }

    fn note_written(&mut self, bytes: usize, effects: &mut Effects) {
        self.out.note_written(bytes, &mut effects.reached, &mut effects.wakers);
        while let Some(mark) = effects.reached.pop() {
            let call = CallId::from_u64(mark);
            let at = call.slot() as usize;
            let Some(slot) = self.slots.get_mut(at) else { continue };
            if slot.generation != call.generation() {
                continue;
            }
            if slot.state == State::Live(Awaits::Emission) {
                slot.state = State::Emitted;
                effects.wakers.extend(slot.waker.take());
                self.end_live(Awaits::Emission, effects);
            } else if let Some(streams) = &mut slot.streams {
                streams.emit(effects);
            }
        }
        if self.flow.has_waiters(Waits::Queue) && self.out.take_stream_room() {
            self.wake_line(Waits::Queue, effects);
        }
        if self.flow.is_busy() && self.flow.must_sweep(&self.out) {
            self.sweep();
        }
    }

    fn due_at(&self) -> Instant {
        self.deadlines.due_at()
    }

    fn expire(&mut self, now: Instant, effects: &mut Effects) {
        let mut due = std::mem::take(&mut effects.due);
        self.deadlines.scan(now, &mut due);
        for at in due.drain(..) {
            let Some(slot) = self.slots.get(at) else { continue };
            let (State::Live(awaits), call) = (slot.state, slot.call) else { continue };
            self.fail(at, Ending::Deadline, effects);
            if awaits != Awaits::Answer {
                self.cancel(call, CancelCause::Deadline, effects);
            }
        }
        effects.due = due;
    }

    fn close(&mut self, closure: Closure, effects: &mut Effects) -> Batch {
        if self.closed.is_some() {
            return Batch::default();
        }
        let closure = match (&closure, self.goodbye.take()) {
            // What the peer said before it closed tells more than that it closed.
            (Closure::Lost(_), Some(goodbye)) => goodbye,
            _ => closure,
        };
        self.closed = Some(closure.clone());
        for at in 0..self.slots.len() {
            self.fail(at, Ending::Closed(closure.clone()), effects);
        }
        self.line.clear(&mut effects.wakers);
        self.out.clear(&mut effects.garbage, &mut effects.wakers)
    }

    fn apply(&mut self, items: &mut Vec<Item>, turn: &Turn<'_>, effects: &mut Effects) -> Result<(), Violation> {
        self.apply_items(items, turn, effects)
    }

    fn closure(&self) -> Option<&Closure> {
        self.closed.as_ref()
    }

    fn accepted(&self) -> u64 {
        0
    }

    fn is_finished(&self) -> bool {
        self.going_away && self.live == 0 && self.out.is_flushed()
    }

    fn is_draining(&self) -> bool {
        self.going_away
    }

    fn load(&self) -> usize {
        self.live
    }

    fn in_flight(&self) -> usize {
        // Callers whose reply has come are about to take it, and commonly call again. A stream is many frames.
        if self.flow.is_busy() { IN_FLIGHT_OF_STREAMS.max(self.occupied) } else { self.occupied }
    }
}
