//! tarpc by its documented set-up: one task a call on the server, its bincode transport.

use crate::rpc::calls::{Calls, TIMEOUT, same};
use crate::rpc::service;
use crate::rpc::site::Site;
use crate::rpc::wire::{Wire, Wires};
use bytes::Bytes;
use futures::StreamExt;
use std::time::Instant;
use tarpc::context::{self, Context};
use tarpc::serde_transport::Transport;
use tarpc::server::{BaseChannel, Channel};
use tarpc::tokio_serde::formats::Bincode;
use tarpc::{client, serde_transport};
use tokio_util::codec::{Framed, LengthDelimitedCodec};

#[tarpc::service]
trait Bench {
    async fn add(a: i32, b: i32) -> i32;
    async fn nap(a: i32, b: i32) -> i32;
    async fn echo(data: Bytes) -> Bytes;
}

#[derive(Clone)]
struct Service;

impl Bench for Service {
    async fn add(self, _: Context, a: i32, b: i32) -> i32 {
        a.wrapping_add(b)
    }

    async fn nap(self, _: Context, a: i32, b: i32) -> i32 {
        service::nap(a, b).await
    }

    async fn echo(self, _: Context, data: Bytes) -> Bytes {
        data
    }
}

/// What tarpc's own listeners and connectors make of a stream.
fn framed<In, Out>(wire: Wire) -> Transport<Wire, In, Out, Bincode<In, Out>>
where
    In: for<'de> serde::Deserialize<'de>,
    Out: serde::Serialize,
{
    serde_transport::new(Framed::new(wire, LengthDelimitedCodec::new()), Bincode::default())
}

pub async fn serve(site: &Site, ready: impl FnOnce(&str)) -> anyhow::Result<()> {
    let (mut wires, address) = Wires::bind(site).await?;
    ready(&address);
    loop {
        let channel = BaseChannel::with_defaults(framed(wires.accept().await?));
        tokio::spawn(channel.execute(Service.serve()).for_each(|call| async {
            tokio::spawn(call);
        }));
    }
}

#[derive(Clone)]
pub struct Client(BenchClient);

fn timed() -> Context {
    let mut context = context::current();
    context.deadline = Instant::now() + TIMEOUT;
    context
}

impl Calls for Client {
    async fn connect(site: &Site) -> anyhow::Result<Self> {
        let wire = Wire::connect(site).await?;
        Ok(Client(BenchClient::new(client::Config::default(), framed(wire)).spawn()))
    }

    async fn add(&mut self, a: i32, b: i32) -> anyhow::Result<i32> {
        Ok(self.0.add(timed(), a, b).await?)
    }

    async fn nap(&mut self, a: i32, b: i32) -> anyhow::Result<i32> {
        Ok(self.0.nap(timed(), a, b).await?)
    }

    async fn echo(&mut self, data: Bytes) -> anyhow::Result<bool> {
        Ok(same(&self.0.echo(timed(), data.clone()).await?, &data))
    }
}
