//! Admission control: what is let in, what waits, and what is refused, over real links.

use crate::support::clock::{Stopwatch, channel_under, server_under, tokio_clock};
use crate::support::probe::ProbeClient;
use crate::support::site::Kind;
use crate::support::wire::{poll_once, settle};
use crate::support::{Site, over_every_transport};
use punctual_context::{Identity, Metadata};
use punctual_rpc::telemetry::{CallEnd, Observe, ObservedCall, Telemetry};
use punctual_rpc::{
    AdmissionLimits, ByMetadata, Code, MethodDescriptor, Partition, Rate, ScopeLimits, Server, ServerConfig, Status,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn limited(set: impl FnOnce(&mut AdmissionLimits)) -> ServerConfig {
    let mut config = ServerConfig::default();
    set(&mut config.admission);
    config
}

/// Starts a `wait` and returns once its handler runs.
async fn running(site: &Site, client: &ProbeClient) -> tokio::task::JoinHandle<Result<u64, Status>> {
    let before = *site.ledger.waiting.borrow();
    let call = client.wait(1);
    let task = tokio::spawn(async move { call.await.map_err(|error| error.status().unwrap().clone()) });
    site.ledger.until(|ledger| *ledger.waiting.borrow() > before).await;
    task
}

async fn waiting(site: &Site, count: u64) {
    while site.server.stats().admission_waiting != count {
        tokio::task::yield_now().await;
    }
}

over_every_transport! {
    /// Calls beyond a method's limit wait in order and run when there is room; other methods are not held back; in the end
    /// every permit is back.
    calls_wait_for_room_in_order;
    /// Without a line, what has no room is refused with the limit's name, its value and when to come again.
    a_refusal_names_its_limit;
}

async fn calls_wait_for_room_in_order(kind: Kind) {
    let config = limited(|admission| {
        admission.methods.insert("Probe/wait".to_owned(), ScopeLimits::running(1));
        admission.queue_wait_max = Duration::from_secs(60);
    });
    let site = Site::start_with(kind, config).await;
    let client = site.client().await;
    let first = running(&site, &client).await;
    let calls: Vec<_> = (0..5).map(|gate| tokio::spawn(client.wait(gate))).collect();
    waiting(&site, 5).await;
    assert_eq!(client.add(1, 2).await, Ok(3), "another method");
    site.ledger.gate.send_replace(true);
    assert_eq!(first.await.unwrap(), Ok(1));
    for (gate, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap(), Ok(gate as u64));
    }
    let stats = site.server.stats();
    assert_eq!((stats.admission_waiting, stats.admission_refused, *site.ledger.waiting.borrow()), (0, 0, 6));
    assert_eq!(client.wait(9).await, Ok(9), "the permit is back");
}

async fn a_refusal_names_its_limit(kind: Kind) {
    let config = limited(|admission| {
        admission.services.insert("Probe".to_owned(), ScopeLimits::running(1));
        admission.queue_calls_max = 0;
    });
    let site = Site::start_with(kind, config).await;
    let client = site.client().await;
    let first = running(&site, &client).await;
    let status = client.add(1, 2).await.unwrap_err().status().unwrap().clone();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.limit(), Some(("service_running_max", 1)));
    assert_eq!(status.retry_after(), Some(Duration::from_millis(100)));
    client.note("nobody is told").await.unwrap();
    while site.server.stats().admission_refused < 2 {
        tokio::task::yield_now().await;
    }
    site.ledger.gate.send_replace(true);
    first.await.unwrap().unwrap();
    assert_eq!(client.add(1, 2).await, Ok(3));
    assert_eq!(site.ledger.notes().len(), 0);
}

/// A call that waits leaves the line when it is cancelled, when its budget ends and when its link is lost; nothing of it
/// runs, and what it would have had goes to the next.
#[tokio::test(start_paused = true)]
async fn who_gives_up_leaves_the_line() {
    let mut config = server_under(tokio_clock());
    config.admission.server = ScopeLimits::running(1);
    config.admission.queue_wait_max = Duration::from_secs(3_600);
    let site = Site::start_with(Kind::Inproc, config).await;
    let client = site.client_with(channel_under(tokio_clock())).await;
    let other = site.client_with(channel_under(tokio_clock())).await;
    let first = running(&site, &client).await;
    let mut dropped = client.add(1, 2);
    assert!(poll_once(&mut dropped).await.is_pending());
    waiting(&site, 1).await;
    drop(dropped);
    waiting(&site, 0).await;
    let late = client.add(1, 2).timeout(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(late.status().unwrap().code(), Code::DeadlineExceeded);
    waiting(&site, 0).await;
    let mut lost = other.add(1, 2);
    assert!(poll_once(&mut lost).await.is_pending());
    waiting(&site, 1).await;
    drop(lost);
    other.channel.close().await;
    waiting(&site, 0).await;
    site.ledger.gate.send_replace(true);
    first.await.unwrap().unwrap();
    assert_eq!(client.add(20, 22).await, Ok(42));
    assert_eq!(site.server.stats().admission_refused, 0);
}

/// Who waits longer than is allowed is refused with the limit that it waited for, at that time and not later.
#[tokio::test(start_paused = true)]
async fn waiting_has_an_end() {
    let mut config = server_under(tokio_clock());
    config.admission.server = ScopeLimits::running(1);
    config.admission.queue_wait_max = Duration::from_secs(2);
    let site = Site::start_with(Kind::Inproc, config).await;
    let client = site.client_with(channel_under(tokio_clock())).await;
    let first = running(&site, &client).await;
    let before = Stopwatch::start();
    let status = client.add(1, 2).await.unwrap_err().status().unwrap().clone();
    assert_eq!(status.limit(), Some(("server_running_max", 1)));
    assert!((2_000..2_010).contains(&before.elapsed().as_millis()), "{:?}", before.elapsed());
    assert_eq!(site.server.stats().admission_refused, 1);
    site.ledger.gate.send_replace(true);
    first.await.unwrap().unwrap();
}

/// A rate lets a burst in, then one call at each interval; one that cannot have its turn within its budget is told at once.
#[tokio::test(start_paused = true)]
async fn a_rate_is_kept() {
    let mut config = server_under(tokio_clock());
    let rate = Rate::per_second(10).burst(3);
    config.admission.methods.insert("Probe/add".to_owned(), ScopeLimits::NONE.rate(rate));
    let site = Site::start_with(Kind::Inproc, config).await;
    let client = site.client_with(channel_under(tokio_clock())).await;
    tokio::time::advance(Duration::from_secs(10)).await;
    let before = Stopwatch::start();
    for _ in 0..3 {
        assert_eq!(client.add(1, 2).await, Ok(3));
    }
    assert!(before.elapsed() < Duration::from_millis(50), "{:?}", before.elapsed());
    for _ in 0..5 {
        assert_eq!(client.add(1, 2).await, Ok(3));
    }
    assert!((499..560).contains(&before.elapsed().as_millis()), "{:?}", before.elapsed());
    let status = client.add(1, 2).timeout(Duration::from_millis(50)).await.unwrap_err().status().unwrap().clone();
    assert_eq!((status.code(), status.limit()), (Code::ResourceExhausted, Some(("method_rate_max", 10))));
    assert!(status.retry_after().unwrap() <= Duration::from_millis(100));
    assert_eq!(client.text("other").await.unwrap(), "OTHER");
}

/// Each tenant has limits of its own; a partition that panics refuses that call alone.
#[tokio::test]
async fn partitions_have_limits_of_their_own() {
    #[derive(Debug)]
    struct Picky(ByMetadata);
    impl Partition for Picky {
        fn partition(&self, by: Option<&Identity>, method: &MethodDescriptor, metadata: &Metadata) -> Option<String> {
            assert!(metadata.get("panic").is_none(), "on purpose");
            self.0.partition(by, method, metadata)
        }
    }
    let mut config = limited(|admission| {
        admission.partition = ScopeLimits::running(1);
        admission.queue_calls_max = 0;
    });
    config.partition = Some(Arc::new(Picky(ByMetadata::new("tenant"))));
    let site = Site::start_with(Kind::Unix, config).await;
    let client = site.client().await;
    let first = tokio::spawn(client.wait(1).metadata("tenant", "a"));
    site.ledger.until(|ledger| *ledger.waiting.borrow() == 1).await;
    let full = client.text("x").metadata("tenant", "a").await.unwrap_err().status().unwrap().clone();
    assert_eq!(full.limit(), Some(("partition_running_max", 1)));
    assert_eq!(client.text("x").metadata("tenant", "b").await.unwrap(), "X");
    assert_eq!(client.text("x").await.unwrap(), "X", "without a tenant there is no limit");
    let failed = client.text("x").metadata("panic", "").await.unwrap_err();
    assert_eq!(failed.status().unwrap().code(), Code::Internal);
    assert_eq!(client.text("x").metadata("tenant", "b").await.unwrap(), "X");
    site.ledger.gate.send_replace(true);
    assert_eq!(first.await.unwrap(), Ok(1));
}

/// A storm of calls that are cancelled at every moment: never more run than may, and in the end nobody waits, nobody runs, and
/// there is room for as many as before.
#[tokio::test]
async fn a_storm_leaves_every_permit_behind() {
    let config = limited(|admission| {
        admission.methods.insert("Probe/text".to_owned(), ScopeLimits::running(2));
        admission.server = ScopeLimits::running(3);
        admission.queue_calls_max = 8;
    });
    let site = Site::start_with(Kind::Unix, config).await;
    let client = site.client().await;
    for round in 0..2_000u32 {
        let mut calls: Vec<_> = (0..6).map(|_| client.text("storm")).collect();
        for call in &mut calls {
            let _ = poll_once(call).await;
        }
        if round % 3 > 0 {
            tokio::task::yield_now().await;
        }
        calls.truncate((round % 6) as usize);
        for call in calls {
            let _ = call.await;
        }
    }
    waiting(&site, 0).await;
    settle().await;
    while site.server.stats().running > 0 {
        tokio::task::yield_now().await;
    }
    let refused = site.server.stats().admission_refused;
    for _ in 0..50 {
        let (one, other) = tokio::join!(client.text("a"), client.text("b"));
        assert_eq!((one.unwrap(), other.unwrap()), ("A".to_owned(), "B".to_owned()));
    }
    assert_eq!(site.server.stats().admission_refused, refused);
}

/// Limits for what is not served are a mistake, and told before anybody is served.
#[tokio::test]
async fn limits_of_nothing_are_refused() {
    let config = limited(|admission| {
        admission.methods.insert("Probe/nothing".to_owned(), ScopeLimits::running(1));
    });
    let probe = crate::support::probe::Probe::default();
    let refused = Server::builder().config(config).service(probe).listen("inproc:limits").bind().await.unwrap_err();
    assert!(refused.to_string().contains("\"Probe/nothing\", which is not served here"), "{refused}");
}

/// What was observed, a line each.
#[derive(Debug, Default)]
struct Seen(Mutex<Vec<String>>);

impl Observe for Seen {
    fn started(&self, call: &ObservedCall) {
        self.0.lock().unwrap().push(format!("{} started", call.method.full_name));
    }

    fn ended(&self, call: &ObservedCall, end: &CallEnd) {
        let waited = if end.latency >= Duration::from_secs(1) { " late" } else { "" };
        self.0.lock().unwrap().push(format!("{} {}{waited}", call.method.full_name, end.outcome));
    }
}

/// A server's observers are told of calls that wait for admission from their arrival on, of those that are refused by it, and
/// of those that give up; the gauges of what waits come back to zero.
#[tokio::test(start_paused = true)]
async fn observers_see_what_waits_and_what_is_refused() {
    let seen = Arc::new(Seen::default());
    let mut config = server_under(tokio_clock());
    config.telemetry = Telemetry::new().observer(seen.clone());
    config.admission.server = ScopeLimits::running(1);
    config.admission.queue_calls_max = 1;
    config.admission.queue_wait_max = Duration::from_secs(3_600);
    let site = Site::start_with(Kind::Inproc, config).await;
    let client = site.client_with(channel_under(tokio_clock())).await;
    let take = || std::mem::take(&mut *seen.0.lock().unwrap());
    let first = running(&site, &client).await;
    let queued = tokio::spawn(client.add(1, 2).into_future());
    waiting(&site, 1).await;
    assert_eq!(client.text("x").await.unwrap_err().status().unwrap().code(), Code::ResourceExhausted);
    let told = ["Probe/wait started", "Probe/add started", "Probe/text started", "Probe/text resource_exhausted"];
    assert_eq!(take(), told);
    tokio::time::sleep(Duration::from_secs(2)).await;
    site.ledger.gate.send_replace(true);
    first.await.unwrap().unwrap();
    assert_eq!(queued.await.unwrap(), Ok(3));
    assert_eq!(take(), ["Probe/wait ok late", "Probe/add ok late"], "its latency has the wait in it");
    site.ledger.gate.send_replace(false);
    let first = running(&site, &client).await;
    let mut dropped = client.add(1, 2);
    assert!(poll_once(&mut dropped).await.is_pending());
    waiting(&site, 1).await;
    drop(dropped);
    waiting(&site, 0).await;
    site.ledger.gate.send_replace(true);
    first.await.unwrap().unwrap();
    assert_eq!(take(), ["Probe/wait started", "Probe/add started", "Probe/add abandoned", "Probe/wait ok"]);
    let stats = site.server.stats();
    assert_eq!((stats.admission_waiting, stats.admission_refused, stats.running), (0, 1, 0));
}
