//! Cap'n Proto's RPC. Its objects are not `Send`: one thread, and tasks that stay on it. It knows no deadlines: a caller
//! gives up by itself.

use crate::rpc::calls::{Calls, TIMEOUT, same};
use crate::rpc::service;
use crate::rpc::site::Site;
use crate::rpc::wire::{Wire, Wires};
use bytes::Bytes;
use capnp_rpc::rpc_twoparty_capnp::Side;
use capnp_rpc::{RpcSystem, twoparty};
use futures::io::{BufReader, BufWriter};
use std::rc::Rc;
use tokio::time::timeout;
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};

#[expect(clippy::all, reason = "generated")]
mod bench_capnp {
    include!(concat!(env!("OUT_DIR"), "/bench_capnp.rs"));
}
use bench_capnp::bench;

struct Service;

impl bench::Server for Service {
    async fn add(self: Rc<Self>, asked: bench::AddParams, mut reply: bench::AddResults) -> Result<(), capnp::Error> {
        let asked = asked.get()?;
        reply.get().set_sum(asked.get_a().wrapping_add(asked.get_b()));
        Ok(())
    }

    async fn nap(self: Rc<Self>, asked: bench::NapParams, mut reply: bench::NapResults) -> Result<(), capnp::Error> {
        let asked = asked.get()?;
        reply.get().set_sum(service::nap(asked.get_a(), asked.get_b()).await);
        Ok(())
    }

    async fn echo(self: Rc<Self>, asked: bench::EchoParams, mut reply: bench::EchoResults) -> Result<(), capnp::Error> {
        reply.get().set_data(asked.get()?.get_data()?);
        Ok(())
    }
}

fn network(wire: Wire, side: Side) -> Box<twoparty::VatNetwork<impl futures::AsyncRead + Unpin>> {
    let (read, write) = tokio::io::split(wire);
    let (read, write) = (BufReader::new(read.compat()), BufWriter::new(write.compat_write()));
    Box::new(twoparty::VatNetwork::new(read, write, side, capnp::message::ReaderOptions::default()))
}

pub async fn serve(site: &Site, ready: impl FnOnce(&str)) -> anyhow::Result<()> {
    let (mut wires, address) = Wires::bind(site).await?;
    ready(&address);
    let service: bench::Client = capnp_rpc::new_client(Service);
    loop {
        let network = network(wires.accept().await?, Side::Server);
        tokio::task::spawn_local(RpcSystem::new(network, Some(service.clone().client)));
    }
}

#[derive(Clone)]
pub struct Client(bench::Client);

impl Calls for Client {
    async fn connect(site: &Site) -> anyhow::Result<Self> {
        let mut system = RpcSystem::new(network(Wire::connect(site).await?, Side::Client), None);
        let client = system.bootstrap(Side::Server);
        tokio::task::spawn_local(system);
        Ok(Client(client))
    }

    async fn add(&mut self, a: i32, b: i32) -> anyhow::Result<i32> {
        let mut request = self.0.add_request();
        request.get().set_a(a);
        request.get().set_b(b);
        Ok(timeout(TIMEOUT, request.send().promise).await??.get()?.get_sum())
    }

    async fn nap(&mut self, a: i32, b: i32) -> anyhow::Result<i32> {
        let mut request = self.0.nap_request();
        request.get().set_a(a);
        request.get().set_b(b);
        Ok(timeout(TIMEOUT, request.send().promise).await??.get()?.get_sum())
    }

    async fn echo(&mut self, data: Bytes) -> anyhow::Result<bool> {
        let mut request = self.0.echo_request();
        request.get().set_data(&data);
        let reply = timeout(TIMEOUT, request.send().promise).await??;
        Ok(same(reply.get()?.get_data()?, &data))
    }
}
