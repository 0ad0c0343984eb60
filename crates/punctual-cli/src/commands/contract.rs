//! `punctual contract`: two versions of contracts beside each other.

mod diff;
mod source;

pub(crate) use source::{BUILT_IN, load, save};

use crate::exit::Failure;
use crate::output::Output;
use crate::tls::TlsFlags;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum ContractCommand {
    /// Name what breaks between two versions of contracts, on the wire and in stored tasks, and what does not.
    Diff(diff::DiffArgs),
}

pub(crate) async fn run(command: ContractCommand, tls: &TlsFlags, output: &mut Output) -> Result<(), Failure> {
    match command {
        ContractCommand::Diff(args) => diff::run(args, tls, output).await,
    }
}
