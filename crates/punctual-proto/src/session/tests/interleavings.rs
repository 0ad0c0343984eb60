//! Random interleavings of everything that can happen to a connection.

use crate::frame::{GoAwayReason, Ping};
use crate::session::Session;
use crate::session::tests::world::{BODIES, MILLI, World};
use proptest::prelude::*;

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

impl World {
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
