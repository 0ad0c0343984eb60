//! Limits: one below, at, and one above; and what is said of it.

use crate::support::Site;
use crate::support::probe::{Add, Wait};
use crate::support::raw::Raw;
use crate::support::site::Kind;
use crate::support::wire::{connected, poll_once, settle};
use punctual_proto::contract::method_id;
use punctual_proto::frame::CallId;
use punctual_rpc::{CallError, Channel, ChannelConfig, Code, ServerConfig, Status};

const MESSAGE: u32 = 100_000;

fn limited(error: &Status) -> (Code, &str, u64) {
    let (name, value) = error.limit().expect("the limit is named");
    (error.code(), name, value)
}

/// A request's body is bounded by the smaller of both sides' limits.
#[tokio::test]
async fn a_request_may_have_exactly_the_message_limit() {
    let mut server = ServerConfig::default();
    server.limits.message_bytes_max = MESSAGE;
    let site = Site::start_with(Kind::Unix, server).await;
    let client = site.client().await;
    for len in [MESSAGE - 1, MESSAGE] {
        assert_eq!(client.echo(vec![1; len as usize]).await.unwrap().len(), len as usize);
    }
    let error = client.echo(vec![1; MESSAGE as usize + 1]).await.unwrap_err();
    assert_eq!(limited(error.status().unwrap()), (Code::ResourceExhausted, "message_bytes_max", u64::from(MESSAGE)));
    let error = client.bulk_note(vec![1; MESSAGE as usize + 1]).await.unwrap_err();
    assert_eq!(limited(&error), (Code::ResourceExhausted, "message_bytes_max", u64::from(MESSAGE)));
    assert_eq!(client.add(1, 2).await, Ok(3), "that call failed alone");
}

/// A reply that is too long fails that call alone, with the limit.
#[tokio::test]
async fn a_reply_over_the_message_limit_fails_that_call_alone() {
    let site = Site::start(Kind::Unix).await;
    let mut config = ChannelConfig::default();
    config.limits.message_bytes_max = MESSAGE;
    let client = site.client_with(config).await;
    let fits = (MESSAGE - 3) as usize;
    assert_eq!(client.repeat(fits).await.unwrap().len(), fits);
    let error = client.repeat(fits + 1).await.unwrap_err();
    assert_eq!(limited(error.status().unwrap()), (Code::ResourceExhausted, "message_bytes_max", u64::from(MESSAGE)));
    assert_eq!(client.add(1, 2).await, Ok(3));
}

/// Metadata is bounded, and a name that is none is refused before anything is sent.
#[tokio::test]
async fn metadata_is_bounded_and_checked() {
    let site = Site::start(Kind::Unix).await;
    let client = site.client().await;
    let fits = 16 * 1024 - 4;
    assert_eq!(client.add(1, 2).metadata("a", vec![0; fits]).await, Ok(3));
    let error = client.add(1, 2).metadata("a", vec![0; fits + 1]).await.unwrap_err();
    assert_eq!(limited(error.status().unwrap()), (Code::ResourceExhausted, "metadata_bytes_max", 16 * 1024));
    let error = client.add(1, 2).metadata("Not A Name", "x").await.unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::InvalidArgument);
}

/// A table that is full refuses the next call at once, and takes one again when one ends.
#[tokio::test]
async fn pending_calls_are_bounded() {
    let mut config = ChannelConfig::default();
    config.limits.pending_calls_max = 4;
    let site = Site::start(Kind::Unix).await;
    let client = site.client_with(config).await;
    let mut calls: Vec<_> = (0..4).map(|at| client.wait(at)).collect();
    for call in &mut calls {
        assert!(poll_once(call).await.is_pending());
    }
    let error = client.add(1, 2).await.unwrap_err();
    assert_eq!(limited(error.status().unwrap()), (Code::ResourceExhausted, "pending_calls_max", 4));
    drop(calls.pop());
    assert_eq!(client.add(1, 2).await, Ok(3));
}

/// A server that is asked for more calls at once than it announced refuses the rest, whoever asks.
#[tokio::test]
async fn running_calls_of_a_connection_are_bounded() {
    let mut server = ServerConfig::default();
    server.limits.running_calls_max = 3;
    let site = Site::start_with(Kind::Tcp, server).await;
    let mut raw = Raw::connect(&site).await;
    for slot in 0..4 {
        raw.request(CallId::pending(slot, 1), method_id("Probe/wait"), None, &Wait { gate: 7 }).await;
    }
    let refused = raw.response().await;
    assert_eq!(refused.header.call, CallId::pending(3, 1));
    assert_eq!(limited(&refused.status()), (Code::ResourceExhausted, "running_calls_max", 3));
    site.ledger.gate.send_replace(true);
    for _ in 0..3 {
        assert_eq!(raw.response().await.payload, [7]);
    }
    raw.request(CallId::pending(3, 2), method_id("Probe/add"), None, &Add { a: 1, b: 1 }).await;
    assert_eq!(raw.response().await.payload, [4]);
    assert_eq!(site.server.stats().refused, 1);
}

/// The whole server has such a limit, too, over all its connections.
#[tokio::test]
async fn running_calls_of_a_server_are_bounded() {
    let mut server = ServerConfig::default();
    server.server_limits.running_calls_max = 40;
    let site = Site::start_with(Kind::Unix, server).await;
    let (one, other) = (site.client().await, site.client().await);
    let mut calls: Vec<_> = (0..40).map(|at| if at % 2 == 0 { one.wait(at) } else { other.wait(at) }).collect();
    for call in &mut calls {
        assert!(poll_once(call).await.is_pending());
    }
    let started = |ledger: &crate::support::probe::Ledger| *ledger.waiting.borrow() >= 28;
    site.ledger.until(started).await;
    let mut refused = 0;
    for _ in 0..20 {
        if let Err(CallError::Status(status)) = other.add(1, 1).await {
            assert_eq!(limited(&status), (Code::ResourceExhausted, "server_running_calls_max", 40));
            refused += 1;
        }
    }
    assert!(refused > 0);
    site.ledger.gate.send_replace(true);
    for call in calls {
        // The last of them may have been refused themselves: permits are taken by the handful.
        let _ = call.await;
    }
    assert_eq!(one.add(1, 2).await, Ok(3), "what ended gave its place back");
}

/// Requests over the byte bound of the send queue fail at once; what is let in is sent.
#[tokio::test(start_paused = true)]
async fn the_send_queue_is_bounded_in_bytes() {
    let mut config = ChannelConfig::default();
    config.limits.send_queue_bytes_max = 64 * 1024;
    let (client, mut wire) = connected(config, 256).await;
    let mut sent = 0;
    let error = loop {
        match client.bulk_note(vec![0; 1_000]).await {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        settle().await;
    };
    assert_eq!(limited(&error), (Code::ResourceExhausted, "send_queue_bytes_max", 64 * 1024));
    assert!((55..66).contains(&sent), "{sent}");
    // A cancel's bytes are reserved: it goes out although the queue is full.
    let frames = wire.frames_until_silent().await;
    assert_eq!(frames.len(), sent);
    client.bulk_note(vec![0; 1_000]).await.unwrap();
}

/// One message of any legal size is let in when nothing big is queued, even above the bound.
#[tokio::test]
async fn one_big_message_passes_a_small_queue() {
    let mut config = ChannelConfig::default();
    config.limits.send_queue_bytes_max = 64 * 1024;
    let site = Site::start(Kind::Unix).await;
    let client = site.client_with(config).await;
    assert_eq!(client.echo(vec![3; 1_000_000]).await.unwrap().len(), 1_000_000);
}

/// The connections of a server are bounded, and the one too many is told why.
#[tokio::test]
async fn connections_are_bounded() {
    let mut server = ServerConfig::default();
    server.server_limits.connections_max = 2;
    let site = Site::start_with(Kind::Unix, server).await;
    let one = site.client().await;
    let two = site.client().await;
    let error = Channel::connect(&site.address).await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted);
    assert!(error.message().contains("connections_max"), "{error}");
    two.channel.close().await;
    let server = site.server.clone();
    while server.stats().open_connections > 1 {
        tokio::task::yield_now().await;
    }
    let three = site.client().await;
    assert_eq!(three.add(1, 2).await, Ok(3));
    assert_eq!(one.add(1, 2).await, Ok(3));
}

/// A long error text is cut on a character boundary, marked, and fits the caller's limit.
#[tokio::test]
async fn error_texts_are_cut() {
    let site = Site::start(Kind::Unix).await;
    let client = site.client().await;
    let error = client.text(&format!("fail:{}", "é".repeat(100_000))).await.unwrap_err();
    let status = error.status().unwrap();
    assert!(status.message().len() <= 65_536 && status.message().ends_with("[cut]"), "{}", status.message().len());
}

/// Many big messages at once are assembled within the receiver's bounds, and each comes back whole.
#[tokio::test]
async fn many_big_messages_share_the_ring() {
    let site = Site::start(Kind::Unix).await;
    let client = site.client().await;
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..40u8 {
        let client = client.clone();
        tasks.spawn(async move {
            let data = vec![at; 150_000 + usize::from(at)];
            assert_eq!(client.echo(data.clone()).await.unwrap(), data);
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
}

/// More big replies than the ring holds, to a client that does not read, hold up nobody else: the handlers wait.
#[tokio::test]
async fn big_replies_to_a_slow_reader_freeze_nobody() {
    let site = Site::start(Kind::Tcp).await;
    let mut raw = Raw::connect(&site).await;
    for slot in 0..60 {
        raw.request(CallId::pending(slot, 1), method_id("Probe/repeat"), None, &Wait { gate: 300_000 }).await;
    }
    let client = site.client().await;
    while site.server.stats().accepted < 60 {
        assert_eq!(client.add(1, 2).await, Ok(3));
    }
    assert_eq!(client.add(1, 2).await, Ok(3));
    let mut bytes = 0;
    while bytes < 60 * 300_000 {
        bytes += raw.frame().await.expect("every reply comes when it is read").payload.len();
    }
}

/// What a connection does not need another one has: an idle one keeps no permits of the server's pool.
#[tokio::test]
async fn an_idle_connection_starves_nobody() {
    let mut server = ServerConfig::default();
    server.server_limits.running_calls_max = 10;
    let site = Site::start_with(Kind::Unix, server).await;
    let (idle, busy) = (site.client().await, site.client().await);
    for _ in 0..20 {
        assert_eq!(idle.add(1, 2).await, Ok(3));
    }
    let mut calls: Vec<_> = (0..10).map(|at| busy.wait(at)).collect();
    for call in &mut calls {
        assert!(poll_once(call).await.is_pending());
    }
    site.ledger.until(|ledger| *ledger.waiting.borrow() == 10).await;
    let error = idle.add(1, 2).await.unwrap_err();
    assert_eq!(limited(error.status().unwrap()), (Code::ResourceExhausted, "server_running_calls_max", 10));
    site.ledger.gate.send_replace(true);
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(idle.add(1, 2).await, Ok(3));
}

/// A description over the connection's message limit is refused with that limit; it does not cost the connection.
#[tokio::test]
async fn a_description_over_the_message_limit_is_refused() {
    let site = Site::start(Kind::Unix).await;
    let mut config = ChannelConfig::default();
    config.limits.message_bytes_max = 1_024;
    let client = site.client_with(config).await;
    let error = client.channel.describe().await.unwrap_err();
    assert_eq!(limited(&error), (Code::ResourceExhausted, "message_bytes_max", 1_024));
    assert_eq!(client.add(1, 2).await, Ok(3));
    assert_eq!(client.channel.stats().connections, 1);
}
