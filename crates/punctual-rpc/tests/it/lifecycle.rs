//! Where a server is between its start and its end, and its health, for whoever follows them.

use crate::support::clock::{Stopwatch, channel_under, server_under, tokio_clock};
use crate::support::faulty::FaultyDial;
use crate::support::probe::{Probe, ProbeClient};
use crate::support::site::Kind;
use crate::support::wire::poll_once;
use crate::support::{Site, over_every_transport};
use punctual_rpc::{ChannelBuilder, Code, HealthStatus, Server, ServerPhase, Stopped};
use punctual_testkit::{Faults, Way};
use std::time::Duration;
use tokio::sync::oneshot;

over_every_transport! {
    /// Each change of a service's health is given once, up to the end of the channel.
    health_is_followed;
}

const EVERY: Duration = Duration::from_millis(10);

async fn health_is_followed(kind: Kind) {
    let site = Site::start(kind).await;
    let channel = site.client().await.channel;
    let mut nobody = channel.watch_health("Nobody").every(EVERY);
    assert_eq!(nobody.next().await, Some(Ok(HealthStatus::UnknownService)));
    let mut health = channel.watch_health("Probe").every(EVERY);
    assert_eq!(health.next().await, Some(Ok(HealthStatus::Serving)));
    for seen in [HealthStatus::NotServing, HealthStatus::Serving, HealthStatus::NotServing] {
        site.server.set_health("Probe", seen);
        assert_eq!(health.next().await, Some(Ok(seen)));
    }
    assert_eq!(site.server.shutdown(Duration::from_secs(30)).await, Stopped::default());
    // A stop says so on its way, if it is asked in time.
    let seen = match health.next().await {
        Some(Ok(HealthStatus::Draining)) => health.next().await,
        seen => seen,
    };
    assert_eq!(seen.unwrap().unwrap_err().code(), Code::Unavailable);
    channel.close().await;
    assert_eq!(health.next().await, None);
}

/// A server that does not answer is unreachable within the bound that was set, and seen again when it answers.
#[tokio::test]
async fn health_is_not_waited_for_without_end() {
    let site = Site::start(Kind::Unix).await;
    let faults = Faults::default();
    let dial = FaultyDial::new(&site.address, faults.clone());
    let channel = ChannelBuilder::dial(dial).connect().await.unwrap();
    let mut health = channel.watch_health("").every(EVERY).within(Duration::from_millis(50));
    assert_eq!(health.next().await, Some(Ok(HealthStatus::Serving)));
    faults.pause(Way::In);
    assert_eq!(health.next().await.unwrap().unwrap_err().code(), Code::DeadlineExceeded);
    faults.heal();
    assert_eq!(health.next().await, Some(Ok(HealthStatus::Serving)));
}

/// A server is starting until it serves, drains while calls are under way, and says how it stopped.
#[tokio::test]
async fn a_server_tells_its_phases() {
    let dir = tempfile::tempdir().unwrap();
    let probe = Probe::default();
    let ledger = std::sync::Arc::clone(&probe.ledger);
    let address = format!("unix:{}", dir.path().join("socket").display());
    let server = Server::builder().service(probe).listen(&address).bind().await.unwrap();
    let handle = server.handle();
    let mut phases = handle.watch();
    assert_eq!(handle.phase(), ServerPhase::Starting);
    assert_eq!(phases.next().await, Some(ServerPhase::Starting));
    let (stop, stopping) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve_with_shutdown(async move {
        let _ = stopping.await;
    }));
    assert_eq!(phases.next().await, Some(ServerPhase::Ready));
    let client = ProbeClient::new(punctual_rpc::Channel::connect(&address).await.unwrap());
    let mut call = client.wait(5);
    assert!(poll_once(&mut call).await.is_pending());
    ledger.until(|ledger| *ledger.waiting.borrow() == 1).await;
    assert_eq!(handle.phase(), ServerPhase::Ready);
    stop.send(()).unwrap();
    assert_eq!(phases.next().await, Some(ServerPhase::Draining));
    ledger.gate.send_replace(true);
    assert_eq!(call.await, Ok(5));
    let stopped = serving.await.unwrap();
    assert_eq!(phases.next().await, Some(ServerPhase::Stopped(stopped)));
    assert_eq!(phases.next().await, None);
    assert_eq!(handle.watch().next().await, Some(ServerPhase::Stopped(stopped)));
}

/// A server that was dropped takes nothing new, and stops when its handle says so. Without a handle its watch ends.
#[tokio::test]
async fn a_dropped_server_drains() {
    let bind =
        || async { Server::builder().service(Probe::default()).listen("tcp://127.0.0.1:0").bind().await.unwrap() };
    let server = bind().await;
    let handle = server.handle();
    let mut phases = handle.watch();
    drop(server);
    assert_eq!(phases.next().await, Some(ServerPhase::Draining));
    let stopped = handle.shutdown(Duration::ZERO).await;
    assert_eq!(phases.next().await, Some(ServerPhase::Stopped(stopped)));
    let mut phases = bind().await.handle().watch();
    assert_eq!(phases.next().await, Some(ServerPhase::Draining));
    assert_eq!(phases.next().await, None);
}

/// A peer that does not answer the first go-away takes nothing of the bound on a stop: its wait is part of the grace.
#[tokio::test(start_paused = true)]
async fn the_grace_is_not_lengthened_by_a_silent_peer() {
    let site = Site::start_with(Kind::Unix, server_under(tokio_clock())).await;
    let faults = Faults::default();
    let dial = FaultyDial::new(&site.address, faults.clone());
    let client = ChannelBuilder::dial(dial).config(channel_under(tokio_clock())).connect().await.unwrap();
    let client = ProbeClient::new(client);
    let mut call = client.wait(5);
    assert!(poll_once(&mut call).await.is_pending());
    site.ledger.until(|ledger| *ledger.waiting.borrow() == 1).await;
    faults.pause(Way::Out);
    let before = Stopwatch::start();
    let stopped = site.server.shutdown(Duration::from_secs(3)).await;
    assert_eq!((stopped.cancelled, stopped.stuck), (1, 0));
    assert_eq!(before.elapsed().as_secs(), 3);
}
