//! Punctual with everything on that a user would have.

use crate::rpc::calls::{Calls, Items, TIMEOUT, same};
use crate::rpc::certificate;
use crate::rpc::service;
use crate::rpc::site::Site;
use crate::rpc::transport::Transport;
use anyhow::Context as _;
use punctual::{Bytes, Channel, ChannelConfig, Server, ServerConfig, Status, Streaming};

/// Room for the row of idle connections; a limit, which makes nothing faster.
const CONNECTIONS_MAX: u32 = 16_384;

#[punctual::service]
trait Bench {
    async fn add(&self, a: i32, b: i32) -> Result<i32, Status>;
    async fn nap(&self, a: i32, b: i32) -> Result<i32, Status>;
    async fn echo(&self, data: Bytes) -> Result<Bytes, Status>;
    #[rpc(oneway)]
    async fn note(&self, a: i32, b: i32);
    async fn upload(&self, items: Streaming<Bytes>) -> Result<u64, Status>;
    async fn download(&self, items: u64, bytes: u64) -> Result<Streaming<Bytes>, Status>;
    async fn duplex(&self, items: Streaming<Bytes>) -> Result<Streaming<Bytes>, Status>;
}

struct Service;

/// Where handlers run that do not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handlers {
    /// In their connection's turn, as `#[rpc(inline)]` has it.
    Inline,
    /// Each in a task of its own.
    Tasks,
}

/// The service with its short handlers where they are to run: one contract for both columns.
struct Placed(BenchServer<Service>, Handlers);

impl punctual::rpc::Service for Placed {
    fn descriptor(&self) -> &'static punctual::contract::ServiceDescriptor {
        self.0.descriptor()
    }

    fn dispatch(&self, method: usize, call: punctual::rpc::Inbound<'_>) {
        let waits = matches!(call.method().full_name, "Bench/nap" | "Bench/upload" | "Bench/download" | "Bench/duplex");
        self.0.dispatch(method, if waits || self.1 == Handlers::Tasks { call } else { call.inline() });
    }
}

impl Bench for Service {
    async fn add(&self, a: i32, b: i32) -> Result<i32, Status> {
        Ok(a.wrapping_add(b))
    }

    async fn nap(&self, a: i32, b: i32) -> Result<i32, Status> {
        Ok(service::nap(a, b).await)
    }

    async fn echo(&self, data: Bytes) -> Result<Bytes, Status> {
        Ok(data)
    }

    async fn note(&self, a: i32, b: i32) {
        service::note(a, b);
    }

    async fn upload(&self, items: Streaming<Bytes>) -> Result<u64, Status> {
        drain(items).await
    }

    async fn download(&self, items: u64, bytes: u64) -> Result<Streaming<Bytes>, Status> {
        Ok(Streaming::from_items(service::stored(items, bytes)))
    }

    async fn duplex(&self, items: Streaming<Bytes>) -> Result<Streaming<Bytes>, Status> {
        Ok(items)
    }
}

/// Takes a stream to its end; gives the bytes of its items.
async fn drain(mut items: Streaming<Bytes>) -> Result<u64, Status> {
    let mut bytes = 0;
    while let Some(item) = items.next().await {
        bytes += item?.len() as u64;
    }
    Ok(bytes)
}

pub async fn serve(site: &Site, handlers: Handlers, ready: impl FnOnce(&str)) -> anyhow::Result<()> {
    let mut config = ServerConfig::default();
    config.server_limits.connections_max = CONNECTIONS_MAX;
    if site.transport == Transport::Tls {
        config.tls = Some(certificate::server(&site.folder)?);
    }
    let server =
        Server::builder().config(config).service(Placed(BenchServer::new(Service), handlers)).listen(site.to_bind()?);
    let server = server.bind().await?;
    ready(server.local_addrs().first().context("a server that listens has an address")?);
    server.serve().await;
    Ok(())
}

#[derive(Clone)]
pub struct Client(BenchClient);

impl Calls for Client {
    async fn connect(site: &Site) -> anyhow::Result<Self> {
        let mut config = ChannelConfig::default();
        if site.transport == Transport::Tls {
            config.tls = Some(certificate::client(&site.folder)?);
        }
        Ok(Client(BenchClient::new(Channel::builder(&site.address).config(config).connect().await?)))
    }

    async fn add(&mut self, a: i32, b: i32) -> anyhow::Result<i32> {
        Ok(self.0.add(a, b).timeout(TIMEOUT).await?)
    }

    async fn nap(&mut self, a: i32, b: i32) -> anyhow::Result<i32> {
        Ok(self.0.nap(a, b).timeout(TIMEOUT).await?)
    }

    async fn echo(&mut self, data: Bytes) -> anyhow::Result<bool> {
        let reply = self.0.echo(data.clone()).timeout(TIMEOUT).await?;
        Ok(same(&reply, &data))
    }

    /// With a timeout it is done when its last byte was written, which is what the floor's does; without one it would be
    /// done when it was queued.
    async fn note(&mut self, a: i32, b: i32) -> anyhow::Result<()> {
        Ok(self.0.note(a, b).timeout(TIMEOUT).await?)
    }

    async fn upload(&mut self, items: Items) -> anyhow::Result<u64> {
        Ok(self.0.upload(Streaming::from_items(items)).await?)
    }

    async fn download(&mut self, items: u64, bytes: u64) -> anyhow::Result<u64> {
        Ok(drain(self.0.download(items, bytes).await?).await?)
    }

    async fn duplex(&mut self, items: Items) -> anyhow::Result<u64> {
        Ok(drain(self.0.duplex(Streaming::from_items(items)).await?).await?)
    }
}
