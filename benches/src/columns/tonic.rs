//! tonic over a Unix socket with its defaults.

use crate::case::Case;
use crate::columns::TIMEOUT;
use crate::load::Caller;
use bytes::Bytes;
use hyper_util::rt::TokioIo;
use std::path::Path;
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

#[derive(Clone, PartialEq, prost::Message)]
pub struct AddRequest {
    #[prost(sint32, tag = "1")]
    pub a: i32,
    #[prost(sint32, tag = "2")]
    pub b: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct AddReply {
    #[prost(sint32, tag = "1")]
    pub sum: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Blob {
    #[prost(bytes = "bytes", tag = "1")]
    pub data: Bytes,
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
    async fn add(&self, request: Request<AddRequest>) -> Result<Response<AddReply>, Status> {
        let request = request.into_inner();
        Ok(Response::new(AddReply { sum: request.a.wrapping_add(request.b) }))
    }

    async fn echo(&self, request: Request<Blob>) -> Result<Response<Blob>, Status> {
        Ok(Response::new(request.into_inner()))
    }
}

pub async fn serve(socket: &Path, ready: impl FnOnce()) -> anyhow::Result<()> {
    let listener = UnixListener::bind(socket)?;
    ready();
    let incoming = UnixListenerStream::new(listener);
    Server::builder().add_service(BenchServer::new(Service)).serve_with_incoming(incoming).await?;
    Ok(())
}

pub async fn call(socket: &Path, case: Case, callers: Vec<Caller>) -> anyhow::Result<()> {
    let socket = socket.to_owned();
    let connector = tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    let channel = Endpoint::from_static("http://bench.local").connect_with_connector(connector).await?;
    let tasks: Vec<_> = callers.into_iter().map(|caller| tokio::spawn(work(channel.clone(), case, caller))).collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

fn timed<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(TIMEOUT);
    request
}

async fn work(channel: Channel, case: Case, mut caller: Caller) -> anyhow::Result<()> {
    let mut client = BenchClient::new(channel);
    let data = Bytes::from(vec![0xa5; case.bytes()]);
    let mut number = caller.seed();
    while caller.goes_on() {
        match case {
            Case::Add => {
                number = number.wrapping_add(64);
                let reply = client.add(timed(AddRequest { a: number, b: 7 })).await?.into_inner();
                anyhow::ensure!(reply.sum == number.wrapping_add(7), "a wrong sum");
            }
            Case::Echo256 => {
                let reply = client.echo(timed(Blob { data: data.clone() })).await?.into_inner();
                anyhow::ensure!(reply.data == data, "a wrong echo");
            }
        }
        caller.done();
    }
    Ok(())
}
