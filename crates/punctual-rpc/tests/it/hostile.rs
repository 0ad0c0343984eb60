//! Peers that break the protocol: the connection closes with a reason, and the rest goes on.

use crate::support::Site;
use crate::support::clock::{Stopwatch, channel_under, server_under, tokio_clock};
use crate::support::probe::Wait;
use crate::support::raw::Raw;
use crate::support::site::Kind;
use crate::support::wire::{connected, poll_once};
use punctual_proto::contract::method_id;
use punctual_proto::frame::{
    CallId, Cancel, CancelCause, FRAGMENT_FLAG_MORE, FrameHeader, GoAway, GoAwayReason, Kind as FrameKind, Ping,
    RequestHead,
};
use punctual_rpc::Code;
use std::time::Duration;

fn header(kind: FrameKind, flags: u8, len: u32, call: CallId) -> Vec<u8> {
    FrameHeader { flags, ..FrameHeader::new(kind, call, len) }.encode().to_vec()
}

fn first_piece(call: CallId, total: u32, body: &[u8]) -> Vec<u8> {
    let head = RequestHead {
        method: method_id("Probe/echo"),
        budget_micros: None,
        oneway: false,
        codec: punctual_proto::codec::Codec::Raw,
        metadata: &[],
        streams: punctual_proto::frame::CallStreams::NONE,
        total: Some(total),
        plain: None,
        body,
    };
    let mut out = Vec::new();
    head.put(call, &mut out);
    out
}

/// Every malformed frame ends in a go-away that says what was wrong, then the end of the connection; the server serves on.
#[tokio::test]
async fn malformed_frames_close_the_connection_with_a_reason() {
    let site = Site::start(Kind::Tcp).await;
    let call = CallId::pending(0, 1);
    let unknown_kind = [&[0, 0, 0, 0, 99, 0, 0, 0][..], &[0; 8]].concat();
    let mut eight = Vec::new();
    for slot in 0..9 {
        eight.extend(first_piece(CallId::pending(slot, 1), 100, b"x"));
    }
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("frame kind 99", unknown_kind),
        ("announces 4294967295 payload bytes", header(FrameKind::Request, 0, u32::MAX, call)),
        ("65537", header(FrameKind::Request, 0, 65_537, call)),
        ("flags", header(FrameKind::Request, 0b1000_0000, 8, call)),
        ("responses from the server only", header(FrameKind::Response, 0, 0, call)),
        ("stream", header(FrameKind::Data, 0, 0, call)),
        ("slot", header(FrameKind::Request, 0, 8, CallId::pending(70_000, 1))),
        ("top bit", header(FrameKind::Request, 0, 8, CallId::counted(1))),
        ("no second HANDSHAKE", header(FrameKind::Handshake, 0, 16, CallId::NONE)),
        ("no unfinished message", [header(FrameKind::Fragment, 0, 1, call), vec![1]].concat()),
        ("total body length", first_piece(call, u32::MAX, b"x")),
        (
            "come to 101 body bytes",
            [first_piece(call, 50, b"x"), header(FrameKind::Fragment, FRAGMENT_FLAG_MORE, 100, call), vec![0; 100]]
                .concat(),
        ),
        ("messages (8)", eight),
        ("reason", [header(FrameKind::Cancel, 0, 1, call), vec![9]].concat()),
    ];
    let count = cases.len() as u64;
    for (says, bytes) in cases {
        let mut raw = Raw::connect(&site).await;
        raw.send(&bytes).await;
        let frame = raw.frame().await.expect(says);
        assert_eq!(frame.kind(), FrameKind::GoAway, "{says}");
        let go_away = GoAway::decode(&frame.payload).unwrap();
        assert_eq!(go_away.reason, GoAwayReason::ProtocolViolation);
        assert!(go_away.text.contains(says), "{says}: {}", go_away.text);
        assert_eq!(raw.frame().await, None, "{says}: the connection ends");
    }
    let client = site.client().await;
    assert_eq!(client.add(1, 2).await, Ok(3));
    assert_eq!(site.server.stats().violations, count);
}

/// What came before the violation in the same read is served; a call under the id of a running one is a violation.
#[tokio::test]
async fn what_came_before_a_violation_stands() {
    let site = Site::start(Kind::Tcp).await;
    let mut raw = Raw::connect(&site).await;
    let wait = method_id("Probe/wait");
    raw.request(CallId::pending(3, 1), wait, None, &Wait { gate: 1 }).await;
    raw.request(CallId::pending(3, 1), wait, None, &Wait { gate: 1 }).await;
    let frame = raw.frame().await.unwrap();
    assert!(GoAway::decode(&frame.payload).unwrap().text.contains("still running"));
    site.ledger.until(|ledger| *ledger.dropped.borrow() == 1).await;
}

/// A cancel of a call that never was, or is over, is nothing: cancels cross replies.
#[tokio::test]
async fn a_cancel_without_its_call_is_ignored() {
    let site = Site::start(Kind::Tcp).await;
    let mut raw = Raw::connect(&site).await;
    let mut out = Vec::new();
    Cancel(Some(CancelCause::User)).put(CallId::pending(9, 9), &mut out);
    Cancel(Some(CancelCause::User)).put(CallId::counted(9), &mut out);
    raw.send(&out).await;
    let add = method_id("Probe/add");
    raw.request(CallId::pending(0, 1), add, None, &crate::support::probe::Add { a: 1, b: 1 }).await;
    assert_eq!(raw.response().await.payload, [4]);
    assert_eq!(site.server.stats().cancelled, 0);
}

/// A server that breaks the protocol is left by the client, whose calls say why.
#[tokio::test(start_paused = true)]
async fn a_client_leaves_a_server_that_breaks_the_protocol() {
    let (client, mut wire) = connected(channel_under(tokio_clock()), 1 << 16).await;
    let mut call = client.add(1, 2);
    assert!(poll_once(&mut call).await.is_pending());
    wire.call_frame().await;
    wire.send(&header(FrameKind::Request, 0, 8, CallId::pending(0, 1))).await;
    let error = call.await.unwrap_err();
    let status = error.status().unwrap();
    assert_eq!(status.code(), Code::ProtocolViolation);
    assert!(status.message().contains("requests from the client only"), "{status}");
    assert_eq!(wire.frame().await.kind(), FrameKind::GoAway, "the server is told, too");
    assert_eq!(client.channel.stats().violations, 1);
}

/// A peer that provokes answers and does not read them is cut off; memory stays bounded.
#[tokio::test]
async fn a_ping_flood_is_cut_off() {
    let site = Site::start(Kind::Tcp).await;
    let mut raw = Raw::connect(&site).await;
    let mut pings = Vec::new();
    for at in 0..1_000 {
        Ping(at).put(&mut pings);
    }
    // The server answers until nothing goes out any more, and then has had enough.
    use tokio::io::AsyncWriteExt;
    for _ in 0..100_000 {
        if raw.link.write_all(&pings).await.is_err() {
            assert_eq!(site.server.stats().violations, 1);
            let client = site.client().await;
            assert_eq!(client.add(1, 2).await, Ok(3));
            return;
        }
    }
    panic!("the server never had enough");
}

/// Silence is answered with a ping, and longer silence with the end: calls fail with the reason and the channel goes on.
#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_pinged_and_then_left() {
    let (client, mut wire) = connected(channel_under(tokio_clock()), 1 << 16).await;
    let call = tokio::spawn(client.wait(1).timeout(Duration::from_secs(120)).into_future());
    let before = Stopwatch::start();
    assert_eq!(wire.frame().await.kind(), FrameKind::Request);
    assert_eq!(wire.frame().await.kind(), FrameKind::Ping);
    assert_eq!(before.elapsed().as_secs(), 10);
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::HeartbeatLost);
    assert_eq!(before.elapsed().as_secs(), 20);
}

/// Any byte is life: a peer that answers pings stays for ever.
#[tokio::test(start_paused = true)]
async fn a_peer_that_answers_pings_stays() {
    let site = Site::start_with(Kind::Unix, server_under(tokio_clock())).await;
    let client = site.client_with(channel_under(tokio_clock())).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(client.add(1, 2).await, Ok(3));
    let stats = client.channel.stats();
    assert_eq!((stats.connections, stats.failed_connects), (1, 0));
    assert!(stats.turns < 1_000, "and an idle connection costs next to nothing: {} turns", stats.turns);
}

/// A client that asks and never takes a byte is closed within the time in which one that says nothing is.
#[tokio::test(start_paused = true)]
async fn a_peer_that_never_reads_is_closed() {
    let site = Site::start_with(Kind::Tcp, server_under(tokio_clock())).await;
    let mut raw = Raw::connect(&site).await;
    let repeat = method_id("Probe/repeat");
    for slot in 0..60 {
        raw.request(CallId::pending(slot, 1), repeat, None, &Wait { gate: 1_000_000 }).await;
    }
    for _ in 0..120 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if site.server.stats().open_connections == 0 {
            return;
        }
    }
    panic!("it holds its replies for ever");
}

/// While a server cannot read, since as many one-way calls run as may, it still says that it lives.
#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_read_says_that_it_lives() {
    let mut server = server_under(tokio_clock());
    server.limits.running_calls_max = 2;
    let site = Site::start_with(Kind::Inproc, server).await;
    let client = site.client_with(channel_under(tokio_clock())).await;
    for _ in 0..4 {
        client.hold(vec![1]).await.unwrap();
    }
    let mut call = client.add(1, 2).timeout(Duration::from_secs(300));
    assert!(poll_once(&mut call).await.is_pending());
    tokio::time::sleep(Duration::from_secs(120)).await;
    site.ledger.gate.send_replace(true);
    assert_eq!(call.await, Ok(3), "the connection lives");
    assert_eq!(client.channel.stats().connections, 1);
}
