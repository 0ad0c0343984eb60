//! ttrpc, the RPC of containerd, its asynchronous flavour.

use crate::rpc::calls::{Calls, TIMEOUT, same};
use crate::rpc::service;
use crate::rpc::site::Site;
use bytes::Bytes;
use std::sync::Arc;
use ttrpc::r#async::{Client as Connection, Server, TtrpcContext};
use ttrpc::context::{self, Context};

mod generated {
    include!(concat!(env!("OUT_DIR"), "/ttrpc.rs"));
}
use generated::bench::{Blob, Numbers, Sum};
use generated::bench_ttrpc::{Bench, BenchClient, create_bench};

struct Service;

fn sum(sum: i32) -> Sum {
    Sum { sum, ..Sum::default() }
}

#[async_trait::async_trait]
impl Bench for Service {
    async fn add(&self, _: &TtrpcContext, request: Numbers) -> ttrpc::Result<Sum> {
        Ok(sum(request.a.wrapping_add(request.b)))
    }

    async fn nap(&self, _: &TtrpcContext, request: Numbers) -> ttrpc::Result<Sum> {
        Ok(sum(service::nap(request.a, request.b).await))
    }

    async fn echo(&self, _: &TtrpcContext, request: Blob) -> ttrpc::Result<Blob> {
        Ok(request)
    }
}

fn url(address: &str) -> anyhow::Result<String> {
    Ok(format!("unix://{}", Site::path(address)?.display()))
}

pub async fn serve(site: &Site, ready: impl FnOnce(&str)) -> anyhow::Result<()> {
    let address = site.to_bind()?;
    let mut server = Server::new().bind(&url(&address)?)?.register_service(create_bench(Arc::new(Service)));
    server.start().await?;
    ready(&address);
    std::future::pending().await
}

#[derive(Clone)]
pub struct Client(BenchClient);

fn timed() -> Context {
    context::with_duration(TIMEOUT)
}

fn numbers(a: i32, b: i32) -> Numbers {
    Numbers { a, b, ..Numbers::default() }
}

impl Calls for Client {
    async fn connect(site: &Site) -> anyhow::Result<Self> {
        Ok(Client(BenchClient::new(Connection::connect(&url(&site.address)?).await?)))
    }

    async fn add(&mut self, a: i32, b: i32) -> anyhow::Result<i32> {
        Ok(self.0.add(timed(), &numbers(a, b)).await?.sum)
    }

    async fn nap(&mut self, a: i32, b: i32) -> anyhow::Result<i32> {
        Ok(self.0.nap(timed(), &numbers(a, b)).await?.sum)
    }

    async fn echo(&mut self, data: Bytes) -> anyhow::Result<bool> {
        let reply = self.0.echo(timed(), &Blob { data: data.to_vec(), ..Blob::default() }).await?;
        Ok(same(&reply.data, &data))
    }
}
