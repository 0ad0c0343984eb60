//! The opening of a connection: what is not a peer of ours, what is too slow, and that nobody waits for it.

use crate::support::Site;
use crate::support::clock::{Stopwatch, channel_under, server_under, tokio_clock};
use crate::support::raw::Raw;
use crate::support::site::Kind;
use crate::support::wire::{WireListener, settle, welcome, wired};
use punctual_proto::frame::{CallId, RequestHead};
use punctual_proto::handshake::{Hello, PREFACE};
use punctual_rpc::{ChannelConfig, Code, Limits, ServerConfig};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Five hundred silent sockets hold nobody up: a good client is in at once.
#[tokio::test]
async fn silent_sockets_do_not_keep_a_good_client_out() {
    let site = Site::start(Kind::Tcp).await;
    let mut silent = Vec::new();
    for _ in 0..500 {
        silent.push(Raw::link(&site).await);
        if silent.len() % 50 == 0 {
            settle().await;
        }
    }
    let client = site.client().await;
    assert_eq!(client.add(1, 2).await, Ok(3));
    let server = site.server.clone();
    // All but the newest gave way.
    while server.stats().failed_handshakes < 500 - 64 {
        tokio::task::yield_now().await;
    }
}

/// The handshake as a whole has a time limit on the server: a peer that drips bytes is cut at it.
#[tokio::test(start_paused = true)]
async fn a_dripping_client_is_cut() {
    let site = Site::start_with(Kind::Tcp, server_under(tokio_clock())).await;
    let mut link = Raw::link(&site).await;
    let before = Stopwatch::start();
    let mut hello = PREFACE.to_vec();
    Hello::new(Limits::default()).put(&mut hello).unwrap();
    let mut cut = false;
    for byte in hello {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if link.write_all(&[byte]).await.is_err() || before.elapsed() > Duration::from_secs(20) {
            cut = true;
            break;
        }
        let mut answer = [0; 1];
        if let Ok(Ok(0) | Err(_)) = tokio::time::timeout(Duration::from_millis(1), link.read(&mut answer)).await {
            cut = true;
            break;
        }
    }
    assert!(cut && before.elapsed() < Duration::from_secs(8), "{:?}", before.elapsed());
    assert_eq!(site.server.stats().failed_handshakes, 1);
}

/// And on the client: a server that accepts and says nothing fails the connect, with the reason.
#[tokio::test(start_paused = true)]
async fn a_silent_server_fails_the_connect() {
    let (client, mut listener) = wired(channel_under(tokio_clock()), 1 << 16);
    let call = tokio::spawn(client.add(1, 2).into_future());
    let _link = listener.link().await;
    let error = call.await.unwrap().unwrap_err();
    let status = error.status().unwrap();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("handshake") && status.message().contains("5s"), "{status}");
}

/// What answers on a wrong port is recognised at its first bytes.
#[tokio::test(start_paused = true)]
async fn another_protocol_is_recognised() {
    for (bytes, says) in [
        (&b"HTTP/1.1 400 Bad Request\r\n"[..], "HTTP"),
        (&b"SSH-2.0-OpenSSH_9.2p1\r\n"[..], "SSH"),
        (&b"PNCTUAL\x02"[..], "version"),
        (&b"hello"[..], "does not speak Punctual"),
    ] {
        let (client, mut listener) = wired(channel_under(tokio_clock()), 1 << 16);
        let call = tokio::spawn(client.add(1, 2).into_future());
        let mut link = listener.link().await;
        link.write_all(bytes).await.unwrap();
        let error = call.await.unwrap().unwrap_err();
        assert!(error.status().unwrap().message().contains(says), "{error:?}");
    }
}

/// A server answers a browser with nothing, and lives.
#[tokio::test]
async fn a_server_drops_other_protocols() {
    let site = Site::start(Kind::Tcp).await;
    let mut link = Raw::link(&site).await;
    link.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    link.read_to_end(&mut answer).await.unwrap();
    let client = site.client().await;
    assert_eq!(client.add(1, 2).await, Ok(3));
    assert_eq!(site.server.stats().failed_handshakes, 1);
}

/// A server of another protocol version says so, and the client tells which side to upgrade.
#[tokio::test]
async fn another_version_is_told() {
    let site = Site::start(Kind::Tcp).await;
    let mut link = Raw::link(&site).await;
    link.write_all(b"PNCTUAL\x09").await.unwrap();
    let mut answer = Vec::new();
    link.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(&PREFACE), "{answer:?}");
    assert!(String::from_utf8_lossy(&answer).contains("version 1"), "{answer:?}");
}

/// Requests that came in the same read as the handshake are served.
#[tokio::test]
async fn bytes_behind_the_handshake_are_not_lost() {
    let site = Site::start(Kind::Tcp).await;
    let mut link = Raw::link(&site).await;
    let mut out = PREFACE.to_vec();
    Hello::new(Limits::default()).put(&mut out).unwrap();
    let head = RequestHead {
        method: punctual_proto::contract::method_id("Probe/note"),
        budget_micros: None,
        oneway: true,
        codec: punctual_proto::codec::Codec::Json,
        metadata: &[],
        streams: punctual_proto::frame::CallStreams::NONE,
        total: None,
        plain: None,
        body: br#"{"text":"early"}"#,
    };
    head.put(CallId::counted(1), &mut out);
    link.write_all(&out).await.unwrap();
    site.ledger.until(|ledger| ledger.notes() == ["early"]).await;
}

/// A channel that is being connected lets calls wait, within their deadline.
#[tokio::test(start_paused = true)]
async fn calls_wait_for_the_connection_within_their_deadline() {
    let (client, mut listener): (_, WireListener) = wired(channel_under(tokio_clock()), 1 << 16);
    let short = tokio::spawn(client.add(1, 2).timeout(Duration::from_millis(100)).into_future());
    let long = tokio::spawn(client.add(3, 4).timeout(Duration::from_secs(4)).into_future());
    let error = short.await.unwrap().unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::DeadlineExceeded);
    assert!(error.status().unwrap().message().contains("waited for a connection"), "{error:?}");
    let mut wire = listener.accept(welcome()).await;
    let frame = wire.call_frame().await;
    let left = wire.request(&frame).budget_micros.unwrap().get();
    assert!(left <= 3_900_000, "the wait is part of the budget: {left}");
    wire.answer(&frame, &7).await;
    assert_eq!(long.await.unwrap(), Ok(7));
}

/// Both sides' limits hold: the smaller of each.
#[tokio::test]
async fn the_smaller_limit_wins() {
    let mut server = ServerConfig::default();
    server.limits.message_bytes_max = 2_000;
    let site = Site::start_with(Kind::Inproc, server).await;
    let mut config = ChannelConfig::default();
    config.limits.message_bytes_max = 3_000;
    let client = site.client_with(config).await;
    assert!(client.echo(vec![0; 2_000]).await.is_ok());
    assert!(
        client.echo(vec![0; 2_001]).await.unwrap_err().status().unwrap().limit() == Some(("message_bytes_max", 2_000))
    );
}
