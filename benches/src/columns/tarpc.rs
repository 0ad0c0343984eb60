//! tarpc over a Unix socket, by its documented set-up: one task a call on the server.

use crate::case::Case;
use crate::columns::TIMEOUT;
use crate::load::Caller;
use bytes::Bytes;
use futures::StreamExt;
use std::path::Path;
use std::time::Instant;
use tarpc::server::{BaseChannel, Channel};
use tarpc::tokio_serde::formats::Bincode;
use tarpc::{client, context};

#[tarpc::service]
trait Bench {
    async fn add(a: i32, b: i32) -> i32;
    async fn echo(data: Bytes) -> Bytes;
}

#[derive(Clone)]
struct Service;

impl Bench for Service {
    async fn add(self, _: context::Context, a: i32, b: i32) -> i32 {
        a.wrapping_add(b)
    }

    async fn echo(self, _: context::Context, data: Bytes) -> Bytes {
        data
    }
}

pub async fn serve(socket: &Path, ready: impl FnOnce()) -> anyhow::Result<()> {
    let mut incoming = tarpc::serde_transport::unix::listen(socket, Bincode::default).await?;
    ready();
    while let Some(transport) = incoming.next().await {
        let channel = BaseChannel::with_defaults(transport?);
        tokio::spawn(channel.execute(Service.serve()).for_each(|call| async {
            tokio::spawn(call);
        }));
    }
    Ok(())
}

pub async fn call(socket: &Path, case: Case, callers: Vec<Caller>) -> anyhow::Result<()> {
    let transport = tarpc::serde_transport::unix::connect(socket, Bincode::default).await?;
    let client = BenchClient::new(client::Config::default(), transport).spawn();
    let tasks: Vec<_> = callers.into_iter().map(|caller| tokio::spawn(work(client.clone(), case, caller))).collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

async fn work(client: BenchClient, case: Case, mut caller: Caller) -> anyhow::Result<()> {
    let data = Bytes::from(vec![0xa5; case.bytes()]);
    let mut number = caller.seed();
    while caller.goes_on() {
        let mut context = context::current();
        context.deadline = Instant::now() + TIMEOUT;
        match case {
            Case::Add => {
                number = number.wrapping_add(64);
                anyhow::ensure!(client.add(context, number, 7).await? == number.wrapping_add(7), "a wrong sum");
            }
            Case::Echo256 => {
                anyhow::ensure!(client.echo(context, data.clone()).await? == data, "a wrong echo");
            }
        }
        caller.done();
    }
    Ok(())
}
