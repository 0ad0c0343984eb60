//! Both halves of a session and the two directions of their link, moved step by step.

use crate::codec::Codec;
use crate::frame::{
    CallStreams, CancelCause, Direction, FrameHeader, FrameRules, HEADER_BYTES, Kind, Outcome, RequestHead,
    ResponseHead,
};
use crate::handshake::{Agreement, Capabilities, Windows};
use crate::limits::Limits;
use crate::session::*;
use bytes::{Buf, Bytes, BytesMut};
use punctual_clock::Instant;
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

pub(super) const MILLI: Duration = Duration::from_millis(1);

/// Bodies of these lengths lie on each side of copying, linking and cutting.
pub(super) const BODIES: [usize; 6] = [8, 900, 1_500, 60_000, 70_000, 200_000];

#[derive(Default)]
pub(super) struct Counted(pub(super) AtomicUsize);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// What a caller knows of its call.
pub(super) struct Caller {
    pub(super) key: CallKey,
    pub(super) deadline: Instant,
    pub(super) oneway: bool,
    pub(super) body: Bytes,
    pub(super) woken: Arc<Counted>,
    pub(super) polled: bool,
}

/// What was seen of one call on the wire from the client.
#[derive(Default, Debug)]
pub(super) struct Seen {
    pub(super) requests: usize,
    pub(super) cancels: usize,
    pub(super) pieces_left: usize,
}

/// One direction of the link: bytes that were written and not yet read.
#[derive(Default)]
pub(super) struct Pipe {
    pub(super) batch: Batch,
    pub(super) bytes: BytesMut,
}

pub(super) struct World {
    pub(super) now: Instant,
    pub(super) client: ClientSession,
    pub(super) server: ServerSession,
    pub(super) to_server: Pipe,
    pub(super) to_client: Pipe,
    pub(super) server_reader: Reader,
    pub(super) client_reader: Reader,
    /// Reads the same bytes as the server, to judge the wire.
    pub(super) judge: BytesMut,
    pub(super) judge_rules: FrameRules,
    pub(super) seen: BTreeMap<u64, Seen>,
    pub(super) callers: Vec<Caller>,
    pub(super) handlers: Vec<(RunKey, Bytes)>,
    pub(super) responded: BTreeMap<u64, usize>,
    pub(super) effects: Effects,
    pub(super) published: u64,
    pub(super) drained: bool,
    pub(super) closed: bool,
    pub(super) ends: usize,
}

pub(super) fn agreement() -> Agreement {
    let limits =
        Limits { running_calls_max: 6, pending_calls_max: 12, send_queue_bytes_max: 1 << 20, ..Limits::default() };
    Agreement { capabilities: Capabilities::CANCEL_REASON, limits, compression: None, own: Windows::from(&limits) }
}

pub(super) fn body_of(len: usize, number: u64) -> Bytes {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(len, 0x5a);
    Bytes::from(bytes)
}

impl World {
    pub(super) fn new() -> Self {
        Self::under(agreement())
    }

    pub(super) fn under(agreement: Agreement) -> Self {
        let from_client = agreement.rules(Direction::FromClient);
        let from_server = agreement.rules(Direction::FromServer);
        let mut server = ServerSession::new(&agreement, BudgetPolicy::default());
        server.grant_permits(1_000);
        World {
            now: Instant::from_nanos(1),
            client: ClientSession::new(&agreement),
            server,
            to_server: Pipe::default(),
            to_client: Pipe::default(),
            server_reader: Reader::new(from_client, &agreement.limits, LINK_BYTES_MIN),
            client_reader: Reader::new(from_server, &agreement.limits, LINK_BYTES_MIN),
            judge: BytesMut::new(),
            judge_rules: from_client,
            seen: BTreeMap::new(),
            callers: Vec::new(),
            handlers: Vec::new(),
            responded: BTreeMap::new(),
            effects: Effects::default(),
            published: 0,
            drained: false,
            closed: false,
            ends: 0,
        }
    }

    pub(super) fn deadline(&self, timeout: u64) -> Instant {
        if timeout == 0 { Instant::FAR } else { self.now.after(MILLI * u32::try_from(timeout).unwrap()) }
    }

    pub(super) fn head(&self, deadline: Instant, oneway: bool) -> RequestHead<'static> {
        let left = deadline.since(self.now);
        let budget_micros = if deadline == Instant::FAR { None } else { RequestHead::budget(left) };
        RequestHead {
            method: 1,
            budget_micros,
            oneway,
            codec: Codec::Raw,
            metadata: &[],
            streams: CallStreams::NONE,
            total: None,
            plain: None,
            body: &[],
        }
    }

    pub(super) fn call(&mut self, timeout: u64, len: usize) {
        let deadline = self.deadline(timeout);
        let content = body_of(len, self.published + 1);
        let mut body = Body::shared(content.clone());
        let woken = Arc::new(Counted::default());
        let mut waker = Some(Waker::from(Arc::clone(&woken)));
        let open = self.client.is_open();
        let before = (self.client.load(), self.client.outbox().queued_bytes());
        let opening =
            Opening { head: self.head(deadline, false), body: &mut body, deadline, now: self.now, ticket: None };
        match self.client.open_call(opening, &mut waker) {
            Ok(opened) => {
                assert!(open && self.now < deadline, "the gate is shut");
                assert!(waker.is_none(), "registration, queueing and parking are one step");
                self.published += 1;
                self.callers.push(Caller {
                    key: opened.key,
                    deadline,
                    oneway: false,
                    body: content,
                    woken,
                    polled: false,
                });
            }
            Err(_) => {
                assert!(waker.is_some());
                assert_eq!(body.len(), len, "a refused body stays with the caller");
                assert_eq!(before, (self.client.load(), self.client.outbox().queued_bytes()), "nothing was registered");
            }
        }
    }

    pub(super) fn oneway(&mut self, timeout: u64, len: usize) {
        let deadline = self.deadline(timeout);
        let content = body_of(len, self.published + 1);
        let mut body = Body::shared(content.clone());
        let head = self.head(deadline, true);
        if timeout == 0 {
            self.published += u64::from(self.client.send_oneway(head, &mut body).is_ok());
            return;
        }
        let woken = Arc::new(Counted::default());
        let mut waker = Some(Waker::from(Arc::clone(&woken)));
        let opening = Opening { head, body: &mut body, deadline, now: self.now, ticket: None };
        if let Ok(opened) = self.client.open_oneway(opening, &mut waker) {
            self.published += 1;
            self.callers.push(Caller { key: opened.key, deadline, oneway: true, body: content, woken, polled: false });
        }
    }

    pub(super) fn drop_call(&mut self, at: usize) {
        if !self.callers.is_empty() {
            let caller = self.callers.remove(at % self.callers.len());
            self.client.abandon(caller.key, CancelCause::User, &mut self.effects);
            self.ends += 1;
        }
    }

    pub(super) fn poll_all(&mut self) {
        let mut at = 0;
        while let Some(caller) = self.callers.get_mut(at) {
            let waker = Waker::from(Arc::clone(&caller.woken));
            let mut buffer = Vec::new();
            let polled = self.client.poll_reply(caller.key, &waker, &mut None, &mut buffer);
            caller.polled = true;
            let reply = match polled {
                ReplyPoll::Pending => {
                    assert_eq!(caller.woken.0.load(Ordering::SeqCst), 0, "woken, and nothing there");
                    at += 1;
                    continue;
                }
                ReplyPoll::NeedsWaker => panic!("the waker of the gate is parked"),
                ReplyPoll::Ready(reply) => reply,
            };
            assert_eq!(caller.woken.0.load(Ordering::SeqCst), 1, "woken exactly once");
            let caller = self.callers.remove(at);
            self.ends += 1;
            match reply {
                Reply::Copied(head) if head.outcome == Outcome::Ok => {
                    assert_eq!(&buffer[..], &caller.body[..], "another call's reply");
                }
                Reply::Shared(head, bytes) if head.outcome == Outcome::Ok => {
                    assert_eq!(bytes, caller.body, "another call's reply");
                }
                Reply::Copied(head) | Reply::Shared(head, _) => {
                    // The server ended it: at its budget, or since it runs too many.
                    assert_eq!(head.outcome, Outcome::Status);
                }
                Reply::Emitted => assert!(caller.oneway),
                Reply::Failed(Ending::Deadline) => assert!(self.now >= caller.deadline, "before its deadline"),
                Reply::Failed(Ending::Closed(_)) => assert!(self.closed),
                Reply::Failed(Ending::NeverAccepted) => assert!(self.drained),
                Reply::Health(_) | Reply::Opened(_) => panic!("nobody asked"),
            }
        }
    }

    pub(super) fn client_writes(&mut self, bytes: usize) {
        if self.to_server.batch.is_empty() {
            self.to_server.batch.clear();
            self.client.outbox().take(&mut self.to_server.batch, &mut self.effects);
        }
        let written = self.to_server.write(bytes);
        let from = self.to_server.bytes.len() - written;
        self.judge.extend_from_slice(&self.to_server.bytes[from..]);
        self.client.note_written(written, &mut self.effects);
        self.judge_wire();
    }

    pub(super) fn server_writes(&mut self, bytes: usize) {
        if self.to_client.batch.is_empty() {
            self.to_client.batch.clear();
            self.server.outbox().take(&mut self.to_client.batch, &mut self.effects);
        }
        let written = self.to_client.write(bytes);
        self.server.note_written(written, &mut self.effects);
    }

    /// What must never be on the wire.
    pub(super) fn judge_wire(&mut self) {
        while let Some(head) = self.judge.first_chunk::<HEADER_BYTES>() {
            let header = FrameHeader::decode(head, &self.judge_rules).expect("a frame that keeps the rules");
            let len = header.len as usize;
            let Some(payload) = self.judge.get(HEADER_BYTES..HEADER_BYTES + len) else { return };
            let seen = self.seen.entry(header.call.as_u64()).or_default();
            match header.kind {
                Kind::Request => {
                    let head = RequestHead::decode(&header, payload, &self.judge_rules).unwrap();
                    assert_eq!((seen.requests, seen.cancels), (0, 0), "a request after its cancel, or twice");
                    seen.requests = 1;
                    seen.pieces_left = head.total.map_or(0, |total| total as usize - head.body.len());
                }
                Kind::Cancel => {
                    assert_eq!((seen.requests, seen.cancels), (1, 0), "a cancel without its request, or twice");
                    seen.cancels = 1;
                }
                Kind::Fragment => {
                    assert_eq!((seen.requests, seen.cancels), (1, 0), "a piece of what is over");
                    seen.pieces_left -= len;
                    assert_eq!(header.has_more(), seen.pieces_left > 0);
                }
                Kind::Pong => {}
                other => panic!("{other} from a client"),
            }
            self.judge.advance(HEADER_BYTES + len);
        }
    }

    pub(super) fn server_reads(&mut self, bytes: usize, frames: usize) {
        if self.closed {
            return;
        }
        let arrived = self.to_server.arrived(bytes);
        let mut items = Vec::new();
        let mut progress = Progress::default();
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
                    let body = match start.whole {
                        None => arrived.slice(start.body),
                        Some(whole) => whole.1,
                    };
                    self.handlers.push((start.key, body));
                }
                Incoming::Refused(call, _) => {
                    let status = crate::status::Status::resource_exhausted("no");
                    let _ = self.server.answer_refused(call, &status);
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
        let mut items = Vec::new();
        let mut progress = Progress::default();
        self.client_reader.read(&arrived, frames, &mut items, &mut progress).expect("no violation");
        for item in &items {
            if let Item::Frame(header, _) = item
                && header.kind == Kind::Response
            {
                *self.responded.entry(header.call.as_u64()).or_default() += 1;
            }
            if let Item::Whole(whole) = item {
                *self.responded.entry(whole.0.call.as_u64()).or_default() += 1;
            }
        }
        assert!(self.responded.values().all(|count| *count == 1), "two responses to one call");
        let rules = *self.client_reader.rules();
        let turn = Turn { block: Block { bytes: &arrived, shared: Some(&arrived) }, rules: &rules, now: self.now };
        self.client.apply(&mut items, &turn, &mut self.effects).expect("no violation");
        self.to_client.bytes.advance(progress.consumed);
    }

    pub(super) fn finish(&mut self, at: usize) {
        if self.handlers.is_empty() {
            return;
        }
        let at = at % self.handlers.len();
        let (key, body) = self.handlers[at].clone();
        let head = ResponseHead {
            outcome: Outcome::Ok,
            codec: Codec::Raw,
            metadata: &[],
            streamed: false,
            total: None,
            plain: None,
            body: &[],
        };
        match self.server.finish(key, head, &mut Body::shared(body), &mut None) {
            Finished::Done { .. } => {
                self.handlers.remove(at);
            }
            Finished::NoRoom => assert!(self.server.outbox().has_output() || !self.server.outbox().is_flushed()),
        }
    }

    pub(super) fn look(&mut self, at: usize) {
        if self.handlers.is_empty() {
            return;
        }
        let at = at % self.handlers.len();
        let key = self.handlers[at].0;
        let waker = Waker::noop().clone();
        match self.server.poll_handler(key, &waker, &mut Some(waker.clone())) {
            HandlerPoll::Over(reason) => {
                assert_eq!(self.server.cancel_reason(key.call()), Some(reason));
                let _ = self.server.release(key);
                self.handlers.remove(at);
            }
            HandlerPoll::Wait => assert_eq!(self.server.cancel_reason(key.call()), None),
            HandlerPoll::NeedsWaker => panic!("a waker was given"),
        }
    }

    pub(super) fn close(&mut self) {
        if !self.closed {
            self.closed = true;
            drop(self.client.close(Closure::Lost("cut".into()), &mut self.effects));
            drop(self.server.close(Closure::Lost("cut".into()), &mut self.effects));
        }
    }

    pub(super) fn check(&mut self) {
        assert_eq!(self.server.running(), self.handlers.len() + self.server.assembling());
        let live = self.client.load();
        assert!(live <= self.callers.len());
        // The bytes of every live call's cancel fit beside what is queued, unless one big message stands alone.
        let out = self.client.outbox();
        assert!(out.queued_bytes() <= out.queue_bytes_max() + 200_100 + 12 * 17, "{}", out.queued_bytes());
    }

    /// Lets everything run to its end: every caller gets one, and nothing is left over.
    pub(super) fn quiesce(mut self) {
        for _ in 0..10_000 {
            self.client_writes(usize::MAX);
            self.server_reads(usize::MAX, usize::MAX);
            self.look(0);
            self.finish(0);
            self.server_writes(usize::MAX);
            self.client_reads(usize::MAX, usize::MAX);
            self.effects.run();
            self.poll_all();
            let moving = self.client.outbox().has_output() || self.server.outbox().has_output();
            if self.callers.is_empty() && self.handlers.is_empty() && !moving {
                break;
            }
            if !moving && self.handlers.is_empty() {
                // What is left waits for its deadline, or was cut off.
                self.now = self.now.after(Duration::from_secs(1));
                self.client.expire(self.now, &mut self.effects);
                self.server.expire(self.now, &mut self.effects);
            }
        }
        assert!(self.callers.is_empty(), "a call without an end");
        assert_eq!((self.client.load(), self.server.running()), (0, 0));
        assert!(self.client.outbox().is_flushed() && self.server.outbox().is_flushed());
        assert_eq!(self.client.counters().published, self.published);
        if !self.closed {
            let requests = self.seen.values().map(|seen| seen.requests as u64).sum::<u64>();
            assert_eq!(requests, self.published, "every published request was written, once");
        }
    }
}

impl Pipe {
    /// Writes up to `bytes` of the batch, as a transport that takes so many.
    pub(super) fn write(&mut self, bytes: usize) -> usize {
        let mut left = bytes;
        while left > 0 && !self.batch.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let filled = self.batch.slices(&mut slices);
            let mut step = 0;
            for slice in &slices[..filled] {
                let take = slice.len().min(left - step);
                self.bytes.extend_from_slice(&slice[..take]);
                step += take;
            }
            self.batch.advance(step);
            left -= step;
        }
        bytes - left
    }

    /// The first `bytes` that arrived, at least one frame's worth of them.
    pub(super) fn arrived(&self, bytes: usize) -> Bytes {
        Bytes::copy_from_slice(self.bytes.get(..bytes.max(66_000)).unwrap_or(&self.bytes))
    }
}
