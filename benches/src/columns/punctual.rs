//! Punctual over its Unix socket, with everything on that a user would have.

use crate::case::Case;
use crate::columns::TIMEOUT;
use crate::load::Caller;
use punctual::rpc::Server;
use punctual::{Bytes, Status};
use std::path::Path;

#[punctual::service]
trait Bench {
    async fn add(&self, a: i32, b: i32) -> Result<i32, Status>;
    async fn echo(&self, data: Bytes) -> Result<Bytes, Status>;
}

struct Service;

impl Bench for Service {
    async fn add(&self, a: i32, b: i32) -> Result<i32, Status> {
        Ok(a.wrapping_add(b))
    }

    async fn echo(&self, data: Bytes) -> Result<Bytes, Status> {
        Ok(data)
    }
}

fn address(socket: &Path) -> anyhow::Result<String> {
    let path = socket.to_str().ok_or_else(|| anyhow::anyhow!("the socket's path is not UTF-8"))?;
    Ok(format!("unix:{path}"))
}

pub async fn serve(socket: &Path, ready: impl FnOnce()) -> anyhow::Result<()> {
    let server = Server::builder().service(BenchServer::new(Service)).listen(address(socket)?).bind().await?;
    ready();
    server.serve().await;
    Ok(())
}

pub async fn call(socket: &Path, case: Case, callers: Vec<Caller>) -> anyhow::Result<()> {
    let client = BenchClient::connect(&address(socket)?).await?;
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
        match case {
            Case::Add => {
                number = number.wrapping_add(64);
                let sum = client.add(number, 7).timeout(TIMEOUT).await?;
                anyhow::ensure!(sum == number.wrapping_add(7), "a wrong sum");
            }
            Case::Echo256 => {
                let echo = client.echo(data.clone()).timeout(TIMEOUT).await?;
                anyhow::ensure!(echo == data, "a wrong echo");
            }
        }
        caller.done();
    }
    Ok(())
}
