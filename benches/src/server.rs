//! A column's server process. It says `ready` once it listens, and its allocation count for each line that it reads.

use crate::columns::Column;
use crate::{allocator, cpu};
use clap::Args;
use std::io::{BufRead, Write};
use std::path::PathBuf;

#[derive(Args)]
pub struct ServerArguments {
    #[arg(long)]
    pub column: Column,
    #[arg(long)]
    pub socket: PathBuf,
    #[arg(long)]
    pub core: usize,
    #[arg(long)]
    pub count_allocations: bool,
}

pub fn run(arguments: &ServerArguments) -> anyhow::Result<()> {
    cpu::pin(arguments.core);
    std::thread::spawn(answer);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if arguments.count_allocations {
        allocator::count();
    }
    runtime.block_on(arguments.column.serve(&arguments.socket, || say("ready")))
}

/// Ends with the parent: its end of the pipe closes.
fn answer() {
    for line in std::io::stdin().lock().lines() {
        if line.is_err() {
            break;
        }
        say(&allocator::calls().to_string());
    }
    std::process::exit(0);
}

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}");
    let _ = out.flush();
}
