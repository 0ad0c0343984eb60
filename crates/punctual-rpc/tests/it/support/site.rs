//! A server at an address of its own, and channels to it.

use crate::support::authority::AUTHORITY;
use crate::support::faulty::FaultyDial;
use crate::support::probe::{Ledger, Probe, ProbeClient};
use crate::support::streams::{FlowLedger, Flows, FlowsClient};
use punctual_rpc::{Channel, ChannelBuilder, ChannelConfig, Server, ServerBuilder, ServerConfig, ServerHandle};
use punctual_testkit::Faults;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

/// The built-in transports, and a Unix socket that carries everything in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Tcp,
    Tls,
    Unix,
    Shm,
    Inproc,
    Faulty,
}

/// A running server.
pub(crate) struct Site {
    pub(crate) address: String,
    pub(crate) server: ServerHandle,
    pub(crate) ledger: Arc<Ledger>,
    /// What is wrong with the links of its clients.
    faults: Option<Faults>,
    _dir: Option<TempDir>,
}

impl Site {
    pub(crate) async fn start(kind: Kind) -> Self {
        Self::start_with(kind, ServerConfig::default()).await
    }

    pub(crate) async fn start_with(kind: Kind, config: ServerConfig) -> Self {
        let (server, dir) = Self::prepare(kind, config);
        let probe = Probe::default();
        let ledger = Arc::clone(&probe.ledger);
        let server = server.service(probe).bind().await.unwrap();
        let address = server.local_addrs()[0].clone();
        Site { address, server: server.spawn(), ledger, faults: faults(kind), _dir: dir }
    }

    /// A site that serves the contract with streams, and the other one beside it.
    pub(crate) async fn streaming(kind: Kind, config: ServerConfig) -> (Self, Arc<FlowLedger>) {
        let (server, dir) = Self::prepare(kind, config);
        let flows = Flows::default();
        let (ledger, streams) = (Arc::clone(&flows.ledger.probe), Arc::clone(&flows.ledger));
        let probe = Probe { ledger: Arc::clone(&ledger) };
        let server = server.service(probe).service(flows).bind().await.unwrap();
        let address = server.local_addrs()[0].clone();
        (Site { address, server: server.spawn(), ledger, faults: faults(kind), _dir: dir }, streams)
    }

    /// A site with services of the test's own.
    pub(crate) async fn serving(
        kind: Kind,
        config: ServerConfig,
        add: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        let (server, dir) = Self::prepare(kind, config);
        let server = add(server).bind().await.unwrap();
        let address = server.local_addrs()[0].clone();
        Site { address, server: server.spawn(), ledger: Arc::default(), faults: faults(kind), _dir: dir }
    }

    fn prepare(kind: Kind, mut config: ServerConfig) -> (ServerBuilder, Option<TempDir>) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (address, dir) = match kind {
            Kind::Tcp => ("tcp://127.0.0.1:0".to_owned(), None),
            Kind::Tls => {
                config.tls.get_or_insert_with(|| AUTHORITY.server());
                ("tls://127.0.0.1:0".to_owned(), None)
            }
            Kind::Unix | Kind::Faulty => {
                let dir = tempfile::tempdir().unwrap();
                (format!("unix:{}", dir.path().join("socket").display()), Some(dir))
            }
            Kind::Shm => {
                let dir = tempfile::tempdir().unwrap();
                (format!("shm:{}", dir.path().join("socket").display()), Some(dir))
            }
            Kind::Inproc => (format!("inproc:site-{}", NEXT.fetch_add(1, Ordering::SeqCst)), None),
        };
        (Server::builder().config(config).listen(address), dir)
    }

    pub(crate) async fn flows(&self) -> FlowsClient {
        FlowsClient { channel: self.client().await.channel }
    }

    pub(crate) async fn flows_with(&self, config: ChannelConfig) -> FlowsClient {
        FlowsClient { channel: self.client_with(config).await.channel }
    }

    pub(crate) async fn client(&self) -> ProbeClient {
        self.client_with(ChannelConfig::default()).await
    }

    pub(crate) async fn client_with(&self, mut config: ChannelConfig) -> ProbeClient {
        if self.address.starts_with("tls://") {
            config.tls.get_or_insert_with(|| AUTHORITY.client());
        }
        let builder = match &self.faults {
            Some(faults) => ChannelBuilder::dial(FaultyDial::new(&self.address, faults.clone())),
            None => Channel::builder(&self.address),
        };
        ProbeClient::new(builder.config(config).connect().await.unwrap())
    }
}

fn faults(kind: Kind) -> Option<Faults> {
    (kind == Kind::Faulty).then(|| {
        let faults = Faults::default();
        faults.chop(PIECE_BYTES_MAX, 7);
        faults
    })
}

/// Less than a frame's fragment, so that each is taken in several pieces, and not so little that big messages take long.
const PIECE_BYTES_MAX: usize = 8 << 10;
