//! Calls with streams over both halves of a session, moved step by step, with everything that must hold judged on the way.

use crate::codec::Codec;
use crate::frame::{
    CallId, CallStreams, CancelCause, Direction, EndHead, FrameHeader, FrameRules, HEADER_BYTES, Kind, Outcome,
    RequestHead, ResponseHead,
};
use crate::handshake::{Agreement, Capabilities, Windows};
use crate::limits::Limits;
use crate::session::tests::world::{MILLI, Pipe, body_of};
use crate::session::*;
use crate::status::Status;
use bytes::{Buf, Bytes, BytesMut};
use punctual_clock::Instant;
use punctual_context::CancelReason;
use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;
use std::time::Duration;

/// Lengths on each side of what is not charged, of half a window, of a frame and of a window.
pub(super) const ITEMS: [usize; 8] = [8, 100, 5_000, 30_000, 32_736, 40_000, 70_000, 150_000];

/// One end of a stream, as the test knows it: what was sent or taken so far.
#[derive(Default)]
pub(super) struct End {
    pub(super) items: u64,
    pub(super) ended: bool,
    /// What a consumer fetched and has not taken.
    buffer: VecDeque<StreamItem>,
    consumed: Consumed,
    pub(super) outcome: Option<Outcome>,
}

pub(super) struct Caller {
    pub(super) key: CallKey,
    pub(super) streams: CallStreams,
    pub(super) arguments: Vec<End>,
    pub(super) returned: End,
    pub(super) opened: bool,
    deadline: Instant,
}

pub(super) struct Handler {
    pub(super) key: RunKey,
    pub(super) streams: CallStreams,
    pub(super) arguments: Vec<End>,
    pub(super) dropped: Vec<bool>,
    pub(super) returned: End,
    pub(super) opened: bool,
}

/// How the calls ended that are over.
#[derive(Default, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) replies: usize,
    pub(super) statuses: usize,
    pub(super) ends: usize,
    pub(super) failures: usize,
    pub(super) dropped: usize,
}

/// What a judge saw of one call on one direction of the wire.
#[derive(Default)]
struct Seen {
    begun: bool,
    over: bool,
    pieces_left: usize,
    ended: Vec<u16>,
}

pub(super) struct StreamWorld {
    pub(super) now: Instant,
    pub(super) client: ClientSession,
    pub(super) server: ServerSession,
    pub(super) to_server: Pipe,
    pub(super) to_client: Pipe,
    server_reader: Reader,
    client_reader: Reader,
    judges: [(BytesMut, FrameRules, BTreeMap<u64, Seen>); 2],
    pub(super) callers: Vec<Caller>,
    pub(super) handlers: Vec<Handler>,
    pub(super) effects: Effects,
    pub(super) ends: Ends,
    pub(super) published: usize,
    pub(super) closed: bool,
    pub(super) drained: bool,
}

pub(super) fn agreement() -> Agreement {
    let limits = Limits {
        running_calls_max: 6,
        pending_calls_max: 8,
        streams_max: 12,
        stream_window_bytes: 80_000,
        connection_window_bytes: 250_000,
        message_bytes_max: 200_000,
        send_queue_bytes_max: 2 << 20,
        ..Limits::default()
    };
    let capabilities = Capabilities::CANCEL_REASON.union(Capabilities::STREAMS);
    Agreement { capabilities, limits, own: Windows::from(&limits) }
}

impl StreamWorld {
    pub(super) fn new() -> Self {
        Self::under(agreement())
    }

    pub(super) fn under(agreement: Agreement) -> Self {
        let rules = [agreement.rules(Direction::FromClient), agreement.rules(Direction::FromServer)];
        let mut server = ServerSession::new(&agreement, BudgetPolicy::default());
        server.grant_permits(100_000);
        StreamWorld {
            now: Instant::from_nanos(1),
            client: ClientSession::new(&agreement),
            server,
            to_server: Pipe::default(),
            to_client: Pipe::default(),
            server_reader: Reader::new(rules[0], &agreement.limits, LINK_BYTES_MIN),
            client_reader: Reader::new(rules[1], &agreement.limits, LINK_BYTES_MIN),
            judges: rules.map(|rules| (BytesMut::new(), rules, BTreeMap::new())),
            callers: Vec::new(),
            handlers: Vec::new(),
            effects: Effects::default(),
            ends: Ends::default(),
            published: 0,
            closed: false,
            drained: false,
        }
    }

    pub(super) fn open(&mut self, arguments: u16, returned: bool, timeout: u64, len: usize) -> bool {
        let streams = CallStreams::new(arguments, returned);
        let deadline = match timeout {
            0 => Instant::FAR,
            millis => self.now.after(MILLI * u32::try_from(millis).unwrap()),
        };
        let left = deadline.since(self.now);
        let head = RequestHead {
            method: 1,
            budget_micros: if deadline == Instant::FAR { None } else { RequestHead::budget(left) },
            oneway: false,
            codec: Codec::Raw,
            metadata: &[],
            streams,
            total: None,
            body: &[],
        };
        let mut body = Body::shared(body_of(len, 0));
        let mut waker = Some(Waker::noop().clone());
        let before = (self.client.load(), self.client.flow().open, self.client.outbox().queued_bytes());
        let opening = Opening { head, body: &mut body, deadline, now: self.now, ticket: None };
        let opened = if streams == CallStreams::NONE {
            self.client.open_call(opening, &mut waker)
        } else {
            self.client.open_streams(opening, &mut waker)
        };
        let Ok(opened) = opened else {
            let after = (self.client.load(), self.client.flow().open, self.client.outbox().queued_bytes());
            assert_eq!(before, after, "a refusal leaves nothing behind");
            return false;
        };
        self.published += 1;
        self.callers.push(Caller {
            key: opened.key,
            streams,
            arguments: (0..arguments).map(|_| End::default()).collect(),
            returned: End::default(),
            opened: false,
            deadline,
        });
        true
    }

    /// A producer of a caller sends an item, if it may. Tells whether it was sent.
    pub(super) fn client_sends(&mut self, call: usize, stream: u16, len: usize) -> bool {
        if self.callers.is_empty() {
            return false;
        }
        let call = call % self.callers.len();
        let caller = &mut self.callers[call];
        if caller.arguments.is_empty() {
            return false;
        }
        let stream = stream % u16::try_from(caller.arguments.len()).unwrap();
        let end = &mut caller.arguments[usize::from(stream)];
        if end.ended {
            return false;
        }
        let noop = Waker::noop().clone();
        if self.client.poll_pump(caller.key, &noop, &mut Some(noop.clone())) != PumpPoll::Go {
            return false;
        }
        let mut body = Body::shared(body_of(len.max(8), end.items));
        let sent = self.client.send_item(caller.key, stream + 1, Codec::Raw, &mut body, &noop, &mut Some(noop.clone()));
        let sent = matches!(sent, SendPoll::Sent(_));
        end.items += u64::from(sent);
        sent
    }

    pub(super) fn client_ends(&mut self, call: usize, stream: u16, failed: bool) {
        if self.callers.is_empty() {
            return;
        }
        let call = call % self.callers.len();
        let caller = &mut self.callers[call];
        if caller.arguments.is_empty() {
            return;
        }
        let stream = stream % u16::try_from(caller.arguments.len()).unwrap();
        let end = &mut caller.arguments[usize::from(stream)];
        let noop = Waker::noop().clone();
        if end.ended || self.client.poll_pump(caller.key, &noop, &mut Some(noop.clone())) != PumpPoll::Go {
            return;
        }
        let outcome = if failed { Outcome::App } else { Outcome::Ok };
        let body: &[u8] = if failed { b"sorry" } else { b"" };
        let head = EndHead { stream: stream + 1, outcome, codec: Codec::Raw, metadata: &[], body };
        let sent = self.client.end_stream(caller.key, &head, &noop, &mut Some(noop.clone()));
        if matches!(sent, SendPoll::Sent(_)) {
            end.ended = true;
            end.outcome = Some(outcome);
        }
    }

    /// A caller looks at its call: for its reply, or for up to `most` items of its returned stream.
    pub(super) fn client_takes(&mut self, call: usize, most: usize) {
        if self.callers.is_empty() {
            return;
        }
        let call = call % self.callers.len();
        let noop = Waker::noop().clone();
        let caller = &mut self.callers[call];
        if !caller.opened {
            let mut buffer = Vec::new();
            let reply = match self.client.poll_reply(caller.key, &noop, &mut Some(noop.clone()), &mut buffer) {
                ReplyPoll::Ready(reply) => reply,
                _ => return,
            };
            match reply {
                Reply::Opened(_) => {
                    assert!(caller.streams.returned());
                    caller.opened = true;
                    return;
                }
                Reply::Copied(head) | Reply::Shared(head, _) => {
                    match head.outcome {
                        Outcome::Status => self.ends.statuses += 1,
                        _ => self.ends.replies += 1,
                    };
                }
                Reply::Failed(ending) => self.failed(call, &ending),
                other => panic!("{other:?}"),
            }
            self.callers.remove(call);
            return;
        }
        let returned = &mut caller.returned;
        for _ in 0..most {
            if let Some(item) = returned.buffer.pop_front() {
                check_item(&item, &mut returned.items);
                returned.consumed.add(&item);
                continue;
            }
            let consumed = std::mem::take(&mut returned.consumed);
            let (buffer, mut fresh) = (&mut returned.buffer, Some(noop.clone()));
            match self.client.poll_items(caller.key, consumed, buffer, &noop, &mut fresh, &mut self.effects) {
                ItemsPoll::Items => {}
                ItemsPoll::Pending => return,
                ItemsPoll::End(end) => {
                    assert!(!returned.ended, "one end");
                    self.ends.ends += 1;
                    returned.outcome = Some(end.outcome);
                    self.callers.remove(call);
                    return;
                }
                ItemsPoll::Failed(ending) => {
                    self.failed(call, &ending);
                    self.callers.remove(call);
                    return;
                }
                other => panic!("{other:?}"),
            }
        }
        let consumed = std::mem::take(&mut returned.consumed);
        self.client.consume(caller.key, consumed, &mut self.effects);
    }

    fn failed(&mut self, call: usize, ending: &Ending) {
        match ending {
            Ending::Deadline => assert!(self.now >= self.callers[call].deadline, "before its deadline"),
            Ending::Closed(_) => assert!(self.closed),
            Ending::NeverAccepted => assert!(self.drained),
        }
        self.ends.failures += 1;
    }

    pub(super) fn drop_call(&mut self, call: usize) {
        if !self.callers.is_empty() {
            let caller = self.callers.remove(call % self.callers.len());
            self.client.abandon(caller.key, CancelCause::ConsumerGone, &mut self.effects);
            self.ends.dropped += 1;
        }
    }

    /// A handler takes up to `most` items of one of its streams.
    pub(super) fn server_takes(&mut self, handler: usize, stream: u16, most: usize) {
        if self.handlers.is_empty() {
            return;
        }
        let handler = handler % self.handlers.len();
        let handler = &mut self.handlers[handler];
        if handler.arguments.is_empty() {
            return;
        }
        let stream = stream % u16::try_from(handler.arguments.len()).unwrap();
        let end = &mut handler.arguments[usize::from(stream)];
        if end.ended || handler.dropped[usize::from(stream)] {
            return;
        }
        let noop = Waker::noop().clone();
        for _ in 0..most {
            if let Some(item) = end.buffer.pop_front() {
                check_item(&item, &mut end.items);
                end.consumed.add(&item);
                continue;
            }
            let consumed = std::mem::take(&mut end.consumed);
            let (buffer, mut fresh) = (&mut end.buffer, Some(noop.clone()));
            let effects = &mut self.effects;
            match self.server.poll_items(handler.key, stream + 1, consumed, buffer, &noop, &mut fresh, effects) {
                ItemsPoll::Items => {}
                ItemsPoll::Pending | ItemsPoll::Over(_) => return,
                ItemsPoll::End(got) => {
                    end.ended = true;
                    end.outcome = Some(got.outcome);
                    return;
                }
                other => panic!("{other:?}"),
            }
        }
        let consumed = std::mem::take(&mut end.consumed);
        self.server.consume(handler.key, stream + 1, consumed, &mut self.effects);
    }

    pub(super) fn server_drops_stream(&mut self, handler: usize, stream: u16) {
        if self.handlers.is_empty() {
            return;
        }
        let handler = handler % self.handlers.len();
        let handler = &mut self.handlers[handler];
        if handler.arguments.is_empty() {
            return;
        }
        let stream = stream % u16::try_from(handler.arguments.len()).unwrap();
        handler.dropped[usize::from(stream)] = true;
        self.server.abandon_stream(handler.key, stream + 1, &mut self.effects);
    }

    /// A handler opens its returned stream, or sends the next item of it.
    pub(super) fn server_sends(&mut self, handler: usize, len: usize) -> bool {
        if self.handlers.is_empty() {
            return false;
        }
        let handler = handler % self.handlers.len();
        let handler = &mut self.handlers[handler];
        if !handler.streams.returned() {
            return false;
        }
        if !handler.opened {
            handler.opened = matches!(self.server.open_returned(handler.key, &[], &mut None), ReturnOpened::Done(_));
            return handler.opened;
        }
        let noop = Waker::noop().clone();
        let mut body = Body::shared(body_of(len.max(8), handler.returned.items));
        let sent = self.server.send_item(handler.key, Codec::Raw, &mut body, &noop, &mut Some(noop.clone()));
        let sent = matches!(sent, SendPoll::Sent(_));
        handler.returned.items += u64::from(sent);
        sent
    }

    /// A handler ends: with a reply, or with the end of its returned stream.
    pub(super) fn server_finishes(&mut self, handler: usize, outcome: Outcome) {
        if self.handlers.is_empty() {
            return;
        }
        let handler = handler % self.handlers.len();
        let run = &self.handlers[handler];
        if outcome == Outcome::Ok && run.streams.returned() && !run.opened {
            return;
        }
        let codec = if outcome == Outcome::Status { Codec::Compact } else { Codec::Raw };
        let mut bytes = Vec::new();
        Status::internal("over").encode(&mut bytes);
        let head = ResponseHead { outcome, codec, metadata: &[], streamed: false, total: None, body: &[] };
        match self.server.finish(run.key, head, &mut Body::copied(&bytes), &mut None) {
            Finished::Done { .. } => {
                self.handlers.remove(handler);
            }
            Finished::NoRoom => {}
        }
    }

    /// A handler looks whether its call is over.
    pub(super) fn server_looks(&mut self, handler: usize) {
        if self.handlers.is_empty() {
            return;
        }
        let handler = handler % self.handlers.len();
        let key = self.handlers[handler].key;
        let noop = Waker::noop().clone();
        if matches!(self.server.poll_handler(key, &noop, &mut Some(noop.clone())), HandlerPoll::Over(_)) {
            drop(self.server.release(key));
            self.handlers.remove(handler);
        }
    }

    pub(super) fn client_writes(&mut self, bytes: usize) {
        if self.to_server.batch.is_empty() {
            self.to_server.batch.clear();
            self.client.outbox().take(&mut self.to_server.batch, &mut self.effects);
        }
        let written = self.to_server.write(bytes);
        let from = self.to_server.bytes.len() - written;
        self.judges[0].0.extend_from_slice(&self.to_server.bytes[from..]);
        self.client.note_written(written, &mut self.effects);
        self.judge(0);
    }

    pub(super) fn server_writes(&mut self, bytes: usize) {
        if self.to_client.batch.is_empty() {
            self.to_client.batch.clear();
            self.server.outbox().take(&mut self.to_client.batch, &mut self.effects);
        }
        let written = self.to_client.write(bytes);
        let from = self.to_client.bytes.len() - written;
        self.judges[1].0.extend_from_slice(&self.to_client.bytes[from..]);
        self.server.note_written(written, &mut self.effects);
        self.judge(1);
    }

    /// What must never be on the wire: a cancel or a stream's frame before its request or behind its terminal, a second
    /// request, terminal or end, an item behind the end of its stream, an item before the request was whole.
    fn judge(&mut self, side: usize) {
        let (bytes, rules, seen) = &mut self.judges[side];
        while let Some(head) = bytes.first_chunk::<HEADER_BYTES>() {
            let header = FrameHeader::decode(head, rules).expect("a frame that keeps the rules");
            let len = header.len as usize;
            let Some(payload) = bytes.get(HEADER_BYTES..HEADER_BYTES + len) else { return };
            if header.call != CallId::NONE {
                let seen = seen.entry(header.call.as_u64()).or_default();
                let stream = header.stream;
                match header.kind {
                    Kind::Request => {
                        let head = RequestHead::decode(&header, payload, rules).unwrap();
                        assert!(!seen.begun, "a second request");
                        seen.begun = true;
                        seen.pieces_left = head.total.map_or(0, |total| total as usize - head.body.len());
                    }
                    Kind::Response => {
                        let head = ResponseHead::decode(&header, payload, rules).unwrap();
                        assert!(!seen.begun && !seen.over, "a second response");
                        seen.begun = true;
                        seen.over = !head.streamed;
                    }
                    Kind::Cancel => {
                        assert!(seen.begun && !seen.over, "a cancel without its request, or twice");
                        (seen.over, seen.pieces_left) = (true, 0);
                    }
                    Kind::Data => {
                        assert!(seen.begun && !seen.over && seen.pieces_left == 0, "an item out of place: {header:?}");
                        assert!(!seen.ended.contains(&stream), "an item behind its end");
                        let head = crate::frame::DataHead::decode(&header, payload, rules).unwrap();
                        seen.pieces_left = head.total.map_or(0, |total| total as usize - head.body.len());
                    }
                    Kind::Fragment => {
                        assert!(seen.begun, "a piece of nothing");
                        seen.pieces_left -= len;
                        assert_eq!(header.has_more(), seen.pieces_left > 0);
                    }
                    Kind::End => {
                        assert!(seen.begun && !seen.over && !seen.ended.contains(&stream), "an end out of place");
                        let clean = EndHead::decode(&header, payload, rules).unwrap().outcome == Outcome::Ok;
                        assert!(!clean || seen.pieces_left == 0, "a clean end within an item");
                        seen.ended.push(stream);
                        seen.over |= stream == 0;
                    }
                    // Credit may cross anything.
                    Kind::Credit => {}
                    other => panic!("{other}"),
                }
            }
            bytes.advance(HEADER_BYTES + len);
        }
    }

    pub(super) fn server_reads(&mut self, bytes: usize, frames: usize) {
        if self.closed {
            return;
        }
        let arrived = self.to_server.arrived(bytes);
        let (mut items, mut progress) = (Vec::new(), Progress::default());
        self.server_reader.read(&arrived, frames, &mut items, &mut progress).expect("no violation");
        let rules = *self.server_reader.rules();
        let turn = Turn { block: Block { bytes: &arrived, shared: Some(&arrived) }, rules: &rules, now: self.now };
        self.server.apply(&mut items, &turn, &mut self.effects).expect("no violation");
        self.to_server.bytes.advance(progress.consumed);
        let mut incoming = Vec::new();
        self.server.take_incoming(&mut incoming);
        for incoming in incoming {
            match incoming {
                Incoming::Start(start) => {
                    let arguments = start.streams.arguments();
                    self.handlers.push(Handler {
                        key: start.key,
                        streams: start.streams,
                        arguments: (0..arguments).map(|_| End::default()).collect(),
                        dropped: vec![false; usize::from(arguments)],
                        returned: End::default(),
                        opened: false,
                    });
                }
                Incoming::Refused(call, _) => {
                    let _ = self.server.answer_refused(call, &Status::resource_exhausted("no"));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    pub(super) fn client_reads(&mut self, bytes: usize, frames: usize) {
        if self.closed {
            return;
        }
        let arrived = self.to_client.arrived(bytes);
        let (mut items, mut progress) = (Vec::new(), Progress::default());
        self.client_reader.read(&arrived, frames, &mut items, &mut progress).expect("no violation");
        let rules = *self.client_reader.rules();
        let turn = Turn { block: Block { bytes: &arrived, shared: Some(&arrived) }, rules: &rules, now: self.now };
        self.client.apply(&mut items, &turn, &mut self.effects).expect("no violation");
        self.to_client.bytes.advance(progress.consumed);
    }

    /// Everything that is queued on either side crosses, until nothing moves.
    pub(super) fn carry(&mut self) {
        loop {
            self.client_writes(usize::MAX);
            self.server_reads(usize::MAX, usize::MAX);
            self.server_writes(usize::MAX);
            self.client_reads(usize::MAX, usize::MAX);
            self.effects.run();
            let moving = self.client.outbox().has_output() || self.server.outbox().has_output();
            if self.closed || !moving && self.to_server.bytes.is_empty() && self.to_client.bytes.is_empty() {
                break;
            }
        }
    }

    pub(super) fn expire(&mut self) {
        self.client.expire(self.now, &mut self.effects);
        self.server.expire(self.now, &mut self.effects);
    }

    pub(super) fn close(&mut self) {
        if !self.closed {
            self.closed = true;
            drop(self.client.close(Closure::Lost("cut".into()), &mut self.effects));
            drop(self.server.close(Closure::Lost("cut".into()), &mut self.effects));
        }
    }

    /// What holds at every moment.
    pub(super) fn check(&mut self) {
        let own = agreement().limits;
        let most = u64::from(own.connection_window_bytes) / 2 + 150_032;
        let window = most.max(u64::from(own.connection_window_bytes));
        for stats in [self.client.flow(), self.server.flow()] {
            assert!(stats.sent_bytes <= window, "{stats:?}");
            assert!(stats.held_bytes + stats.owed_bytes <= window, "{stats:?}");
            assert!(stats.open <= own.streams_max as usize, "{stats:?}");
        }
        assert_eq!(self.server.running(), self.handlers.len() + self.server.assembling());
    }

    /// Lets everything run to its end: every call gets one, and all credit is back.
    pub(super) fn quiesce(&mut self) {
        for round in 0..10_000 {
            self.carry();
            for handler in 0..self.handlers.len() {
                for stream in 0..2 {
                    self.server_takes(handler, stream, 1_000);
                }
            }
            self.server_looks(round);
            self.server_finishes(round, Outcome::App);
            for call in 0..self.callers.len() {
                self.client_takes(call, 1_000);
            }
            self.effects.run();
            self.check();
            if self.callers.is_empty() && self.handlers.is_empty() {
                break;
            }
            if round % 20 == 19 {
                self.now = self.now.after(Duration::from_secs(1));
                self.expire();
            }
        }
        assert!(self.callers.is_empty(), "a call without an end");
        assert!(self.handlers.is_empty(), "a handler without an end");
        self.carry();
        let Ends { replies, statuses, ends, failures, dropped } = self.ends;
        assert_eq!(replies + statuses + ends + failures + dropped, self.published, "exactly one end for each call");
        let (client, server) = (self.client.flow(), self.server.flow());
        assert_eq!((client.open, server.open), (0, 0), "streams of calls that are over");
        assert_eq!((client.held_bytes, server.held_bytes), (0, 0), "bytes that nobody can take");
        if !self.closed {
            assert_eq!(client.sent_bytes, server.owed_bytes, "credit of the client was lost or made up");
            assert_eq!(server.sent_bytes, client.owed_bytes, "credit of the server was lost or made up");
        }
        assert_eq!(self.server.running(), 0);
        // What a final go-away refused may be left unfinished.
        if !self.closed && !self.drained {
            assert_eq!((self.client_reader.assembling_bytes(), self.server_reader.assembling_bytes()), (0, 0));
        }
    }

    /// Why a handler was told that its call is over.
    pub(super) fn reason(&self, handler: usize) -> Option<CancelReason> {
        self.server.cancel_reason(self.handlers[handler].key.call())
    }
}

fn check_item(item: &StreamItem, next: &mut u64) {
    let number = u64::from_le_bytes(*item.bytes.first_chunk().unwrap());
    assert_eq!(number, *next, "items in order, none lost, none twice");
    assert_eq!(item.bytes, body_of(item.bytes.len(), number), "an item as it was sent");
    *next += 1;
}

/// The bytes of an item that costs `cost`.
pub(super) fn item_of_cost(cost: u64) -> Bytes {
    body_of(usize::try_from(cost - ITEM_OVERHEAD_BYTES).unwrap(), 0)
}
