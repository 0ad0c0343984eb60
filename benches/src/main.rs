//! Punctual beside its peers: the same work, in one run, alternating, with the noise of a column against itself.
//!
//! `cargo run --release -- rpc` compares calls, `-- results` writes what it measured into the results file, `-- stores` compares
//! what the stores do; `--help` lists the options. Server and client of each column of `rpc` are this same program in two more
//! processes, pinned to cores of their own.

mod allocator;
mod rpc;
mod statistics;
mod stores;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: allocator::Counting = allocator::Counting;

#[derive(Parser)]
#[command(name = "punctual-benches", about = "Punctual beside its peers, on the same work, in one run")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compare RPC calls with a floor and with peers
    Rpc(rpc::Options),
    /// Write the RPC part of the results file from the JSON of runs
    Results(rpc::ResultsArguments),
    /// Compare what the stores do with plain SQL on the same tables
    Stores(stores::StoresPlan),
    /// One column's server (started by `rpc`)
    #[command(hide = true)]
    Server(rpc::ServerArguments),
    /// One column's client (started by `rpc`)
    #[command(hide = true)]
    Client(rpc::ClientArguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Rpc(options) => options.run(),
        Command::Results(arguments) => arguments.run(),
        Command::Stores(plan) => plan.run(),
        Command::Server(arguments) => arguments.run(),
        Command::Client(arguments) => arguments.run(),
    }
}
