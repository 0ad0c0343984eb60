//! Clock reads: scenarios 20 and 21. Scenario 22, allocations, is a test binary of its own.

use crate::support::Site;
use crate::support::site::Kind;
use punctual_clock::SystemClock;
use punctual_context::{Context, Host, Peer};
use punctual_rpc::ChannelConfig;
use punctual_testkit::CountingClock;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

const CALLS: u64 = 1_000;

fn counted() -> (ChannelConfig, Arc<CountingClock>, Arc<CountingClock>) {
    let calls = Arc::new(CountingClock::over(Arc::new(SystemClock)));
    let driver = Arc::new(CountingClock::over(Arc::new(SystemClock)));
    let mut config = ChannelConfig::default();
    config.clock = calls.clone();
    config.driver_clock = Some(driver.clone());
    (config, calls, driver)
}

/// A timed unary call reads the clock at its first poll and at the gate, and the driver at most once a turn.
#[tokio::test]
async fn s20_a_timed_unary_call_reads_the_clock_twice() {
    let site = Site::start(Kind::Unix).await;
    let (config, calls, driver) = counted();
    let client = site.client_with(config).await;
    assert_eq!(client.add(1, 1).await, Ok(2));
    let (calls_before, driver_before, turns_before) = (calls.reads(), driver.reads(), client.channel.stats().turns);
    for _ in 0..CALLS {
        assert_eq!(client.add(1, 2).timeout(Duration::from_secs(30)).await, Ok(3));
    }
    assert_eq!(calls.reads() - calls_before, 2 * CALLS);
    let (reads, turns) = (driver.reads() - driver_before, client.channel.stats().turns - turns_before);
    assert!(reads <= turns, "{reads} reads in {turns} turns");
}

/// The same with many calls in flight: waiting for the reply reads nothing.
#[tokio::test]
async fn s20_the_same_with_many_in_flight() {
    let site = Site::start(Kind::Unix).await;
    let (config, calls, driver) = counted();
    let client = site.client_with(config).await;
    assert_eq!(client.add(1, 1).await, Ok(2));
    let (calls_before, driver_before, turns_before) = (calls.reads(), driver.reads(), client.channel.stats().turns);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..CALLS {
        let client = client.clone();
        tasks.spawn(async move { client.add(1, 2).await });
    }
    while let Some(result) = tasks.join_next().await {
        assert_eq!(result.unwrap(), Ok(3));
    }
    assert_eq!(calls.reads() - calls_before, 2 * CALLS);
    assert!(driver.reads() - driver_before <= client.channel.stats().turns - turns_before);
}

/// A handler's surroundings, for calls that inherit its deadline.
struct Nobody;

impl Host for Nobody {
    fn clock(&self) -> &dyn punctual_clock::Clock {
        &SystemClock
    }

    fn peer(&self) -> Option<&Peer> {
        None
    }

    fn cancel_reason(&self, _: u64) -> Option<punctual_context::CancelReason> {
        None
    }

    fn poll_cancelled(&self, _: u64, _: &mut task::Context<'_>) -> Poll<punctual_context::CancelReason> {
        Poll::Pending
    }
}

/// A deadline that is inherited is an instant already: it costs no further read, and it bounds the call.
#[tokio::test]
async fn s21_an_inherited_deadline_adds_no_clock_read() {
    use punctual_clock::Clock;
    let site = Site::start(Kind::Unix).await;
    let (config, calls, _) = counted();
    let client = site.client_with(config).await;
    assert_eq!(client.add(1, 1).await, Ok(2));
    let before = calls.reads();
    let deadline = SystemClock.now().after(Duration::from_secs(5));
    let context = Context::new(Arc::new(Nobody), 1, deadline);
    let inner = client.clone();
    let budget = context
        .clone()
        .scope(async move {
            for _ in 1..CALLS {
                assert_eq!(inner.add(1, 2).await, Ok(3));
            }
            inner.budget().await.unwrap()
        })
        .await;
    assert_eq!(calls.reads() - before, 2 * CALLS);
    assert!(budget <= 5_000_000, "the call ends with the handler that made it: {budget}");
    // A call that is built in the handler and spawned still inherits; one that opts out does not.
    let built = context.clone().scope(std::future::poll_fn(|_| Poll::Ready(client.budget()))).await;
    assert!(tokio::spawn(built).await.unwrap().unwrap() <= 5_000_000);
    let free = context.scope(std::future::poll_fn(|_| Poll::Ready(client.budget().no_inherit()))).await;
    assert!(free.await.unwrap() > 5_000_000);
}
