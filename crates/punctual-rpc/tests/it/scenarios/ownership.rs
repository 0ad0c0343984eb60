//! Ownership: scenarios 26 to 28.

use crate::support::Site;
use crate::support::clock::{channel_under, virtual_clock};
use crate::support::site::Kind;
use crate::support::wire::{connected, poll_once};
use punctual_proto::codec::Codec;
use punctual_proto::frame::{Outcome, ResponseHead};
use punctual_rpc::telemetry::{CallEnd, Observe, ObservedCall, Telemetry};
use punctual_rpc::{ChannelConfig, Code, ServerConfig};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;
use tracing::Subscriber;

/// Counts its calls, and panics at the end of each.
#[derive(Debug, Default)]
struct Panicking(AtomicU64);

impl Observe for Panicking {
    fn ended(&self, _: &ObservedCall, _: &CallEnd) {
        self.0.fetch_add(1, Ordering::SeqCst);
        panic!("this observer is broken");
    }
}

/// Counts what is told of errors.
struct Errors(Arc<AtomicU64>);

impl Subscriber for Errors {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::ERROR
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// Whoever is told of the ends of calls and panics is told once of each, on either side; the call has its result, its slot and
/// its place are free, and that something is wrong is told.
#[tokio::test]
async fn s26_a_terminal_callback_that_panics_costs_no_call() {
    let told = Arc::new(AtomicU64::new(0));
    let _guard = tracing::subscriber::set_default(Errors(Arc::clone(&told)));
    let (ours, theirs) = (Arc::new(Panicking::default()), Arc::new(Panicking::default()));
    let mut server = ServerConfig::default();
    server.telemetry = Telemetry::new().observer(theirs.clone());
    server.limits.running_calls_max = 2;
    let site = Site::start_with(Kind::Inproc, server).await;
    let mut config = ChannelConfig::default();
    config.telemetry = Telemetry::new().observer(ours.clone());
    config.limits.pending_calls_max = 2;
    let client = site.client_with(config).await;
    for at in 0..20 {
        assert_eq!(client.add(at, 1).await, Ok(at + 1));
        let error = client.wait(1).timeout(Duration::from_millis(1)).await.unwrap_err();
        assert_eq!(error.status().unwrap().code(), Code::DeadlineExceeded);
        let mut dropped = client.wait(1);
        assert!(poll_once(&mut dropped).await.is_pending());
        drop(dropped);
    }
    while site.server.stats().running > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(ours.0.load(Ordering::SeqCst), 60, "once for each call");
    // A call that is cancelled before its handler was polled has none to be told of.
    assert!((20..=60).contains(&theirs.0.load(Ordering::SeqCst)), "{theirs:?}");
    assert_eq!(client.channel.stats().pending, 0);
    let panics = ours.0.load(Ordering::SeqCst) + theirs.0.load(Ordering::SeqCst);
    assert_eq!(told.load(Ordering::SeqCst), panics, "each is told of");
    assert_eq!((site.server.stats().panics, client.channel.stats().connections), (0, 1));
}

/// A task whose waker panics is woken once, and takes no other call with it: the next ones go through.
#[tokio::test]
async fn s26_a_waker_that_panics_costs_its_own_call_alone() {
    struct Broken(AtomicU64);
    impl Wake for Broken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
            panic!("this waker is broken");
        }
    }
    let site = Site::start(Kind::Inproc).await;
    let client = site.client().await;
    assert_eq!(client.add(1, 2).await, Ok(3));
    let broken = Arc::new(Broken(AtomicU64::new(0)));
    let mut call = client.add(3, 4);
    assert!(Pin::new(&mut call).poll(&mut Context::from_waker(&Waker::from(broken.clone()))).is_pending());
    while broken.0.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    drop(call);
    assert_eq!(client.add(5, 6).wait_for_ready().await, Ok(11));
    assert_eq!(broken.0.load(Ordering::SeqCst), 1);
    assert_eq!(client.channel.stats().pending, 0);
}

/// A late reply to a dropped call never reaches the call that has its slot now.
#[tokio::test(start_paused = true)]
async fn s27_cleanup_never_hits_a_newer_call_in_a_reused_slot() {
    let (client, mut wire) = connected(channel_under(virtual_clock()), 1 << 20).await;
    let mut old = client.add(1, 1);
    assert!(poll_once(&mut old).await.is_pending());
    let old_frame = wire.call_frame().await;
    drop(old);
    let mut new = client.add(2, 2);
    assert!(poll_once(&mut new).await.is_pending());
    let cancel = wire.call_frame().await;
    assert_eq!(cancel.header.call, old_frame.header.call);
    let new_frame = wire.call_frame().await;
    let (old_call, new_call) = (old_frame.header.call, new_frame.header.call);
    assert_eq!(new_call.slot(), old_call.slot(), "the slot is used again");
    assert_ne!(new_call, old_call);
    wire.answer(&old_frame, &2).await;
    wire.answer(&new_frame, &4).await;
    assert_eq!(new.await, Ok(4));
    let stats = client.channel.stats();
    assert_eq!((stats.late_replies, stats.cancels, stats.pending), (1, 1, 0));
    // Nor does a second reply to a call that is over.
    let head = ResponseHead {
        outcome: Outcome::Ok,
        codec: Codec::Compact,
        metadata: &[],
        streamed: false,
        total: None,
        plain: None,
        body: &[8],
    };
    let mut twice = Vec::new();
    head.put(new_call, &mut twice);
    wire.send(&twice).await;
    let mut newest = client.add(3, 3);
    assert!(poll_once(&mut newest).await.is_pending());
    let frame = wire.call_frame().await;
    wire.answer(&frame, &6).await;
    assert_eq!(newest.await, Ok(6));
    assert_eq!(client.channel.stats().late_replies, 2);
}

/// A call counts as running until its result is queued for the caller, and not longer.
#[tokio::test]
async fn s28_the_drain_count_covers_a_call_until_its_result_is_published() {
    let site = Site::start(Kind::Inproc).await;
    let client = site.client().await;
    let seen = Arc::new(AtomicU64::new(u64::MAX));
    let (server, during) = (site.server.clone(), Arc::clone(&seen));
    site.ledger.on_publish.lock().unwrap().replace(Box::new(move || {
        during.store(server.stats().running, Ordering::SeqCst);
    }));
    assert_eq!(client.published().await, Ok(1));
    assert_eq!(seen.load(Ordering::SeqCst), 1, "while the result is being encoded");
    // The result was queued and the count taken down in one step, so whoever has the result sees the new count.
    let stats = site.server.stats();
    assert_eq!((stats.running, stats.accepted, stats.late_results), (0, 1, 0));
}
