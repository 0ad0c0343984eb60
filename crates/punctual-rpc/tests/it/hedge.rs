//! Hedging: a call that takes long is made once more, and what that costs is bounded.

use crate::support::Site;
use crate::support::clock::{Stopwatch, channel_under, tokio_clock};
use crate::support::probe::ProbeClient;
use crate::support::site::Kind;
use punctual_clock::Entropy;
use punctual_rpc::client::{BreakerPolicy, Candidate, Select};
use punctual_rpc::{Balance, CallError, Channel, ChannelConfig, Code, HedgePolicy, RetryBudget, RetryPolicy, Status};
use std::sync::Arc;
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

/// Always the first that there is: the choice that would meet the same server again and again.
#[derive(Debug)]
struct First;

impl Select for First {
    fn select(&self, _: &[Candidate<'_>], _: &dyn Entropy) -> usize {
        0
    }
}

/// A client of real servers, whose choice is always the first.
async fn first_of(sites: &[&Site], mut config: ChannelConfig) -> ProbeClient {
    config.balance = Balance::Custom(Arc::new(First));
    let addresses: Vec<&str> = sites.iter().map(|site| &*site.address).collect();
    let channel = Channel::builder(&addresses.join(",")).config(config).connect().await.unwrap();
    while channel.stats().open_connections < sites.len() as u64 {
        tokio::task::yield_now().await;
    }
    ProbeClient::new(channel)
}

/// Whatever the choice would be, a hedge goes to an endpoint that the call has not tried: past one that stands still, to another
/// one, and to a third. Where there is no other it goes to one again.
#[tokio::test]
async fn hedges_go_where_the_call_has_not_been() {
    let sites = [Site::start(Kind::Tcp).await, Site::start(Kind::Tcp).await, Site::start(Kind::Unix).await];
    let [still, second, third] = &sites;
    let mut config = ChannelConfig::default();
    config.hedge = Some(HedgePolicy::new(3, Duration::from_millis(1)));
    let client = first_of(&[still, second, third], config).await;
    script(still, vec![hang(); 100]);
    assert_eq!(client.flaky().await, Ok(1));
    assert_eq!((attempts(still), attempts(second) >= 1), (1, true));
    for site in [still, second] {
        script(site, vec![hang(); 100]);
    }
    script(third, []);
    assert_eq!(client.flaky().await, Ok(1));
    assert_eq!((attempts(still), attempts(second)), (1, 1));
    for site in &sites {
        script(site, [hang()]);
    }
    let four = HedgePolicy::new(4, Duration::from_millis(1));
    assert_eq!(client.flaky().hedge(four).await, Ok(2), "all have been tried: the fourth goes to the first again");
    assert_eq!((attempts(still), attempts(second), attempts(third)), (2, 1, 1));
}

/// So does a retry, with a circuit breaker and without.
#[tokio::test]
async fn retries_go_where_the_call_has_not_been() {
    let sites = [Site::start(Kind::Tcp).await, Site::start(Kind::Tcp).await];
    let [failing, sound] = &sites;
    for breaker in [None, Some(BreakerPolicy::default())] {
        let mut policy = RetryPolicy::attempts(3);
        policy.backoff_first = Duration::from_millis(1);
        let mut config = ChannelConfig::default();
        (config.retry, config.breaker) = (Some(policy), breaker);
        let client = first_of(&[failing, sound], config).await;
        script(failing, vec![Status::unavailable("x"); 100]);
        script(sound, []);
        assert_eq!(client.flaky().await, Ok(1));
        assert_eq!((attempts(failing), attempts(sound)), (1, 1));
        script(sound, [Status::unavailable("x")]);
        script(failing, [Status::unavailable("x")]);
        assert_eq!(client.flaky().await, Ok(2), "both have been tried: the third goes to the first again");
        assert_eq!((attempts(failing), attempts(sound)), (2, 1));
    }
}

/// Hedged calls that end, fail, hang and are dropped at random on many threads leave no attempt behind, on either side.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hedged_calls_that_are_dropped_leave_nothing() {
    let site = Site::start(Kind::Unix).await;
    let mut config = ChannelConfig::default();
    config.hedge = Some(HedgePolicy::new(3, Duration::from_millis(1)));
    config.retry_budget = RetryBudget::new(1_000_000, 100);
    let client = site.client_with(config).await;
    let mut tasks = tokio::task::JoinSet::new();
    // 100,000 calls; each waits more than it works.
    for worker in 0..80u64 {
        let (client, ledger) = (client.clone(), Arc::clone(&site.ledger));
        tasks.spawn(async move {
            for round in 0..1_250u64 {
                if round % 3 == 0 {
                    ledger.failures.lock().unwrap().extend([hang(), Status::unavailable("x"), hang()]);
                }
                let within = Duration::from_micros((round * 7 + worker * 131) % 4_000);
                // Every end is fine.
                let _ = tokio::time::timeout(within, client.flaky()).await;
            }
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
    site.ledger.failures.lock().unwrap().clear();
    assert!(client.flaky().await.is_ok());
    let stats = client.channel.stats();
    assert!(stats.hedges > 0, "it raced nothing");
    assert_eq!(stats.pending, 0);
    while site.server.stats().running > 0 {
        tokio::task::yield_now().await;
    }
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
