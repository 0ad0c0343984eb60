//! Keeping a connection up, and going away.

use crate::support::clock::{Stopwatch, channel_under, tokio_clock};
use crate::support::probe::{Probe, ProbeClient};
use crate::support::wire::{connected, poll_once, welcome, wired};
use punctual_proto::frame::NO_NEW_CALLS;
use punctual_rpc::{Channel, ChannelConfig, Code, Server, ServerHandle};
use std::time::Duration;

async fn serve(address: &str) -> ServerHandle {
    Server::builder().service(Probe::default()).listen(address).bind().await.unwrap().spawn()
}

/// After a server's restart the same channel works again.
#[tokio::test]
async fn a_channel_outlives_its_server() {
    let dir = tempfile::tempdir().unwrap();
    let address = format!("unix:{}", dir.path().join("socket").display());
    let server = serve(&address).await;
    let mut config = ChannelConfig::default();
    config.backoff_first = Duration::from_millis(2);
    let client = ProbeClient::new(Channel::builder(&address).config(config).connect().await.unwrap());
    assert_eq!(client.add(1, 2).await, Ok(3));
    server.shutdown(Duration::from_secs(1)).await;
    let server = serve(&address).await;
    assert_eq!(client.add(3, 4).wait_for_ready().await, Ok(7));
    let stats = client.channel.stats();
    assert!(stats.connections == 2 && stats.published == 2, "{stats:?}");
    server.shutdown(Duration::from_secs(1)).await;
}

/// In backoff a call fails at once and says why and when the next try is; one that waits for ready does not.
#[tokio::test(start_paused = true)]
async fn in_backoff_a_call_fails_at_once_unless_it_waits() {
    let dir = tempfile::tempdir().unwrap();
    let address = format!("unix:{}", dir.path().join("socket").display());
    let channel = Channel::builder(&address).config(channel_under(tokio_clock())).lazy().unwrap();
    let client = ProbeClient::new(channel);
    let before = Stopwatch::start();
    for _ in 0..3 {
        let error = client.add(1, 2).await.unwrap_err();
        let status = error.status().unwrap();
        assert_eq!(status.code(), Code::Unavailable);
        for part in ["no such socket file", "next try in", &address] {
            assert!(status.message().contains(part), "{status}");
        }
        assert!(status.retry_after().is_some_and(|wait| wait <= Duration::from_millis(120)));
    }
    assert_eq!(before.elapsed(), Duration::ZERO);
    // It waits within its deadline ...
    let error = client.add(1, 2).wait_for_ready().timeout(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::DeadlineExceeded);
    // ... and goes through when the server comes.
    let waiting = tokio::spawn(client.add(1, 2).wait_for_ready().timeout(Duration::from_secs(30)).into_future());
    tokio::time::sleep(Duration::from_secs(3)).await;
    let server = serve(&address).await;
    assert_eq!(waiting.await.unwrap(), Ok(3));
    assert!(before.elapsed() < Duration::from_secs(11), "{:?}", before.elapsed());
    server.shutdown(Duration::from_secs(1)).await;
}

/// The waits double from 100 ms to 5 s, each by chance a fifth shorter or longer.
#[tokio::test(start_paused = true)]
async fn waits_double_with_jitter() {
    let channel = Channel::builder("inproc:nobody-there").config(channel_under(tokio_clock())).lazy().unwrap();
    let client = ProbeClient::new(channel.clone());
    let mut tries = Vec::new();
    let mut seen = 0;
    let start = Stopwatch::start();
    while tries.len() < 10 {
        let _ = client.add(1, 2).await;
        let failed = channel.stats().failed_connects;
        if failed > seen {
            seen = failed;
            tries.push(start.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for (at, pair) in tries.windows(2).enumerate() {
        let wait = (pair[1] - pair[0]).as_secs_f64();
        let mean = (0.1 * f64::from(1 << at)).min(5.0);
        assert!((mean * 0.79 - 0.003..mean * 1.21 + 0.003).contains(&wait), "{at}: {wait} of {mean}");
    }
}

/// The one line for each way in which a server is not there.
#[tokio::test]
async fn a_failed_connect_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let stale = dir.path().join("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    for (address, says) in [
        (format!("tcp://127.0.0.1:{port}"), "nothing listens on that port"),
        (format!("unix:{}", dir.path().join("none").display()), "no such socket file"),
        (format!("unix:{}", stale.display()), "stale"),
        ("unix:@nobody-there".to_owned(), "nothing listens under that name"),
        ("inproc:nobody".to_owned(), "no server of this process"),
        ("http://x".to_owned(), "is not an address"),
    ] {
        let error = Channel::connect(&address).await.unwrap_err();
        assert!(error.message().contains(says), "{address}: {error}");
        assert!(!error.message().contains('\n') && !error.message().contains("next try"), "{error}");
    }
}

/// After "no new calls" the channel opens another connection, and what is under way ends on the old one.
#[tokio::test(start_paused = true)]
async fn no_new_calls_moves_new_calls_elsewhere() {
    let (client, mut listener) = wired(channel_under(tokio_clock()), 1 << 16);
    let old = tokio::spawn(client.add(1, 2).into_future());
    let mut first = listener.accept(welcome()).await;
    let old_frame = first.call_frame().await;
    // Longer than what counts as having lived.
    tokio::time::sleep(Duration::from_secs(2)).await;
    first.go_away(NO_NEW_CALLS).await;
    let mut second = listener.accept(welcome()).await;
    let new = tokio::spawn(client.add(3, 4).into_future());
    let new_frame = second.call_frame().await;
    second.answer(&new_frame, &7).await;
    assert_eq!(new.await.unwrap(), Ok(7));
    first.go_away(1).await;
    first.answer(&old_frame, &3).await;
    assert_eq!(old.await.unwrap(), Ok(3), "what the server accepted, it answers");
}

/// Calls above the go-away's count were never accepted: they look for another server, here in vain; those below wait on.
#[tokio::test(start_paused = true)]
async fn calls_above_the_count_were_never_accepted() {
    let (client, mut wire) = connected(channel_under(tokio_clock()), 1 << 16).await;
    let mut calls: Vec<_> = (0..4).map(|at| client.add(at, 0)).collect();
    for call in &mut calls {
        assert!(poll_once(call).await.is_pending());
    }
    client.note("one-way calls count, too").await.unwrap();
    let mut last = client.add(9, 9);
    assert!(poll_once(&mut last).await.is_pending());
    let first = wire.call_frame().await;
    wire.go_away(3).await;
    let error = last.await.unwrap_err();
    let status = error.status().unwrap();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("next try in") && status.is_retryable(), "{status}");
    let error = calls.pop().unwrap().await.unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::Unavailable);
    wire.answer(&first, &0).await;
    assert_eq!(calls.remove(0).await, Ok(0));
    drop(wire);
    let error = calls.pop().unwrap().await.unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::ConnectionClosed, "accepted, and lost: the work may be done");
}

/// The last handle closes the connection behind the calls that are under way, and what was queued is sent.
#[tokio::test(start_paused = true)]
async fn dropping_the_channel_flushes_and_closes() {
    let (client, mut wire) = connected(channel_under(tokio_clock()), 1 << 16).await;
    client.note("last words").await.unwrap();
    drop(client);
    let frames = wire.call_frame().await;
    assert_eq!(wire.request(&frames).method, punctual_proto::contract::method_id("Probe/note"));
    use tokio::io::AsyncReadExt;
    assert_eq!(wire.link.read(&mut [0; 16]).await.unwrap(), 0, "the link is closed");
}

/// A call that is built from a channel that is gone still goes through.
#[tokio::test(start_paused = true)]
async fn a_built_call_keeps_its_channel() {
    let (client, mut wire) = connected(channel_under(tokio_clock()), 1 << 16).await;
    let call = client.add(1, 2);
    drop(client);
    let call = tokio::spawn(call.into_future());
    let frame = wire.call_frame().await;
    wire.answer(&frame, &3).await;
    assert_eq!(call.await.unwrap(), Ok(3));
}

/// A closed channel refuses calls, for all its clones.
#[tokio::test(start_paused = true)]
async fn a_closed_channel_refuses_calls() {
    let (client, wire) = connected(channel_under(tokio_clock()), 1 << 16).await;
    let other = client.clone();
    drop(wire);
    client.channel.close().await;
    let error = other.add(1, 2).await.unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::Cancelled);
}

/// With its runtime a connection loses its driver, and so whoever minds its deadlines: its calls end, the channel closes,
/// and another runtime connects anew.
#[test]
fn calls_end_with_the_runtime_of_their_connection() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let home = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let address = format!("unix:{}", dir.path().join("socket").display());
    let _server = home.block_on(serve(&address));
    let lost = runtime();
    let client = lost.block_on(async {
        let client = ProbeClient::new(Channel::connect(&address).await.unwrap());
        assert_eq!(client.add(1, 2).await, Ok(3));
        client
    });
    let mut call = client.wait(1);
    assert!(lost.block_on(poll_once(&mut call)).is_pending());
    drop(lost);
    let next = runtime();
    let error = next.block_on(call).unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::ConnectionClosed);
    assert_eq!(next.block_on(client.add(3, 4)), Ok(7), "the channel connects from where it is used");
    drop(next);
    runtime().block_on(client.channel.close());
}
