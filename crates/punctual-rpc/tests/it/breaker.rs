//! Circuit breakers: an endpoint whose calls fail is left alone, and comes back.

use crate::support::Site;
use crate::support::clock::{Stopwatch, channel_under, tokio_clock};
use crate::support::probe::ProbeClient;
use crate::support::site::Kind;
use crate::support::wire::{poll_once, settle};
use punctual_rpc::{Balance, BreakerPolicy, Channel, ChannelConfig, Code, HealthStatus, Status};
use std::sync::atomic::Ordering;
use std::time::Duration;

fn guarded() -> ChannelConfig {
    let mut config = channel_under(tokio_clock());
    let mut policy = BreakerPolicy::default();
    policy.window = 4;
    policy.probes = 2;
    config.breaker = Some(policy);
    config.balance = Balance::RoundRobin;
    config
}

fn fail(site: &Site, times: usize) {
    *site.ledger.failures.lock().unwrap() = vec![Status::unavailable("on purpose"); times].into();
}

fn attempts(site: &Site) -> u64 {
    site.ledger.attempts.load(Ordering::SeqCst)
}

/// Calls go past an endpoint whose breaker is open; probes find out when it is well again, and then it gets its share.
#[tokio::test(start_paused = true)]
async fn an_endpoint_that_fails_is_left_alone_until_it_is_well() {
    let (ill, well) = (Site::start(Kind::Inproc).await, Site::start(Kind::Inproc).await);
    let addresses = format!("{},{}", ill.address, well.address);
    let channel = Channel::builder(&addresses).config(guarded()).connect().await.unwrap();
    while channel.stats().open_connections < 2 {
        tokio::task::yield_now().await;
    }
    let client = ProbeClient::new(channel);
    fail(&ill, 5);
    let mut failed = 0;
    for _ in 0..40 {
        failed += u32::from(client.flaky().await.is_err());
    }
    assert_eq!((failed, attempts(&ill), attempts(&well)), (4, 4, 36));
    assert_eq!(client.channel.stats().open_breakers, 1);
    // The first probe fails, too, which doubles the wait.
    tokio::time::sleep(Duration::from_secs(5)).await;
    for _ in 0..10 {
        failed += u32::from(client.flaky().await.is_err());
    }
    assert_eq!((failed, attempts(&ill)), (5, 5));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let before = attempts(&ill);
    for _ in 0..10 {
        assert!(client.flaky().await.is_ok());
    }
    assert_eq!((attempts(&ill) - before, client.channel.stats().open_breakers), (5, 0));
}

/// Where every breaker is open a call fails at once and says so; one that waits is the probe when its time has come.
/// Health can be asked for all the while.
#[tokio::test(start_paused = true)]
async fn calls_fail_at_once_while_every_breaker_is_open() {
    let site = Site::start(Kind::Inproc).await;
    let client = site.client_with(guarded()).await;
    fail(&site, 4);
    for _ in 0..4 {
        assert!(client.flaky().await.is_err());
    }
    let watch = Stopwatch::start();
    for result in [client.flaky().await.map(drop).map_err(|error| error.status().cloned()), {
        let note = client.note("x").await;
        note.map_err(Some)
    }] {
        let status = result.unwrap_err().unwrap();
        assert_eq!(status.code(), Code::Unavailable);
        assert!(status.message().contains("circuit breaker") && status.message().contains("next probe in"), "{status}");
        assert!(status.retry_after().is_some_and(|wait| wait <= Duration::from_secs(5)));
    }
    assert_eq!(client.channel.health("").await, Ok(HealthStatus::Serving));
    assert!(watch.elapsed() < Duration::from_millis(100) && attempts(&site) == 4);
    assert_eq!(client.flaky().wait_for_ready().await, Ok(5));
    assert!((4_900..5_100).contains(&watch.elapsed().as_millis()), "{:?}", watch.elapsed());
    // Taken away live, it guards nothing any more.
    fail(&site, 10);
    client.channel.reconfigure(|config| config.breaker = None).unwrap();
    for _ in 0..10 {
        assert!(client.flaky().await.is_err());
    }
    assert_eq!(client.flaky().await, Ok(16));
}

/// Only one probe is under way, whoever else waits; one that is dropped leaves its place to the next.
#[tokio::test(start_paused = true)]
async fn one_probe_at_a_time() {
    let site = Site::start(Kind::Inproc).await;
    let client = site.client_with(guarded()).await;
    fail(&site, 4);
    for _ in 0..4 {
        assert!(client.flaky().await.is_err());
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut probe = client.wait(1);
    assert!(poll_once(&mut probe).await.is_pending());
    site.ledger.until(|ledger| *ledger.waiting.borrow() == 1).await;
    let refused = client.add(1, 2).await.unwrap_err();
    assert!(refused.status().unwrap().message().contains("a probe is under way"), "{refused:?}");
    let waiting: Vec<_> = (0..5).map(|at| tokio::spawn(client.add(at, 0).wait_for_ready().into_future())).collect();
    settle().await;
    assert_eq!(site.server.stats().accepted, 5);
    drop(probe);
    for (at, call) in (0..5).zip(waiting) {
        assert_eq!(call.await.unwrap(), Ok(at));
    }
    assert_eq!(client.channel.stats().open_breakers, 0);
}

/// What the application says of itself is no failure of the endpoint, whichever shape the call has.
#[tokio::test(start_paused = true)]
async fn answers_are_no_failures() {
    let (site, _) = Site::streaming(Kind::Inproc, punctual_rpc::ServerConfig::default()).await;
    let client = site.client_with(guarded()).await;
    for _ in 0..20 {
        assert!(client.text("fail:x").await.is_err());
        assert!(client.add(i32::MAX, 1).await.is_err());
        assert!(client.unserved().await.is_err());
    }
    assert_eq!(client.channel.stats().open_breakers, 0);
    let flows = crate::support::streams::FlowsClient { channel: client.channel.clone() };
    for _ in 0..20 {
        let mut items = flows.count(2).await.unwrap();
        while let Some(item) = items.next().await {
            item.unwrap();
        }
    }
    assert_eq!(client.channel.stats().open_breakers, 0);
}

/// Calls that end, fail and are dropped at random on many threads never leave a breaker without a way back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_breaker_always_finds_its_way_back() {
    let site = Site::start(Kind::Unix).await;
    let mut config = guarded();
    config.clock = ChannelConfig::default().clock;
    let policy = config.breaker.get_or_insert_default();
    (policy.open_first, policy.open_max) = (Duration::from_millis(1), Duration::from_millis(4));
    let client = site.client_with(config).await;
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..20u64 {
        let (client, ledger) = (client.clone(), std::sync::Arc::clone(&site.ledger));
        tasks.spawn(async move {
            for round in 0..5_000u64 {
                if round % 5 == 0 {
                    ledger.failures.lock().unwrap().extend(vec![Status::unavailable("x"); 4]);
                }
                let within = Duration::from_micros((round * 7 + worker * 131) % 500);
                // Every end is fine.
                let _ = tokio::time::timeout(within, client.flaky()).await;
            }
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
    site.ledger.failures.lock().unwrap().clear();
    for _ in 0..10 {
        assert!(client.flaky().wait_for_ready().await.is_ok());
    }
    assert_eq!((client.channel.stats().open_breakers, client.channel.stats().pending), (0, 0));
}
