//! Races, over and over on several threads: response against cancel against deadline, early ends of streams, the gate against
//! close and go-away, a cancel that crosses its reply, and few slots that are used again and again.

use crate::support::Site;
use crate::support::probe::{Probe, ProbeClient};
use crate::support::site::Kind;
use crate::support::wire::poll_once;
use bytes::Bytes;
use punctual_rpc::client::{BreakerPolicy, ClientInterceptor, Failure, Incoming, Next, Outgoing};
use punctual_rpc::transport::BoxFuture;
use punctual_rpc::{CallError, Channel, ChannelConfig, Code, HedgePolicy, RetryPolicy, Server, ServerConfig};
use punctual_rpc::{ServerHandle, Streaming};
use std::sync::Arc;
use std::time::Duration;

const ROUNDS: i32 = 100_000;

/// However reply, deadline and drop fall, each call has one end, its own reply or none, and nothing is left over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn response_cancel_and_deadline() {
    let site = Site::start(Kind::Unix).await;
    let client = site.client().await;
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..8 {
        let client = client.clone();
        tasks.spawn(async move {
            let mut ends = [0u32; 3];
            for at in 0..ROUNDS / 8 {
                // From nothing to more than a round trip, so that each may win.
                let timeout = Duration::from_micros(u64::try_from(at % 400).unwrap());
                let call = client.add(worker, at).timeout(timeout);
                if at % 3 == 0 {
                    match tokio::time::timeout(timeout / 2, call).await {
                        Ok(Ok(sum)) => {
                            assert_eq!(sum, worker + at);
                            ends[0] += 1;
                        }
                        Ok(Err(_)) => ends[1] += 1,
                        Err(_) => ends[2] += 1,
                    }
                    continue;
                }
                match call.await {
                    Ok(sum) => {
                        assert_eq!(sum, worker + at);
                        ends[0] += 1;
                    }
                    Err(CallError::Status(status)) => {
                        assert_eq!(status.code(), Code::DeadlineExceeded);
                        ends[1] += 1;
                    }
                    Err(CallError::App(error)) => panic!("{error:?}"),
                }
            }
            ends
        });
    }
    while let Some(ends) = tasks.join_next().await {
        ends.unwrap();
    }
    assert_eq!(client.add(1, 2).await, Ok(3));
    assert_eq!(client.channel.stats().pending, 0);
    while site.server.stats().running > 0 {
        tokio::task::yield_now().await;
    }
}

/// Calls that race the end of their connection end themselves: with a value, or with a status that fits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn close_against_the_gate() {
    // 100,000 calls.
    for round in 0..500 {
        let name = format!("inproc:race-{round}");
        let server = Server::builder().service(Probe::default()).listen(&name).bind().await.unwrap().spawn();
        let client = ProbeClient::new(Channel::connect(&name).await.unwrap());
        let mut tasks = tokio::task::JoinSet::new();
        for worker in 0..4 {
            let client = client.clone();
            tasks.spawn(async move {
                for at in 0..50 {
                    match client.add(worker, at).await {
                        Ok(sum) => assert_eq!(sum, worker + at),
                        Err(CallError::Status(status)) => assert!(
                            matches!(status.code(), Code::Unavailable | Code::ConnectionClosed | Code::Cancelled),
                            "{status:?}"
                        ),
                        Err(CallError::App(error)) => panic!("{error:?}"),
                    }
                }
            });
        }
        if round % 2 == 0 {
            server.shutdown(Duration::from_secs(5)).await;
        } else {
            client.channel.clone().close().await;
        }
        while let Some(result) = tasks.join_next().await {
            result.unwrap();
        }
        assert_eq!(client.channel.stats().pending, 0);
        server.shutdown(Duration::from_secs(5)).await;
    }
}

/// Waits until nothing of the calls that were made is left on the server.
async fn idle(server: &ServerHandle) {
    loop {
        let stats = server.stats();
        if (stats.running, stats.streams, stats.unconsumed_bytes, stats.uncredited_bytes) == (0, 0, 0, 0) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// However early a consumer or a handler leaves its stream, what it took is right, and all credit comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn early_ends_of_streams() {
    let (site, _) = Site::streaming(Kind::Unix, ServerConfig::default()).await;
    let client = site.flows().await;
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..8 {
        let client = client.clone();
        tasks.spawn(async move {
            for at in 0..ROUNDS / 8 {
                match (at + worker) % 4 {
                    // The consumer leaves after a few items, and before the first.
                    0 => {
                        let mut numbers = client.count(9).await.unwrap();
                        for expected in 0..u64::try_from(at % 11).unwrap() {
                            match numbers.next().await {
                                Some(number) => assert_eq!(number, Ok(expected)),
                                None => assert_eq!(expected, 9),
                            }
                        }
                    }
                    // The handler answers before the upload ends.
                    1 => {
                        let parts = (0..4).map(|part| Bytes::from(vec![part; 3]));
                        assert_eq!(client.first(Streaming::from_items(parts)).await, Ok(3));
                    }
                    // The caller leaves at some point of a duplex call.
                    2 => {
                        let call = client.chat(Streaming::from_items(["a".to_owned(), "b".to_owned()]));
                        let patience = Duration::from_micros(u64::try_from(at % 300).unwrap());
                        if let Ok(Ok(mut lines)) = tokio::time::timeout(patience, call).await {
                            assert_eq!(lines.next().await, Some(Ok("A".to_owned())));
                        }
                    }
                    _ => assert_eq!(client.sum(Streaming::from_items([1, 2, 3])).await, Ok(6)),
                }
            }
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
    idle(&site.server).await;
    let stats = client.channel.stats();
    assert_eq!((stats.pending, stats.streams, stats.unconsumed_bytes), (0, 0, 0));
    assert_eq!((stats.connections, stats.violations, site.server.stats().violations), (1, 0, 0));
}

/// A cancel that crosses its reply, and one whose call the handler is just ending: the next call has its slot and its own reply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancels_that_cross_their_replies() {
    let site = Site::start(Kind::Unix).await;
    let mut config = ChannelConfig::default();
    config.limits.pending_calls_max = 8;
    let client = site.client_with(config).await;
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..8 {
        let client = client.clone();
        tasks.spawn(async move {
            for at in 0..ROUNDS / 8 {
                if at % 2 == 0 {
                    // It is published and dropped while the reply is on its way.
                    let mut call = client.add(worker, at);
                    for _ in 0..at % 7 {
                        match poll_once(&mut call).await {
                            std::task::Poll::Ready(sum) => {
                                assert_eq!(sum, Ok(worker + at));
                                break;
                            }
                            std::task::Poll::Pending => tokio::task::yield_now().await,
                        }
                    }
                } else {
                    // Slots of dropped calls are free when their cancel is queued, so that eight callers always find one.
                    assert_eq!(client.add(worker, at).await, Ok(worker + at));
                }
            }
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
    idle(&site.server).await;
    assert_eq!(client.channel.stats().pending, 0);
    assert_eq!(site.server.stats().violations, 0);
}

/// Lets every call through as it is.
#[derive(Debug)]
struct Through;

impl ClientInterceptor for Through {
    fn intercept(&self, call: Outgoing, next: Next) -> BoxFuture<'_, Result<Incoming, Failure>> {
        next.run(call)
    }
}

/// Calls that race changes of live settings, from plain to guarded and back, all get their own reply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_race_reconfiguration() {
    let site = Site::start(Kind::Inproc).await;
    let client = site.client().await;
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..8 {
        let client = client.clone();
        tasks.spawn(async move {
            for at in 0..ROUNDS / 8 {
                assert_eq!(client.add(worker, at).await, Ok(worker + at));
            }
        });
    }
    let mut changes = 0_u32;
    while !tasks.is_empty() {
        changes += 1;
        let on = |bit: u32| (changes >> bit) & 1 == 1;
        let generation = client.channel.reconfigure(|config| {
            config.default_timeout = on(0).then_some(Duration::from_secs(60));
            config.retry = (on(1) && !on(2)).then(RetryPolicy::default);
            config.hedge = on(2).then(HedgePolicy::default);
            config.breaker = on(3).then(BreakerPolicy::default);
            config.interceptors = if on(4) { vec![Arc::new(Through)] } else { Vec::new() };
            config.pool_max = 1 + u32::from(on(5));
            config.drain_grace = Duration::from_secs(1 + u64::from(on(6)));
        });
        assert_eq!(generation, Ok(u64::from(changes) + 1));
        while let Some(result) = tasks.try_join_next() {
            result.unwrap();
        }
        tokio::task::yield_now().await;
    }
    assert!(changes > 64, "{changes} changes: it raced too little");
    assert_eq!(client.channel.stats().pending, 0);
}

/// Calls that register while their server drains: each is served, or is told that it was never accepted, and a stop that waits
/// for those under way comes to its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn go_aways_that_cross_new_calls() {
    let mut refused = 0;
    let mut served = 0;
    let mut calls = 0;
    while calls < ROUNDS {
        let name = format!("inproc:drain-{calls}");
        let server = Server::builder().service(Probe::default()).listen(&name).bind().await.unwrap().spawn();
        let client = ProbeClient::new(Channel::connect(&name).await.unwrap());
        let mut tasks = tokio::task::JoinSet::new();
        for worker in 0..4 {
            let client = client.clone();
            tasks.spawn(async move {
                let (mut served, mut refused) = (0, 0);
                for at in 0..250 {
                    match client.add(worker, at).await {
                        Ok(sum) => {
                            assert_eq!(sum, worker + at);
                            served += 1;
                        }
                        Err(error) => {
                            let status = error.status().unwrap();
                            assert_eq!(status.code(), Code::Unavailable, "nothing that was accepted is lost: {status}");
                            refused += 1;
                        }
                    }
                }
                (served, refused)
            });
        }
        for _ in 0..calls % 97 {
            tokio::task::yield_now().await;
        }
        let report = server.shutdown(Duration::from_secs(60)).await;
        assert_eq!(report.stuck, 0);
        while let Some(result) = tasks.join_next().await {
            let (ok, not) = result.unwrap();
            (served, refused) = (served + ok, refused + not);
        }
        assert_eq!(server.stats().running, 0);
        assert_eq!(client.channel.stats().pending, 0);
        calls += 1_000;
    }
    assert!(served > 0 && refused > 0, "{served} served and {refused} refused: it raced nothing");
}
