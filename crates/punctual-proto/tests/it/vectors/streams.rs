//! `streams.json`.

use super::{File, from, hex, unhex};
use punctual_clock::Instant;
use punctual_proto::codec::Codec;
use punctual_proto::frame::{CallStreams, Direction, FrameRules, RequestHead};
use punctual_proto::handshake::{Agreement, Capabilities, Windows};
use punctual_proto::limits::Limits;
use punctual_proto::session::{
    Batch, Block, Body, BudgetPolicy, ClientSession, Effects, Opening, Progress, Reader, ServerSession, Session, Turn,
};
use serde_json::Value;
use std::task::Waker;

/// What the file's header says.
fn agreement() -> Agreement {
    let mut limits = Limits::default();
    limits.message_bytes_max = 100_000;
    limits.stream_window_bytes = 65_536;
    limits.connection_window_bytes = 131_072;
    Agreement {
        capabilities: Capabilities::CANCEL_REASON.union(Capabilities::STREAMS),
        limits,
        compression: None,
        own: Windows::from(&limits),
    }
}

/// The frames of streams that either side takes, and those that break the connection, are those of the vectors, however their
/// bytes are cut on their way.
#[test]
fn streams_are_taken_or_refused() {
    File::read("streams.json").each(|case, name| {
        for step in [usize::MAX, 1_000] {
            let (mut client, mut server);
            let (session, call): (&mut dyn Taking, u64) = match from(case) {
                Direction::FromServer => {
                    client = ClientSession::new(&agreement());
                    let call = open(&mut client, u16::try_from(case["streams"].as_u64().unwrap()).unwrap());
                    (&mut client, call)
                }
                Direction::FromClient => {
                    server = ServerSession::new(&agreement(), BudgetPolicy::default());
                    server.grant_permits(8);
                    (&mut server, 0x0000_0000_0090_0005)
                }
            };
            let bytes = bytes(case, call);
            let taken = take(session, &agreement().rules(from(case)), &bytes, step.min(bytes.len()));
            assert_eq!(taken.err(), case["violation"].as_str(), "{name}, {step} bytes at a time");
        }
    });
}

/// Sends the request of the file's header, and gives its id.
fn open(client: &mut ClientSession, streams: u16) -> u64 {
    let head = RequestHead {
        method: 7,
        budget_micros: None,
        oneway: false,
        codec: Codec::Compact,
        metadata: &[],
        streams: CallStreams::new(streams & 0x7fff, streams & 0x8000 != 0),
        total: None,
        plain: None,
        body: &[],
    };
    let (now, mut effects, mut batch) = (Instant::from_nanos(1), Effects::default(), Batch::default());
    let mut body = Body::copied(&[]);
    let opening = Opening { head, body: &mut body, deadline: Instant::FAR, now, ticket: None };
    client.open_streams(opening, &mut Some(Waker::noop().clone())).unwrap();
    client.outbox().take(&mut batch, &mut effects);
    let frame = batch.only_slice().unwrap().to_vec();
    u64::from_le_bytes(frame[8..16].try_into().unwrap())
}

fn bytes(case: &Value, call: u64) -> Vec<u8> {
    let call = hex(&call.to_le_bytes());
    let mut bytes = Vec::new();
    for frame in case["frames"].as_array().unwrap() {
        let text = frame.as_str().or(frame["hex"].as_str()).unwrap();
        bytes.extend(unhex(&text.replace("{call}", &call)));
        bytes.resize(bytes.len() + usize::try_from(frame["zeros"].as_u64().unwrap_or(0)).unwrap(), 0);
    }
    bytes
}

/// Either session.
trait Taking {
    fn apply(&mut self, turn: &Turn<'_>, items: &mut Vec<punctual_proto::session::Item>) -> Result<(), &'static str>;
}

impl<S: Session> Taking for S {
    fn apply(&mut self, turn: &Turn<'_>, items: &mut Vec<punctual_proto::session::Item>) -> Result<(), &'static str> {
        let mut effects = Effects::default();
        let applied = Session::apply(self, items, turn, &mut effects);
        effects.run();
        applied.map_err(|violation| violation.name())
    }
}

fn take(session: &mut dyn Taking, rules: &FrameRules, bytes: &[u8], step: usize) -> Result<(), &'static str> {
    let mut reader = Reader::new(*rules, &agreement().limits, usize::MAX);
    let (mut start, mut end) = (0, 0);
    while end < bytes.len() {
        end = bytes.len().min(end + step);
        let (mut items, mut progress) = (Vec::new(), Progress::default());
        let block = &bytes[start..end];
        let read = reader.read(block, usize::MAX, &mut items, &mut progress);
        let turn = Turn { block: Block { bytes: block, shared: None }, rules, now: Instant::from_nanos(2) };
        session.apply(&turn, &mut items)?;
        read.map_err(|violation| violation.name())?;
        start += progress.consumed;
    }
    assert_eq!(start, end, "bytes are left over");
    Ok(())
}
