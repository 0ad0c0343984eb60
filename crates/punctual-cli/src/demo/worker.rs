//! The worker process that the demo kills: an engine on the demo's database, until its standard input closes.

use crate::demo::contract::{DemoServer, Handlers};
use crate::demo::ledger::Ledger;
use crate::exit::Failure;
use clap::Args;
use punctual::engine::{Engine, EngineConfig};
use punctual::sqlite::{SqliteConfig, SqliteStore};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;

/// What the process prints once it runs tasks.
pub(crate) const READY: &str = "ready";

/// What the demo passes on.
#[derive(Debug, Args)]
#[command(after_help = "Example: started by `punctual demo`")]
pub(crate) struct WorkerArgs {
    #[arg(long)]
    database: String,
    #[arg(long)]
    ledger: PathBuf,
}

/// A short lease, so that the watcher need not wait long for what the dead worker held.
fn config() -> EngineConfig {
    let mut config = EngineConfig::default();
    config.lease = Duration::from_secs(3);
    config.renewal = Duration::from_millis(500);
    config.stop_after = Duration::from_millis(1500);
    config.stop_grace = Duration::from_secs(1);
    config.rescue = Duration::from_millis(500);
    config
}

/// Runs until standard input closes, as it does when the demo ends in any way.
pub(crate) fn run(args: &WorkerArgs) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start the runtime: {error}")))?;
    runtime.block_on(async {
        let ledger = Arc::new(Ledger::open(&args.ledger)?);
        let store = Arc::new(SqliteStore::open(&args.database, SqliteConfig::default()).await?);
        let handlers = DemoServer::from_arc(Handlers::new(ledger));
        let engine = Engine::builder(store).name("demo worker").config(config()).serve(handlers).start().await?;
        println!("{READY}");
        let mut rest = Vec::new();
        let _ = tokio::io::stdin().read_to_end(&mut rest).await;
        engine.shutdown(Duration::from_secs(5)).await;
        Ok(())
    })
}
