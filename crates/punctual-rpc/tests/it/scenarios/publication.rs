//! The publication gate: scenarios 10 to 19.

use crate::support::clock::{channel_under, tokio_clock, virtual_clock};
use crate::support::squeeze::{Slow, profiles};
use crate::support::wire::{Wire, connected, connected_as, poll_once, settle, welcome};
use punctual_proto::frame::{CancelCause, Kind};
use punctual_proto::handshake::Capabilities;
use punctual_rpc::compression::{Compress, Compression};
use punctual_rpc::{ChannelConfig, Code};
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// A channel whose bodies take `during` to compress, and the test's end of it, which agreed to that.
async fn compressing(
    mut config: ChannelConfig,
    profile: Arc<dyn Compress>,
    during: impl Fn() + Send + Sync + 'static,
) -> (crate::support::probe::ProbeClient, Wire) {
    let welcome = welcome().with_compression(vec![profile.profile()]);
    config.compression = Compression::new().with(Slow { profile, during: Arc::new(during) });
    connected_as(config, 1 << 20, welcome).await
}

/// A deadline that passes while the body is compressed keeps the call off the wire, whatever its shape: nothing was
/// registered, and nothing is sent.
#[tokio::test(start_paused = true)]
async fn s10_a_deadline_that_passes_inside_compression_sends_nothing() {
    for profile in profiles() {
        let clock = tokio_clock();
        let slow = clock.clone();
        let during = move || slow.suspend(2 * SECOND);
        let (client, mut wire) = compressing(channel_under(clock.clone()), profile, during).await;
        let error = client.echo(vec![7; 5_000]).timeout(SECOND).await.unwrap_err();
        assert_eq!(error.status().unwrap().code(), Code::DeadlineExceeded);
        let flows = crate::support::streams::FlowsClient { channel: client.channel.clone() };
        let error = flows.raw(vec![7; 5_000]).timeout(SECOND).await.unwrap_err();
        assert_eq!(error.status().unwrap().code(), Code::DeadlineExceeded);
        assert_eq!(wire.frames_until_silent().await, []);
        assert_eq!((client.channel.stats().published, client.channel.stats().pending), (0, 0));
    }
}

/// A deadline that passes while the body is made ready keeps the call off the wire.
#[tokio::test(start_paused = true)]
async fn s10_a_deadline_that_passes_before_the_gate_sends_nothing() {
    let clock = tokio_clock();
    let (client, mut wire) = connected(channel_under(clock.clone()), 1 << 20).await;
    let slow = clock.clone();
    let error = client.tick(move || slow.suspend(2 * SECOND)).timeout(SECOND).await.unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::DeadlineExceeded);
    assert_eq!(wire.frames_until_silent().await, []);
    assert_eq!(client.channel.stats().published, 0);
}

/// The gate reads the clock after the codec: no timer has to fire for it to refuse.
#[tokio::test(start_paused = true)]
async fn s11_a_codec_that_moves_the_clock_is_refused_by_the_gate() {
    let clock = virtual_clock();
    let (client, mut wire) = connected(channel_under(clock.clone()), 1 << 20).await;
    let moved = clock.clone();
    let error = client.tick(move || moved.advance(SECOND)).timeout(SECOND).await.unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::DeadlineExceeded);
    let moved = clock.clone();
    let mut in_time = client.tick(move || moved.advance(SECOND / 4)).timeout(SECOND);
    assert!(poll_once(&mut in_time).await.is_pending());
    let frame = wire.call_frame().await;
    assert_eq!(wire.request(&frame).budget_micros.unwrap().get(), 750_000, "the budget is what encoding left of it");
    assert_eq!(client.channel.stats().published, 1);
}

/// A one-way that expired while it was encoded is not sent.
#[tokio::test(start_paused = true)]
async fn s16_a_oneway_that_expired_in_encoding_is_not_sent() {
    let clock = virtual_clock();
    let (client, mut wire) = connected(channel_under(clock.clone()), 1 << 20).await;
    let moved = clock.clone();
    let status = client.tick_note(move || moved.advance(SECOND)).timeout(SECOND).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(wire.frames_until_silent().await, []);
}

/// The same at the last moment: the gate refuses at the deadline, not behind it.
#[tokio::test(start_paused = true)]
async fn s17_a_oneway_that_expired_behind_its_codec_is_refused_at_the_gate() {
    let clock = virtual_clock();
    let (client, mut wire) = connected(channel_under(clock.clone()), 1 << 20).await;
    let moved = clock.clone();
    let just = SECOND - Duration::from_nanos(1);
    let mut sent = client.tick_note(move || moved.advance(just)).timeout(SECOND);
    let _ = poll_once(&mut sent).await;
    let frame = wire.call_frame().await;
    assert_eq!(wire.request(&frame).budget_micros.unwrap().get(), 1, "a nanosecond rounds up, never to 0");
    let moved = clock.clone();
    assert!(client.tick_note(move || moved.advance(SECOND)).timeout(SECOND).await.is_err());
    assert_eq!(wire.frames_until_silent().await, []);
}

/// A one-way that expired while it was compressed is refused at the gate, which reads the clock behind that; one that did
/// not carries what compression left of its budget.
#[tokio::test(start_paused = true)]
async fn s17_a_oneway_that_expired_in_compression_is_refused_at_the_gate() {
    for profile in profiles() {
        let clock = virtual_clock();
        let slow = clock.clone();
        let during = move || slow.advance(SECOND / 2);
        let (client, mut wire) = compressing(channel_under(clock.clone()), profile, during).await;
        let status = client.bulk_note(vec![7; 5_000]).timeout(SECOND / 2).await.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded);
        assert_eq!(wire.frames_until_silent().await, []);
        client.bulk_note(vec![7; 5_000]).timeout(SECOND).await.unwrap();
        let frame = wire.call_frame().await;
        let request = wire.request(&frame);
        assert_eq!(request.budget_micros.unwrap().get(), 500_000);
        assert_eq!(request.plain, Some(5_000));
        assert_eq!(client.channel.stats().published, 1);
    }
}

/// A one-way that is not written by its deadline fails, and its cancel follows its request under the same id.
#[tokio::test(start_paused = true)]
async fn s18_a_oneway_that_loses_the_emission_race_is_cancelled_behind_its_request() {
    let (client, mut wire) = connected(channel_under(tokio_clock()), 512).await;
    client.bulk_note(vec![0; 4_096]).await.unwrap();
    settle().await;
    let mut late = client.note("late").timeout(SECOND);
    assert!(poll_once(&mut late).await.is_pending());
    assert_eq!(late.await.unwrap_err().code(), Code::DeadlineExceeded);
    let mut on_time = client.note("on time").timeout(100 * SECOND);
    assert!(poll_once(&mut on_time).await.is_pending());
    wire.call_frame().await;
    let request = wire.call_frame().await;
    assert!(!request.header.call.is_pending());
    let cancel = wire.call_frame().await;
    assert_eq!((cancel.header.call, cancel.cancel()), (request.header.call, Some(CancelCause::Deadline)));
    let other = wire.call_frame().await;
    assert_eq!(other.kind(), Kind::Request);
    assert_ne!(other.header.call, request.header.call);
    on_time.await.unwrap();
}

/// Without the capability a cancel has no reason, and is otherwise the same.
#[tokio::test(start_paused = true)]
async fn s19_without_the_capability_a_cancel_has_no_reason() {
    let mut plain = welcome();
    plain.supported = plain.supported.without(Capabilities::CANCEL_REASON);
    let (client, mut wire) = connected_as(channel_under(tokio_clock()), 1 << 20, plain).await;
    let mut dropped = client.add(1, 2);
    assert!(poll_once(&mut dropped).await.is_pending());
    drop(dropped);
    let expired = client.add(1, 2).timeout(SECOND).await.unwrap_err();
    assert_eq!(expired.status().unwrap().code(), Code::DeadlineExceeded);
    let kinds: Vec<Kind> = frames_of(&mut wire).await;
    assert_eq!(kinds, [Kind::Request, Kind::Cancel, Kind::Request, Kind::Cancel]);
}

/// The kinds of what comes; a cancel among it must be without a reason.
async fn frames_of(wire: &mut Wire) -> Vec<Kind> {
    let frames = wire.frames_until_silent().await;
    for cancel in frames.iter().filter(|frame| frame.kind() == Kind::Cancel) {
        assert_eq!((cancel.cancel(), cancel.header.len), (None, 0));
    }
    frames.iter().map(|frame| frame.kind()).collect()
}
