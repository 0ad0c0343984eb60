//! Several servers behind one client: calls are spread over those that are alive, a server that stops costs none, and
//! whole sets of endpoints are exchanged while calls go on.
//!
//! `cargo run -p clusters`

use punctual::prelude::*;
use punctual::rpc::{Balance, Clusters};
use punctual::{ChannelConfig, ServerHandle};
use std::collections::BTreeMap;
use std::time::Duration;

/// Says who answers.
#[service]
pub trait Hello {
    /// The name of the server.
    async fn who(&self) -> Result<String, Status>;
}

struct Named(&'static str);

impl Hello for Named {
    async fn who(&self) -> Result<String, Status> {
        Ok(self.0.to_owned())
    }
}

async fn serve(name: &'static str) -> anyhow::Result<(String, ServerHandle)> {
    let hello = HelloServer::new(Named(name));
    let server = Server::builder().service(hello).listen("tcp://127.0.0.1:0").bind().await?;
    let address = server.local_addrs()[0].clone();
    Ok((address, server.spawn()))
}

/// How many of twelve calls each server answers.
async fn ask(client: &HelloClient) -> anyhow::Result<BTreeMap<String, u32>> {
    let mut answers = BTreeMap::new();
    for _ in 0..12 {
        *answers.entry(client.who().await?).or_default() += 1;
    }
    println!("{answers:?}");
    Ok(answers)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (one, first) = serve("one").await?;
    let (two, second) = serve("two").await?;
    let (three, third) = serve("three").await?;

    let mut config = ChannelConfig::default();
    config.balance = Balance::RoundRobin;
    let clusters = Clusters::new(config)?;
    let channel = clusters.add("east", format!("{one},{two}").parse()?).await?;
    let client = HelloClient::new(channel);
    // The first call waits for one connection, not for all.
    while client.channel().stats().open_connections < 2 {
        tokio::task::yield_now().await;
    }
    anyhow::ensure!(ask(&client).await?.values().eq(&[6, 6]));

    // A server that stops says so first: not a call fails.
    first.shutdown(Duration::from_secs(5)).await;
    anyhow::ensure!(ask(&client).await?.keys().eq(["two"]));

    // One of the new endpoints is connected before the first call goes there; calls under way end where they are.
    clusters.replace("east", three.parse()?).await?;
    anyhow::ensure!(ask(&client).await?.keys().eq(["three"]));

    // Without calls under way nothing waits for the 8 s that they would have.
    let drained = clusters.remove("east").await?;
    println!("removed, {} calls cut", drained.cut);
    anyhow::ensure!(drained.cut == 0 && client.who().await.is_err());

    second.shutdown(Duration::from_secs(5)).await;
    third.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    /// The example runs and finds what it says.
    #[test]
    fn it_runs() {
        super::main().expect("the example runs");
    }
}
