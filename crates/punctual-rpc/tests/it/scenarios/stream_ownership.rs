//! Ownership of calls with streams: scenarios 23 to 25 for these shapes.

use crate::support::clock::channel_under;
use crate::support::probe::{Declined, Nothing};
use crate::support::site::Kind;
use crate::support::streams::{Blobs, DESCRIPTOR, Producer};
use crate::support::{Site, over_every_transport};
use bytes::Bytes;
use punctual_clock::{Clock, Instant, SystemClock, Timestamp};
use punctual_rpc::{ClientStream, Code, ServerConfig, ServerStream, Status, Streaming, Streams};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// A clock that panics at one of its reads.
#[derive(Debug, Default)]
struct Panicking {
    reads: AtomicU64,
    at: AtomicU64,
}

impl Clock for Panicking {
    fn now(&self) -> Instant {
        let read = self.reads.fetch_add(1, Ordering::SeqCst) + 1;
        assert_ne!(read, self.at.load(Ordering::SeqCst), "this clock is broken");
        SystemClock.now()
    }

    fn timestamp(&self) -> Timestamp {
        SystemClock.timestamp()
    }
}

over_every_transport! {
    /// A clock that panics at each of a call's reads: the call ends once, its producers are dropped, nothing of it is left,
    /// and the channel goes on and stops cleanly.
    s23_a_clock_that_panics_leaks_nothing_of_a_call_with_streams;
    /// What fails before the gate sends nothing; what fails behind it ends the call once and gives everything back.
    s24_a_failure_at_each_step_gives_everything_back;
    /// Calls of each shape that race the channel's close end, each once, and leave nothing.
    s25_close_racing_the_gate_of_calls_with_streams;
}

async fn s23_a_clock_that_panics_leaks_nothing_of_a_call_with_streams(kind: Kind) {
    let (site, _) = Site::streaming(kind, ServerConfig::default()).await;
    let clock = Arc::new(Panicking::default());
    let mut config = channel_under(clock.clone());
    config.driver_clock = Some(Arc::new(SystemClock));
    let client = site.flows_with(config).await;
    assert_eq!(client.sum(Streaming::from_items([1])).timeout(60 * SECOND).await, Ok(1));
    let mut panics = 0;
    for read in 1..=4 {
        for shape in 0..4 {
            clock.reads.store(0, Ordering::SeqCst);
            clock.at.store(read, Ordering::SeqCst);
            let (flows, producer) = (client.clone(), Producer::default());
            let held = producer.clone();
            let ended = tokio::spawn(async move {
                let timeout = 60 * SECOND;
                match shape {
                    0 => flows.upload(held.stream(Bytes::new(), Some(2), false)).timeout(timeout).await.is_ok(),
                    1 => match flows.count(3).timeout(timeout).await {
                        Ok(numbers) => numbers.collect().await.is_ok(),
                        Err(_) => false,
                    },
                    2 => match flows.chat(held.stream(String::new(), Some(2), false)).timeout(timeout).await {
                        Ok(lines) => lines.collect().await.is_ok(),
                        Err(_) => false,
                    },
                    _ => flows.log(held.stream(String::new(), Some(2), false)).timeout(timeout).await.is_ok(),
                }
            });
            match ended.await {
                Ok(ok) => assert!(ok && read > 2, "read {read} of shape {shape}"),
                Err(error) => {
                    assert!(error.is_panic());
                    panics += 1;
                    assert!(shape == 1 || producer.is_dropped() && producer.polls() == 0);
                }
            }
        }
    }
    assert_eq!(panics, 2 * 4, "each shape reads the clock twice");
    clock.at.store(0, Ordering::SeqCst);
    assert_eq!(client.sum(Streaming::from_items([20, 22])).await, Ok(42));
    let channel = client.channel.clone();
    channel.close().await;
    assert_eq!((client.channel.stats().pending, client.channel.stats().streams), (0, 0));
}

/// An item that cannot be encoded.
#[derive(Debug, Clone, serde::Deserialize)]
struct Unsayable;

impl serde::Serialize for Unsayable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("it cannot be said"))
    }
}

async fn s24_a_failure_at_each_step_gives_everything_back(kind: Kind) {
    let (site, _) = Site::streaming(kind, ServerConfig::default()).await;
    let client = site.flows().await;
    // Before the gate: metadata that cannot be sent, and a deadline that has passed.
    let producer = Producer::default();
    let before = client.channel.stats().published;
    let upload = client.upload(producer.stream(Bytes::new(), None, false)).metadata("Not A Name", "x").await;
    assert_eq!(upload.unwrap_err().status().unwrap().code(), Code::InvalidArgument);
    assert!(producer.is_dropped() && producer.polls() == 0);
    let late = client.upload(Producer::default().stream(Bytes::new(), None, false)).deadline(Instant::from_nanos(1));
    assert_eq!(late.await.unwrap_err().status().unwrap().code(), Code::DeadlineExceeded);
    assert_eq!(client.channel.stats().published, before);
    // Behind it: an item that cannot be encoded ends its stream, which the handler is told.
    let streams = Streams::new().with(Streaming::<Unsayable>::from_items([Unsayable]));
    let call: ClientStream<_, u64, Status> = client.channel.client_stream(&DESCRIPTOR, 3, Nothing {}, streams);
    assert_eq!(call.await.unwrap_err().status().unwrap().code(), Code::Internal);
    // One that the handler cannot read.
    let streams = Streams::new().with(Streaming::<String>::from_items(["no number".to_owned()]));
    let call: ClientStream<_, u64, Declined> = client.channel.client_stream(&DESCRIPTOR, 0, Nothing {}, streams);
    assert!(call.await.is_err());
    // And one that the caller cannot read, which ends the call on the server.
    let blobs: Streaming<String> = {
        let call: ServerStream<_, String, Status, Status> =
            client.channel.returned_stream(&DESCRIPTOR, 2, Blobs { items: u64::MAX, len: 3 }, Streams::new());
        call.await.unwrap()
    };
    assert_eq!(blobs.collect().await.unwrap_err().code(), Code::DataLoss);
    client.channel.clone().close().await;
    while site.server.stats().running > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!((client.channel.stats().streams, site.server.stats().streams), (0, 0));
}

async fn s25_close_racing_the_gate_of_calls_with_streams(kind: Kind) {
    let (site, _) = Site::streaming(kind, ServerConfig::default()).await;
    for round in 0..50_usize {
        let client = site.flows().await;
        let mut calls = tokio::task::JoinSet::new();
        for at in 0..8 {
            let flows = client.clone();
            calls.spawn(async move {
                for _ in 0..at % 3 {
                    tokio::task::yield_now().await;
                }
                let producer = Producer::default();
                match at % 4 {
                    0 => drop(flows.upload(producer.stream(Bytes::new(), Some(3), false)).await),
                    1 => drop(flows.blobs(3, 10).await),
                    2 => drop(flows.chat(producer.stream(String::new(), Some(3), false)).await),
                    _ => drop(flows.log(producer.stream(String::new(), Some(3), false)).await),
                }
            });
        }
        for _ in 0..round % 5 {
            tokio::task::yield_now().await;
        }
        client.channel.clone().close().await;
        while let Some(ended) = calls.join_next().await {
            ended.unwrap();
        }
        assert_eq!((client.channel.stats().streams, client.channel.stats().pending), (0, 0), "round {round}");
    }
    while site.server.stats().running > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(site.server.stats().streams, 0);
}
