//! Calls of every shape beside a floor and peers: two pinned processes a trial, alternating rounds, counts in runs of their own.

mod calls;
mod case;
mod certificate;
mod client;
mod column;
mod counters;
mod figures;
mod flavor;
mod floor;
mod goal;
mod load;
mod options;
mod order;
mod page;
mod plan;
mod process;
mod report;
mod results;
mod server;
mod service;
mod setting;
mod site;
mod syscalls;
mod table;
mod transport;
mod trial;
mod wire;

pub use client::ClientArguments;
pub use options::Options;
pub use results::ResultsArguments;
pub use server::ServerArguments;
