//! Budgets and publication of calls with streams: scenarios 3 to 15 for these shapes.

use crate::support::clock::{channel_under, server_under, tokio_clock, virtual_clock};
use crate::support::site::Kind;
use crate::support::streams::{FlowsClient, Producer};
use crate::support::wire::{Wire, connected, poll_once, settle};
use crate::support::{Site, over_every_transport};
use bytes::Bytes;
use punctual_proto::codec::Codec;
use punctual_proto::frame::{CancelCause, DataHead, EndHead, Kind as FrameKind, Outcome, ResponseHead};
use punctual_rpc::{ChannelConfig, Code, Streaming};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::advance;

const SECOND: Duration = Duration::from_secs(1);

/// So few bytes that one message stalls the link.
const NARROW: usize = 512;

async fn flows(config: ChannelConfig, bytes: usize) -> (FlowsClient, Wire) {
    let (client, wire) = connected(config, bytes).await;
    (FlowsClient { channel: client.channel }, wire)
}

/// A link that takes nothing more until the test reads.
async fn stalled(config: ChannelConfig) -> (FlowsClient, Wire) {
    let (client, wire) = connected(config, NARROW).await;
    client.bulk_note(vec![0; 4 * NARROW]).await.unwrap();
    settle().await;
    (FlowsClient { channel: client.channel }, wire)
}

/// The budget of each request that came, and the streams that it announced.
fn budgets(wire: &Wire, frames: &[crate::support::wire::Frame]) -> Vec<(Option<u64>, u16, bool)> {
    let requests = frames.iter().filter(|frame| frame.kind() == FrameKind::Request);
    let seen = |frame| {
        let request = wire.request(frame);
        (request.budget_micros.map(std::num::NonZero::get), request.streams.arguments(), request.streams.returned())
    };
    requests.map(seen).collect()
}

/// Each timed shape with streams carries its budget.
#[tokio::test(start_paused = true)]
async fn s04_every_timed_shape_with_streams_carries_its_budget() {
    let (client, mut wire) = flows(channel_under(virtual_clock()), 1 << 20).await;
    let open = Producer::default();
    let mut sum = client.upload(open.stream(Bytes::new(), Some(0), true)).timeout(SECOND);
    assert!(poll_once(&mut sum).await.is_pending());
    let mut count = client.count(1).timeout(2 * SECOND);
    assert!(poll_once(&mut count).await.is_pending());
    let mut chat = client.chat(open.stream(String::new(), Some(0), true)).timeout(3 * SECOND);
    assert!(poll_once(&mut chat).await.is_pending());
    let mut log = client.log(open.stream(String::new(), Some(0), true)).timeout(4 * SECOND);
    assert!(poll_once(&mut log).await.is_pending());
    let frames = wire.frames_until_silent().await;
    let expected = [
        (Some(1_000_000), 1, false),
        (Some(2_000_000), 0, true),
        (Some(3_000_000), 1, true),
        (Some(4_000_000), 1, false),
    ];
    assert_eq!(budgets(&wire, &frames), expected);
}

/// The channel's default timeout reaches none of them.
#[tokio::test(start_paused = true)]
async fn s07_the_client_default_reaches_no_call_with_streams() {
    let (client, mut wire) = flows(channel_under(virtual_clock()), 1 << 20).await;
    let mut upload = client.upload(Streaming::empty());
    let mut count = client.count(1);
    let mut chat = client.chat(Streaming::empty());
    let mut log = client.log(Streaming::empty());
    assert!(poll_once(&mut upload).await.is_pending());
    assert!(poll_once(&mut count).await.is_pending());
    assert!(poll_once(&mut chat).await.is_pending());
    let _ = poll_once(&mut log).await;
    let frames = wire.frames_until_silent().await;
    assert_eq!(budgets(&wire, &frames), [(None, 1, false), (None, 0, true), (None, 1, true), (None, 1, false)]);
}

/// An untimed one-way with a stream on a stalled transport outlives the default timeout, and its producer starts late.
#[tokio::test(start_paused = true)]
async fn s08_an_untimed_oneway_with_streams_outlives_the_default_timeout() {
    let mut config = channel_under(tokio_clock());
    config.limits.ping_after = Duration::from_secs(3_600);
    config.limits.dead_after = Duration::from_secs(7_200);
    let (client, mut wire) = stalled(config).await;
    let lines = Producer::default();
    let mut log = client.log(lines.stream("late".to_owned(), Some(1), false));
    assert!(poll_once(&mut log).await.is_pending());
    advance(Duration::from_secs(31)).await;
    settle().await;
    assert!(poll_once(&mut log).await.is_pending());
    assert_eq!(lines.polls(), 0);
    let call = tokio::spawn(log);
    let kinds: Vec<_> = wire.frames_until_silent().await.iter().map(|frame| frame.kind()).collect();
    assert_eq!(kinds, [FrameKind::Request, FrameKind::Request, FrameKind::Data, FrameKind::End]);
    call.await.unwrap().unwrap();
}

/// A one-way with streams that finds the queue full waits for it, up to its deadline: neither request nor cancel is sent.
#[tokio::test(start_paused = true)]
async fn s09_a_oneway_with_streams_refused_by_a_full_queue_sends_nothing() {
    let mut config = channel_under(tokio_clock());
    config.limits.send_queue_bytes_max = 64 * 1024;
    let (probe, mut wire) = connected(config, NARROW).await;
    let client = FlowsClient { channel: probe.channel.clone() };
    let mut notes = 0;
    while probe.bulk_note(vec![0; 1_000]).await.is_ok() {
        notes += 1;
    }
    while probe.bulk_note(vec![0; 8]).await.is_ok() {
        notes += 1;
    }
    let lines = Producer::default();
    let status = client.log(lines.stream("no".to_owned(), None, false)).timeout(SECOND).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(lines.polls() == 0 && lines.is_dropped());
    let frames = wire.frames_until_silent().await;
    assert_eq!(frames.len(), notes);
    assert!(frames.iter().all(|frame| frame.kind() == FrameKind::Request));
    // One that has no end of time is refused at once, and one with room goes.
    assert_eq!(client.channel.stats().pending, 0);
    client.log(Streaming::empty()).timeout(SECOND).await.unwrap();
}

/// What of a stalled call goes out afterwards: its request, then its cancel, and nothing else of it.
async fn request_then_cancel(wire: &mut Wire, client: &FlowsClient, lines: &Producer) {
    settle().await;
    assert!(lines.is_dropped(), "no task is left with the producer");
    assert_eq!(lines.polls(), 0, "no producer was started");
    assert_eq!((client.channel.stats().pending, client.channel.stats().streams), (0, 0));
    let frames = wire.frames_until_silent().await;
    let kinds: Vec<_> = frames.iter().map(|frame| frame.kind()).collect();
    assert_eq!(kinds, [FrameKind::Request, FrameKind::Request, FrameKind::Cancel]);
    assert_eq!(frames[2].header.call, frames[1].header.call);
    assert_eq!(frames[2].cancel(), Some(CancelCause::Deadline));
}

/// A one-way with streams that is not written by its deadline.
#[tokio::test(start_paused = true)]
async fn s12_a_oneway_with_streams_on_a_stalled_write_fails_at_its_deadline() {
    let (client, mut wire) = stalled(channel_under(tokio_clock())).await;
    let lines = Producer::default();
    let status = client.log(lines.stream("no".to_owned(), None, false)).timeout(SECOND).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    request_then_cancel(&mut wire, &client, &lines).await;
}

/// The same for client streaming.
#[tokio::test(start_paused = true)]
async fn s13_client_streaming_on_a_stalled_write_fails_at_its_deadline() {
    let (client, mut wire) = stalled(channel_under(tokio_clock())).await;
    let parts = Producer::default();
    let error = client.upload(parts.stream(Bytes::new(), None, false)).timeout(SECOND).await.unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::DeadlineExceeded);
    request_then_cancel(&mut wire, &client, &parts).await;
}

/// The same for a duplex call.
#[tokio::test(start_paused = true)]
async fn s14_duplex_on_a_stalled_write_fails_at_its_deadline() {
    let (client, mut wire) = stalled(channel_under(tokio_clock())).await;
    let lines = Producer::default();
    let error = client.chat(lines.stream("no".to_owned(), None, false)).timeout(SECOND).await.unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::DeadlineExceeded);
    request_then_cancel(&mut wire, &client, &lines).await;
}

/// And for server streaming, which has no producer and does not wait to be written.
#[tokio::test(start_paused = true)]
async fn s15_server_streaming_on_a_stalled_write_fails_at_its_deadline() {
    let (client, mut wire) = stalled(channel_under(tokio_clock())).await;
    let error = client.count(5).timeout(SECOND).await.unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::DeadlineExceeded);
    let none = Producer::default();
    drop(none.stream(0_u64, None, false));
    request_then_cancel(&mut wire, &client, &none).await;
}

over_every_transport! { paused:
    /// Calls of each shape that are stuck in the transport's write end at their deadline, no producer is started and none
    /// is left, and the connection goes on afterwards.
    s03_timed_calls_with_streams_stuck_in_the_transport_fail_at_their_deadline;
    /// A returned stream that is open ends at the deadline of its call, and so does its handler.
    s03_an_open_stream_ends_at_its_deadline;
}

async fn s03_timed_calls_with_streams_stuck_in_the_transport_fail_at_their_deadline(kind: Kind) {
    let clock = tokio_clock();
    let mut config = server_under(clock.clone());
    config.limits.running_calls_max = 1;
    let (site, _) = Site::streaming(kind, config).await;
    let probe = site.client_with(channel_under(clock.clone())).await;
    let client = FlowsClient { channel: probe.channel.clone() };
    while client.channel.stats().queued_bytes < 1_000_000 {
        probe.hold(vec![0; 60_000]).await.unwrap();
        settle().await;
    }
    let producer = Producer::default();
    let upload = client.upload(producer.stream(Bytes::new(), None, false)).timeout(SECOND).await;
    assert_eq!(upload.unwrap_err().status().unwrap().code(), Code::DeadlineExceeded);
    let count = client.count(5).timeout(SECOND).await;
    assert_eq!(count.unwrap_err().status().unwrap().code(), Code::DeadlineExceeded);
    let chat = client.chat(producer.stream(String::new(), None, false)).timeout(SECOND).await;
    assert_eq!(chat.unwrap_err().status().unwrap().code(), Code::DeadlineExceeded);
    let log = client.log(producer.stream(String::new(), None, false)).timeout(SECOND).await;
    assert_eq!(log.unwrap_err().code(), Code::DeadlineExceeded);
    settle().await;
    assert!(producer.polls() == 0 && producer.is_dropped());
    assert_eq!((client.channel.stats().pending, client.channel.stats().streams), (0, 0));
    site.ledger.gate.send_replace(true);
    loop {
        // What was cancelled holds its place until its handler is gone.
        let (sent, taken) = (client.channel.stats(), site.server.stats());
        if sent.queued_bytes == 0 && taken.accepted == sent.published && taken.running == 0 {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(client.sum(Streaming::from_items([20, 22])).timeout(5 * SECOND).await, Ok(42));
}

async fn s03_an_open_stream_ends_at_its_deadline(kind: Kind) {
    let clock = tokio_clock();
    let (site, ledger) = Site::streaming(kind, server_under(clock.clone())).await;
    let client = site.flows_with(channel_under(clock.clone())).await;
    let lines = Producer::default();
    let call = client.chat(lines.stream("x".to_owned(), Some(1), true)).timeout(SECOND);
    let mut answers = call.await.unwrap();
    assert_eq!(answers.next().await.unwrap().unwrap(), "X");
    let status = answers.next().await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(answers.next().await, None);
    let mut full = client.blobs(u64::MAX, 1_000).timeout(SECOND).await.unwrap();
    advance(2 * SECOND).await;
    settle().await;
    while let Some(Ok(_)) = full.next().await {}
    ledger.until(|ledger| ledger.gone.load(Ordering::SeqCst) == 1).await;
    settle().await;
    assert!(lines.is_dropped());
    assert_eq!((client.channel.stats().streams, site.server.stats().running), (0, 0));
}

/// A returned stream whose connection ends after any of its bytes is an error behind the items that came whole, and a clean
/// end only with the last byte.
#[tokio::test(start_paused = true)]
async fn a_stream_that_is_cut_at_any_byte_is_an_error() {
    let mut whole = None;
    for cut in 0.. {
        let (client, mut wire) = flows(channel_under(virtual_clock()), 1 << 20).await;
        let mut call = client.raw("x");
        assert!(poll_once(&mut call).await.is_pending());
        let request = wire.call_frame().await.header.call;
        let mut bytes = Vec::new();
        let head = |streamed| ResponseHead {
            outcome: Outcome::Ok,
            codec: Codec::Compact,
            metadata: &[],
            streamed,
            total: None,
            plain: None,
            body: &[],
        };
        head(true).put(request, &mut bytes);
        for item in [&b"first"[..], b"second"] {
            DataHead { stream: 0, charged: false, codec: Codec::Raw, total: None, plain: None, body: item }
                .put(request, &mut bytes);
        }
        let end = EndHead { stream: 0, outcome: Outcome::Ok, codec: Codec::Compact, metadata: &[], body: &[] };
        end.put(request, &mut bytes);
        let len = *whole.insert(bytes.len());
        wire.send(&bytes[..cut]).await;
        settle().await;
        drop(wire);
        let ended = match call.await {
            Ok(stream) => stream.collect().await,
            Err(error) => Err(error.status().unwrap().clone()),
        };
        if cut == len {
            assert_eq!(ended.unwrap(), ["first", "second"]);
            break;
        }
        assert_eq!(ended.unwrap_err().code(), Code::ConnectionClosed, "cut at {cut} of {len}");
    }
}
