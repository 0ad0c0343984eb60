//! The streams of a server's calls: those that the client sends, and the one that a handler returns.

use crate::codec::Codec;
use crate::frame::{
    CallId, CallStreams, Credit, DataHead, EndHead, FrameHeader, Kind, Outcome, PAYLOAD_BYTES_MAX, ResponseHead,
    Violation,
};
use crate::session::Turn;
use crate::session::effects::Effects;
use crate::session::message::Body;
use crate::session::outbox::{Outbox, message_size};
use crate::session::server::{Finished, RunKey, ServerSession, State};
use crate::session::stream::{
    Blocked, Consumed, Flow, Inlet, ItemsPoll, Outgoing, SendPoll, StreamEnd, StreamItem, Waits,
};
use bytes::Bytes;
use punctual_context::CancelReason;
use std::collections::VecDeque;
use std::task::Waker;

/// The streams of one call.
#[derive(Debug)]
pub(crate) struct Streams {
    wanted: CallStreams,
    inlets: Vec<Inlet>,
    outgoing: Outgoing,
    /// The call was answered with its returned stream.
    open: bool,
}

/// What is left of a call whose place was given back. To be dropped outside of the lock: it wakes who reads the call's
/// streams still.
#[derive(Debug, Default)]
pub struct Remains {
    pub(super) waker: Option<Waker>,
    pub(super) room: Option<Waker>,
    /// Calls with streams are few beside those without.
    pub(super) effects: Option<Box<Effects>>,
}

impl Remains {
    pub(super) fn into_effects(mut self, effects: &mut Effects) {
        effects.stale.extend(self.waker.take());
        effects.stale.extend(self.room.take());
        if let Some(mut own) = self.effects.take() {
            effects.wakers.append(&mut own.wakers);
            effects.garbage.append(&mut own.garbage);
        }
    }
}

impl Drop for Remains {
    fn drop(&mut self) {
        if let Some(mut effects) = self.effects.take() {
            effects.run();
        }
    }
}

/// How an attempt to open a returned stream ended.
#[derive(Debug)]
pub enum Opened {
    /// It is open; the driver's waker is to be woken.
    Done(Option<Waker>),
    /// There is no room in the queue: the waker is parked, or was not given.
    NoRoom,
    /// The call is over.
    Over,
}

impl Streams {
    /// Whether the call was answered with its returned stream.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// The call is over: nobody reads or sends any more.
    pub(crate) fn close(&mut self, flow: &mut Flow, out: &mut Outbox, effects: &mut Effects) {
        for inlet in &mut self.inlets {
            flow.abandon(inlet, out, effects);
        }
        self.outgoing.wake(effects);
        flow.closed(self.wanted.count());
        effects.wakers.extend(out.take_driver());
    }
}

impl ServerSession {
    pub(super) fn open_streams(&mut self, key: RunKey, wanted: CallStreams) {
        self.flow.opened(wanted.count());
        if let Some(run) = self.runs.get_mut(key.at as usize) {
            run.streams = Some(Box::new(Streams {
                wanted,
                inlets: (0..wanted.arguments()).map(|_| Inlet::default()).collect(),
                outgoing: Outgoing::new(1),
                open: false,
            }));
        }
    }

    /// Answers a call with its returned stream, whose items and end follow.
    pub fn open_returned(&mut self, key: RunKey, waker: &mut Option<Waker>) -> Opened {
        let metadata = self.take_metadata(key.at as usize);
        let Some(run) = self.runs.get_mut(key.at as usize).filter(|run| run.call == key.call) else {
            return Opened::Over;
        };
        let (State::Live, Some(streams)) = (run.state, run.streams.as_deref_mut()) else { return Opened::Over };
        if streams.open {
            return Opened::Over;
        }
        let head = ResponseHead {
            outcome: Outcome::Ok,
            codec: Codec::Compact,
            metadata: metadata.as_deref().map_or(&[], |metadata| metadata.as_encoded()),
            streamed: true,
            total: None,
            plain: None,
            body: &[],
        };
        let mut body = Body::default();
        if !self.out.fits(message_size(&head, &body), 0) {
            if let Some(new) = waker.take() {
                *waker = self.park(key, false, new);
            }
            self.keep_metadata(key.at as usize, metadata);
            return Opened::NoRoom;
        }
        streams.open = true;
        self.out.push_message(key.call, head, &mut body, None);
        Opened::Done(self.out.take_driver())
    }

    /// Queues an item of the returned stream. The body is taken only where it is sent.
    pub fn send_item(
        &mut self,
        key: RunKey,
        codec: Codec,
        body: &mut Body<'_>,
        waker: &Waker,
        fresh: &mut Option<Waker>,
    ) -> SendPoll {
        let ServerSession { runs, flow, out, .. } = self;
        let run = runs.get_mut(key.at as usize).filter(|run| run.call == key.call && run.state == State::Live);
        let Some(streams) = run.and_then(|run| run.streams.as_deref_mut()).filter(|streams| streams.open) else {
            return SendPoll::Over;
        };
        let Some(outlet) = streams.outgoing.outlets.first_mut() else { return SendPoll::Over };
        let blocked = match outlet.send(key.call, 0, codec, body, flow, out) {
            Ok(()) => return SendPoll::Sent(out.take_driver()),
            Err(blocked) => blocked,
        };
        if !streams.outgoing.park(waker, fresh) {
            return SendPoll::NeedsWaker;
        }
        if let Blocked::Shared(waits) = blocked {
            streams.outgoing.wait(key.at, waits, flow);
        }
        SendPoll::Wait
    }

    /// The result of a call whose returned stream is open is the end of that. An error over one frame becomes a status.
    pub(super) fn finish_stream(
        &mut self,
        key: RunKey,
        head: &ResponseHead<'_>,
        body: &mut Body<'_>,
        waker: &mut Option<Waker>,
    ) -> Finished {
        if head.outcome == Outcome::Ok && self.out.has_bulk(key.call) {
            // A clean end comes behind the last item. Another one need not wait: what is unfinished is given up.
            if let Some(new) = waker.take() {
                *waker = self.park(key, true, new);
            }
            return Finished::NoRoom;
        }
        let mut bytes = Vec::new();
        let (mut outcome, mut codec) = (head.outcome, head.codec);
        if outcome != Outcome::Ok {
            body.copy_to(&mut bytes);
        }
        if bytes.len() + head.metadata.len() + 4 > PAYLOAD_BYTES_MAX as usize {
            let max = u64::from(PAYLOAD_BYTES_MAX);
            let text = format!("the stream's error has {} bytes; one frame takes {max}", bytes.len());
            bytes.clear();
            crate::status::Status::resource_exhausted(text).with_limit("end_bytes_max", max).encode(&mut bytes);
            (outcome, codec) = (Outcome::Status, Codec::Compact);
        }
        let end = EndHead { stream: 0, outcome, codec, metadata: head.metadata, body: &bytes };
        self.out.push_end(key.call, &end);
        let stale = self.release(key);
        let driver = self.out.take_driver().or_else(|| self.driver_after_release());
        Finished::Done { driver, stale }
    }

    /// Looks for items of the argument stream `stream`, from 1. They come in `buffer`, which must be empty, in exchange for
    /// what was consumed before.
    #[expect(clippy::too_many_arguments, reason = "one step under one lock")]
    pub fn poll_items(
        &mut self,
        key: RunKey,
        stream: u16,
        consumed: Consumed,
        buffer: &mut VecDeque<StreamItem>,
        waker: &Waker,
        fresh: &mut Option<Waker>,
        effects: &mut Effects,
    ) -> ItemsPoll {
        self.consume(key, stream, consumed, effects);
        let Some(run) = self.runs.get_mut(key.at as usize).filter(|run| run.call == key.call) else {
            return ItemsPoll::Over(CancelReason::Disconnected);
        };
        match run.state {
            State::Over(reason) => return ItemsPoll::Over(reason),
            State::Free => return ItemsPoll::Over(CancelReason::Disconnected),
            State::Live | State::Assembling => {}
        }
        let inlet = run.streams.as_deref_mut().and_then(|streams| streams.inlet(stream));
        let Some(inlet) = inlet else { return ItemsPoll::Over(CancelReason::ConsumerGone) };
        match inlet.take(buffer) {
            Some(polled) => polled,
            None => inlet.park(waker, fresh),
        }
    }

    /// Notes what the consumer of an argument stream took.
    pub fn consume(&mut self, key: RunKey, stream: u16, consumed: Consumed, effects: &mut Effects) {
        if consumed == Consumed::default() {
            return;
        }
        let ServerSession { runs, flow, out, .. } = self;
        let run = runs.get_mut(key.at as usize).filter(|run| run.call == key.call);
        let inlet = run.and_then(|run| run.streams.as_deref_mut()).and_then(|streams| streams.inlet(stream));
        if let Some(inlet) = inlet {
            flow.consume(inlet, consumed, key.call, stream, out);
            effects.wakers.extend(out.take_driver());
        }
    }

    /// The consumer of an argument stream is gone: what comes for it is dropped, and its producer stands still at the
    /// window.
    pub fn abandon_stream(&mut self, key: RunKey, stream: u16, effects: &mut Effects) {
        let ServerSession { runs, flow, out, .. } = self;
        let run = runs.get_mut(key.at as usize).filter(|run| run.call == key.call);
        let inlet = run.and_then(|run| run.streams.as_deref_mut()).and_then(|streams| streams.inlet(stream));
        if let Some(inlet) = inlet {
            flow.abandon(inlet, out, effects);
            effects.wakers.extend(out.take_driver());
        }
    }

    /// The live call with this id, and its stream; an error where it has no such stream, `None` where it is over.
    fn argument(&mut self, kind: Kind, call: CallId, stream: u16) -> Result<Option<(&mut Streams, usize)>, Violation> {
        let Some(at) = self.find_newest(call) else { return Ok(None) };
        let Some(run) = self.runs.get_mut(at).filter(|run| run.state == State::Live) else { return Ok(None) };
        let index = usize::from(stream).wrapping_sub(1);
        match run.streams.as_deref_mut() {
            Some(streams) if index < streams.inlets.len() => Ok(Some((streams, index))),
            _ => Err(Violation::StreamId { kind, stream, rule: "its call has no such stream" }),
        }
    }

    /// An item of an argument stream.
    pub(super) fn take_item(
        &mut self,
        call: CallId,
        head: &DataHead<'_>,
        bytes: Bytes,
        effects: &mut Effects,
    ) -> Result<(), Violation> {
        let item = StreamItem { bytes, codec: head.codec, charged: head.charged, plain: head.plain };
        let taking = match self.argument(Kind::Data, call, head.stream)? {
            Some((streams, index)) => streams.inlets.get(index).is_some_and(Inlet::is_taking),
            None => false,
        };
        let at = if taking { self.find_newest(call) } else { None };
        let ServerSession { runs, flow, out, .. } = self;
        let run = at.and_then(|at| runs.get_mut(at));
        let inlet = run.and_then(|run| run.streams.as_deref_mut()).and_then(|streams| streams.inlet(head.stream));
        let Some(inlet) = inlet else {
            flow.discard(&item, out);
            effects.garbage.push(item.bytes);
            return Ok(());
        };
        flow.accept(inlet, item, call, head.stream)?;
        inlet.wake(effects);
        if flow.must_sweep(out) {
            self.sweep();
        }
        Ok(())
    }

    /// The end of an argument stream.
    pub(super) fn end_argument(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        turn: &Turn<'_>,
        effects: &mut Effects,
    ) -> Result<(), Violation> {
        let end = EndHead::decode(header, payload, turn.rules)?;
        let Some((streams, index)) = self.argument(Kind::End, header.call, header.stream)? else { return Ok(()) };
        if let Some(inlet) = streams.inlets.get_mut(index).filter(|inlet| inlet.is_taking()) {
            inlet.end(StreamEnd {
                outcome: end.outcome,
                codec: end.codec,
                metadata: Bytes::copy_from_slice(end.metadata),
                body: Bytes::copy_from_slice(end.body),
            });
            inlet.wake(effects);
        }
        Ok(())
    }

    pub(super) fn take_credit(
        &mut self,
        header: &FrameHeader,
        payload: &[u8],
        effects: &mut Effects,
    ) -> Result<(), Violation> {
        let bytes = u64::from(Credit::decode(payload)?.0);
        if header.call == CallId::NONE {
            self.flow.credit(bytes);
            self.wake_line(Waits::Window, effects);
        } else if let Some(at) = self.find_newest(header.call)
            && let Some(streams) = self.runs.get_mut(at).and_then(|run| run.streams.as_deref_mut())
        {
            streams.outgoing.credit(0, bytes, effects);
        }
        Ok(())
    }

    /// Wakes the producers that wait for something that is shared.
    pub(super) fn wake_line(&mut self, waits: Waits, effects: &mut Effects) {
        for at in self.flow.take_waiters(waits) {
            if let Some(streams) = self.runs.get_mut(at as usize).and_then(|run| run.streams.as_deref_mut()) {
                streams.outgoing.left(waits);
                streams.outgoing.wake(effects);
            }
        }
    }

    /// Gives back what each stream's consumer has taken.
    pub(super) fn sweep(&mut self) {
        let ServerSession { runs, flow, out, .. } = self;
        for run in runs.iter_mut() {
            let Some(streams) = run.streams.as_deref_mut() else { continue };
            for (index, inlet) in streams.inlets.iter_mut().enumerate() {
                flow.sweep(inlet, run.call, u16::try_from(index + 1).unwrap_or(u16::MAX), out);
            }
        }
        flow.end_sweep(out);
    }
}

impl Streams {
    fn inlet(&mut self, stream: u16) -> Option<&mut Inlet> {
        self.inlets.get_mut(usize::from(stream).wrapping_sub(1))
    }
}
