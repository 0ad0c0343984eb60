//! The faults: what befalls which server and its links, one thing after another with calm in between.

use crate::contract::{ChaosClient, Gauges};
use crate::ledger::{AFTERMATH, Ledger};
use crate::memory;
use crate::server::Process;
use anyhow::{Context, ensure};
use punctual::rpc::transport::{BoxFuture, Dial, Link};
use punctual::rpc::{Channel, ChannelBuilder, ChannelConfig};
use punctual_clock::{Clock, Entropy, SeededEntropy, SystemClock};
use punctual_testkit::{Faults, Way};
use std::fmt;
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

/// Servers. The first one is never restarted, so that its memory can be compared.
const SITES: usize = 3;

/// What memory may have grown by between a warm process and the end, in bytes: an allocator keeps what it once had.
const GROWTH_MAX: u64 = 24 << 20;

/// Credit comes back in batches of half a connection's window, so that less than that may be out.
const UNCREDITED_MAX: u64 = 8 << 20;

/// A server, its links, and the channel that all callers share.
pub(crate) struct Site {
    process: Mutex<Option<Process>>,
    address: String,
    faults: Faults,
    pub(crate) client: ChaosClient,
}

pub(crate) struct Sites {
    pub(crate) all: Vec<Site>,
    /// What the first server and this process held when they were warm.
    warm: Mutex<Option<[u64; 2]>>,
}

/// Dials a server under faults.
#[derive(Debug)]
struct FaultyDial {
    address: String,
    faults: Faults,
}

impl Dial for FaultyDial {
    fn dial(&self) -> BoxFuture<'_, io::Result<Box<dyn Link>>> {
        Box::pin(async {
            let link = TcpStream::connect(self.address.trim_start_matches("tcp://")).await?;
            link.set_nodelay(true)?;
            Ok(Box::new(self.faults.link(link)) as Box<dyn Link>)
        })
    }

    fn address(&self) -> String {
        self.address.clone()
    }
}

/// A client that leaves a silent link soon, and tries again soon.
fn config() -> ChannelConfig {
    let mut config = ChannelConfig::default();
    config.limits.ping_after = Duration::from_millis(500);
    config.limits.dead_after = Duration::from_millis(1_500);
    config.limits.handshake_timeout = Duration::from_millis(1_500);
    config.backoff_first = Duration::from_millis(20);
    config.backoff_max = Duration::from_millis(500);
    config
}

impl Sites {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let mut all = Vec::new();
        for _ in 0..SITES {
            let process = Process::start("tcp://127.0.0.1:0").await?;
            let (address, faults) = (process.address.clone(), Faults::default());
            let dial = FaultyDial { address: address.clone(), faults: faults.clone() };
            let channel: Channel = ChannelBuilder::dial(dial).config(config()).lazy()?;
            let client = ChaosClient::new(channel);
            all.push(Site { process: Mutex::new(Some(process)), address, faults, client });
        }
        Ok(Sites { all, warm: Mutex::default() })
    }

    /// What is left when the weather has cleared and no caller calls any more.
    pub(crate) async fn calm(&self) -> anyhow::Result<Calm> {
        let mut calm = Calm { servers: Vec::new(), pending: 0, streams: 0, grown: 0 };
        for site in &self.all {
            let gauges = settled(&site.client).await?;
            let stats = site.client.channel().stats();
            calm.pending += stats.pending;
            calm.streams += stats.streams;
            calm.servers.push(gauges);
        }
        if let (Some(warm), Some(first)) = (*self.warm.lock().await, calm.servers.first()) {
            let now = [first.memory, memory::resident_bytes()];
            calm.grown = now.iter().zip(warm).map(|(now, warm)| now.saturating_sub(warm)).max().unwrap_or(0);
        }
        Ok(calm)
    }
}

async fn gauges(client: &ChaosClient) -> anyhow::Result<Gauges> {
    client
        .gauges()
        .wait_for_ready()
        .timeout(Duration::from_secs(60))
        .await
        .context("a server that nothing is wrong with")
}

/// The gauges once they say that nothing is left, or what they say after a long time.
async fn settled(client: &ChaosClient) -> anyhow::Result<Gauges> {
    let mut last = gauges(client).await?;
    for _ in 0..300 {
        if last.is_idle() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        last = gauges(client).await?;
    }
    Ok(last)
}

impl Gauges {
    fn is_idle(&self) -> bool {
        (self.running, self.streams, self.unconsumed, self.connections) == (1, 0, 0, 1)
            && self.uncredited <= UNCREDITED_MAX
    }
}

/// What both sides held at the end.
#[derive(Debug)]
pub(crate) struct Calm {
    servers: Vec<Gauges>,
    pending: u64,
    streams: u64,
    grown: u64,
}

impl Calm {
    /// Fails the run where something is left.
    pub(crate) fn judge(&self) -> anyhow::Result<()> {
        for gauges in &self.servers {
            ensure!(gauges.is_idle(), "a server holds something: {gauges:?}");
            ensure!(gauges.panics == 0 && gauges.violations == 0, "{gauges:?}");
        }
        ensure!((self.pending, self.streams) == (0, 0), "the callers' side holds something: {self:?}");
        ensure!(self.grown <= GROWTH_MAX, "memory grew by {} bytes", self.grown);
        Ok(())
    }
}

impl fmt::Display for Calm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, gauges) in self.servers.iter().enumerate() {
            writeln!(f, "server {at}: {gauges:?}")?;
        }
        writeln!(
            f,
            "callers: {} pending, {} streams, memory grew by {} KiB",
            self.pending,
            self.streams,
            self.grown >> 10
        )
    }
}

/// Lets faults come for so long.
pub(crate) async fn blow(sites: &Sites, ledger: &Ledger, length: Duration, seed: u64) -> anyhow::Result<()> {
    let entropy = SeededEntropy::new(seed);
    let (end, warm) = (SystemClock.now().after(length), SystemClock.now().after(length / 4));
    // A fault at one server while the others are well, then at another.
    let mut turn = 0;
    while SystemClock.now() < end {
        let at = turn % sites.all.len();
        turn += 1;
        let site = sites.all.get(at).context("a server")?;
        // A fault of the first, which keeps its process, is one of its links.
        let kind = entropy.below(if at == 0 { 7 } else { 9 });
        befall(site, at, kind, ledger, &entropy).await?;
        ledger.calm(at);
        pause(&entropy, 100, 600).await;
        if SystemClock.now() >= warm && sites.warm.lock().await.is_none() {
            let first = gauges(&sites.all.first().context("a server")?.client).await?;
            *sites.warm.lock().await = Some([first.memory, memory::resident_bytes()]);
        }
    }
    // What the last fault explains is over when its aftermath is.
    tokio::time::sleep(AFTERMATH).await;
    Ok(())
}

async fn pause(entropy: &dyn Entropy, from: u64, upto: u64) {
    tokio::time::sleep(Duration::from_millis(from + entropy.below(upto - from))).await;
}

async fn befall(site: &Site, at: usize, kind: u64, ledger: &Ledger, entropy: &dyn Entropy) -> anyhow::Result<()> {
    let faults = &site.faults;
    let mut process = site.process.lock().await;
    match kind {
        0 => {
            ledger.fault(at, "cut");
            faults.cut();
        }
        1 => {
            ledger.fault(at, "cut at a byte");
            let way = if entropy.below(2) == 0 { Way::Out } else { Way::In };
            faults.cut_after(way, entropy.below(50_000));
            pause(entropy, 100, 500).await;
            faults.heal();
        }
        2 => {
            ledger.fault(at, "pause");
            faults.pause(if entropy.below(2) == 0 { Way::Out } else { Way::In });
            pause(entropy, 100, 3_000).await;
            faults.heal();
        }
        3 => {
            ledger.fault(at, "black hole");
            faults.lose(Way::Out);
            faults.lose(Way::In);
            pause(entropy, 100, 3_000).await;
            // What was lost is lost: no network gives a link back whose bytes are gone.
            faults.cut();
            faults.heal();
        }
        4 => {
            ledger.fault(at, "slow");
            faults.delay(Duration::from_millis(entropy.below(200)));
            pause(entropy, 500, 2_000).await;
            faults.heal();
        }
        5 => {
            ledger.fault(at, "pieces");
            faults.chop(1 + usize::try_from(entropy.below(2_000)).unwrap_or(1), entropy.below(u64::MAX));
            pause(entropy, 500, 2_000).await;
            faults.heal();
        }
        6 => {
            ledger.fault(at, "freeze");
            let time = Duration::from_millis(100 + entropy.below(3_000));
            process.as_ref().context("a server")?.freeze(time).await?;
        }
        kind => {
            let old = process.take().context("a server")?;
            if kind == 7 {
                ledger.fault(at, "stop in order");
                old.stop().await?;
            } else {
                ledger.fault(at, "kill");
                old.kill().await?;
            }
            pause(entropy, 1, 500).await;
            *process = Some(Process::start(&site.address).await?);
        }
    }
    Ok(())
}
