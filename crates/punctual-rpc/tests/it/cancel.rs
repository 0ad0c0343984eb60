//! Cancelling: by dropping, by a deadline on either side, by a lost link.

use crate::support::clock::{Stopwatch, channel_under, server_under, tokio_clock};
use crate::support::site::Kind;
use crate::support::wire::{poll_once, settle};
use crate::support::{Site, over_every_transport};
use punctual_context::CancelReason;
use punctual_rpc::{ChannelConfig, Code, Limits};
use std::time::Duration;

over_every_transport! {
    /// A dropped call's handler is told, dropped, and its place is free.
    dropping_a_call_drops_its_handler;
    /// Whatever ends a call, memory and slots stay as they were.
    a_hundred_thousand_dropped_calls_leave_no_trace;
    /// Eight slots serve any number of calls, each with its own reply.
    eight_slots_serve_any_number_of_calls;
}

async fn dropping_a_call_drops_its_handler(kind: Kind) {
    let site = Site::start(kind).await;
    let client = site.client().await;
    let mut call = client.wait(1);
    assert!(poll_once(&mut call).await.is_pending());
    site.ledger.until(|ledger| *ledger.waiting.borrow() == 1).await;
    assert_eq!(site.server.stats().running, 1);
    drop(call);
    assert_eq!(client.channel.stats().pending, 0, "the slot is free at once");
    site.ledger.until(|ledger| *ledger.dropped.borrow() == 1 && !ledger.cancelled.lock().unwrap().is_empty()).await;
    assert_eq!(*site.ledger.cancelled.lock().unwrap(), [CancelReason::User]);
    // The same connection goes on, and the server has nothing running.
    assert_eq!(client.add(1, 2).await, Ok(3));
    let stats = site.server.stats();
    assert_eq!((stats.running, stats.cancelled, stats.late_results), (0, 1, 0));
}

async fn a_hundred_thousand_dropped_calls_leave_no_trace(kind: Kind) {
    let site = Site::start(kind).await;
    let client = site.client().await;
    for _ in 0..1_000 {
        let mut calls: Vec<_> = (0..100).map(|_| client.wait(1)).collect();
        for call in &mut calls {
            assert!(poll_once(call).await.is_pending());
        }
        drop(calls);
        settle().await;
    }
    assert_eq!(client.add(1, 2).await, Ok(3));
    let stats = client.channel.stats();
    assert_eq!((stats.pending, stats.queued_bytes), (0, 0));
    let (waiting, dropped) = (*site.ledger.waiting.borrow(), *site.ledger.dropped.borrow());
    assert_eq!(waiting, dropped, "every handler that was started was dropped");
    assert_eq!(site.server.stats().running, 0);
}

/// What a million calls that were dropped leave allocated on both sides is no more than what a few thousand do.
#[test]
fn a_million_dropped_calls_leave_memory_flat() {
    // One thread, whose allocations can be counted.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let site = runtime.block_on(Site::start(Kind::Inproc));
    let client = runtime.block_on(site.client());
    let drop_calls = |rounds: u32| {
        runtime.block_on(async {
            for _ in 0..rounds {
                let mut calls: Vec<_> = (0..100).map(|_| client.wait(1)).collect();
                for call in &mut calls {
                    assert!(poll_once(call).await.is_pending());
                }
                drop(calls);
                settle().await;
            }
            while site.server.stats().running > 0 {
                tokio::task::yield_now().await;
            }
            // What the test itself notes down.
            drop(std::mem::take(&mut *site.ledger.cancelled.lock().unwrap()));
        });
    };
    drop_calls(100);
    let counted = allocation_counter::measure(|| drop_calls(10_000));
    assert!(counted.count_total > 1_000_000, "the server allocates for each handler: {counted:?}");
    assert!(counted.bytes_current < 64 << 10, "{counted:?}");
}

async fn eight_slots_serve_any_number_of_calls(kind: Kind) {
    let mut config = ChannelConfig::default();
    config.limits.pending_calls_max = 8;
    let mut server = punctual_rpc::ServerConfig::default();
    server.limits.running_calls_max = 8;
    let site = Site::start_with(kind, server).await;
    let client = site.client_with(config).await;
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..8 {
        let client = client.clone();
        tasks.spawn(async move {
            for at in 0..1_000 {
                if at % 7 == worker {
                    let mut dropped = client.add(-1, -1);
                    let _ = poll_once(&mut dropped).await;
                }
                match client.add(worker, at).await {
                    Ok(sum) => assert_eq!(sum, worker + at),
                    // The slot of a call that was dropped this moment is free, but a place on the server may not be.
                    Err(error) => assert_eq!(error.status().unwrap().code(), Code::ResourceExhausted),
                }
            }
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
    assert_eq!(client.channel.stats().pending, 0);
}

/// A budget that ends on the server answers DeadlineExceeded and drops the handler, whatever the client thinks.
#[tokio::test(start_paused = true)]
async fn the_server_ends_a_call_at_its_own_budget() {
    let clock = tokio_clock();
    let mut server = server_under(clock.clone());
    server.budget_max = Some(Duration::from_secs(2));
    server.budget_default = Some(Duration::from_secs(3));
    server.budget_min = Duration::from_millis(5);
    let site = Site::start_with(Kind::Unix, server).await;
    let mut config = channel_under(clock.clone());
    config.default_timeout = None;
    let client = site.client_with(config).await;
    // Capped: the caller asked for more.
    let before = Stopwatch::start();
    let error = client.wait(1).timeout(Duration::from_secs(60)).await.unwrap_err();
    let status = error.status().unwrap();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert!(status.message().contains("server"), "{status}");
    assert!((2_000..2_010).contains(&before.elapsed().as_millis()), "{:?}", before.elapsed());
    site.ledger.until(|ledger| *ledger.dropped.borrow() == 1).await;
    assert_eq!(*site.ledger.cancelled.lock().unwrap(), [CancelReason::Deadline]);
    // Defaulted: the caller said nothing.
    assert_eq!(client.budget().await.unwrap(), 3_000_000);
    assert_eq!(client.budget().timeout(Duration::from_secs(1)).await.unwrap(), 1_000_000);
    // Below the minimum: refused, not raised.
    let error = client.budget().timeout(Duration::from_millis(4)).await.unwrap_err();
    assert!(error.status().unwrap().message().contains("5ms"), "{error:?}");
    assert_eq!(site.server.stats().expired, 1);
}

/// The client's deadline cancels on the server with that reason, and the late result is dropped and counted.
#[tokio::test(start_paused = true)]
async fn a_client_deadline_cancels_on_the_server() {
    let clock = tokio_clock();
    // The server has no clock of its own here: only the cancel tells it.
    let site = Site::start_with(Kind::Unix, server_under(crate::support::clock::virtual_clock())).await;
    let client = site.client_with(channel_under(clock)).await;
    let error = client.wait(1).timeout(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::DeadlineExceeded);
    site.ledger.until(|ledger| *ledger.dropped.borrow() == 1).await;
    assert_eq!(*site.ledger.cancelled.lock().unwrap(), [CancelReason::Deadline]);
}

/// A link that is lost cancels the calls of that link, and only those; one-way calls run to their end.
#[tokio::test]
async fn a_lost_link_cancels_its_calls() {
    let site = Site::start(Kind::Tcp).await;
    let mut raw = crate::support::raw::Raw::connect(&site).await;
    let other = site.client().await;
    let mut kept = other.wait(2);
    assert!(poll_once(&mut kept).await.is_pending());
    let wait = punctual_proto::contract::method_id("Probe/wait");
    let call = punctual_proto::frame::CallId::pending(0, 1);
    raw.request(call, wait, None, &crate::support::probe::Wait { gate: 1 }).await;
    site.ledger.until(|ledger| *ledger.waiting.borrow() == 2).await;
    drop(raw);
    site.ledger.until(|ledger| *ledger.dropped.borrow() == 1).await;
    assert_eq!(*site.ledger.cancelled.lock().unwrap(), [CancelReason::Disconnected]);
    site.ledger.gate.send_replace(true);
    assert_eq!(kept.await, Ok(2));
}

/// Calls above the server's running limit wait in order on the client, and each is served.
#[tokio::test]
async fn calls_wait_in_order_for_a_place_on_the_server() {
    let mut server = punctual_rpc::ServerConfig::default();
    server.limits.running_calls_max = 2;
    let site = Site::start_with(Kind::Unix, server).await;
    let client = site.client().await;
    let mut calls: Vec<_> = (0..10).map(|at| client.wait(at)).collect();
    for call in &mut calls {
        assert!(poll_once(call).await.is_pending());
    }
    site.ledger.until(|ledger| *ledger.waiting.borrow() == 2).await;
    settle().await;
    assert_eq!(*site.ledger.waiting.borrow(), 2, "no more than the server allows");
    let late = client.add(1, 2).timeout(Duration::from_millis(20)).await.unwrap_err();
    assert!(late.status().unwrap().message().contains("place"), "{late:?}");
    // One in line that gives up does not hold the others back.
    drop(calls.remove(5));
    site.ledger.gate.send_replace(true);
    for (call, at) in calls.into_iter().zip([0, 1, 2, 3, 4, 6, 7, 8, 9]) {
        assert_eq!(call.await, Ok(at));
    }
    assert_eq!(site.server.stats().refused, 0);
}

/// The limits of a channel are refused where they make no sense, by name.
#[tokio::test]
async fn limits_out_of_range_are_refused() {
    let mut limits = Limits::default();
    limits.message_bytes_max = 1;
    let error = punctual_rpc::Channel::builder("inproc:nobody").limits(limits).lazy().unwrap_err();
    assert!(error.message().contains("message_bytes_max is 1"), "{error}");
}
