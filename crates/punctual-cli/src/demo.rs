//! `punctual demo`: the main job, end to end, with the proof.
//!
//! It serves a contract on a Unix socket and on loopback TCP and calls it at full rate; runs 20,000 durable tasks; and runs
//! schedules in a worker process that it kills with SIGKILL in the middle and starts again after a pause. What the handlers
//! themselves wrote down is then compared with what the time rules say should have happened.

mod calls;
mod contract;
mod ledger;
mod paths;
mod proof;
mod report;
mod schedules;
mod tasks;
mod worker;

pub(crate) use worker::{WorkerArgs, run as work};

use crate::exit::Failure;
use crate::output::Output;
use clap::Args;
use ledger::Ledger;
use paths::Paths;
use punctual::sqlite::{SqliteConfig, SqliteStore};
use report::Report;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const EXAMPLES: &str = "\
Examples:
  punctual demo                          # everything, about half a minute
  punctual demo --keep                   # leave the database behind, to look at with `punctual tasks list --db`
  punctual demo --tasks 100000 --seconds 5
  punctual demo --json | jq .proof";

/// What to run.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    /// How many durable tasks to enqueue and run.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    tasks: u32,
    /// How many seconds to call with each shape and transport.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// How many seconds the worker process stays dead.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=600))]
    pause: u32,
    /// Keep the database and the ledger, and say where they are.
    #[arg(long)]
    keep: bool,
    /// The folder for them, instead of a new one under the system's temporary folder. It must not hold a demo already.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Runs the demo, prints its table, and fails when the proof does.
pub(crate) fn run(args: &DemoArgs, output: &mut Output) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start the runtime: {error}")))?;
    let paths = Paths::new(args.folder.clone(), args.keep)?;
    let report = runtime.block_on(play(args, &paths))?;
    report.print(output)?;
    if args.keep && !output.is_json() {
        let database = paths.database();
        output.line(format!("kept: {0}; look at it with: punctual tasks list --db {0}", database.display()))?;
    }
    match report.proof.failures.first() {
        None => Ok(()),
        Some(first) => Err(Failure::failed(format!(
            "the proof failed in {} points, the first: {first}; run with --keep and look at the ledger",
            report.proof.failures.len()
        ))),
    }
}

async fn play(args: &DemoArgs, paths: &Paths) -> Result<Report, Failure> {
    let ledger = Arc::new(Ledger::open(&paths.ledger())?);
    let store = SqliteStore::open(&paths.database_url()?, SqliteConfig::default()).await?;
    let store: Arc<dyn punctual::task::Store> = Arc::new(store);

    let calls = calls::run(paths, &ledger, Duration::from_secs(u64::from(args.seconds))).await?;
    let tasks = tasks::run(&store, &ledger, args.tasks).await?;
    let schedules = schedules::run(&store, paths, Duration::from_secs(u64::from(args.pause))).await?;
    let proof = proof::check(&store, &paths.ledger(), &tasks, &schedules).await?;
    Ok(Report { calls, tasks: tasks.line(), schedules: schedules.lines(&proof), proof })
}
