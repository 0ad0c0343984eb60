//! Frames that no honest peer sends, made of any bytes: a session under them breaks the connection or takes them, and never
//! panics, holds more than its limits, or invents an end.

use crate::frame::{CallId, Direction, HEADER_BYTES};
use crate::session::tests::stream_world::{StreamWorld, agreement};
use crate::session::*;
use proptest::prelude::*;
use punctual_clock::Instant;

/// As much as one run takes in.
const BYTES_MAX: usize = 1 << 20;

/// What is left of the bytes that say what to send.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// Frames whose fields come near the rules often enough that many of them are obeyed.
fn frames_of(input: &mut Input<'_>, calls: &[CallId]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !input.0.is_empty() && bytes.len() < BYTES_MAX {
        let (kind, flags, stream, call) = (input.byte() % 16, input.byte(), input.byte() % 4, input.byte());
        let call = match call {
            0..192 => calls.get(usize::from(call) % calls.len().max(1)).copied().unwrap_or(CallId::NONE),
            192..224 => CallId::pending(u32::from(call % 8), 9),
            224..240 => CallId::NONE,
            _ => CallId::counted(u64::from(call)),
        };
        let short = usize::from(input.byte());
        let payload = input.take(short);
        // Now and then a payload is longer than its bytes, as of an item in pieces, or its length is a lie.
        let padding = if short == 255 { usize::from(input.byte()) * 256 } else { 0 };
        let lie = if short == 254 { u32::from_le_bytes([input.byte(), 0, input.byte(), input.byte()]) } else { 0 };
        let len = u32::try_from(payload.len() + padding).unwrap_or(u32::MAX).wrapping_add(lie);
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(&[kind, flags, stream, 0]);
        bytes.extend_from_slice(&call.as_u64().to_le_bytes());
        bytes.extend_from_slice(payload);
        bytes.resize(bytes.len() + padding, 7);
    }
    bytes
}

/// Reads bytes as one side's driver does, in pieces of at most `piece`, until they break a rule.
fn read(world: &mut StreamWorld, from: Direction, bytes: &[u8], piece: usize) {
    let limits = agreement().limits;
    let rules = agreement().rules(from);
    let mut reader = Reader::new(rules, &limits, LINK_BYTES_MIN);
    let (mut start, mut end) = (0, 0);
    let mut incoming = Vec::new();
    while end < bytes.len() {
        end = (end + piece).min(bytes.len());
        loop {
            let (mut items, mut progress) = (Vec::new(), Progress::default());
            let block = &bytes[start..end];
            let read = reader.read(block, 8, &mut items, &mut progress);
            let turn = Turn { block: Block { bytes: block, shared: None }, rules: &rules, now: world.now };
            let applied = match from {
                Direction::FromClient => world.server.apply(&mut items, &turn, &mut world.effects),
                Direction::FromServer => world.client.apply(&mut items, &turn, &mut world.effects),
            };
            world.effects.run();
            world.server.take_incoming(&mut incoming);
            incoming.clear();
            assert!(reader.assembling_bytes() as u64 <= limits.assembling_bytes_max(), "{}", reader.assembling_bytes());
            for stats in [world.client.flow(), world.server.flow()] {
                let window = u64::from(limits.connection_window_bytes) + u64::from(limits.message_bytes_max) + 32;
                assert!(stats.held_bytes <= window, "{stats:?}");
            }
            start += progress.consumed;
            if read.and(applied).is_err() {
                return;
            }
            if progress.frames == 0 {
                break;
            }
        }
        assert!(end - start <= HEADER_BYTES + usize::from(u16::MAX) + 1 + piece, "a frame that is never taken");
    }
}

/// One run: calls of each shape are under way, then one side reads what the bytes make.
pub(crate) fn frames(bytes: &[u8]) {
    let mut input = Input(bytes);
    let from = if input.byte() % 2 == 0 { Direction::FromClient } else { Direction::FromServer };
    let piece = 1 + usize::from(input.byte()) * 97;
    let mut world = StreamWorld::new();
    for (arguments, returned) in [(0, false), (1, false), (0, true), (2, true)] {
        world.open(arguments, returned, 0, 8);
    }
    world.carry();
    world.server_sends(2, 30_000);
    let calls: Vec<CallId> = world.handlers.iter().map(|handler| handler.key.call()).collect();
    let bytes = frames_of(&mut input, &calls);
    read(&mut world, from, &bytes, piece);
    // Whatever it came to, both sides end in order.
    world.now = Instant::FAR;
    world.client.expire(world.now, &mut world.effects);
    world.server.expire(world.now, &mut world.effects);
    drop(world.client.close(Closure::Local, &mut world.effects));
    drop(world.server.close(Closure::Local, &mut world.effects));
    world.effects.run();
    assert_eq!((world.client.flow().held_bytes, world.server.flow().held_bytes), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// The fuzz target of the same name, on chance alone.
    #[test]
    fn any_frames_are_taken_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        frames(&bytes);
    }
}
