//! Both halves of a session over a wire that delivers when the test says so, under random interleavings.
//!
//! The wire is checked from outside, frame by frame, for what must never be on it; the calls are checked for one end each.

use crate::codec::Codec;
use crate::frame::{
    CallId, CancelCause, Direction, FrameHeader, GoAway, GoAwayReason, HEADER_BYTES, Kind, Outcome, Ping,
};
use crate::frame::{NO_NEW_CALLS, RequestHead, ResponseHead};
use crate::handshake::{Agreement, Capabilities};
use crate::limits::Limits;
use crate::session::*;
use bytes::{Buf, Bytes, BytesMut};
use proptest::prelude::*;
use punctual_clock::Instant;
use punctual_context::CancelReason;
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);

/// Bodies of these lengths lie on each side of copying, linking and cutting.
const BODIES: [usize; 6] = [8, 900, 1_500, 60_000, 70_000, 200_000];

#[derive(Debug, Clone)]
enum Op {
    /// A call with this timeout in milliseconds (0 for none) and this body.
    Call(u64, usize),
    OneWay(u64, usize),
    /// The caller of one of the live calls drops it.
    Drop(usize),
    /// Each caller looks for its reply.
    Poll,
    /// A side's driver takes a batch and writes so many bytes.
    ClientWrites(usize),
    ServerWrites(usize),
    /// A side reads so many bytes, so many frames.
    ServerReads(usize, usize),
    ClientReads(usize, usize),
    /// A handler ends with a result.
    Finish(usize),
    /// A handler looks whether its call is over.
    Look(usize),
    Advance(u64),
    ClientExpires,
    ServerExpires,
    Drain,
    EndDrain,
    Close,
}

fn op() -> impl Strategy<Value = Op> {
    let timeout = prop_oneof![Just(0u64), 1u64..30];
    let body = 0usize..BODIES.len();
    prop_oneof![
        8 => (timeout.clone(), body.clone()).prop_map(|(timeout, body)| Op::Call(timeout, body)),
        2 => (timeout, body).prop_map(|(timeout, body)| Op::OneWay(timeout, body)),
        3 => any::<usize>().prop_map(Op::Drop),
        6 => Just(Op::Poll),
        6 => (1usize..300_000).prop_map(Op::ClientWrites),
        6 => (1usize..300_000).prop_map(Op::ServerWrites),
        6 => (1usize..200_000, 1usize..32).prop_map(|(bytes, frames)| Op::ServerReads(bytes, frames)),
        6 => (1usize..200_000, 1usize..32).prop_map(|(bytes, frames)| Op::ClientReads(bytes, frames)),
        8 => any::<usize>().prop_map(Op::Finish),
        4 => any::<usize>().prop_map(Op::Look),
        3 => (1u64..10).prop_map(Op::Advance),
        3 => Just(Op::ClientExpires),
        3 => Just(Op::ServerExpires),
        1 => Just(Op::Drain),
        1 => Just(Op::EndDrain),
        1 => Just(Op::Close),
    ]
}

#[derive(Default)]
struct Counted(AtomicUsize);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// What a caller knows of its call.
struct Caller {
    key: CallKey,
    deadline: Instant,
    oneway: bool,
    body: Bytes,
    woken: Arc<Counted>,
    polled: bool,
}

/// What was seen of one call on the wire from the client.
#[derive(Default, Debug)]
struct Seen {
    requests: usize,
    cancels: usize,
    pieces_left: usize,
}

/// One direction of the link: bytes that were written and not yet read.
#[derive(Default)]
struct Pipe {
    batch: Batch,
    bytes: BytesMut,
}

struct World {
    now: Instant,
    client: ClientSession,
    server: ServerSession,
    to_server: Pipe,
    to_client: Pipe,
    server_reader: Reader,
    client_reader: Reader,
    /// Reads the same bytes as the server, to judge the wire.
    judge: BytesMut,
    judge_rules: crate::frame::FrameRules,
    seen: BTreeMap<u64, Seen>,
    callers: Vec<Caller>,
    handlers: Vec<(RunKey, Bytes)>,
    responded: BTreeMap<u64, usize>,
    effects: Effects,
    published: u64,
    drained: bool,
    closed: bool,
    ends: usize,
}

fn agreement() -> Agreement {
    let limits =
        Limits { running_calls_max: 6, pending_calls_max: 12, send_queue_bytes_max: 1 << 20, ..Limits::default() };
    Agreement { capabilities: Capabilities::CANCEL_REASON, limits }
}

fn body_of(len: usize, number: u64) -> Bytes {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(len, 0x5a);
    Bytes::from(bytes)
}

impl World {
    fn new() -> Self {
        let agreement = agreement();
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

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Call(timeout, body) => self.call(timeout, BODIES[body]),
            Op::OneWay(timeout, body) => self.oneway(timeout, BODIES[body]),
            Op::Drop(at) => self.drop_call(at),
            Op::Poll => self.poll_all(),
            Op::ClientWrites(bytes) => self.client_writes(bytes),
            Op::ServerWrites(bytes) => self.server_writes(bytes),
            Op::ServerReads(bytes, frames) => self.server_reads(bytes, frames),
            Op::ClientReads(bytes, frames) => self.client_reads(bytes, frames),
            Op::Finish(at) => self.finish(at),
            Op::Look(at) => self.look(at),
            Op::Advance(millis) => self.now = self.now.after(MILLI * u32::try_from(millis).unwrap()),
            Op::ClientExpires => self.client.expire(self.now, &mut self.effects),
            Op::ServerExpires => self.server.expire(self.now, &mut self.effects),
            Op::Drain => {
                let _ = self.server.begin_drain(GoAwayReason::Shutdown, "", Ping(7));
            }
            Op::EndDrain => {
                let _ = self.server.end_drain(GoAwayReason::Shutdown, "");
                self.drained = true;
            }
            Op::Close => self.close(),
        }
        self.effects.run();
        self.check();
    }

    fn deadline(&self, timeout: u64) -> Instant {
        if timeout == 0 { Instant::FAR } else { self.now.after(MILLI * u32::try_from(timeout).unwrap()) }
    }

    fn head(&self, deadline: Instant, oneway: bool) -> RequestHead<'static> {
        let left = deadline.since(self.now);
        let budget_micros = if deadline == Instant::FAR { None } else { RequestHead::budget(left) };
        RequestHead { method: 1, budget_micros, oneway, codec: Codec::Raw, metadata: &[], total: None, body: &[] }
    }

    fn call(&mut self, timeout: u64, len: usize) {
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

    fn oneway(&mut self, timeout: u64, len: usize) {
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

    fn drop_call(&mut self, at: usize) {
        if !self.callers.is_empty() {
            let caller = self.callers.remove(at % self.callers.len());
            self.client.abandon(caller.key, CancelCause::User, &mut self.effects);
            self.ends += 1;
        }
    }

    fn poll_all(&mut self) {
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
                Reply::Health(_) => panic!("nobody asked"),
            }
        }
    }

    fn client_writes(&mut self, bytes: usize) {
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

    fn server_writes(&mut self, bytes: usize) {
        if self.to_client.batch.is_empty() {
            self.to_client.batch.clear();
            self.server.outbox().take(&mut self.to_client.batch, &mut self.effects);
        }
        let written = self.to_client.write(bytes);
        self.server.note_written(written, &mut self.effects);
    }

    /// What must never be on the wire.
    fn judge_wire(&mut self) {
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

    fn server_reads(&mut self, bytes: usize, frames: usize) {
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
                    let body = match start.body {
                        Part::In(range) => arrived.slice(range),
                        Part::Own(bytes) => bytes,
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

    fn client_reads(&mut self, bytes: usize, frames: usize) {
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

    fn finish(&mut self, at: usize) {
        if self.handlers.is_empty() {
            return;
        }
        let at = at % self.handlers.len();
        let (key, body) = self.handlers[at].clone();
        let head = ResponseHead { outcome: Outcome::Ok, codec: Codec::Raw, metadata: &[], total: None, body: &[] };
        match self.server.finish(key, head, &mut Body::shared(body)) {
            Finished::Done { .. } => {
                self.handlers.remove(at);
            }
            Finished::NoRoom => assert!(self.server.outbox().has_output() || !self.server.outbox().is_flushed()),
        }
    }

    fn look(&mut self, at: usize) {
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

    fn close(&mut self) {
        if !self.closed {
            self.closed = true;
            drop(self.client.close(Closure::Lost("cut".into()), &mut self.effects));
            drop(self.server.close(Closure::Lost("cut".into()), &mut self.effects));
        }
    }

    fn check(&mut self) {
        assert_eq!(self.server.running(), self.handlers.len() + self.server.assembling());
        let live = self.client.load();
        assert!(live <= self.callers.len());
        // The bytes of every live call's cancel fit beside what is queued, unless one big message stands alone.
        let out = self.client.outbox();
        assert!(out.queued_bytes() <= out.queue_bytes_max() + 200_100 + 12 * 17, "{}", out.queued_bytes());
    }

    /// Lets everything run to its end: every caller gets one, and nothing is left over.
    fn quiesce(mut self) {
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
    fn write(&mut self, bytes: usize) -> usize {
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
    fn arrived(&self, bytes: usize) -> Bytes {
        Bytes::copy_from_slice(self.bytes.get(..bytes.max(66_000)).unwrap_or(&self.bytes))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// However calls, drops, deadlines, replies, go-aways and a close interleave: nothing forbidden is ever on the wire,
    /// every call has exactly one end and its own reply, and in the end nothing is left over.
    #[test]
    fn interleavings_keep_the_promises(ops in prop::collection::vec(op(), 1..120)) {
        let mut world = World::new();
        for op in &ops {
            world.step(op);
        }
        world.quiesce();
    }
}

/// A final go-away counts heads in wire order on both sides, one-way calls and big ones included.
#[test]
fn both_sides_count_the_same_heads() {
    let mut world = World::new();
    world.call(0, BODIES[4]);
    world.oneway(0, BODIES[0]);
    world.call(0, BODIES[0]);
    world.client_writes(usize::MAX);
    world.server_reads(usize::MAX, 2);
    let _ = world.server.end_drain(GoAwayReason::Shutdown, "");
    world.drained = true;
    world.server_reads(usize::MAX, usize::MAX);
    assert_eq!(world.server.counters().accepted, 2, "the third head came behind the count");
    world.server_writes(usize::MAX);
    world.client_reads(usize::MAX, usize::MAX);
    world.effects.run();
    let (first, third) = (world.callers[0].woken.clone(), world.callers[1].woken.clone());
    let woken = |caller: &Counted| caller.0.load(Ordering::SeqCst);
    assert_eq!((woken(&first), woken(&third)), (0, 1), "the client knows which of its calls that is");
    world.quiesce();
}

/// The bytes of a cancel are reserved when its request is admitted: a full queue cannot keep it back.
#[test]
fn a_cancel_fits_a_full_queue() {
    let mut world = World::new();
    world.call(0, BODIES[0]);
    while world.client.send_oneway(world.head(Instant::FAR, true), &mut Body::shared(body_of(60_000, 0))).is_ok() {
        world.published += 1;
    }
    while world.client.send_oneway(world.head(Instant::FAR, true), &mut Body::copied(&[0; 8])).is_ok() {
        world.published += 1;
    }
    let before = world.client.outbox().queued_bytes();
    world.drop_call(0);
    let after = world.client.outbox().queued_bytes();
    assert_eq!(after - before, crate::frame::Cancel::FRAME_BYTES_MAX);
    assert!(after <= world.client.outbox().queue_bytes_max());
    world.quiesce();
}

/// A reply at or behind the deadline counts as late even if nothing noticed the deadline before.
#[test]
fn a_reply_behind_the_deadline_is_late() {
    let mut world = World::new();
    world.call(5, BODIES[0]);
    world.client_writes(usize::MAX);
    world.server_reads(usize::MAX, usize::MAX);
    world.finish(0);
    world.server_writes(usize::MAX);
    world.now = world.now.after(MILLI * 5);
    world.client_reads(usize::MAX, usize::MAX);
    world.effects.run();
    assert_eq!(world.client.counters().late_replies, 1);
    world.poll_all();
    assert!(world.callers.is_empty());
    world.quiesce();
}

/// A cancelled big request sends no further pieces, and the receiver forgets those that came.
#[test]
fn a_cancel_replaces_the_rest_of_a_big_request() {
    let mut world = World::new();
    world.call(0, BODIES[5]);
    world.client_writes(70_000);
    world.server_reads(usize::MAX, 1);
    assert_eq!(world.server.assembling(), 1);
    world.drop_call(0);
    world.client_writes(usize::MAX);
    world.client_writes(usize::MAX);
    world.server_reads(usize::MAX, usize::MAX);
    assert_eq!((world.server.assembling(), world.server_reader.assembling_bytes()), (0, 0));
    assert!(world.handlers.is_empty());
    world.quiesce();
}

/// Small calls pass a big one: between two of its pieces whatever else is queued goes out.
#[test]
fn small_calls_are_not_delayed_by_a_big_one() {
    let mut world = World::new();
    world.call(0, BODIES[5]);
    world.client_writes(70_000);
    world.call(0, BODIES[0]);
    // The rest of the batch that was taken before, and the next one, which begins with the small call.
    world.client_writes(140_000);
    world.client_writes(100);
    world.server_reads(usize::MAX, usize::MAX);
    assert_eq!(world.handlers.len(), 1, "the small one is there, the big one is not");
    world.quiesce();
}

/// A stop tells callers and handlers, and the places are free when the handlers are gone.
#[test]
fn cancel_all_answers_and_tells() {
    let mut world = World::new();
    world.call(0, BODIES[0]);
    world.oneway(0, BODIES[0]);
    world.client_writes(usize::MAX);
    world.server_reads(usize::MAX, usize::MAX);
    let status = crate::status::Status::unavailable("stopping");
    world.server.cancel_all(CancelReason::Shutdown, &status, &mut world.effects);
    assert_eq!(world.server.running(), 2);
    assert_eq!(world.server.cancel_reason(world.handlers[1].0.call()), Some(CancelReason::Shutdown));
    world.look(0);
    world.look(0);
    assert_eq!(world.server.running(), 0);
    world.server_writes(usize::MAX);
    world.client_reads(usize::MAX, usize::MAX);
    world.effects.run();
    world.poll_all();
    assert!(world.callers.is_empty());
    world.quiesce();
}

/// "No new calls" comes first, then the count; what the client sent before it heard is still served.
#[test]
fn a_graceful_pair_of_go_aways() {
    let mut world = World::new();
    let _ = world.server.begin_drain(GoAwayReason::Shutdown, "bye", Ping(7));
    assert!(world.server.awaits_pong());
    world.call(0, BODIES[0]);
    world.client_writes(usize::MAX);
    world.server_writes(usize::MAX);
    let go_away = GoAway::decode(&world.to_client.bytes[HEADER_BYTES..HEADER_BYTES + 12]).unwrap();
    assert_eq!((go_away.accepted, go_away.text), (NO_NEW_CALLS, "bye"));
    world.client_reads(usize::MAX, usize::MAX);
    assert!(!world.client.is_open());
    world.client_writes(usize::MAX);
    world.server_reads(usize::MAX, usize::MAX);
    assert!(!world.server.awaits_pong(), "the pong came behind the call");
    assert_eq!(world.handlers.len(), 1);
    let _ = world.server.end_drain(GoAwayReason::Shutdown, "bye");
    world.drained = true;
    world.finish(0);
    world.quiesce();
}

/// Eight messages and no more are under way at once, so that the receiver's bound is never exceeded.
#[test]
fn the_ring_of_big_messages_is_bounded() {
    let mut world = World::new();
    let mut sent = 0;
    while world.client.send_oneway(world.head(Instant::FAR, true), &mut Body::shared(body_of(70_000, 0))).is_ok() {
        sent += 1;
    }
    assert_eq!(sent, ASSEMBLED_MESSAGES_MAX);
    world.published += sent as u64;
    world.quiesce();
}

/// Calls that wait for a place are let in in order, a permit that is not used goes on, and newcomers do not overtake.
#[test]
fn the_line_is_served_in_order() {
    let mut world = World::new();
    for _ in 0..6 {
        world.call(0, BODIES[0]);
    }
    assert_eq!(world.callers.len(), 6);
    world.call(0, BODIES[0]);
    assert_eq!(world.callers.len(), 6, "six run, the seventh waits");
    let tickets: Vec<Ticket> = (0..3).map(|_| world.client.enter_line(Waker::noop().clone())).collect();
    let granted = |world: &mut World| {
        let mut waker = Waker::noop().clone();
        tickets.iter().map(|ticket| world.client.poll_line(*ticket, &mut waker)).collect::<Vec<_>>()
    };
    assert_eq!(granted(&mut world), [false, false, false]);
    world.drop_call(0);
    assert_eq!(granted(&mut world), [true, false, false]);
    world.call(0, BODIES[0]);
    assert_eq!(world.callers.len(), 5, "the free place is granted already");
    world.client.leave_line(tickets[0], &mut world.effects);
    assert_eq!(granted(&mut world), [false, true, false]);
    let mut body = Body::copied(&[1]);
    let opening = Opening {
        head: world.head(Instant::FAR, false),
        body: &mut body,
        deadline: Instant::FAR,
        now: world.now,
        ticket: Some(tickets[1]),
    };
    let opened = world.client.open_call(opening, &mut Some(Waker::noop().clone())).unwrap();
    world.published += 1;
    world.client.leave_line(tickets[2], &mut world.effects);
    world.client.abandon(opened.key, CancelCause::User, &mut world.effects);
    world.quiesce();
}

/// A call id of another slot's call is never confused with it.
#[test]
fn ids_carry_slot_and_generation() {
    let mut world = World::new();
    world.call(0, BODIES[0]);
    let first = world.callers[0].key;
    world.drop_call(0);
    world.call(0, BODIES[0]);
    let second = world.callers[0].key;
    assert_ne!(first, second);
    let (one, other) = (CallId::pending(0, 0), CallId::pending(0, 1));
    assert_ne!(one, other);
    // The old handle does nothing to the new call.
    world.client.abandon(first, CancelCause::User, &mut world.effects);
    assert_eq!(world.client.load(), 1);
    world.quiesce();
}
