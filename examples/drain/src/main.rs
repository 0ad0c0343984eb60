//! A server is replaced under load, and no call is lost: the old one says "no new calls", answers what it has, and ends; the
//! client sends the rest to the new one.
//!
//! `cargo run -p drain`

use punctual::prelude::*;
use punctual::rpc::ServerHandle;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const CALLERS: u64 = 16;
const ANSWERED_FIRST: u64 = 500;

/// Something to call.
#[service]
pub trait Counter {
    /// Adds one.
    async fn add(&self, to: u64) -> Result<u64, Status>;
}

struct Slow;

impl Counter for Slow {
    async fn add(&self, to: u64) -> Result<u64, Status> {
        tokio::time::sleep(Duration::from_millis(2)).await;
        Ok(to + 1)
    }
}

async fn start(address: &str) -> anyhow::Result<ServerHandle> {
    Ok(Server::builder().service(CounterServer::new(Slow)).listen(address).bind().await?.spawn())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let address = format!("unix:{}", folder.path().join("counter.sock").display());
    let old = start(&address).await?;
    let client = CounterClient::connect(&address).await?;

    let (over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let callers: Vec<_> = (0..CALLERS)
        .map(|at| {
            let (client, over, answered) = (client.clone(), Arc::clone(&over), Arc::clone(&answered));
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    // For a moment there is no server: the call waits, within its timeout.
                    let sum = client.add(at).wait_for_ready().timeout(Duration::from_secs(30)).await;
                    anyhow::ensure!(sum == Ok(at + 1), "{sum:?}");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            })
        })
        .collect();
    let reached = async |count: u64| {
        while answered.load(Ordering::Relaxed) < count && !callers.iter().any(|caller| caller.is_finished()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };

    reached(ANSWERED_FIRST).await;
    let stopped = old.shutdown(Duration::from_secs(10)).await;
    println!("the old server ended with {} calls cancelled and {} stuck", stopped.cancelled, stopped.stuck);
    let new = start(&address).await?;
    reached(answered.load(Ordering::Relaxed) + ANSWERED_FIRST).await;
    over.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await??;
    }
    println!("{} calls, all answered", answered.load(Ordering::Relaxed));
    anyhow::ensure!(stopped.cancelled == 0 && stopped.stuck == 0, "{stopped:?}");

    new.shutdown(Duration::from_secs(5)).await;
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
