//! The runtime of a side.

use crate::rpc::process;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::future::Future;
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

/// Which of tokio's runtimes both sides run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavor {
    /// One thread a side
    Current,
    /// tokio's multi-thread runtime, with a worker for each core of the side
    Multi,
}

impl Flavor {
    pub fn name(self) -> &'static str {
        match self {
            Flavor::Current => "current",
            Flavor::Multi => "multi",
        }
    }

    /// Binds this thread to the cores and runs `future` there to its end.
    pub fn run<F>(self, cores: &[usize], local: bool, future: F) -> anyhow::Result<()>
    where
        F: Future<Output = anyhow::Result<()>>,
    {
        // Where the kernel refuses, the trial goes on unpinned: the parent has printed which cores it asked for.
        process::pin(cores);
        let runtime = self.build(cores.len())?;
        if local { LocalSet::new().block_on(&runtime, future) } else { runtime.block_on(future) }
    }

    fn build(self, workers: usize) -> std::io::Result<Runtime> {
        let mut builder = match self {
            Flavor::Current => Builder::new_current_thread(),
            Flavor::Multi => Builder::new_multi_thread(),
        };
        if self == Flavor::Multi {
            builder.worker_threads(workers.max(1));
            // What the server's threads are called is what its time is counted by.
            let own = std::thread::current();
            builder.thread_name(own.name().unwrap_or("bench-client").to_owned());
        }
        builder.enable_all().build()
    }
}
