//! A column's server process. It says its address once it listens, and its counters for each line that it reads.

use crate::allocator;
use crate::rpc::column::Column;
use crate::rpc::counters::{Counters, say};
use crate::rpc::flavor::Flavor;
use crate::rpc::process;
use crate::rpc::site::Site;
use clap::Args;
use std::io::BufRead;

#[derive(Debug, Clone, Args)]
pub struct ServerArguments {
    #[arg(long)]
    pub column: Column,
    #[command(flatten)]
    pub site: Site,
    #[arg(long, value_delimiter = ',')]
    pub cores: Vec<usize>,
    #[arg(long)]
    pub runtime: Flavor,
    #[arg(long)]
    pub count_allocations: bool,
}

impl ServerArguments {
    pub fn run(self) -> anyhow::Result<()> {
        process::raise_descriptors()?;
        std::thread::spawn(answer);
        // The threads that serve have their name in the one process of the in-process transport, and so here, too.
        let server = std::thread::Builder::new().name(process::SERVER_THREAD.to_owned());
        server
            .spawn(move || self.serve(|address| drop(say(&address))))?
            .join()
            .expect("a server's panic ends its process")
    }

    /// Serves on this thread.
    pub fn serve(&self, ready: impl FnOnce(&str)) -> anyhow::Result<()> {
        if self.count_allocations {
            allocator::count();
        }
        self.runtime.run(&self.cores, self.column.is_local(), self.column.serve(&self.site, ready))
    }
}

/// Ends with the parent: its end of the pipe closes.
fn answer() {
    for line in std::io::stdin().lock().lines() {
        if line.is_err() || say(&Counters::of_this_process()).is_err() {
            break;
        }
    }
    std::process::exit(0);
}
