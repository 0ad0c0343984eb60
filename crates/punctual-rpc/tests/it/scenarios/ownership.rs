//! Ownership: scenarios 27 and 28.

use crate::support::Site;
use crate::support::clock::{channel_under, virtual_clock};
use crate::support::site::Kind;
use crate::support::wire::{connected, poll_once};
use punctual_proto::codec::Codec;
use punctual_proto::frame::{Outcome, ResponseHead};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
