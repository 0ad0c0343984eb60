//! Retry by policy: what is made again, how often, when, and out of which budget.

use crate::support::Site;
use crate::support::clock::{Stopwatch, channel_under, tokio_clock};
use crate::support::over_every_transport;
use crate::support::probe::ProbeClient;
use crate::support::site::Kind;
use punctual_rpc::{CallError, ChannelConfig, Code, MethodPolicy, RetryBudget, RetryPolicy, Status};
use std::sync::atomic::Ordering;
use std::time::Duration;

fn fast(attempts: u32) -> RetryPolicy {
    let mut policy = RetryPolicy::attempts(attempts);
    policy.backoff_first = Duration::from_millis(1);
    policy.backoff_max = Duration::from_millis(2);
    policy
}

fn with_retry(policy: RetryPolicy) -> ChannelConfig {
    let mut config = ChannelConfig::default();
    config.retry = Some(policy);
    config
}

fn fail(site: &Site, times: usize) {
    let mut failures = site.ledger.failures.lock().unwrap();
    failures.clear();
    failures.extend((0..times).map(|_| Status::unavailable("on purpose")));
    site.ledger.attempts.store(0, Ordering::SeqCst);
}

fn attempts(site: &Site) -> u64 {
    site.ledger.attempts.load(Ordering::SeqCst)
}

fn code<T, E>(result: Result<T, CallError<E>>) -> Option<Code> {
    result.err().and_then(|error| error.status().map(Status::code))
}

over_every_transport! {
    /// A call that fails none, once or twice makes one, two or three physical attempts, and one that always fails makes
    /// three.
    s30_forced_retries_make_exactly_their_attempts;
}

async fn s30_forced_retries_make_exactly_their_attempts(kind: Kind) {
    let site = Site::start(kind).await;
    let client = site.client_with(with_retry(fast(3))).await;
    for failures in 0..3 {
        fail(&site, failures);
        assert_eq!(client.flaky().await, Ok(failures as u64 + 1));
        assert_eq!(attempts(&site), failures as u64 + 1);
    }
    fail(&site, 100);
    assert_eq!(code(client.flaky().await), Some(Code::Unavailable));
    assert_eq!(attempts(&site), 3);
    let stats = client.channel.stats();
    // 1 + 2 + 3 + 3 attempts of four calls.
    assert_eq!((stats.published, stats.retries, stats.pending), (9, 5, 0));
}

/// Without a policy nothing is made twice, idempotent or not.
#[tokio::test]
async fn nothing_is_retried_without_a_policy() {
    let site = Site::start(Kind::Inproc).await;
    let client = site.client().await;
    fail(&site, 1);
    assert_eq!(code(client.flaky().await), Some(Code::Unavailable));
    assert_eq!(attempts(&site), 1);
}

/// What may not be made twice is not, whatever the channel's settings say; a call that asks for it is refused unsent.
#[tokio::test]
async fn only_idempotent_methods_are_retried() {
    let site = Site::start(Kind::Inproc).await;
    let client = site.client_with(with_retry(fast(3))).await;
    assert_eq!(code(client.text("fail:x").await), Some(Code::FailedPrecondition));
    let published = client.channel.stats().published;
    let error = client.text("a").retry(fast(2)).await.unwrap_err();
    let status = error.status().unwrap();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("Probe/text") && status.message().contains("idempotent"), "{status}");
    assert_eq!(client.channel.stats().published, published);
}

/// A failure that does not pass by itself is told at once.
#[tokio::test]
async fn lasting_failures_are_not_retried() {
    let site = Site::start(Kind::Inproc).await;
    let client = site.client_with(with_retry(fast(3))).await;
    fail(&site, 0);
    site.ledger.failures.lock().unwrap().push_back(Status::not_found("x"));
    assert_eq!(code(client.flaky().await), Some(Code::NotFound));
    assert_eq!(attempts(&site), 1);
}

/// A method's own entry replaces the channel's policy, its service's too, the longer name first; the call's replaces all.
#[tokio::test]
async fn the_nearest_policy_counts() {
    let site = Site::start(Kind::Inproc).await;
    let mut config = with_retry(fast(4));
    config.methods.insert("Probe".to_owned(), MethodPolicy::default().retry(fast(3)));
    for (entry, expected) in
        [(None, 3), (Some(MethodPolicy::default().retry(fast(2))), 2), (Some(MethodPolicy::default()), 1)]
    {
        if let Some(entry) = entry {
            config.methods.insert("Probe/flaky".to_owned(), entry);
        }
        let client = site.client_with(config.clone()).await;
        fail(&site, 100);
        assert_eq!(code(client.flaky().await), Some(Code::Unavailable));
        assert_eq!(attempts(&site), expected);
        fail(&site, 100);
        assert_eq!(code(client.flaky().retry(fast(5)).await), Some(Code::Unavailable));
        assert_eq!(attempts(&site), 5);
        fail(&site, 100);
        assert_eq!(code(client.flaky().retry(None).await), Some(Code::Unavailable));
        assert_eq!(attempts(&site), 1);
    }
}

/// All attempts share one deadline: a wait that it would cut short is not begun, and the failure is told as it is.
#[tokio::test(start_paused = true)]
async fn the_deadline_is_shared_and_no_wait_outlives_it() {
    let site = Site::start(Kind::Inproc).await;
    let mut config = channel_under(tokio_clock());
    config.retry = Some(RetryPolicy::attempts(10));
    let client = site.client_with(config).await;
    let failures = |wait| vec![Status::unavailable("x").with_retry_after(wait); 10];
    fail(&site, 0);
    *site.ledger.failures.lock().unwrap() = failures(Duration::from_secs(2)).into();
    let watch = Stopwatch::start();
    assert_eq!(code(client.flaky().timeout(Duration::from_secs(2)).await), Some(Code::Unavailable));
    assert!(attempts(&site) == 1 && watch.elapsed() < Duration::from_millis(100), "{:?}", watch.elapsed());
    fail(&site, 0);
    *site.ledger.failures.lock().unwrap() = failures(Duration::from_millis(900)).into();
    let watch = Stopwatch::start();
    assert_eq!(code(client.flaky().timeout(Duration::from_secs(2)).await), Some(Code::Unavailable));
    // Two waits of 900 ms fit, a third does not.
    assert_eq!(attempts(&site), 3);
    assert!((1_800..2_000).contains(&watch.elapsed().as_millis()), "{:?}", watch.elapsed());
}

/// However many calls fail, the attempts beyond the first are bounded by the budget, over all calls of the channel.
#[tokio::test]
async fn the_budget_bounds_the_attempts_of_all_calls() {
    let site = Site::start(Kind::Inproc).await;
    let mut config = with_retry(fast(3));
    config.retry_budget = RetryBudget::new(10, 20);
    let client = site.client_with(config).await;
    fail(&site, 10_000);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..200 {
        calls.spawn(client.flaky().into_future());
    }
    while let Some(result) = calls.join_next().await {
        assert_eq!(code(result.unwrap()), Some(Code::Unavailable));
    }
    // 10 tokens, and a fifth of one from each of 200 calls.
    assert!((200..=250).contains(&attempts(&site)), "{}", attempts(&site));
    assert_eq!(client.channel.stats().retries, attempts(&site) - 200);
}

/// A call that is dropped while it waits makes no further attempt.
#[tokio::test(start_paused = true)]
async fn a_dropped_call_is_not_retried() {
    let site = Site::start(Kind::Inproc).await;
    let mut config = channel_under(tokio_clock());
    config.retry = Some(RetryPolicy::default());
    let client = site.client_with(config).await;
    fail(&site, 100);
    let call = tokio::spawn(client.flaky().into_future());
    site.ledger.until(|ledger| ledger.attempts.load(Ordering::SeqCst) == 1).await;
    call.abort();
    assert!(call.await.is_err());
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(attempts(&site), 1);
}

/// Attempts go through the same slots as other calls: none is left behind, whatever is dropped when.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retried_calls_that_are_dropped_leave_nothing() {
    let site = Site::start(Kind::Unix).await;
    let mut config = with_retry(fast(3));
    config.retry_budget = RetryBudget::new(1_000_000, 100);
    let client: ProbeClient = site.client_with(config).await;
    fail(&site, 1_000_000);
    let mut tasks = tokio::task::JoinSet::new();
    // 100,000 calls; each waits more than it works.
    for worker in 0..80u64 {
        let client = client.clone();
        tasks.spawn(async move {
            for round in 0..1_250u64 {
                let within = Duration::from_micros((round * 7 + worker * 131) % 4_000);
                // Either end is fine.
                let _ = tokio::time::timeout(within, client.flaky()).await;
            }
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
    site.ledger.failures.lock().unwrap().clear();
    assert!(client.flaky().await.is_ok());
    assert_eq!(client.channel.stats().pending, 0);
}
