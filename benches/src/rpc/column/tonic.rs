//! tonic, with flow control windows that a user who cares for streams would set; its defaults stop at 64 KiB a connection.

use crate::rpc::calls::{Calls, Items, TIMEOUT, same};
use crate::rpc::service;
use crate::rpc::site::Site;
use crate::rpc::wire::{Wire, Wires};
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use hyper_util::rt::TokioIo;
use tonic::transport::server::Connected;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};

/// Bytes under way on one stream.
const STREAM_WINDOW: u32 = 4 << 20;

/// Bytes under way on one connection.
const CONNECTION_WINDOW: u32 = 4 * STREAM_WINDOW;

#[derive(Clone, PartialEq, prost::Message)]
pub struct Numbers {
    #[prost(sint32, tag = "1")]
    pub a: i32,
    #[prost(sint32, tag = "2")]
    pub b: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Sum {
    #[prost(sint32, tag = "1")]
    pub sum: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Blob {
    #[prost(bytes = "bytes", tag = "1")]
    pub data: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Wanted {
    #[prost(uint64, tag = "1")]
    pub items: u64,
    #[prost(uint64, tag = "2")]
    pub bytes: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Length {
    #[prost(uint64, tag = "1")]
    pub bytes: u64,
}

#[expect(clippy::all, reason = "generated")]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/bench.Bench.rs"));
}
use generated::bench_client::BenchClient;
use generated::bench_server::{Bench, BenchServer};

struct Service;

#[tonic::async_trait]
impl Bench for Service {
    async fn add(&self, request: Request<Numbers>) -> Result<Response<Sum>, Status> {
        let request = request.into_inner();
        Ok(Response::new(Sum { sum: request.a.wrapping_add(request.b) }))
    }

    async fn nap(&self, request: Request<Numbers>) -> Result<Response<Sum>, Status> {
        let request = request.into_inner();
        Ok(Response::new(Sum { sum: service::nap(request.a, request.b).await }))
    }

    async fn echo(&self, request: Request<Blob>) -> Result<Response<Blob>, Status> {
        Ok(Response::new(request.into_inner()))
    }

    async fn upload(&self, request: Request<Streaming<Blob>>) -> Result<Response<Length>, Status> {
        let bytes = drain(request.into_inner()).await?;
        Ok(Response::new(Length { bytes }))
    }

    type DownloadStream = BoxStream<'static, Result<Blob, Status>>;

    async fn download(&self, request: Request<Wanted>) -> Result<Response<Self::DownloadStream>, Status> {
        let Wanted { items, bytes } = request.into_inner();
        Ok(Response::new(stream::iter(service::stored(items, bytes).map(|data| Ok(Blob { data }))).boxed()))
    }

    type DuplexStream = Streaming<Blob>;

    async fn duplex(&self, request: Request<Streaming<Blob>>) -> Result<Response<Self::DuplexStream>, Status> {
        Ok(Response::new(request.into_inner()))
    }
}

/// Takes a stream to its end; gives the bytes of its items.
async fn drain(mut items: Streaming<Blob>) -> Result<u64, Status> {
    let mut bytes = 0;
    while let Some(item) = items.message().await? {
        bytes += item.data.len() as u64;
    }
    Ok(bytes)
}

impl Connected for Wire {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

pub async fn serve(site: &Site, ready: impl FnOnce(&str)) -> anyhow::Result<()> {
    let (wires, address) = Wires::bind(site).await?;
    ready(&address);
    let incoming = stream::unfold(wires, |mut wires| async { Some((wires.accept().await, wires)) });
    Server::builder()
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .add_service(BenchServer::new(Service))
        .serve_with_incoming(incoming)
        .await?;
    Ok(())
}

#[derive(Clone)]
pub struct Client(BenchClient<Channel>);

fn timed<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(TIMEOUT);
    request
}

fn blobs(items: Items) -> impl futures::Stream<Item = Blob> {
    stream::iter(items.map(|data| Blob { data }))
}

impl Calls for Client {
    async fn connect(site: &Site) -> anyhow::Result<Self> {
        let site = site.clone();
        let connector = tower::service_fn(move |_| {
            let site = site.clone();
            async move { Wire::connect(&site).await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::from_static("http://bench.local")
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        Ok(Client(BenchClient::new(endpoint.connect_with_connector(connector).await?)))
    }

    async fn add(&mut self, a: i32, b: i32) -> anyhow::Result<i32> {
        Ok(self.0.add(timed(Numbers { a, b })).await?.into_inner().sum)
    }

    async fn nap(&mut self, a: i32, b: i32) -> anyhow::Result<i32> {
        Ok(self.0.nap(timed(Numbers { a, b })).await?.into_inner().sum)
    }

    async fn echo(&mut self, data: Bytes) -> anyhow::Result<bool> {
        let reply = self.0.echo(timed(Blob { data: data.clone() })).await?.into_inner();
        Ok(same(&reply.data, &data))
    }

    async fn upload(&mut self, items: Items) -> anyhow::Result<u64> {
        Ok(self.0.upload(blobs(items)).await?.into_inner().bytes)
    }

    async fn download(&mut self, items: u64, bytes: u64) -> anyhow::Result<u64> {
        Ok(drain(self.0.download(Wanted { items, bytes }).await?.into_inner()).await?)
    }

    async fn duplex(&mut self, items: Items) -> anyhow::Result<u64> {
        Ok(drain(self.0.duplex(blobs(items)).await?.into_inner()).await?)
    }
}
