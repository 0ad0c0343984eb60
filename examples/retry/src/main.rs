//! Calls that are made again: by a policy where the method is idempotent, within a budget that all calls share, and, where
//! one takes long, beside it. A charge is never made twice by itself.
//!
//! `cargo run -p retry`

use punctual::prelude::*;
use punctual::rpc::{HedgePolicy, RetryPolicy};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A shop whose prices come from a database that is away now and then.
#[service]
pub trait Shop {
    /// Reading twice harms nobody.
    #[rpc(idempotent)]
    async fn price(&self, article: String) -> Result<u64, Status>;

    /// Charging twice does.
    async fn charge(&self, cents: u64) -> Result<u64, Status>;
}

/// Every third attempt succeeds; the one behind it hangs.
#[derive(Default)]
struct Flaky {
    attempts: Arc<AtomicU64>,
}

impl Shop for Flaky {
    async fn price(&self, _article: String) -> Result<u64, Status> {
        match self.attempts.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => Err(Status::unavailable("the database is away")),
            3 => std::future::pending().await,
            _ => Ok(995),
        }
    }

    async fn charge(&self, _cents: u64) -> Result<u64, Status> {
        self.attempts.fetch_add(1, Ordering::SeqCst);
        Err(Status::unavailable("the database is away"))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let shop = Flaky::default();
    let attempts = Arc::clone(&shop.attempts);
    let server = Server::builder().service(ShopServer::new(shop)).listen("tcp://127.0.0.1:0").bind().await?;
    let address = server.local_addrs()[0].clone();
    let server = server.spawn();

    // Three attempts in all, 50 ms apart and then 100, each wait by chance a fifth shorter or longer.
    let channel = Channel::builder(&address).retry(RetryPolicy::default()).connect().await?;
    let client = ShopClient::new(channel);
    let price = client.price("tea".to_owned()).timeout(Duration::from_secs(5)).await?;
    println!("{price} cents after {} attempts", attempts.load(Ordering::SeqCst));
    anyhow::ensure!((price, attempts.load(Ordering::SeqCst)) == (995, 3));

    // A call says for itself what is to happen; here another attempt joins one that takes longer than 20 ms.
    let hedge = HedgePolicy::new(2, Duration::from_millis(20));
    let price = client.price("tea".to_owned()).hedge(hedge).timeout(Duration::from_secs(5)).await?;
    println!("{price} cents, although the first attempt still hangs");
    anyhow::ensure!((price, attempts.load(Ordering::SeqCst)) == (995, 5));

    // The policy does not reach what may not be made twice.
    let refused = client.charge(995).await;
    println!("{refused:?} after one attempt");
    anyhow::ensure!(refused.is_err() && attempts.load(Ordering::SeqCst) == 6);
    let stats = client.channel().stats();
    anyhow::ensure!((stats.retries, stats.hedges) == (2, 1), "{stats:?}");

    server.shutdown(Duration::from_secs(5)).await;
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
