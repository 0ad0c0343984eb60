//! The streams of a client's calls: those that it sends, and the one that is returned.
//!
//! ```text
//!  gate ─▶ written ─▶ producers send ... END each
//!    └─▶ RESPONSE ─▶ the call is over, whatever its producers still have
//!    └─▶ RESPONSE that opens the returned stream ─▶ items ... ─▶ END: the call is over
//! ```

use crate::codec::Codec;
use crate::frame::{CallId, CallStreams, Credit, DataHead, EndHead, FrameHeader, Kind, Violation};
use crate::session::Turn;
use crate::session::client::{Awaits, CallKey, ClientSession, Reply, State};
use crate::session::closure::{Closure, Ending};
use crate::session::effects::Effects;
use crate::session::message::Body;
use crate::session::outbox::Outbox;
use crate::session::stream::{
    Blocked, Consumed, Flow, Inlet, ItemsPoll, Outgoing, SendPoll, StreamEnd, StreamItem, Waits,
};
use bytes::Bytes;
use punctual_clock::Instant;
use std::collections::VecDeque;
use std::task::Waker;

/// The streams of one call.
#[derive(Debug)]
pub(crate) struct Streams {
    wanted: CallStreams,
    /// The request's last byte was written: producers may send.
    emitted: bool,
    outgoing: Outgoing,
    /// The returned stream was opened, with this metadata until somebody was told.
    is_open: bool,
    opened: Option<Bytes>,
    inlet: Inlet,
    /// The call is over.
    over: bool,
}

/// What the producers of a call are told.
#[derive(Debug, PartialEq, Eq)]
pub enum PumpPoll {
    /// The request is not written yet; the waker is parked.
    Wait,
    /// They may send; the waker is parked.
    Go,
    /// Another waker is parked: ask again with a clone of this one.
    NeedsWaker,
    /// The call is over.
    Over,
}

impl Streams {
    pub(crate) fn new(wanted: CallStreams) -> Self {
        Streams {
            wanted,
            emitted: false,
            outgoing: Outgoing::new(usize::from(wanted.arguments())),
            is_open: false,
            opened: None,
            inlet: Inlet::default(),
            over: false,
        }
    }

    pub(crate) fn take_opened(&mut self) -> Option<Bytes> {
        self.opened.take()
    }

    /// The request was written.
    pub(crate) fn emit(&mut self, effects: &mut Effects) {
        self.emitted = true;
        self.outgoing.wake(effects);
    }

    /// The call is over, and nobody takes what was received.
    pub(crate) fn end(&mut self, flow: &mut Flow, out: &mut Outbox, effects: &mut Effects) {
        flow.abandon(&mut self.inlet, out, effects);
        self.stop(flow, effects);
    }

    /// The call is over; what was received can still be taken.
    fn stop(&mut self, flow: &mut Flow, effects: &mut Effects) {
        self.outgoing.wake(effects);
        self.inlet.wake(effects);
        if !std::mem::replace(&mut self.over, true) {
            flow.closed(self.wanted.count());
        }
    }
}

impl ClientSession {
    fn streams(&mut self, key: CallKey) -> Option<&mut Streams> {
        let slot = self.slots.get_mut(key.at()).filter(|slot| slot.generation == key.0.generation())?;
        slot.streams.as_deref_mut()
    }

    /// Asks, for the producers of a call, whether they may send.
    pub fn poll_pump(&mut self, key: CallKey, waker: &Waker, fresh: &mut Option<Waker>) -> PumpPoll {
        let Some(streams) = self.streams(key).filter(|streams| !streams.over) else { return PumpPoll::Over };
        match (streams.outgoing.park(waker, fresh), streams.emitted) {
            (false, _) => PumpPoll::NeedsWaker,
            (true, false) => PumpPoll::Wait,
            (true, true) => PumpPoll::Go,
        }
    }

    /// Queues an item of the argument stream `stream`, from 1. The body is taken only where it is sent.
    pub fn send_item(
        &mut self,
        key: CallKey,
        stream: u16,
        codec: Codec,
        body: &mut Body<'_>,
        waker: &Waker,
        fresh: &mut Option<Waker>,
    ) -> SendPoll {
        let ClientSession { slots, flow, out, .. } = self;
        let slot = slots.get_mut(key.at()).filter(|slot| slot.generation == key.0.generation());
        let Some(streams) = slot.and_then(|slot| slot.streams.as_deref_mut()).filter(|streams| !streams.over) else {
            return SendPoll::Over;
        };
        let index = usize::from(stream).wrapping_sub(1);
        let Some(outlet) = streams.outgoing.outlets.get_mut(index).filter(|outlet| !outlet.ended) else {
            return SendPoll::Over;
        };
        let blocked = match outlet.send(key.0, stream, codec, body, flow, out) {
            Ok(()) => return SendPoll::Sent(out.take_driver()),
            Err(blocked) => blocked,
        };
        if !streams.outgoing.park(waker, fresh) {
            return SendPoll::NeedsWaker;
        }
        if let Blocked::Shared(waits) = blocked {
            streams.outgoing.wait(key.0.slot(), waits, flow);
        }
        SendPoll::Wait
    }

    /// Queues the end of an argument stream, behind its last item.
    pub fn end_stream(
        &mut self,
        key: CallKey,
        end: &EndHead<'_>,
        waker: &Waker,
        fresh: &mut Option<Waker>,
    ) -> SendPoll {
        let ClientSession { slots, flow, out, .. } = self;
        let slot = slots.get_mut(key.at()).filter(|slot| slot.generation == key.0.generation());
        let Some(streams) = slot.and_then(|slot| slot.streams.as_deref_mut()).filter(|streams| !streams.over) else {
            return SendPoll::Over;
        };
        let index = usize::from(end.stream).wrapping_sub(1);
        let Some(outlet) = streams.outgoing.outlets.get_mut(index).filter(|outlet| !outlet.ended) else {
            return SendPoll::Over;
        };
        if out.has_bulk(key.0) {
            if !streams.outgoing.park(waker, fresh) {
                return SendPoll::NeedsWaker;
            }
            streams.outgoing.wait(key.0.slot(), Waits::Queue, flow);
            return SendPoll::Wait;
        }
        outlet.ended = true;
        out.push_end(key.0, end);
        SendPoll::Sent(out.take_driver())
    }

    /// Looks for items of the returned stream. They come in `buffer`, which must be empty, in exchange for what was
    /// consumed before. With the end, or a failure, the call's slot is free.
    pub fn poll_items(
        &mut self,
        key: CallKey,
        consumed: Consumed,
        buffer: &mut VecDeque<StreamItem>,
        waker: &Waker,
        fresh: &mut Option<Waker>,
        effects: &mut Effects,
    ) -> ItemsPoll {
        let gone = || ItemsPoll::Failed(Ending::Closed(Closure::Local));
        self.consume(key, consumed, effects);
        let Some(slot) = self.slots.get_mut(key.at()).filter(|slot| slot.generation == key.0.generation()) else {
            return gone();
        };
        if slot.state == State::Other {
            let reply = slot.other.take().map(|reply| *reply);
            self.abandon(key, crate::frame::CancelCause::User, effects);
            return match reply {
                Some(Reply::Failed(ending)) => ItemsPoll::Failed(ending),
                _ => gone(),
            };
        }
        let Some(streams) = slot.streams.as_deref_mut() else { return gone() };
        match streams.inlet.take(buffer) {
            Some(ItemsPoll::End(end)) => {
                self.abandon(key, crate::frame::CancelCause::User, effects);
                ItemsPoll::End(end)
            }
            Some(polled) => polled,
            None => streams.inlet.park(waker, fresh),
        }
    }

    /// Notes what the consumer of the returned stream took.
    pub fn consume(&mut self, key: CallKey, consumed: Consumed, effects: &mut Effects) {
        if consumed == Consumed::default() {
            return;
        }
        let ClientSession { slots, flow, out, .. } = self;
        let slot = slots.get_mut(key.at()).filter(|slot| slot.generation == key.0.generation());
        if let Some(streams) = slot.and_then(|slot| slot.streams.as_deref_mut()) {
            flow.consume(&mut streams.inlet, consumed, key.0, 0, out);
            effects.wakers.extend(out.take_driver());
        }
    }

    /// A response opens the returned stream.
    pub(super) fn open_returned(
        &mut self,
        call: CallId,
        metadata: &[u8],
        turn: &Turn<'_>,
        effects: &mut Effects,
    ) -> Result<(), Violation> {
        let at = call.slot() as usize;
        let late = self.deadlines.has_passed(at, turn.now);
        let live = State::Live(Awaits::Reply);
        let slot = self.slots.get_mut(at).filter(|slot| slot.generation == call.generation() && slot.state == live);
        let Some(slot) = slot else {
            self.counters.late_replies += 1;
            return Ok(());
        };
        if late {
            self.counters.late_replies += 1;
            self.fail(at, Ending::Deadline, effects);
            self.cancel(call, crate::frame::CancelCause::Deadline, effects);
            return Ok(());
        }
        match slot.streams.as_deref_mut().filter(|streams| streams.wanted.returned() && !streams.is_open) {
            Some(streams) => {
                streams.is_open = true;
                streams.opened = Some(Bytes::copy_from_slice(metadata));
                effects.wakers.extend(slot.waker.take());
                Ok(())
            }
            None => {
                let rule = "a returned stream is opened once, and for a call that asked for one";
                Err(Violation::StreamState { kind: Kind::Response, call, stream: 0, rule })
            }
        }
    }

    /// A response that opens no stream must not come for a call whose returned stream is open.
    #[inline]
    pub(super) fn check_unopened(&self, call: CallId) -> Result<(), Violation> {
        if !self.flow.is_busy() {
            return Ok(());
        }
        let slot = self.slots.get(call.slot() as usize).filter(|slot| slot.generation == call.generation());
        if slot.and_then(|slot| slot.streams.as_deref()).is_some_and(|streams| streams.is_open && !streams.over) {
            let rule = "the end of its returned stream ends the call";
            return Err(Violation::StreamState { kind: Kind::Response, call, stream: 0, rule });
        }
        Ok(())
    }

    /// An item of a returned stream.
    pub(super) fn take_item(
        &mut self,
        call: CallId,
        head: &DataHead<'_>,
        bytes: Bytes,
        now: Instant,
        effects: &mut Effects,
    ) -> Result<(), Violation> {
        let item = StreamItem { bytes, codec: head.codec, charged: head.charged, plain: head.plain };
        let at = call.slot() as usize;
        let late = self.deadlines.has_passed(at, now);
        let ClientSession { slots, flow, out, .. } = self;
        let live = State::Live(Awaits::Reply);
        let slot = slots.get_mut(at).filter(|slot| slot.generation == call.generation() && slot.state == live);
        let Some(slot) = slot else {
            flow.discard(&item, out);
            effects.garbage.push(item.bytes);
            effects.wakers.extend(out.take_driver());
            return Ok(());
        };
        if late {
            flow.discard(&item, out);
            effects.garbage.push(item.bytes);
            self.fail(at, Ending::Deadline, effects);
            self.cancel(call, crate::frame::CancelCause::Deadline, effects);
            return Ok(());
        }
        let Some(streams) = slot.streams.as_deref_mut().filter(|streams| streams.is_open) else {
            let rule = "its call was not answered with a stream";
            return Err(Violation::StreamState { kind: Kind::Data, call, stream: 0, rule });
        };
        flow.accept(&mut streams.inlet, item, call, 0)?;
        streams.inlet.wake(effects);
        if flow.must_sweep(out) {
            self.sweep();
            effects.wakers.extend(self.out.take_driver());
        }
        Ok(())
    }

    /// The end of a returned stream, and so of its call.
    pub(super) fn end_returned(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        turn: &Turn<'_>,
        effects: &mut Effects,
    ) -> Result<(), Violation> {
        let call = header.call;
        let end = EndHead::decode(header, payload, turn.rules)?;
        let at = call.slot() as usize;
        let late = self.deadlines.has_passed(at, turn.now);
        let ClientSession { slots, flow, .. } = self;
        let live = State::Live(Awaits::Reply);
        let slot = slots.get_mut(at).filter(|slot| slot.generation == call.generation() && slot.state == live);
        let Some(slot) = slot else {
            self.counters.late_replies += 1;
            return Ok(());
        };
        if late {
            self.counters.late_replies += 1;
            self.fail(at, Ending::Deadline, effects);
            return Ok(());
        }
        let Some(streams) = slot.streams.as_deref_mut().filter(|streams| streams.is_open) else {
            let rule = "its call was not answered with a stream";
            return Err(Violation::StreamState { kind: Kind::End, call, stream: 0, rule });
        };
        streams.inlet.end(StreamEnd {
            outcome: end.outcome,
            codec: end.codec,
            metadata: Bytes::copy_from_slice(end.metadata),
            body: Bytes::copy_from_slice(end.body),
        });
        slot.state = State::Ended;
        effects.wakers.extend(slot.waker.take());
        streams.stop(flow, effects);
        self.end_live(Awaits::Reply, effects);
        Ok(())
    }

    /// The response of a call with streams came: its producers are told.
    #[cold]
    pub(super) fn end_streams(&mut self, at: usize, effects: &mut Effects) {
        let ClientSession { slots, flow, out, .. } = self;
        if let Some(streams) = slots.get_mut(at).and_then(|slot| slot.streams.as_deref_mut()) {
            streams.end(flow, out, effects);
        }
    }

    pub(super) fn take_credit(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        effects: &mut Effects,
    ) -> Result<(), Violation> {
        let bytes = u64::from(Credit::decode(payload)?.0);
        let call = header.call;
        if call == CallId::NONE {
            self.flow.credit(bytes);
            self.wake_line(Waits::Window, effects);
            return Ok(());
        }
        let slot = self.slots.get_mut(call.slot() as usize).filter(|slot| slot.generation == call.generation());
        let Some(streams) = slot.and_then(|slot| slot.streams.as_deref_mut()).filter(|streams| !streams.over) else {
            return Ok(());
        };
        if streams.outgoing.credit(usize::from(header.stream).wrapping_sub(1), bytes, effects) {
            Ok(())
        } else {
            let rule = "its call has no such stream";
            Err(Violation::StreamId { kind: Kind::Credit, stream: header.stream, rule })
        }
    }

    /// Wakes the producers that wait for something that is shared.
    pub(super) fn wake_line(&mut self, waits: Waits, effects: &mut Effects) {
        for at in self.flow.take_waiters(waits) {
            if let Some(streams) = self.slots.get_mut(at as usize).and_then(|slot| slot.streams.as_deref_mut()) {
                streams.outgoing.left(waits);
                streams.outgoing.wake(effects);
            }
        }
    }

    /// Gives back what each stream's consumer has taken.
    pub(super) fn sweep(&mut self) {
        let ClientSession { slots, flow, out, .. } = self;
        for slot in slots.iter_mut() {
            let State::Live(_) = slot.state else { continue };
            if let Some(streams) = slot.streams.as_deref_mut() {
                flow.sweep(&mut streams.inlet, slot.call, 0, out);
            }
        }
        flow.end_sweep(out);
    }
}
