//! What streams promise: single steps, and random interleavings of everything that can happen to them.

use crate::codec::Codec;
use crate::frame::{
    CallId, Credit, Direction, FrameHeader, GoAwayReason, HEADER_BYTES, Kind, Outcome, Ping, Violation,
};
use crate::session::stream::fits;
use crate::session::tests::stream_world::{ITEMS, StreamWorld, agreement, item_of_cost};
use crate::session::tests::world::MILLI;
use crate::session::*;
use bytes::Bytes;
use proptest::prelude::*;
use punctual_context::CancelReason;
use std::task::Waker;

#[derive(Debug, Clone)]
enum Op {
    /// Argument streams, whether one is returned, the timeout in milliseconds (0 for none), the length of the body.
    Open(u16, bool, u64, usize),
    ClientSend(usize, u16, usize),
    ClientEnd(usize, u16, bool),
    ClientTake(usize, usize),
    Drop(usize),
    ServerSend(usize, usize),
    ServerTake(usize, u16, usize),
    ServerDrop(usize, u16),
    Finish(usize, Outcome),
    Look(usize),
    ClientWrites(usize),
    ServerWrites(usize),
    ServerReads(usize, usize),
    ClientReads(usize, usize),
    Advance(u64),
    Expire,
    Drain,
    EndDrain,
    Close,
}

fn op() -> impl Strategy<Value = Op> {
    let item = 0usize..ITEMS.len();
    let timeout = prop_oneof![3 => Just(0u64), 1 => 1u64..40];
    let body = prop_oneof![6 => Just(8usize), 1 => Just(90_000usize)];
    let outcome = prop_oneof![3 => Just(Outcome::Ok), 1 => Just(Outcome::App), 1 => Just(Outcome::Status)];
    prop_oneof![
        8 => (0u16..3, any::<bool>(), timeout, body)
            .prop_map(|(arguments, returned, timeout, body)| Op::Open(arguments, returned, timeout, body)),
        24 => (any::<usize>(), any::<u16>(), item.clone()).prop_map(|(call, stream, len)| Op::ClientSend(call, stream, len)),
        4 => (any::<usize>(), any::<u16>(), any::<bool>()).prop_map(|(call, stream, bad)| Op::ClientEnd(call, stream, bad)),
        10 => (any::<usize>(), 1usize..6).prop_map(|(call, most)| Op::ClientTake(call, most)),
        3 => any::<usize>().prop_map(Op::Drop),
        24 => (any::<usize>(), item).prop_map(|(handler, len)| Op::ServerSend(handler, len)),
        10 => (any::<usize>(), any::<u16>(), 1usize..6).prop_map(|(handler, stream, most)| Op::ServerTake(handler, stream, most)),
        1 => (any::<usize>(), any::<u16>()).prop_map(|(handler, stream)| Op::ServerDrop(handler, stream)),
        3 => (any::<usize>(), outcome).prop_map(|(handler, outcome)| Op::Finish(handler, outcome)),
        3 => any::<usize>().prop_map(Op::Look),
        10 => (1usize..300_000).prop_map(Op::ClientWrites),
        10 => (1usize..300_000).prop_map(Op::ServerWrites),
        10 => (1usize..200_000, 1usize..32).prop_map(|(bytes, frames)| Op::ServerReads(bytes, frames)),
        10 => (1usize..200_000, 1usize..32).prop_map(|(bytes, frames)| Op::ClientReads(bytes, frames)),
        2 => (1u64..10).prop_map(Op::Advance),
        2 => Just(Op::Expire),
        1 => Just(Op::Drain),
        1 => Just(Op::EndDrain),
        1 => Just(Op::Close),
    ]
}

impl StreamWorld {
    fn step(&mut self, op: &Op) {
        match *op {
            Op::Open(arguments, returned, timeout, body) => {
                self.open(arguments, returned, timeout, body);
            }
            Op::ClientSend(call, stream, len) => {
                self.client_sends(call, stream, ITEMS[len]);
            }
            Op::ClientEnd(call, stream, failed) => self.client_ends(call, stream, failed),
            Op::ClientTake(call, most) => self.client_takes(call, most),
            Op::Drop(call) => self.drop_call(call),
            Op::ServerSend(handler, len) => {
                self.server_sends(handler, ITEMS[len]);
            }
            Op::ServerTake(handler, stream, most) => self.server_takes(handler, stream, most),
            Op::ServerDrop(handler, stream) => self.server_drops_stream(handler, stream),
            Op::Finish(handler, outcome) => self.server_finishes(handler, outcome),
            Op::Look(handler) => self.server_looks(handler),
            Op::ClientWrites(bytes) => self.client_writes(bytes),
            Op::ServerWrites(bytes) => self.server_writes(bytes),
            Op::ServerReads(bytes, frames) => self.server_reads(bytes, frames),
            Op::ClientReads(bytes, frames) => self.client_reads(bytes, frames),
            Op::Advance(millis) => self.now = self.now.after(MILLI * u32::try_from(millis).unwrap()),
            Op::Expire => self.expire(),
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
}

/// The next operation that bytes say, each argument from few values so that small changes of the bytes are small changes of
/// the run. `None` where no byte is left.
fn op_of(bytes: &mut impl Iterator<Item = u8>) -> Option<Op> {
    let kind = bytes.next()?;
    let mut number = || usize::from(bytes.next().unwrap_or(0));
    let sizes = [1, 15, 16, 17, 4_000, 65_552, 70_000, 300_000];
    Some(match kind % 20 {
        0 | 19 => Op::Open(
            u16::try_from(number() % 3).unwrap_or(0),
            number() % 2 == 1,
            u64::try_from(number() % 40).unwrap_or(0),
            [8, 90_000][number() / 200],
        ),
        1 => Op::ClientSend(number(), u16::try_from(number()).unwrap_or(0), number() % ITEMS.len()),
        2 => Op::ClientEnd(number(), u16::try_from(number()).unwrap_or(0), number() % 2 == 1),
        3 => Op::ClientTake(number(), 1 + number() % 5),
        4 => Op::Drop(number()),
        5 => Op::ServerSend(number(), number() % ITEMS.len()),
        6 => Op::ServerTake(number(), u16::try_from(number()).unwrap_or(0), 1 + number() % 5),
        7 => Op::ServerDrop(number(), u16::try_from(number()).unwrap_or(0)),
        8 => Op::Finish(number(), [Outcome::Ok, Outcome::App, Outcome::Status][number() % 3]),
        9 => Op::Look(number()),
        10 => Op::ClientWrites(sizes[number() % sizes.len()]),
        11 => Op::ServerWrites(sizes[number() % sizes.len()]),
        12 => Op::ServerReads(sizes[number() % sizes.len()], 1 + number() % 31),
        13 => Op::ClientReads(sizes[number() % sizes.len()], 1 + number() % 31),
        14 => Op::Advance(1 + u64::try_from(number() % 9).unwrap_or(0)),
        15 => Op::Expire,
        16 => Op::Drain,
        17 => Op::EndDrain,
        _ => Op::Close,
    })
}

/// One run of operations that bytes say: the fuzz target of the same name.
pub(crate) fn operations(bytes: &[u8]) {
    let mut bytes = bytes.iter().copied();
    let mut world = StreamWorld::new();
    while let Some(op) = op_of(&mut bytes) {
        world.step(&op);
    }
    world.quiesce();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// However calls with streams, their items, ends, cancels, deadlines, go-aways and a close interleave: nothing
    /// forbidden is on the wire, no window is exceeded, items come in order, every call has exactly one end, and all credit
    /// is back in the end.
    #[test]
    fn interleavings_of_streams_keep_the_promises(ops in prop::collection::vec(op(), 1..200)) {
        let mut world = StreamWorld::new();
        for op in &ops {
            world.step(op);
        }
        world.quiesce();
    }
}

/// A world with one call whose handler runs.
fn one_call(arguments: u16, returned: bool) -> StreamWorld {
    let mut world = StreamWorld::new();
    assert!(world.open(arguments, returned, 0, 8));
    world.carry();
    assert_eq!(world.handlers.len(), 1);
    world
}

/// Streams end one by one, items come in order, and the reply ends the call.
#[test]
fn several_argument_streams_and_a_reply() {
    let mut world = one_call(2, false);
    for round in 0..50 {
        assert!(world.client_sends(0, 0, 100 + round) && world.client_sends(0, 1, 200));
        world.carry();
        world.server_takes(0, 0, 10);
        world.server_takes(0, 1, 10);
    }
    world.client_ends(0, 0, false);
    world.client_ends(0, 1, true);
    world.carry();
    world.server_takes(0, 0, 10);
    world.server_takes(0, 1, 10);
    let ends: Vec<_> = world.handlers[0].arguments.iter().map(|end| (end.items, end.outcome)).collect();
    assert_eq!(ends, [(50, Some(Outcome::Ok)), (50, Some(Outcome::App))]);
    world.server_finishes(0, Outcome::Ok);
    world.quiesce();
    assert_eq!(world.ends.replies, 1);
}

/// What was sent before a returned stream failed is still taken, and then the failure.
#[test]
fn a_returned_stream_gives_its_items_before_its_end() {
    for outcome in [Outcome::Ok, Outcome::App, Outcome::Status] {
        let mut world = one_call(0, true);
        assert!(world.server_sends(0, 0), "it opens");
        for _ in 0..3 {
            assert!(world.server_sends(0, 500));
        }
        world.server_finishes(0, outcome);
        world.carry();
        world.client_takes(0, 0);
        assert!(world.callers[0].opened);
        world.client_takes(0, 1 + 3);
        assert_eq!(world.callers[0].returned.items, 3);
        world.quiesce();
        assert_eq!(world.ends.ends, 1, "{outcome:?}");
    }
}

/// A server that answers before the upload ends: the answer comes, the producers stop, and what was under way gives its
/// credit back.
#[test]
fn an_answer_before_the_end_of_the_upload_stops_it() {
    let mut world = one_call(1, false);
    while world.client_sends(0, 0, 30_000) {
        world.client_writes(10_000);
    }
    world.server_reads(usize::MAX, usize::MAX);
    world.server_finishes(0, Outcome::Ok);
    world.carry();
    assert!(!world.client_sends(0, 0, 8), "its call is over");
    world.quiesce();
    assert_eq!((world.ends.replies, world.client.flow().sent_bytes), (1, world.server.flow().owed_bytes));
}

/// Without a consumer a sender stops at its window, whatever the length of the items, and holds no more than that.
#[test]
fn a_stalled_consumer_stops_its_producer_at_the_window() {
    for len in [8, 5_000, 30_000, 39_968, 40_000, 70_000, 150_000] {
        let mut world = one_call(0, true);
        world.server_sends(0, 0);
        let (mut sent, mut last) = (0, usize::MAX);
        while sent != last {
            last = sent;
            while world.server_sends(0, len) {
                sent += len + 32;
            }
            world.carry();
            world.client_takes(0, 0);
        }
        let window = agreement().limits.stream_window_bytes as usize;
        assert!(sent <= window.max(window / 2 + len + 32), "{len}: {sent}");
        assert!(sent + len + 32 > window, "{len}: {sent}");
        // The consumer goes on, and so does the producer, however often.
        for _ in 0..10 {
            world.client_takes(0, 1_000_000);
            world.carry();
            assert!(world.server_sends(0, len), "{len}");
            world.carry();
        }
        world.quiesce();
    }
}

/// Streams whose consumers stand still use up the connection's window; another one still goes on with the part that is not
/// counted there.
#[test]
fn stalled_streams_do_not_hold_back_the_others() {
    let mut agreement = agreement();
    agreement.limits.running_calls_max = 100;
    agreement.limits.pending_calls_max = 100;
    agreement.limits.streams_max = 100;
    let mut world = StreamWorld::under(agreement);
    for _ in 0..8 {
        world.open(0, true, 0, 8);
    }
    world.carry();
    for handler in 0..8 {
        world.server_sends(handler, 0);
        while world.server_sends(handler, 5_000) {
            world.carry();
        }
    }
    let full = world.server.flow().sent_bytes;
    assert!(full + 5_032 > 250_000, "{full}");
    world.open(0, true, 0, 8);
    world.carry();
    world.server_sends(8, 0);
    world.carry();
    world.client_takes(8, 0);
    for round in 0..200 {
        assert!(world.server_sends(8, 5_000), "held back in round {round}");
        world.carry();
        world.client_takes(8, 10);
        world.carry();
    }
    assert_eq!(world.callers[8].returned.items, 200);
    world.quiesce();
}

/// Ten thousand streams that are cancelled with items under way give all their credit back.
#[test]
fn cancelled_streams_restore_all_credit() {
    let mut world = StreamWorld::new();
    for round in 0..10_000 {
        assert!(world.open(0, true, 0, 8), "round {round}");
        world.client_writes(usize::MAX);
        world.server_reads(usize::MAX, usize::MAX);
        world.server_sends(0, 0);
        while world.server_sends(0, ITEMS[2 + round % 6]) {}
        if round % 2 == 0 {
            world.server_writes(50_000);
            world.client_reads(usize::MAX, usize::MAX);
            world.client_takes(0, 0);
            world.client_takes(0, 1);
        }
        world.drop_call(0);
        world.client_writes(usize::MAX);
        world.server_reads(usize::MAX, usize::MAX);
        assert_eq!(world.reason(0), Some(CancelReason::ConsumerGone));
        world.server_looks(0);
        assert!(world.handlers.is_empty());
        world.carry();
    }
    world.quiesce();
    assert_eq!(world.ends.dropped, 10_000);
}

/// Streams over the agreed number are refused by name, and places are free again with the end of their calls.
#[test]
fn the_number_of_streams_is_bounded() {
    let mut world = StreamWorld::new();
    for _ in 0..4 {
        assert!(world.open(2, true, 0, 8));
    }
    assert!(!world.open(0, true, 0, 8), "the thirteenth stream");
    assert_eq!(world.client.flow().open, 12);
    world.drop_call(0);
    assert!(world.open(2, true, 0, 8));
    world.quiesce();
    let mut few = agreement();
    few.limits.streams_max = 2;
    let mut world = StreamWorld::under(few);
    assert!(!world.open(2, true, 0, 8));
    assert!(world.open(1, true, 0, 8));
    world.quiesce();
}

/// The window rule: what fits goes, what does not waits until half is free, and then goes whatever its size.
#[test]
fn an_item_larger_than_a_window_borrows_from_an_empty_one() {
    assert!(fits(0, 1_000_000, 100) && fits(50, 1_000_000, 100));
    assert!(!fits(51, 1_000_000, 100) && fits(51, 49, 100) && !fits(51, 50, 100));
}

/// A peer that grants more than is under way gains nothing by it.
#[test]
fn credit_beyond_what_is_under_way_counts_for_nothing() {
    let mut world = one_call(1, false);
    assert!(world.client_sends(0, 0, 30_000));
    world.carry();
    let call = world.handlers[0].key.call();
    let mut frames = Vec::new();
    for _ in 0..3 {
        Credit(u32::MAX).put(call, 1, &mut frames);
        Credit(u32::MAX).put(CallId::NONE, 0, &mut frames);
    }
    // Nor does credit for calls that are over, or never were.
    Credit(1).put(CallId::pending(3, 99), 1, &mut frames);
    world.to_client.bytes.extend_from_slice(&frames);
    world.client_reads(usize::MAX, usize::MAX);
    let mut sent = 0;
    while world.client_sends(0, 0, 30_000) {
        sent += 30_032;
    }
    assert!(sent <= 80_000, "{sent}");
}

/// Applies frames of the test's own to one side.
fn apply(world: &mut StreamWorld, frames: &[u8], from: Direction) -> Result<(), Violation> {
    let rules = agreement().rules(from);
    let bytes = Bytes::copy_from_slice(frames);
    let (mut items, mut progress) = (Vec::new(), Progress::default());
    Reader::new(rules, &agreement().limits, LINK_BYTES_MIN).read(&bytes, 100, &mut items, &mut progress)?;
    let turn = Turn { block: Block { bytes: &bytes, shared: None }, rules: &rules, now: world.now };
    match from {
        Direction::FromClient => world.server.apply(&mut items, &turn, &mut world.effects),
        Direction::FromServer => world.client.apply(&mut items, &turn, &mut world.effects),
    }
}

fn data(call: CallId, stream: u16, charged: bool, item: &Bytes) -> Vec<u8> {
    let mut frame = Vec::new();
    crate::frame::DataHead { stream, charged, codec: Codec::Raw, total: None, plain: None, body: item }
        .put(call, &mut frame);
    frame
}

/// A peer that sends without credit, or says that an item is not counted where it must be, breaks the protocol.
#[test]
fn items_without_credit_are_violations() {
    let mut world = one_call(1, false);
    let call = world.handlers[0].key.call();
    let item = item_of_cost(30_000);
    assert_eq!(apply(&mut world, &data(call, 1, false, &item), Direction::FromClient), Ok(()));
    let twice = apply(&mut world, &data(call, 1, false, &item), Direction::FromClient).unwrap_err();
    assert!(matches!(twice, Violation::WindowExceeded { bytes: 60_000, .. }), "{twice}");
    assert_eq!(apply(&mut world, &data(call, 1, true, &item), Direction::FromClient), Ok(()));
    let over = apply(&mut world, &data(call, 1, true, &item), Direction::FromClient).unwrap_err();
    let expected =
        Violation::WindowExceeded { call, stream: 1, limit: "stream_window_bytes", window: 80_000, bytes: 90_000 };
    assert_eq!(over, expected);
}

/// Streams that a call does not have, and a returned stream that was not opened, are violations; what comes for a call that
/// is over is dropped.
#[test]
fn frames_of_streams_that_do_not_exist_are_violations() {
    let mut world = one_call(1, true);
    let (call, item) = (world.handlers[0].key.call(), item_of_cost(100));
    for frame in [data(call, 2, false, &item), {
        let mut end = Vec::new();
        let outcome = Outcome::Ok;
        crate::frame::EndHead { stream: 2, outcome, codec: Codec::Compact, metadata: &[], body: &[] }
            .put(call, &mut end);
        end
    }] {
        let violation = apply(&mut world, &frame, Direction::FromClient).unwrap_err();
        assert_eq!(violation.name(), "stream_id", "{violation}");
    }
    let violation = apply(&mut world, &data(call, 0, false, &item), Direction::FromServer).unwrap_err();
    assert_eq!(violation.name(), "stream_state", "{violation}");
    let gone = CallId::pending(call.slot(), call.generation() + 5);
    assert_eq!(apply(&mut world, &data(gone, 1, true, &item), Direction::FromClient), Ok(()));
    assert_eq!(apply(&mut world, &data(gone, 0, true, &item), Direction::FromServer), Ok(()));
    assert_eq!((world.server.flow().owed_bytes, world.client.flow().owed_bytes), (100, 100), "owed, not lost");
    let stream = FrameHeader { stream: 1, ..FrameHeader::new(Kind::Data, call, 0) };
    assert_eq!(apply(&mut world, &stream.encode(), Direction::FromServer).unwrap_err().name(), "stream_id");
}

/// Credit that finds its reserve used up is not lost: it goes out when the peer reads again.
#[test]
fn credit_that_found_no_room_follows_when_the_peer_reads() {
    let mut world = one_call(1, false);
    assert!(world.client_sends(0, 0, 70_000));
    world.carry();
    while world.server.outbox().push_ping(Ping(1)) {}
    world.server_takes(0, 0, 10);
    let before = world.server.outbox().queued_bytes();
    world.server_takes(0, 0, 10);
    assert_eq!(world.server.outbox().queued_bytes(), before, "no room for it");
    // The pings and their pongs cross.
    world.carry();
    world.carry();
    assert!(world.client_sends(0, 0, 70_000), "the credit of the first item came back");
}

/// A request whose last byte is not written has no producers yet, and a call that ends before then never has.
#[test]
fn producers_start_when_the_request_was_written() {
    let mut world = StreamWorld::new();
    assert!(world.open(1, false, 5, 90_000));
    let (key, noop) = (world.callers[0].key, Waker::noop().clone());
    let ask = |world: &mut StreamWorld| world.client.poll_pump(key, &noop, &mut Some(noop.clone()));
    assert_eq!(ask(&mut world), PumpPoll::Wait);
    world.client_writes(80_000);
    assert_eq!(ask(&mut world), PumpPoll::Wait, "a part of it");
    world.now = world.now.after(MILLI * 5);
    world.expire();
    assert_eq!(ask(&mut world), PumpPoll::Over);
    world.client_writes(usize::MAX);
    world.quiesce();
    assert_eq!(HEADER_BYTES, 16);
}
