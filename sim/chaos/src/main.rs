//! Servers in processes of their own, which are stopped in order, killed and frozen in turn, and callers of every shape whose links
//! fail meanwhile. It holds, or the run fails: no result is wrong, no error is without a fault that explains it, no call waits
//! longer than its deadline, and when the weather clears every gauge is back at zero and memory where it was.
//!
//! `cargo run --release -p chaos -- --minutes 10`

mod callers;
mod contract;
mod ledger;
mod memory;
mod server;
mod weather;

use anyhow::Context;
use clap::Parser;
use ledger::Ledger;
use std::sync::Arc;
use std::time::Duration;

/// Servers under rolling restarts and failing links, and callers that check every result.
#[derive(Debug, Parser)]
struct Arguments {
    /// How long the weather is bad, in minutes.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// What the weather and the calls are drawn from; printed, so that a run can be made again.
    #[arg(long)]
    seed: Option<u64>,
    /// Serve at this address until standard input closes, instead. Used by the run itself.
    #[arg(long, hide = true)]
    serve: Option<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(address) = arguments.serve {
        return server::serve(&address).await;
    }
    let length = Duration::try_from_secs_f64(arguments.minutes * 60.0).context("--minutes is a number above 0")?;
    let seed = arguments.seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("seed {seed}, {length:?}");
    let ledger = Arc::new(Ledger::default());
    let sites = weather::Sites::start().await?;
    let callers = callers::Callers::start(&sites, &ledger, seed);
    weather::blow(&sites, &ledger, length, seed).await?;
    callers.stop().await;
    let calm = sites.calm().await?;
    print!("{ledger}{calm}");
    ledger.judge()?;
    calm.judge()
}
