//! The order of a run: every column in turn, then the other way round, with one column against itself.

use crate::case::Case;
use crate::columns::Column;
use crate::sample::{Counts, Sample};
use crate::table;
use crate::trial::Bench;
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub struct RpcPlan {
    /// Only these columns
    #[arg(long, value_delimiter = ',')]
    columns: Vec<Column>,
    /// Only these cases
    #[arg(long, value_delimiter = ',')]
    cases: Vec<Case>,
    /// Calls in flight on the one connection
    #[arg(long, default_value_t = 64)]
    in_flight: usize,
    /// Rounds; odd ones run the columns in reverse
    #[arg(long, default_value_t = 4)]
    rounds: usize,
    /// Seconds measured in each trial
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Seconds of warm-up before them
    #[arg(long, default_value_t = 1.0)]
    warm_up: f64,
    /// Two short rounds: a look, not a measurement
    #[arg(long)]
    quick: bool,
    /// Also write every sample as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write the tables as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

impl RpcPlan {
    pub fn run(mut self) -> anyhow::Result<()> {
        if self.quick {
            (self.rounds, self.seconds, self.warm_up) = (2, 1.0, 0.5);
        }
        anyhow::ensure!(self.in_flight > 0 && self.rounds > 0, "--in-flight and --rounds are at least 1");
        anyhow::ensure!(
            self.seconds > 0.0 && self.warm_up >= 0.0,
            "--seconds is above 0 and --warm-up is not below it"
        );
        let columns = if self.columns.is_empty() { Column::ALL.to_vec() } else { self.columns.clone() };
        let cases = if self.cases.is_empty() { Case::ALL.to_vec() } else { self.cases.clone() };
        let folder = tempfile::tempdir()?;
        let cores = std::thread::available_parallelism()?.get();
        let bench = Bench {
            program: std::env::current_exe()?,
            folder: folder.path().to_owned(),
            warm_up: self.warm_up,
            seconds: self.seconds,
            in_flight: self.in_flight,
            client_core: 0,
            server_core: usize::from(cores > 1),
        };
        let mut heading = format!(
            "Unix socket, one connection, {} in flight, one thread a side; client on core {}, server on core {}; warm-up {} s, \
             measured {} s, {} rounds, odd ones in reverse order.",
            self.in_flight, bench.client_core, bench.server_core, self.warm_up, self.seconds, self.rounds
        );
        if cores < 2 {
            heading.push_str(" Only one core: both sides share it.");
        }
        eprintln!("{heading}");
        let (samples, counts) = measure(&bench, &columns, &cases, self.rounds)?;
        let text = table::render(&heading, &columns, &cases, &samples, &counts);
        println!("{text}");
        if let Some(file) = &self.json {
            let all = serde_json::json!({ "heading": heading, "samples": samples, "counts": counts });
            std::fs::write(file, serde_json::to_string_pretty(&all)?)?;
        }
        if let Some(file) = &self.markdown {
            std::fs::write(file, format!("{text}\n"))?;
        }
        Ok(())
    }
}

fn measure(
    bench: &Bench,
    columns: &[Column],
    cases: &[Case],
    rounds: usize,
) -> anyhow::Result<(Vec<Sample>, Vec<Counts>)> {
    let (mut samples, mut counts) = (Vec::new(), Vec::new());
    for case in cases {
        for round in 0..rounds {
            // The first column stands at both ends: its two trials of a round, far apart, show the noise.
            let mut order: Vec<(Column, bool)> = columns.iter().map(|column| (*column, false)).collect();
            order.extend(columns.first().map(|column| (*column, true)));
            if round % 2 == 1 {
                order.reverse();
            }
            for (column, again) in order {
                let sample = bench.timed(column, again, *case, round)?;
                eprintln!("  {} round {} {}: {:.0}/s", case.name(), round + 1, column.name(), sample.rate());
                samples.push(sample);
            }
        }
        for column in columns {
            counts.push(bench.counts(*column, *case)?);
        }
    }
    Ok((samples, counts))
}
