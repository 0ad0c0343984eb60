//! How a server stops.

use crate::support::clock::{Stopwatch, channel_under, server_under, tokio_clock};
use crate::support::probe::{Probe, ProbeClient};
use crate::support::site::Kind;
use crate::support::wire::{poll_once, settle};
use crate::support::{Site, over_every_transport};
use punctual_context::CancelReason;
use punctual_rpc::{Channel, Code, HealthStatus, Server, Stopped};
use std::time::Duration;

over_every_transport! {
    /// A stop waits for calls, refuses new ones, and leaves nothing behind.
    a_stop_waits_for_the_calls_under_way;
}

async fn a_stop_waits_for_the_calls_under_way(kind: Kind) {
    let site = Site::start(kind).await;
    let client = site.client().await;
    let mut call = client.wait(5);
    assert!(poll_once(&mut call).await.is_pending());
    site.ledger.until(|ledger| *ledger.waiting.borrow() == 1).await;
    let server = site.server.clone();
    let stopping = tokio::spawn(async move { server.shutdown(Duration::from_secs(30)).await });
    while Channel::connect(&site.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    settle().await;
    assert!(!stopping.is_finished());
    site.ledger.gate.send_replace(true);
    assert_eq!(call.await, Ok(5));
    assert_eq!(stopping.await.unwrap(), Stopped::default());
    assert_eq!(site.server.stats().open_connections, 0);
    if let Some(path) = site.address.strip_prefix("unix:").or_else(|| site.address.strip_prefix("shm:")) {
        assert!(!std::path::Path::new(path).exists(), "the socket file is gone");
    }
}

/// When the grace ends the rest is cancelled: callers are told, handlers are dropped.
#[tokio::test(start_paused = true)]
async fn what_outlives_the_grace_is_cancelled() {
    let site = Site::start_with(Kind::Unix, server_under(tokio_clock())).await;
    let client = site.client_with(channel_under(tokio_clock())).await;
    let call = tokio::spawn(client.wait(5).timeout(Duration::from_secs(600)).into_future());
    site.ledger.until(|ledger| *ledger.waiting.borrow() == 1).await;
    let before = Stopwatch::start();
    let stopped = site.server.shutdown(Duration::from_secs(3)).await;
    assert_eq!((stopped.cancelled, stopped.stuck), (1, 0));
    assert_eq!(before.elapsed().as_secs(), 3);
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::Unavailable);
    assert_eq!(*site.ledger.cancelled.lock().unwrap(), [CancelReason::Shutdown]);
    assert_eq!(*site.ledger.dropped.borrow(), 1);
}

/// A stop without calls ends at once, whatever its grace, and says so beforehand.
#[tokio::test(start_paused = true)]
async fn an_idle_stop_is_prompt() {
    let site = Site::start_with(Kind::Tcp, server_under(tokio_clock())).await;
    let client = site.client_with(channel_under(tokio_clock())).await;
    assert_eq!(client.add(1, 2).await, Ok(3));
    let before = Stopwatch::start();
    assert_eq!(site.server.shutdown(Duration::from_secs(60)).await, Stopped::default());
    assert!(before.elapsed() < Duration::from_secs(3), "{:?}", before.elapsed());
}

/// While it drains a server says so, and takes no new connection.
#[tokio::test]
async fn a_draining_server_says_so() {
    let site = Site::start(Kind::Unix).await;
    let client = site.client().await;
    let mut call = client.wait(5);
    assert!(poll_once(&mut call).await.is_pending());
    site.ledger.until(|ledger| *ledger.waiting.borrow() == 1).await;
    let server = site.server.clone();
    let stopping = tokio::spawn(async move { server.shutdown(Duration::from_secs(30)).await });
    // The old connection still answers; new calls are refused, since nobody else listens.
    let error = loop {
        match client.add(1, 2).await {
            Ok(sum) => assert_eq!(sum, 3),
            Err(error) => break error,
        }
    };
    assert_eq!(error.status().unwrap().code(), Code::Unavailable, "{error:?}");
    assert_eq!(client.channel.health("").await.map_err(|status| status.code()), Err(Code::Unavailable));
    let _ = HealthStatus::Draining;
    site.ledger.gate.send_replace(true);
    assert_eq!(call.await, Ok(5));
    stopping.await.unwrap();
}

/// A handler that does not end is reported and left, not waited for.
#[test]
fn stuck_handlers_are_reported() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
    let (stopped, site) = runtime.block_on(async {
        let mut config = punctual_rpc::ServerConfig::default();
        config.stuck_after = Duration::from_millis(100);
        let site = Site::start_with(Kind::Unix, config).await;
        let client = site.client().await;
        let call = tokio::spawn(client.block().into_future());
        site.ledger.until(|ledger| *ledger.waiting.borrow() == 1).await;
        let stopped = site.server.shutdown(Duration::from_millis(100)).await;
        assert!(call.await.unwrap().is_err());
        (stopped, site)
    });
    assert_eq!((stopped.cancelled, stopped.stuck), (1, 1));
    site.ledger.unblock();
}

/// A server whose future was dropped can still be shut down: what is open is stopped, and nobody waits for ever.
#[tokio::test]
async fn a_server_that_was_dropped_can_be_shut_down() {
    let dir = tempfile::tempdir().unwrap();
    let address = format!("unix:{}", dir.path().join("socket").display());
    let bind = || async { Server::builder().service(Probe::default()).listen(&address).bind().await.unwrap() };
    let server = bind().await;
    let handle = server.handle();
    drop(server);
    assert_eq!(handle.shutdown(Duration::from_secs(1)).await, Stopped::default());
    let server = bind().await;
    let handle = server.handle();
    let serving = tokio::spawn(server.serve());
    let client = ProbeClient::new(Channel::connect(&address).await.unwrap());
    assert_eq!(client.add(1, 2).await, Ok(3));
    serving.abort();
    assert!(serving.await.unwrap_err().is_cancelled());
    let (one, other) = tokio::join!(handle.shutdown(Duration::from_secs(1)), handle.shutdown(Duration::from_secs(1)));
    assert_eq!((one, other), (Stopped::default(), Stopped::default()));
    assert_eq!(handle.stats().open_connections, 0);
}
