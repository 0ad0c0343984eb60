//! A server at an address of its own, and channels to it.

use crate::support::authority::AUTHORITY;
use crate::support::probe::{Ledger, Probe, ProbeClient};
use crate::support::streams::{FlowLedger, Flows, FlowsClient};
use punctual_rpc::{Channel, ChannelConfig, Server, ServerBuilder, ServerConfig, ServerHandle};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

/// The built-in transports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Tcp,
    Tls,
    Unix,
    Inproc,
}

/// A running server.
pub(crate) struct Site {
    pub(crate) address: String,
    pub(crate) server: ServerHandle,
    pub(crate) ledger: Arc<Ledger>,
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
        Site { address, server: server.spawn(), ledger, _dir: dir }
    }

    /// A site that serves the contract with streams, and the other one beside it.
    pub(crate) async fn streaming(kind: Kind, config: ServerConfig) -> (Self, Arc<FlowLedger>) {
        let (server, dir) = Self::prepare(kind, config);
        let flows = Flows::default();
        let (ledger, streams) = (Arc::clone(&flows.ledger.probe), Arc::clone(&flows.ledger));
        let probe = Probe { ledger: Arc::clone(&ledger) };
        let server = server.service(probe).service(flows).bind().await.unwrap();
        let address = server.local_addrs()[0].clone();
        (Site { address, server: server.spawn(), ledger, _dir: dir }, streams)
    }

    fn prepare(kind: Kind, mut config: ServerConfig) -> (ServerBuilder, Option<TempDir>) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (address, dir) = match kind {
            Kind::Tcp => ("tcp://127.0.0.1:0".to_owned(), None),
            Kind::Tls => {
                config.tls.get_or_insert_with(|| AUTHORITY.server());
                ("tls://127.0.0.1:0".to_owned(), None)
            }
            Kind::Unix => {
                let dir = tempfile::tempdir().unwrap();
                (format!("unix:{}", dir.path().join("socket").display()), Some(dir))
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
        ProbeClient::new(Channel::builder(&self.address).config(config).connect().await.unwrap())
    }
}
