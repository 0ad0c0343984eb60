//! Pools: when another connection is opened, and when it is closed again.

use crate::support::Site;
use crate::support::clock::{Stopwatch, channel_under, tokio_clock};
use crate::support::probe::{ProbeClient, Wait};
use crate::support::site::Kind;
use crate::support::streams::FlowsClient;
use crate::support::wire::settle;
use punctual_rpc::{ChannelConfig, POOL_MAX, ServerConfig, Status, Unary};
use std::time::Duration;
use tokio::task::JoinSet;

/// A server that runs two calls a connection.
async fn narrow(kind: Kind) -> Site {
    let mut config = ServerConfig::default();
    config.limits.running_calls_max = 2;
    Site::start_with(kind, config).await
}

fn pooled(max: u32) -> ChannelConfig {
    let mut config = channel_under(tokio_clock());
    config.pool_max = max;
    config.default_timeout = Some(Duration::from_secs(600));
    config
}

fn wait_many(client: &ProbeClient, calls: usize) -> JoinSet<u64> {
    let mut tasks = JoinSet::new();
    for at in 0..calls as u64 {
        tasks.spawn(unwrapped(client.wait(at)));
    }
    tasks
}

async fn unwrapped(call: Unary<Wait, u64, Status>) -> u64 {
    call.await.unwrap()
}

async fn open(client: &ProbeClient) -> u64 {
    settle().await;
    client.channel.stats().open_connections
}

/// The pool grows by the calls that wait because the server runs as many as it announced, up to its bound; beyond that
/// calls wait in line and all go through; when nothing goes through them any more, the connections are closed again.
#[tokio::test(start_paused = true)]
async fn a_pool_grows_under_pressure_and_shrinks_when_idle() {
    let site = narrow(Kind::Inproc).await;
    let client = site.client_with(pooled(3)).await;
    let mut calls = wait_many(&client, 2);
    assert_eq!(open(&client).await, 1, "what the server takes at once needs no second connection");
    let more = wait_many(&client, 1);
    site.ledger.until(|ledger| *ledger.waiting.borrow() == 3).await;
    assert_eq!(open(&client).await, 2);
    let rest = wait_many(&client, 20);
    site.ledger.until(|ledger| *ledger.waiting.borrow() == 6).await;
    // Time for another one, if there were to be one.
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(open(&client).await, 3, "the bound holds while calls wait");
    assert_eq!(*site.ledger.waiting.borrow(), 6, "each connection runs what its server takes");
    site.ledger.gate.send_replace(true);
    for tasks in [&mut calls, &mut { more }, &mut { rest }] {
        while let Some(result) = tasks.join_next().await {
            result.unwrap();
        }
    }
    let idle = Stopwatch::start();
    while client.channel.stats().open_connections > 1 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(client.add(1, 2).await, Ok(3), "one call at a time keeps no pool alive");
        assert!(idle.elapsed() < Duration::from_secs(120), "{:?}", client.channel.stats());
    }
    assert!(idle.elapsed() >= Duration::from_secs(20), "{:?}", idle.elapsed());
    assert_eq!(client.add(1, 2).await, Ok(3));
    // It can grow again.
    site.ledger.gate.send_replace(false);
    let again = wait_many(&client, 4);
    site.ledger.until(|ledger| *ledger.waiting.borrow() == 27).await;
    assert_eq!(open(&client).await, 2);
    site.ledger.gate.send_replace(true);
    drop(again);
}

/// By default there is one connection, whatever waits.
#[tokio::test(start_paused = true)]
async fn by_default_there_is_one_connection() {
    let site = narrow(Kind::Inproc).await;
    let client = site.client_with(pooled(1)).await;
    let mut calls = wait_many(&client, 50);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(open(&client).await, 1);
    site.ledger.gate.send_replace(true);
    while let Some(result) = calls.join_next().await {
        result.unwrap();
    }
    assert_eq!(client.channel.stats().connections, 1);
}

/// A bound that is set lower while calls go on closes what is beyond it behind its calls; one that is set higher is used.
#[tokio::test(start_paused = true)]
async fn the_bound_can_be_changed_live() {
    let site = narrow(Kind::Inproc).await;
    let client = site.client_with(pooled(1)).await;
    let mut calls = wait_many(&client, 8);
    site.ledger.until(|ledger| *ledger.waiting.borrow() == 2).await;
    assert_eq!(client.channel.reconfigure(|config| config.pool_max = 4), Ok(2));
    calls.spawn(unwrapped(client.wait(9)));
    while *site.ledger.waiting.borrow() < 8 {
        // Each call that comes sees that the pool may grow; those in line move over.
        calls.spawn(unwrapped(client.wait(9)));
        settle().await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(open(&client).await, 4);
    client.channel.reconfigure(|config| config.pool_max = 1).unwrap();
    site.ledger.gate.send_replace(true);
    while let Some(result) = calls.join_next().await {
        result.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(open(&client).await, 1);
    assert_eq!(client.add(1, 2).await, Ok(3));
}

/// Streams that find no room on a connection make the pool grow, too; where it grows no more, the call is told the limit.
#[tokio::test(start_paused = true)]
async fn a_pool_grows_for_streams() {
    let mut server = ServerConfig::default();
    server.limits.streams_max = 2;
    let (site, _) = Site::streaming(Kind::Inproc, server).await;
    let client = site.client_with(pooled(3)).await;
    let flows = FlowsClient { channel: client.channel.clone() };
    let mut streams = Vec::new();
    for at in 0..6 {
        streams.push(flows.blobs(1 << 40, 1_024).await.unwrap());
        assert_eq!(open(&client).await, 1 + at / 2, "two streams a connection");
    }
    let error = flows.blobs(1, 1).await.unwrap_err();
    assert_eq!(error.status().unwrap().limit(), Some(("streams_max", 2)));
    drop(streams.remove(0));
    // Its room is free at once.
    assert_eq!(flows.blobs(1, 1).await.unwrap().collect().await.unwrap().len(), 1);
    assert_eq!(client.channel.stats().connections, 3);
}

/// Settings outside their ranges are refused by name.
#[test]
fn senseless_pools_are_refused() {
    for (max, idle) in [(0, 30_000), (POOL_MAX + 1, 30_000), (1, 99)] {
        let mut config = ChannelConfig::default();
        config.pool_max = max;
        config.pool_idle = Duration::from_millis(idle);
        let error: Status = config.validate().unwrap_err();
        assert!(error.message().contains("pool_"), "{error}");
    }
}

/// Calls that race a pool's growth and shrinking all get their own reply, over real sockets and threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_race_the_pool() {
    let site = narrow(Kind::Unix).await;
    let mut config = ChannelConfig::default();
    config.pool_max = 4;
    config.pool_idle = Duration::from_millis(100);
    let client = site.client_with(config).await;
    // 100,800 calls.
    for round in 0..42 {
        let mut tasks = JoinSet::new();
        for worker in 0..16 {
            let client = client.clone();
            tasks.spawn(async move {
                for at in 0..150 {
                    assert_eq!(client.add(worker, at).await, Ok(worker + at));
                }
            });
        }
        while let Some(result) = tasks.join_next().await {
            result.unwrap();
        }
        client.channel.reconfigure(|config| config.pool_max = [4, 1, 2][round % 3]).unwrap();
    }
    let stats = client.channel.stats();
    assert!(stats.pending == 0 && stats.open_connections <= 4 && stats.connections > 1, "{stats:?}");
}
