//! The command line of `rpc`.

use crate::rpc::case::Case;
use crate::rpc::column::Column;
use crate::rpc::flavor::Flavor;
use crate::rpc::goal;
use crate::rpc::order;
use crate::rpc::page::{self, Form};
use crate::rpc::plan::Plan;
use crate::rpc::transport::Transport;
use clap::Args;
use std::path::PathBuf;

/// What is compared, and how long.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Only these columns; all that are built otherwise
    #[arg(long, value_delimiter = ',')]
    pub columns: Vec<Column>,
    /// Only these cases; all otherwise
    #[arg(long, value_delimiter = ',')]
    pub case: Vec<Case>,
    /// unix, tcp, tls, shm (Punctual alone, beside itself over a Unix socket) or inproc
    #[arg(long, default_value = "unix")]
    pub transport: Transport,
    /// Calls in flight, over all connections
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub conc: usize,
    /// Connections
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub conns: usize,
    /// The runtime of both sides
    #[arg(long, default_value = "current")]
    pub runtime: Flavor,
    /// Connections of the case idle
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub idle: usize,
    /// Rounds; every second one runs the columns the other way round
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Seconds measured in each trial
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// Seconds of warm-up before them
    #[arg(long, default_value_t = 1.0)]
    pub warm_up: f64,
    /// A look in less than a minute: four columns, eight cases, two short rounds, counts of Punctual only
    #[arg(long, conflicts_with_all = ["rounds", "seconds", "warm_up"])]
    pub quick: bool,
    /// Also write everything that was measured, and how it stands to the goals
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl Options {
    pub fn run(&self) -> anyhow::Result<()> {
        let plan = Plan::new(self)?;
        let report = order::measure(&plan)?;
        println!("{}", page::render(&report, Form::Terminal));
        if let Some(file) = &self.json {
            let mut all = serde_json::to_value(&report)?;
            all["goals"] = serde_json::to_value(goal::judge(&report))?;
            std::fs::write(file, serde_json::to_string_pretty(&all)?)?;
        }
        Ok(())
    }
}
