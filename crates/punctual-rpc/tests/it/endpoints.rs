//! Several endpoints: where calls go, what becomes of them when a server goes, and sets that a resolver exchanges.

use crate::support::Site;
use crate::support::authority::AUTHORITY;
use crate::support::clock::{Stopwatch, channel_under, tokio_clock};
use crate::support::probe::{Probe, ProbeClient};
use crate::support::site::Kind;
use crate::support::wire::settle;
use punctual_clock::Entropy;
use punctual_rpc::tls::{ClientCertificates, ServerTls};
use punctual_rpc::transport::BoxFuture;
use punctual_rpc::{
    Balance, Candidate, Channel, ChannelConfig, Code, Endpoints, Resolver, Select, Server, ServerConfig, ServerHandle,
    Snapshots, Status,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, mpsc};

async fn sites(count: usize, kind: Kind) -> Vec<Site> {
    let mut sites = Vec::new();
    for _ in 0..count {
        sites.push(Site::start(kind).await);
    }
    sites
}

fn addresses(sites: &[Site]) -> String {
    sites.iter().map(|site| site.address.as_str()).collect::<Vec<_>>().join(",")
}

/// A channel that is connected to all of them.
async fn connected(sites: &[Site], balance: Balance, mut config: ChannelConfig) -> ProbeClient {
    config.balance = balance;
    let channel = Channel::builder(&addresses(sites)).config(config).connect().await.unwrap();
    while channel.stats().open_connections < sites.len() as u64 {
        tokio::task::yield_now().await;
    }
    ProbeClient::new(channel)
}

fn accepted(sites: &[Site]) -> Vec<u64> {
    sites.iter().map(|site| site.server.stats().accepted).collect()
}

/// Each policy reaches every endpoint, one after the other exactly so, over real sockets.
#[tokio::test]
async fn every_policy_spreads_calls() {
    for kind in [Kind::Tcp, Kind::Unix, Kind::Shm, Kind::Inproc] {
        for balance in [Balance::PowerOfTwo, Balance::RoundRobin, Balance::Random, Balance::LeastPending] {
            let sites = sites(3, kind).await;
            let client = connected(&sites, balance.clone(), ChannelConfig::default()).await;
            assert_eq!(client.channel.endpoints().len(), 3);
            for at in 0..90 {
                assert_eq!(client.add(at, 1).await, Ok(at + 1));
            }
            let shares = accepted(&sites);
            assert_eq!(shares.iter().sum::<u64>(), 90);
            let least = if matches!(balance, Balance::RoundRobin | Balance::LeastPending) { 30 } else { 10 };
            assert!(shares.iter().all(|share| *share >= least), "{balance:?} over {kind:?}: {shares:?}");
        }
    }
}

/// An endpoint whose calls hang gets fewer new ones.
#[tokio::test]
async fn the_busy_are_spared() {
    for balance in [Balance::PowerOfTwo, Balance::LeastPending] {
        let sites = sites(2, Kind::Inproc).await;
        let client = connected(&sites, balance, ChannelConfig::default()).await;
        let mut held = tokio::task::JoinSet::new();
        while *sites[0].ledger.waiting.borrow() + *sites[1].ledger.waiting.borrow() < 2 {
            held.spawn(client.wait(1).into_future());
            settle().await;
        }
        // One that opens its gate is idle from here on.
        sites[1].ledger.gate.send_replace(true);
        for _ in 0..4 {
            held.spawn(client.wait(1).into_future());
            settle().await;
        }
        let before = accepted(&sites);
        assert!(*sites[0].ledger.waiting.borrow() > 0);
        for _ in 0..50 {
            assert_eq!(client.add(1, 2).await, Ok(3));
        }
        assert_eq!(accepted(&sites)[0], before[0], "all calls went to the one that is idle");
        sites[0].ledger.gate.send_replace(true);
    }
}

#[derive(Debug)]
struct ByAddress(String);

impl Select for ByAddress {
    fn select(&self, candidates: &[Candidate<'_>], _: &dyn Entropy) -> usize {
        candidates.iter().position(|candidate| candidate.address == self.0).unwrap_or(0)
    }
}

/// A choice of one's own is what decides, and goes elsewhere when its favourite is gone; it can be changed live.
#[tokio::test]
async fn a_custom_choice_decides() {
    let sites = sites(3, Kind::Inproc).await;
    let favourite = Balance::Custom(Arc::new(ByAddress(sites[1].address.clone())));
    let client = connected(&sites, favourite, ChannelConfig::default()).await;
    for _ in 0..10 {
        assert_eq!(client.add(1, 2).await, Ok(3));
    }
    assert_eq!(accepted(&sites), [0, 10, 0]);
    sites[1].server.shutdown(Duration::from_secs(1)).await;
    assert_eq!(client.add(1, 2).await, Ok(3));
    assert_eq!(accepted(&sites)[1], 10);
    let other = Balance::Custom(Arc::new(ByAddress(sites[2].address.clone())));
    client.channel.reconfigure(|config| config.balance = other).unwrap();
    let before = accepted(&sites)[2];
    assert_eq!(client.add(1, 2).await, Ok(3));
    assert_eq!(accepted(&sites)[2], before + 1);
}

async fn serve(address: &str) -> ServerHandle {
    Server::builder().service(Probe::default()).listen(address).bind().await.unwrap().spawn()
}

/// Servers that are restarted one after the other under load cost no call, although none may be made twice: what a server
/// did not take goes elsewhere, what it took it answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_costs_no_call() {
    let dir = tempfile::tempdir().unwrap();
    let address = |at: usize| format!("unix:{}", dir.path().join(at.to_string()).display());
    let mut servers = Vec::new();
    for at in 0..3 {
        servers.push(serve(&address(at)).await);
    }
    let all: Vec<_> = (0..3).map(address).collect();
    let mut config = ChannelConfig::default();
    config.backoff_first = Duration::from_millis(5);
    config.backoff_max = Duration::from_millis(20);
    let channel = Channel::builder(&all.join(",")).config(config).connect().await.unwrap();
    let client = ProbeClient::new(channel);
    let over = Arc::new(AtomicBool::new(false));
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..8 {
        let (client, over) = (client.clone(), Arc::clone(&over));
        tasks.spawn(async move {
            let mut calls = 0;
            while !over.load(Ordering::SeqCst) {
                assert_eq!(client.add(worker, calls).await, Ok(worker + calls));
                calls += 1;
            }
            calls
        });
    }
    for round in 0..30 {
        let at = round % 3;
        servers[at].shutdown(Duration::from_secs(10)).await;
        servers[at] = serve(&address(at)).await;
        // The next one goes when this one is back in use.
        while servers[at].stats().accepted == 0 {
            tokio::task::yield_now().await;
        }
    }
    over.store(true, Ordering::SeqCst);
    let mut calls = 0;
    while let Some(result) = tasks.join_next().await {
        calls += result.unwrap();
    }
    let stats = client.channel.stats();
    assert!(calls > 100 && stats.pending == 0, "{stats:?}");
}

/// While every endpoint backs off a call fails at once with why and when; one that waits makes them try sooner.
#[tokio::test(start_paused = true)]
async fn waiting_calls_hurry_the_next_try() {
    let config = channel_under(tokio_clock());
    let channel = Channel::builder("inproc:hurry-a,inproc:hurry-b").config(config).lazy().unwrap();
    let client = ProbeClient::new(channel);
    let error = client.add(1, 2).await.unwrap_err();
    assert!(error.status().unwrap().message().contains("next try in"), "{error:?}");
    // Until they try every 5 s.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let failed = client.channel.stats().failed_connects;
    while client.channel.stats().failed_connects < failed + 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_millis(700)).await;
    let server = serve("inproc:hurry-b").await;
    let watch = Stopwatch::start();
    assert_eq!(client.add(1, 2).wait_for_ready().await, Ok(3));
    assert!(watch.elapsed() < Duration::from_millis(500), "{:?}", watch.elapsed());
    server.shutdown(Duration::from_secs(1)).await;
}

/// Publishes what the test sends.
#[derive(Debug)]
struct Scripted(Mutex<mpsc::UnboundedReceiver<Result<Vec<String>, Status>>>);

type Script = mpsc::UnboundedSender<Result<Vec<String>, Status>>;

fn scripted() -> (Script, Endpoints) {
    let (script, sets) = mpsc::unbounded_channel();
    (script, Endpoints::resolver(Scripted(Mutex::new(sets))))
}

impl Resolver for Scripted {
    fn run(&self, snapshots: Snapshots) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            while let Some(set) = self.0.lock().await.recv().await {
                match set {
                    // A refusal is counted, which the test looks at.
                    Ok(set) => drop(snapshots.publish(set)),
                    Err(why) => snapshots.fail(why),
                }
            }
        })
    }

    fn name(&self) -> String {
        "scripted".to_owned()
    }
}

/// Whole sets are exchanged: those that stay keep their connection, those that go end, and a bad set keeps the last good
/// one and is counted.
#[tokio::test]
async fn a_resolver_exchanges_whole_sets() {
    let sites = sites(3, Kind::Inproc).await;
    let all: Vec<_> = sites.iter().map(|site| site.address.clone()).collect();
    let (script, endpoints) = scripted();
    script.send(Ok(vec![all[0].clone(), all[1].clone()])).unwrap();
    let mut config = ChannelConfig::default();
    config.balance = Balance::RoundRobin;
    let client = ProbeClient::new(Channel::over(endpoints).config(config).connect().await.unwrap());
    while client.channel.stats().open_connections < 2 {
        tokio::task::yield_now().await;
    }
    for bad in
        [Ok(vec![]), Ok(vec!["nonsense".to_owned()]), Ok(vec![all[0].clone(); 1_025]), Err(Status::unavailable("x"))]
    {
        let before = client.channel.stats().bad_snapshots;
        script.send(bad).unwrap();
        while client.channel.stats().bad_snapshots == before {
            tokio::task::yield_now().await;
        }
        assert_eq!(client.channel.endpoints(), all[..2]);
        assert_eq!(client.add(1, 2).await, Ok(3));
    }
    // A call under way on the one that goes is answered there.
    let held = tokio::spawn(async move {
        let client = client;
        let calls: Vec<_> = (0..2).map(|at| tokio::spawn(client.wait(at).into_future())).collect();
        (client, calls)
    });
    let (client, calls) = held.await.unwrap();
    for site in &sites[..2] {
        site.ledger.until(|ledger| *ledger.waiting.borrow() == 1).await;
    }
    script.send(Ok(vec![all[1].clone(), all[2].clone(), all[2].clone()])).unwrap();
    while client.channel.endpoints() != all[1..] || sites[2].server.stats().open_connections == 0 {
        tokio::task::yield_now().await;
    }
    let before = accepted(&sites);
    for _ in 0..10 {
        assert_eq!(client.add(1, 2).await, Ok(3));
    }
    let after = accepted(&sites);
    assert_eq!((after[0], after[1] - before[1], after[2] - before[2]), (before[0], 5, 5));
    assert_eq!(sites[1].server.stats().connections, 1, "the one that stayed kept its connection");
    for site in &sites {
        site.ledger.gate.send_replace(true);
    }
    for (at, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap(), Ok(at as u64));
    }
    while sites[0].server.stats().open_connections > 0 {
        tokio::task::yield_now().await;
    }
    // Down to one, where nothing is left to choose.
    script.send(Ok(vec![all[2].clone()])).unwrap();
    while client.channel.endpoints().len() > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(client.add(1, 2).await, Ok(3));
}

/// A resolver that never has a set lets nobody wait for ever: what it says, and that it ended, is what calls are told.
#[tokio::test(start_paused = true)]
async fn a_resolver_without_a_set_fails_calls() {
    let (script, endpoints) = scripted();
    script.send(Err(Status::unavailable("the directory is away"))).unwrap();
    let config = channel_under(tokio_clock());
    let error = Channel::over(endpoints).config(config.clone()).connect().await.unwrap_err();
    assert!(error.message().contains("the directory is away"), "{error}");
    drop(script);
    let (script, endpoints) = scripted();
    drop(script);
    let error = Channel::over(endpoints).config(config.clone()).connect().await.unwrap_err();
    assert!(error.message().contains("ended without"), "{error}");
    let (_script, endpoints) = scripted();
    let error = Channel::over(endpoints).config(config).connect().await.unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded, "{error}");
}

/// Calls that race the exchange of sets all get their own reply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_race_the_exchange_of_sets() {
    let sites = sites(3, Kind::Inproc).await;
    let all: Vec<_> = sites.iter().map(|site| site.address.clone()).collect();
    let (script, endpoints) = scripted();
    script.send(Ok(all.clone())).unwrap();
    let client = ProbeClient::new(Channel::over(endpoints).connect().await.unwrap());
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..4 {
        let client = client.clone();
        tasks.spawn(async move {
            for at in 0..25_000 {
                assert_eq!(client.add(worker, at).await, Ok(worker + at));
            }
        });
    }
    let mut round = 0;
    while !tasks.is_empty() {
        round += 1;
        let set: Vec<_> = all.iter().enumerate().filter(|(at, _)| (round >> at) & 1 == 1 || *at == round % 3).collect();
        script.send(Ok(set.into_iter().map(|(_, address)| address.clone()).collect())).unwrap();
        tokio::select! {
            result = tasks.join_next() => result.unwrap().unwrap(),
            () = tokio::time::sleep(Duration::from_millis(1)) => {}
        }
    }
    assert!(round > 10);
    assert_eq!(client.channel.stats().pending, 0);
}

/// Every address of a name is an endpoint; a name that has none is told as that.
#[tokio::test]
async fn names_are_looked_up() {
    let site = Site::start(Kind::Tcp).await;
    let port = site.address.rsplit_once(':').unwrap().1.to_owned();
    let client = ProbeClient::new(Channel::connect(&format!("dns+tcp://localhost:{port}")).await.unwrap());
    assert_eq!(client.add(1, 2).await, Ok(3));
    assert!(client.channel.endpoints().iter().any(|endpoint| endpoint.ends_with(&format!(" at 127.0.0.1:{port}"))));
    let error = Channel::connect("dns+tcp://no-such-host.invalid:1").await.unwrap_err();
    assert!(error.code() == Code::Unavailable && error.message().contains("no-such-host.invalid"), "{error}");
}

/// With TLS the certificate is still asked for the name.
#[tokio::test]
async fn names_are_looked_up_with_tls() {
    let mut config = ServerConfig::default();
    config.tls = Some(ServerTls::new(&AUTHORITY.identity("localhost"), &ClientCertificates::Ignored).unwrap());
    let site = Site::start_with(Kind::Tls, config).await;
    let port = site.address.rsplit_once(':').unwrap().1.to_owned();
    let mut config = ChannelConfig::default();
    config.tls = Some(AUTHORITY.client());
    let channel = Channel::builder(&format!("dns+tls://localhost:{port}")).config(config).connect().await;
    assert_eq!(ProbeClient::new(channel.unwrap()).add(1, 2).await, Ok(3));
}

/// An idle channel over several endpoints that lost its runtime connects anew from the next one.
#[test]
fn a_resolver_outlives_its_runtime() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let home = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let sites = home.block_on(sites(2, Kind::Unix));
    let (script, endpoints) = scripted();
    script.send(Ok(sites.iter().map(|site| site.address.clone()).collect())).unwrap();
    let first = runtime();
    let client = first.block_on(async {
        let client = ProbeClient::new(Channel::over(endpoints).connect().await.unwrap());
        assert_eq!(client.add(1, 2).await, Ok(3));
        client
    });
    drop(first);
    let next = runtime();
    assert_eq!(next.block_on(client.add(3, 4)), Ok(7));
    script.send(Ok(vec![sites[0].address.clone()])).unwrap();
    next.block_on(async {
        while client.channel.endpoints().len() > 1 {
            tokio::task::yield_now().await;
        }
        assert_eq!(client.add(3, 4).await, Ok(7));
    });
}
