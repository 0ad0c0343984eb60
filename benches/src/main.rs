//! Punctual beside its peers: the same work, in one run, alternating, with the noise of a column against itself.
//!
//! `cargo run --release -- rpc` compares calls, `-- stores` what the stores do; `--help` lists the options. Server and client of
//! each column of `rpc` are this same program in two more processes, pinned to a core each.

mod allocator;
mod case;
mod client;
mod columns;
mod cpu;
mod load;
mod plan;
mod sample;
mod server;
mod stores;
mod syscalls;
mod table;
mod trial;

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
    /// Compare RPC calls over a Unix socket
    Rpc(plan::RpcPlan),
    /// Compare what the stores do with plain SQL on the same tables
    Stores(stores::StoresPlan),
    /// One column's server (started by `rpc`)
    #[command(hide = true)]
    Server(server::ServerArguments),
    /// One column's client (started by `rpc`)
    #[command(hide = true)]
    Client(client::ClientArguments),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Rpc(plan) => plan.run(),
        Command::Stores(plan) => plan.run(),
        Command::Server(arguments) => server::run(&arguments),
        Command::Client(arguments) => client::run(&arguments),
    }
}
