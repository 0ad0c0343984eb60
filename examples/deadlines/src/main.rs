//! One budget from the first caller to the last handler: a call that a handler makes inherits what is left of its own, and
//! nobody works for a caller that has gone.
//!
//! `cargo run -p deadlines`

use punctual::prelude::*;
use std::time::Duration;

/// Where the work is done.
#[service]
pub trait Kitchen {
    /// Takes its time, and gives up when the budget ends.
    async fn cook(&self, dish: String, takes_ms: u64) -> Result<String, Status>;
}

/// Who asks the kitchen on a guest's behalf.
#[service]
pub trait Waiter {
    /// Orders a dish that takes this long.
    async fn order(&self, dish: String, takes_ms: u64) -> Result<String, Status>;
}

struct Stove;

impl Kitchen for Stove {
    async fn cook(&self, dish: String, takes_ms: u64) -> Result<String, Status> {
        let budget = Context::current().and_then(|context| context.remaining());
        println!("  the kitchen has {} ms for {dish}", budget.unwrap_or_default().as_millis());
        tokio::time::sleep(Duration::from_millis(takes_ms)).await;
        Ok(format!("a {dish}"))
    }
}

struct Service {
    kitchen: KitchenClient,
}

impl Waiter for Service {
    async fn order(&self, dish: String, takes_ms: u64) -> Result<String, Status> {
        // No timeout is named here: the guest's is inherited, less what was spent on the way.
        self.kitchen.cook(dish, takes_ms).await.map_err(|error| match error {
            CallError::App(status) | CallError::Status(status) => status,
        })
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let kitchen = Server::builder().service(KitchenServer::new(Stove)).listen("inproc:kitchen").bind().await?.spawn();
    let service = Service { kitchen: KitchenClient::connect("inproc:kitchen").await? };
    let waiter = Server::builder().service(WaiterServer::new(service)).listen("inproc:waiter").bind().await?.spawn();
    let guest = WaiterClient::connect("inproc:waiter").await?;

    println!("a patient guest");
    let dish = guest.order("soup".to_owned(), 10).timeout(Duration::from_secs(20)).await?;
    println!("  got {dish}");

    println!("a hurried one");
    match guest.order("roast".to_owned(), 60_000).timeout(Duration::from_millis(200)).await {
        Err(CallError::Status(status)) if status.code() == Code::DeadlineExceeded => println!("  left: {status}"),
        other => anyhow::bail!("the roast came to {other:?}"),
    }

    waiter.shutdown(Duration::from_secs(5)).await;
    kitchen.shutdown(Duration::from_secs(5)).await;
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
