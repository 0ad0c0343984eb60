//! Clusters that are added, replaced and removed while calls go on, and settings that are changed live.

use crate::support::Site;
use crate::support::clock::{Stopwatch, channel_under, tokio_clock};
use crate::support::probe::{Probe, ProbeClient};
use crate::support::site::Kind;
use crate::support::wire::{connected, poll_once, settle};
use punctual_rpc::{
    CLUSTERS_MAX, Channel, ChannelConfig, Clusters, Code, Drained, Endpoints, RetryPolicy, Server, ServerHandle, Status,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn at(address: &str) -> Endpoints {
    address.parse().unwrap()
}

fn none() -> Drained {
    Drained::default()
}

/// A cluster goes as soon as its calls are over; without any, at once.
#[tokio::test(start_paused = true)]
async fn clusters_come_and_go() {
    let (east, west) = (Site::start(Kind::Inproc).await, Site::start(Kind::Inproc).await);
    let clusters = Clusters::new(channel_under(tokio_clock())).unwrap();
    let one = ProbeClient::new(clusters.add("east", at(&east.address)).await.unwrap());
    let two = ProbeClient::new(clusters.add("west", at(&west.address)).await.unwrap());
    assert_eq!(clusters.names(), ["east", "west"]);
    assert_eq!((one.add(1, 2).await, two.add(3, 4).await), (Ok(3), Ok(7)));
    assert_eq!((east.server.stats().accepted, west.server.stats().accepted), (1, 1));
    assert_eq!(clusters.add("east", at(&west.address)).await.unwrap_err().code(), Code::AlreadyExists);
    let watch = Stopwatch::start();
    assert_eq!(clusters.remove("east").await, Ok(none()));
    assert_eq!(watch.elapsed(), Duration::ZERO);
    assert_eq!(clusters.remove("east").await.unwrap_err().code(), Code::NotFound);
    assert_eq!(clusters.channel("east").unwrap_err().code(), Code::NotFound);
    let error = one.add(1, 2).await.unwrap_err();
    let status = error.status().unwrap();
    assert!(status.code() == Code::Cancelled && status.message().contains("\"east\" was removed"), "{status}");
    assert_eq!(two.add(3, 4).await, Ok(7), "the other one is not touched");
    // The name is free again.
    let again = clusters.add("east", at(&west.address)).await.unwrap();
    assert_eq!(ProbeClient::new(again).add(1, 2).await, Ok(3));
    assert_eq!(clusters.clone().close().await, none());
    assert_eq!(two.add(3, 4).await.unwrap_err().status().unwrap().code(), Code::Cancelled);
    assert_eq!(clusters.add("x", at(&west.address)).await.unwrap_err().code(), Code::Cancelled);
}

/// What cannot connect is not added, and its name stays free; so it does where the adding is dropped.
#[tokio::test(start_paused = true)]
async fn what_cannot_connect_is_not_added() {
    let site = Site::start(Kind::Inproc).await;
    let clusters = Clusters::new(channel_under(tokio_clock())).unwrap();
    let error = clusters.add("a", at("inproc:nobody-here")).await.unwrap_err();
    assert!(error.message().contains("no server of this process"), "{error}");
    let mut adding = Box::pin(clusters.add("a", at("tcp://192.0.2.1:9")));
    assert!(poll_once(&mut adding).await.is_pending());
    let second = clusters.add("a", at(&site.address)).await;
    assert_eq!(second.unwrap_err().code(), Code::AlreadyExists, "the name is taken while one is being added");
    assert!(clusters.names().is_empty());
    drop(adding);
    clusters.add("a", at(&site.address)).await.unwrap();
    for name in 1..CLUSTERS_MAX {
        clusters.add(&name.to_string(), at(&site.address)).await.unwrap();
    }
    let error = clusters.add("one more", at(&site.address)).await.unwrap_err();
    assert_eq!(error.limit(), Some(("clusters_max", CLUSTERS_MAX as u64)));
}

/// A call under way may end within the grace; one that does not is cut then, and told so.
#[tokio::test(start_paused = true)]
async fn calls_under_way_have_the_grace() {
    for ends in [true, false] {
        let site = Site::start(Kind::Inproc).await;
        let clusters = Clusters::new(channel_under(tokio_clock())).unwrap();
        let client = ProbeClient::new(clusters.add("a", at(&site.address)).await.unwrap());
        let call = tokio::spawn(client.wait(1).into_future());
        site.ledger.until(|ledger| *ledger.waiting.borrow() == 1).await;
        let watch = Stopwatch::start();
        let removal = tokio::spawn(async move { clusters.remove("a").await });
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(!removal.is_finished() && client.add(1, 2).await.is_err(), "it takes no new calls");
        if ends {
            site.ledger.gate.send_replace(true);
            assert_eq!((call.await.unwrap(), removal.await.unwrap()), (Ok(1), Ok(none())));
            assert!(watch.elapsed() < Duration::from_secs(4), "{:?}", watch.elapsed());
        } else {
            assert_eq!(removal.await.unwrap().unwrap().cut, 1);
            assert_eq!(watch.elapsed().as_secs(), 8);
            let error = call.await.unwrap().unwrap_err();
            assert_eq!(error.status().unwrap().code(), Code::Cancelled);
            site.ledger.until(|ledger| *ledger.dropped.borrow() == 1).await;
        }
    }
}

/// Calls that failed at their start, for whatever reason, are no calls under way: a removal does not wait for them.
#[tokio::test(start_paused = true)]
async fn s29_a_failed_call_start_does_not_make_cluster_removal_wait() {
    let site = Site::start(Kind::Inproc).await;
    let mut config = channel_under(tokio_clock());
    config.limits.message_bytes_max = 1_024;
    let clusters = Clusters::new(config).unwrap();
    let client = ProbeClient::new(clusters.add("a", at(&site.address)).await.unwrap());
    let code = |status: Option<&Status>| status.map(Status::code);
    // Too long, over its deadline before and at the gate, metadata that means nothing, a policy that it may not have.
    assert_eq!(code(client.echo(vec![0; 2_000]).await.unwrap_err().status()), Some(Code::ResourceExhausted));
    assert_eq!(code(client.note(&"x".repeat(2_000)).await.err().as_ref()), Some(Code::ResourceExhausted));
    let gone = client.add(1, 2).timeout(Duration::ZERO).await.unwrap_err();
    assert_eq!(code(gone.status()), Some(Code::DeadlineExceeded));
    let clock = client.channel.config().clock;
    let until = clock.now().after(Duration::from_nanos(1));
    let gate = client.tick(|| std::thread::sleep(Duration::ZERO)).deadline(until);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(code(gate.await.unwrap_err().status()), Some(Code::DeadlineExceeded));
    assert_eq!(code(client.add(1, 2).metadata("No", "x").await.unwrap_err().status()), Some(Code::InvalidArgument));
    let policy = client.text("x").retry(RetryPolicy::default()).await.unwrap_err();
    assert_eq!(code(policy.status()), Some(Code::InvalidArgument));
    // A codec that panics in the middle of a start, and calls that are dropped at any point.
    let broken = tokio::spawn(client.tick(|| panic!("on purpose")).into_future());
    assert!(broken.await.unwrap_err().is_panic());
    let mut dropped = client.wait(1);
    assert!(poll_once(&mut dropped).await.is_pending());
    drop((dropped, client.wait(2)));
    let watch = Stopwatch::start();
    assert_eq!(clusters.remove("a").await, Ok(none()));
    assert!(watch.elapsed() < Duration::from_millis(100), "{:?}", watch.elapsed());
}

/// The new endpoints are connected before the first call goes there; where they cannot be, the old ones stay.
#[tokio::test(start_paused = true)]
async fn a_candidate_is_ready_before_the_swap() {
    let (old, new) = (Site::start(Kind::Inproc).await, Site::start(Kind::Inproc).await);
    let config = channel_under(tokio_clock());
    let client = ProbeClient::new(Channel::builder(&old.address).config(config).connect().await.unwrap());
    let error = client.channel.replace(at("inproc:not-there")).await.unwrap_err();
    assert!(error.message().contains("no server of this process"), "{error}");
    assert_eq!((client.add(1, 2).await, client.channel.address()), (Ok(3), old.address.clone()));
    // Given up in the middle.
    let mut replacing = Box::pin(client.channel.replace(at("tcp://192.0.2.1:9")));
    assert!(poll_once(&mut replacing).await.is_pending());
    drop(replacing);
    assert_eq!(client.add(1, 2).await, Ok(3));
    let held = tokio::spawn(client.wait(5).into_future());
    old.ledger.until(|ledger| *ledger.waiting.borrow() == 1).await;
    let channel = client.channel.clone();
    let address = new.address.clone();
    let replacing = tokio::spawn(async move { channel.replace(at(&address)).await });
    while client.channel.address() == old.address {
        tokio::task::yield_now().await;
    }
    assert_eq!(client.add(3, 4).await, Ok(7));
    assert_eq!(new.server.stats().accepted, 1, "the first call behind the exchange finds the new one");
    assert!(!held.is_finished());
    old.ledger.gate.send_replace(true);
    assert_eq!(
        (held.await.unwrap(), replacing.await.unwrap()),
        (Ok(5), Ok(none())),
        "what is under way ends where it is"
    );
    client.channel.clone().close().await;
    assert_eq!(client.channel.replace(at(&old.address)).await.unwrap_err().code(), Code::Cancelled);
    settle().await;
    assert_eq!(old.server.stats().open_connections, 0);
}

async fn serve(address: &str) -> ServerHandle {
    Server::builder().service(Probe::default()).listen(address).bind().await.unwrap().spawn()
}

/// Calls that race replacements all get their own reply, whichever endpoints they find; nothing is left behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_race_replacements() {
    let servers = [serve("inproc:replaced-a").await, serve("inproc:replaced-b").await];
    let client = ProbeClient::new(Channel::connect("inproc:replaced-a").await.unwrap());
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..4 {
        let client = client.clone();
        tasks.spawn(async move {
            for at in 0..25_000 {
                assert_eq!(client.add(worker, at).await, Ok(worker + at));
            }
        });
    }
    let mut rounds = 0;
    while !tasks.is_empty() {
        rounds += 1;
        let next = ["inproc:replaced-a", "inproc:replaced-b", "inproc:replaced-a,inproc:replaced-b"][rounds % 3];
        assert_eq!(client.channel.replace(at(next)).await, Ok(none()));
        while tasks.try_join_next().is_some_and(|result| result.is_ok()) {}
    }
    assert!(rounds > 20, "{rounds}");
    let stats = client.channel.stats();
    assert_eq!((stats.pending, stats.published), (0, 100_000 + stats.resends));
    client.channel.close().await;
    for server in servers {
        assert_eq!(server.shutdown(Duration::from_secs(5)).await.cancelled, 0);
    }
}

/// Settings change for the next call, a call that has begun keeps those that it began with, and the clocks stay.
#[tokio::test(start_paused = true)]
async fn settings_change_live() {
    let site = Site::start(Kind::Inproc).await;
    let mut config = channel_under(tokio_clock());
    let mut policy = RetryPolicy::attempts(3);
    policy.backoff_first = Duration::from_secs(1);
    policy.backoff_max = Duration::from_secs(1);
    config.retry = Some(policy);
    let client = site.client_with(config).await;
    let fail = || site.ledger.failures.lock().unwrap().extend(vec![Status::unavailable("x"); 2]);
    fail();
    let begun = tokio::spawn(client.flaky().into_future());
    site.ledger.until(|ledger| ledger.attempts.load(Ordering::SeqCst) == 1).await;
    let generation = client.channel.reconfigure(|config| {
        config.retry = None;
        config.default_timeout = Some(Duration::from_secs(7));
    });
    assert_eq!(generation, Ok(2));
    assert_eq!(begun.await.unwrap(), Ok(3), "it began with three attempts");
    fail();
    assert!(client.flaky().await.is_err());
    assert_eq!(site.ledger.attempts.load(Ordering::SeqCst), 4);
    let budget = client.budget().await.unwrap();
    assert!((6_900_000..=7_000_000).contains(&budget), "{budget}");
    assert_eq!(client.channel.config().default_timeout, Some(Duration::from_secs(7)));
    // A change that makes no sense changes nothing.
    let senseless = client.channel.reconfigure(|config| {
        config.default_timeout = None;
        config.pool_max = 0;
    });
    assert!(senseless.unwrap_err().message().contains("pool_max"));
    let clock = client.channel.reconfigure(|config| config.clock = tokio_clock());
    assert!(clock.unwrap_err().message().contains("clocks"));
    let budget = client.budget().await.unwrap();
    assert!((6_900_000..=7_000_000).contains(&budget), "{budget}");
}

/// The time that output is held back changes for connections that are open, too.
#[tokio::test(start_paused = true)]
async fn the_write_latency_changes_on_open_connections() {
    let (client, mut wire) = connected(channel_under(tokio_clock()), 1 << 16).await;
    for (latency, waits) in [(300, 300), (0, 0)] {
        let latency = Duration::from_millis(latency);
        client.channel.reconfigure(|config| config.write_latency_max = latency).unwrap();
        let watch = Stopwatch::start();
        let call = tokio::spawn(client.add(1, 2).into_future());
        let frame = wire.call_frame().await;
        assert!(watch.elapsed().as_millis().abs_diff(waits) < 50, "{latency:?}: {:?}", watch.elapsed());
        wire.answer(&frame, &3).await;
        assert_eq!(call.await.unwrap(), Ok(3));
    }
}

/// Changes that race each other are all there at the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_change_of_settings_is_lost() {
    let channel = Arc::new(Channel::lazy("inproc:nobody").unwrap());
    channel.reconfigure(|config| config.resolve_interval = Duration::from_secs(1)).unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let channel = Arc::clone(&channel);
        tasks.spawn(async move {
            for _ in 0..100 {
                channel.reconfigure(|config| config.resolve_interval += Duration::from_secs(1)).unwrap();
            }
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
    assert_eq!(channel.config().resolve_interval, Duration::from_secs(401));
}

/// The settings of all clusters change together, or those of none do.
#[tokio::test]
async fn clusters_share_their_settings() {
    let site = Site::start(Kind::Inproc).await;
    let clusters = Clusters::new(ChannelConfig::default()).unwrap();
    let one = clusters.add("one", at(&site.address)).await.unwrap();
    clusters.reconfigure(|config| config.pool_max = 5).unwrap();
    assert!(clusters.reconfigure(|config| config.pool_max = 65).is_err());
    let two = clusters.add("two", at(&site.address)).await.unwrap();
    assert_eq!((one.config().pool_max, two.config().pool_max), (5, 5));
}
