//! Budgets and the send pump: scenarios 1 to 8.

use crate::support::clock::{Stopwatch, channel_under, server_under, tokio_clock, virtual_clock};
use crate::support::site::Kind;
use crate::support::wire::{connected, poll_once, settle};
use crate::support::{Site, over_every_transport};
use punctual_clock::{Clock, Instant, Timestamp};
use punctual_proto::frame::{CancelCause, Kind as FrameKind};
use punctual_rpc::{Channel, Code};
use punctual_testkit::TokioClock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::time::advance;

/// So few bytes that one message stalls the link.
const NARROW: usize = 512;

/// The budget on the wire is the one of the moment in which the frame was completed, however long it then waits.
#[tokio::test(start_paused = true)]
async fn s01_wire_budget_is_fixed_at_completion() {
    let clock = virtual_clock();
    let (client, mut wire) = connected(channel_under(clock.clone()), NARROW).await;
    client.bulk_note(vec![0; 4 * NARROW]).await.unwrap();
    settle().await;
    let mut call = client.add(1, 2).timeout(Duration::from_secs(10));
    assert!(poll_once(&mut call).await.is_pending());
    clock.advance(Duration::from_secs(4));
    settle().await;
    assert_eq!(wire.call_frame().await.header.len as usize, 4 * NARROW + 8, "what stalls the link");
    let frame = wire.call_frame().await;
    assert_eq!(wire.request(&frame).budget_micros.unwrap().get(), 10_000_000);
    wire.answer(&frame, &3).await;
    assert_eq!(call.await, Ok(3));
}

/// The pump never looks at a deadline: what was queued before it is sent, in order, and its cancel behind it.
#[tokio::test(start_paused = true)]
async fn s02_an_expired_queued_request_is_still_sent_in_order() {
    let (client, mut wire) = connected(channel_under(tokio_clock()), NARROW).await;
    client.bulk_note(vec![0; 4 * NARROW]).await.unwrap();
    settle().await;
    let mut first = client.add(1, 2).timeout(Duration::from_secs(1));
    assert!(poll_once(&mut first).await.is_pending());
    let mut second = client.add(3, 4).timeout(Duration::from_secs(100));
    assert!(poll_once(&mut second).await.is_pending());
    assert_eq!(first.await.unwrap_err().status().unwrap().code(), Code::DeadlineExceeded);
    wire.call_frame().await;
    let expired = wire.call_frame().await;
    assert_eq!(wire.request(&expired).budget_micros.unwrap().get(), 1_000_000);
    let alive = wire.call_frame().await;
    assert_eq!(wire.request(&alive).budget_micros.unwrap().get(), 100_000_000);
    let cancel = wire.call_frame().await;
    assert_eq!((cancel.header.call, cancel.cancel()), (expired.header.call, Some(CancelCause::Deadline)));
    wire.answer(&alive, &7).await;
    assert_eq!(second.await, Ok(7));
}

over_every_transport! { paused:
    /// A timed call ends at its deadline although the transport takes nothing, and the connection goes on afterwards.
    s03_a_timed_call_stuck_in_the_transport_fails_at_its_deadline;
}

async fn s03_a_timed_call_stuck_in_the_transport_fails_at_its_deadline(kind: Kind) {
    let clock = tokio_clock();
    let mut config = server_under(clock.clone());
    config.limits.running_calls_max = 1;
    let site = Site::start_with(kind, config).await;
    let client = site.client_with(channel_under(clock.clone())).await;
    stall(&site, &client.channel).await;
    let mut parked = client.add(1, 2).timeout(Duration::from_secs(1));
    let before = Stopwatch::start();
    assert!(poll_once(&mut parked).await.is_pending());
    assert_eq!(parked.await.unwrap_err().status().unwrap().code(), Code::DeadlineExceeded);
    let waited = before.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_millis(1_010)).contains(&waited), "{waited:?}");
    site.ledger.gate.send_replace(true);
    assert_eq!(client.add(20, 22).timeout(Duration::from_secs(5)).await, Ok(42));
}

/// Keeps a server from reading, and sends until the transport takes no more.
async fn stall(site: &Site, channel: &Channel) {
    let client = crate::support::probe::ProbeClient::new(channel.clone());
    site.ledger.gate.send_replace(false);
    while channel.stats().queued_bytes < 1_000_000 {
        client.hold(vec![0; 60_000]).await.unwrap();
        settle().await;
    }
}

/// Every timed shape carries its budget; this version has two.
#[tokio::test(start_paused = true)]
async fn s04_every_timed_shape_carries_its_budget() {
    let (client, mut wire) = connected(channel_under(virtual_clock()), 1 << 20).await;
    let mut unary = client.add(1, 2).timeout(Duration::from_millis(1_500));
    assert!(poll_once(&mut unary).await.is_pending());
    let mut attribute = client.quick();
    assert!(poll_once(&mut attribute).await.is_pending());
    let mut oneway = client.note("x").timeout(Duration::from_micros(7));
    assert!(poll_once(&mut oneway).await.is_pending());
    let mut budgets = Vec::new();
    for _ in 0..3 {
        let frame = wire.call_frame().await;
        budgets.push(wire.request(&frame).budget_micros.map(std::num::NonZero::get));
    }
    assert_eq!(budgets, [Some(1_500_000), Some(2_000_000), Some(7)]);
}

/// A deadline of the call's own replaces the method's timeout and the channel's default, also where it is later.
#[tokio::test(start_paused = true)]
async fn s04_a_deadline_replaces_other_timeouts() {
    let clock = virtual_clock();
    let (client, mut wire) = connected(channel_under(clock.clone()), 1 << 20).await;
    let at = |seconds| clock.now().after(Duration::from_secs(seconds));
    let mut attribute = client.quick().deadline(at(60));
    assert!(poll_once(&mut attribute).await.is_pending());
    let mut default = client.add(1, 2).deadline(at(90));
    assert!(poll_once(&mut default).await.is_pending());
    let mut both = client.add(1, 2).deadline(at(90)).timeout(Duration::from_secs(1));
    assert!(poll_once(&mut both).await.is_pending());
    for seconds in [60, 90, 1] {
        let frame = wire.call_frame().await;
        let budget = wire.request(&frame).budget_micros.map(std::num::NonZero::get);
        assert_eq!(budget, Some(seconds * 1_000_000));
    }
}

/// A channel that is closed at whichever moment, while its driver decides how long to hold a batch, lets go of the batch and
/// closes, and does not sleep until the latency is over.
#[tokio::test(start_paused = true)]
async fn s05_a_stop_while_a_batch_wait_is_arming_is_seen() {
    for read in 1..=4 {
        let closing =
            Arc::new(ClosingClock { inner: tokio_clock(), reads: AtomicU64::new(0), channel: Mutex::default() });
        let mut config = channel_under(tokio_clock());
        config.write_latency_max = Duration::from_secs(3_600);
        config.driver_clock = Some(closing.clone());
        let (client, mut wire) = connected(config, 1 << 20).await;
        settle().await;
        *closing.channel.lock().unwrap() = Some((closing.reads.load(Ordering::SeqCst) + read, client.channel.clone()));
        let before = Stopwatch::start();
        let mut call = client.add(1, 2).timeout(Duration::from_secs(7_200));
        assert!(poll_once(&mut call).await.is_pending());
        settle().await;
        if closing.channel.lock().unwrap().is_some() {
            // The driver reads its clock less often than this before it sleeps: nothing is armed any more.
            assert!(read > 1, "the driver arms its wait without a look at the clock");
            break;
        }
        let frame = wire.call_frame().await;
        wire.answer(&frame, &3).await;
        assert_eq!(call.await, Ok(3), "what is under way ends as ever");
        assert_eq!(wire.link.read(&mut [0; 1]).await.unwrap(), 0, "the link is closed");
        assert!(before.elapsed() < Duration::from_secs(10), "read {read}: it slept {:?}", before.elapsed());
    }
}

/// Closes a channel during one of the reads of its driver.
#[derive(Debug)]
struct ClosingClock {
    inner: Arc<TokioClock>,
    reads: AtomicU64,
    channel: Mutex<Option<(u64, Channel)>>,
}

impl Clock for ClosingClock {
    fn now(&self) -> Instant {
        let read = self.reads.fetch_add(1, Ordering::SeqCst) + 1;
        let due = self.channel.lock().unwrap().take_if(|(at, _)| *at <= read);
        if let Some((_, channel)) = due {
            let mut closing = Box::pin(channel.close());
            let _ = closing.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        }
        self.inner.now()
    }

    fn timestamp(&self) -> Timestamp {
        self.inner.timestamp()
    }
}

/// A latency that was asked for holds timed requests like any other; without one a request goes out at once.
#[tokio::test(start_paused = true)]
async fn s06_an_explicit_latency_holds_timed_requests_and_the_default_holds_none() {
    for latency in [Duration::from_millis(20), Duration::ZERO] {
        let mut config = channel_under(tokio_clock());
        config.write_latency_max = latency;
        let (client, mut wire) = connected(config, 1 << 20).await;
        let before = Stopwatch::start();
        let mut first = client.add(1, 2).timeout(Duration::from_secs(1));
        assert!(poll_once(&mut first).await.is_pending());
        wire.call_frame().await;
        let waited = before.elapsed();
        assert!(waited >= latency && waited < latency + Duration::from_millis(5), "{latency:?}: {waited:?}");
    }
}

/// The channel's default timeout is a unary call's alone.
#[tokio::test(start_paused = true)]
async fn s07_the_client_default_reaches_only_unary_on_the_wire() {
    let (client, mut wire) = connected(channel_under(virtual_clock()), 1 << 20).await;
    let mut unary = client.add(1, 2);
    assert!(poll_once(&mut unary).await.is_pending());
    client.note("x").await.unwrap();
    let unary = wire.call_frame().await;
    assert_eq!(wire.request(&unary).budget_micros.unwrap().get(), 30_000_000);
    let oneway = wire.call_frame().await;
    assert_eq!(wire.request(&oneway).budget_micros, None);
}

/// An untimed one-way that waits on a stalled transport longer than the default timeout neither fails nor is cancelled.
#[tokio::test(start_paused = true)]
async fn s08_an_untimed_oneway_on_a_stalled_transport_outlives_the_default_timeout() {
    let mut config = channel_under(tokio_clock());
    config.limits.ping_after = Duration::from_secs(3_600);
    config.limits.dead_after = Duration::from_secs(7_200);
    let (client, mut wire) = connected(config, NARROW).await;
    client.bulk_note(vec![0; 4 * NARROW]).await.unwrap();
    client.note("late").await.unwrap();
    settle().await;
    advance(Duration::from_secs(31)).await;
    settle().await;
    let frames = wire.frames_until_silent().await;
    assert_eq!(frames.iter().map(|frame| frame.kind()).collect::<Vec<_>>(), [FrameKind::Request; 2]);
}
