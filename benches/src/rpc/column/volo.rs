//! volo's Thrift, multiplexed over one connection.

use crate::rpc::calls::{Calls, TIMEOUT, same};
use crate::rpc::service;
use crate::rpc::site::Site;
use crate::rpc::transport::Transport;
use bytes::Bytes;
use std::os::unix::net::SocketAddr;
use volo::net::Address;
use volo_thrift::ServerError;

#[expect(clippy::all, reason = "generated")]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/volo_gen.rs"));
}
use generated::volo_gen::bench::{Bench, BenchClient, BenchClientBuilder, BenchServer};

struct Service;

impl Bench for Service {
    async fn add(&self, a: i32, b: i32) -> Result<i32, ServerError> {
        Ok(a.wrapping_add(b))
    }

    async fn nap(&self, a: i32, b: i32) -> Result<i32, ServerError> {
        Ok(service::nap(a, b).await)
    }

    async fn echo(&self, data: Bytes) -> Result<Bytes, ServerError> {
        Ok(data)
    }

    async fn note(&self, a: i32, b: i32) -> Result<(), ServerError> {
        service::note(a, b);
        Ok(())
    }
}

fn address(of: &str, transport: Transport) -> anyhow::Result<Address> {
    Ok(match transport {
        Transport::Tcp => Address::from(Site::socket_address(of)?),
        _ => Address::from(SocketAddr::from_pathname(Site::path(of)?)?),
    })
}

/// A port that is free now. volo binds by itself and tells nobody where.
fn free_port() -> anyhow::Result<String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    Ok(format!("tcp://{}", listener.local_addr()?))
}

pub async fn serve(site: &Site, ready: impl FnOnce(&str)) -> anyhow::Result<()> {
    let bound = if site.transport == Transport::Tcp { free_port()? } else { site.to_bind()? };
    let server = BenchServer::new(Service).multiplex(true).run(address(&bound, site.transport)?);
    let mut server = std::pin::pin!(server);
    // Its first poll binds; what it answers then, if anything, is an error.
    let early = std::future::poll_fn(|cx| std::task::Poll::Ready(server.as_mut().poll(cx))).await;
    if let std::task::Poll::Ready(ended) = early {
        return ended.map_err(|error| anyhow::anyhow!("{error}"));
    }
    ready(&bound);
    server.await.map_err(|error| anyhow::anyhow!("{error}"))
}

#[derive(Clone)]
pub struct Client(BenchClient);

impl Calls for Client {
    async fn connect(site: &Site) -> anyhow::Result<Self> {
        let builder = BenchClientBuilder::new("bench").address(address(&site.address, site.transport)?);
        let client = Client(builder.rpc_timeout(Some(TIMEOUT)).multiplex(true).build());
        // The one connection comes up before all callers ask for one.
        client.0.add(1, 2).await?;
        Ok(client)
    }

    async fn add(&mut self, a: i32, b: i32) -> anyhow::Result<i32> {
        Ok(self.0.add(a, b).await?)
    }

    async fn nap(&mut self, a: i32, b: i32) -> anyhow::Result<i32> {
        Ok(self.0.nap(a, b).await?)
    }

    async fn echo(&mut self, data: Bytes) -> anyhow::Result<bool> {
        Ok(same(&self.0.echo(data.clone()).await?, &data))
    }

    async fn note(&mut self, a: i32, b: i32) -> anyhow::Result<()> {
        Ok(self.0.note(a, b).await?)
    }
}
