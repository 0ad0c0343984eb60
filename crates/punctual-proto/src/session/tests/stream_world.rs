//! Calls with streams over both halves of a session, moved step by step, with everything that must hold judged on the way.

mod caller;
mod handler;
mod judge;

use crate::frame::{CallStreams, Direction, FrameRules, Outcome};
use crate::handshake::{Agreement, Capabilities, Windows};
use crate::limits::Limits;
use crate::session::tests::world::{Pipe, body_of};
use crate::session::*;
use crate::status::Status;
use bytes::{Buf, Bytes, BytesMut};
use punctual_clock::Instant;
use punctual_context::CancelReason;
use std::collections::{BTreeMap, VecDeque};
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
    Agreement { capabilities, limits, compression: None, own: Windows::from(&limits) }
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
