//! Hedging: a call that takes long is made once more, and what that costs is bounded.

use crate::support::Site;
use crate::support::clock::{Stopwatch, channel_under, tokio_clock};
use crate::support::probe::ProbeClient;
use crate::support::site::Kind;
use punctual_rpc::{Balance, CallError, Channel, ChannelConfig, Code, HedgePolicy, RetryBudget, RetryPolicy, Status};
use std::sync::atomic::Ordering;
use std::time::Duration;

const DELAY: Duration = Duration::from_millis(50);

fn hedged(attempts: u32) -> ChannelConfig {
    let mut config = channel_under(tokio_clock());
    config.hedge = Some(HedgePolicy::new(attempts, DELAY));
    config
}

/// What each attempt does: hang for ever, or fail with this. The rest succeed with their number.
fn script(site: &Site, attempts: impl IntoIterator<Item = Status>) {
    *site.ledger.failures.lock().unwrap() = attempts.into_iter().collect();
    site.ledger.attempts.store(0, Ordering::SeqCst);
}

fn hang() -> Status {
    Status::aborted("hang")
}

fn attempts(site: &Site) -> u64 {
    site.ledger.attempts.load(Ordering::SeqCst)
}

fn code<T, E>(result: Result<T, CallError<E>>) -> Option<Code> {
    result.err().and_then(|error| error.status().map(Status::code))
}

/// A call that hangs is made once more after the delay, the first result counts, and the loser is cancelled on its server.
#[tokio::test(start_paused = true)]
async fn the_first_result_counts_and_losers_are_cancelled() {
    let site = Site::start(Kind::Inproc).await;
    let client = site.client_with(hedged(3)).await;
    script(&site, [hang(), hang()]);
    let watch = Stopwatch::start();
    assert_eq!(client.flaky().await, Ok(3));
    assert!((100..130).contains(&watch.elapsed().as_millis()), "{:?}", watch.elapsed());
    site.ledger.until(|ledger| *ledger.dropped.borrow() == 2).await;
    let stats = client.channel.stats();
    assert_eq!((stats.hedges, stats.published, stats.pending, stats.cancels), (2, 3, 0, 2));
}

/// A call that is fast enough is made once.
#[tokio::test(start_paused = true)]
async fn a_fast_call_is_made_once() {
    let site = Site::start(Kind::Inproc).await;
    let client = site.client_with(hedged(3)).await;
    assert_eq!(client.flaky().await, Ok(1));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(attempts(&site), 1);
}

/// A failure that may pass is followed by the next attempt at once; one that says when to come back is not; one that
/// lasts is the call's end, whoever else is still under way.
#[tokio::test(start_paused = true)]
async fn failures_end_the_call_or_the_wait() {
    let site = Site::start(Kind::Inproc).await;
    let client = site.client_with(hedged(3)).await;
    script(&site, [Status::unavailable("x"), Status::unavailable("x")]);
    let watch = Stopwatch::start();
    assert_eq!(client.flaky().await, Ok(3));
    assert!(watch.elapsed() < DELAY, "{:?}", watch.elapsed());
    script(&site, [Status::unavailable("x").with_retry_after(Duration::from_secs(9))]);
    assert_eq!(code(client.flaky().await), Some(Code::Unavailable));
    assert_eq!(attempts(&site), 1);
    script(&site, [hang(), Status::not_found("x")]);
    assert_eq!(code(client.flaky().await), Some(Code::NotFound));
    site.ledger.until(|ledger| *ledger.dropped.borrow() == 1).await;
    script(&site, vec![Status::unavailable("x"); 9]);
    assert_eq!(code(client.flaky().await), Some(Code::Unavailable));
    assert_eq!(attempts(&site), 3);
    // One fails while the other hangs: that one is waited for.
    script(&site, [hang(), Status::unavailable("x"), Status::unavailable("x")]);
    let result = client.flaky().timeout(Duration::from_secs(1)).await;
    assert_eq!(code(result), Some(Code::DeadlineExceeded));
}

/// There are never more attempts than the policy says, and never more than the budget of all calls has tokens for; all
/// end with the call's one deadline.
#[tokio::test(start_paused = true)]
async fn attempts_are_bounded_by_policy_budget_and_deadline() {
    let site = Site::start(Kind::Inproc).await;
    let client = site.client_with(hedged(4)).await;
    script(&site, vec![hang(); 100]);
    let watch = Stopwatch::start();
    assert_eq!(code(client.flaky().timeout(Duration::from_secs(2)).await), Some(Code::DeadlineExceeded));
    assert_eq!((watch.elapsed().as_secs(), attempts(&site)), (2, 4));
    let mut config = hedged(4);
    config.retry_budget = RetryBudget::new(1, 0);
    let client = site.client_with(config).await;
    script(&site, vec![hang(); 100]);
    for _ in 0..3 {
        let result = client.flaky().timeout(Duration::from_secs(2)).await;
        assert_eq!(code(result), Some(Code::DeadlineExceeded));
    }
    assert_eq!(attempts(&site), 4, "three calls and one token");
    assert_eq!(client.channel.stats().pending, 0);
}

/// The hedge goes where fewer calls are under way: not to the endpoint that hangs.
#[tokio::test(start_paused = true)]
async fn a_hedge_goes_elsewhere() {
    let (slow, fast) = (Site::start(Kind::Inproc).await, Site::start(Kind::Inproc).await);
    script(&slow, vec![hang(); 1_000]);
    let mut config = hedged(2);
    config.balance = Balance::PowerOfTwo;
    let channel =
        Channel::builder(&format!("{},{}", slow.address, fast.address)).config(config).connect().await.unwrap();
    while channel.stats().open_connections < 2 {
        tokio::task::yield_now().await;
    }
    let client = ProbeClient::new(channel);
    for _ in 0..20 {
        assert!(client.flaky().await.is_ok());
    }
    assert!(attempts(&slow) > 0, "by chance some began there");
}

/// What may not be made twice is not hedged, and two policies at once are refused.
#[tokio::test]
async fn only_idempotent_methods_are_hedged() {
    let site = Site::start(Kind::Inproc).await;
    let client = site.client().await;
    let policy = HedgePolicy::new(2, DELAY);
    assert_eq!(code(client.text("a").hedge(policy.clone()).await), Some(Code::InvalidArgument));
    assert_eq!(code(client.flaky().hedge(HedgePolicy::new(1, DELAY)).await), Some(Code::InvalidArgument));
    let both = client.channel.reconfigure(|config| {
        config.hedge = Some(policy);
        config.retry = Some(RetryPolicy::default());
    });
    assert!(both.unwrap_err().message().contains("one of the two"));
}
