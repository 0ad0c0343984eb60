//! The three stores beside plain SQL on the same tables and server: schedules materialised, tasks drained and enqueued.

mod arm;
mod bed;
mod mariadb;
mod postgres;
mod report;
mod sqlite;
mod work;

use anyhow::Context as _;
use arm::{Arm, Sample};
use bed::{Kind, Stand};
use clap::Args;
use std::path::PathBuf;

/// How much each arm does.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Slots or tasks of an arm that works in bulk.
    pub bulk: u32,
    /// Commits of an arm that works one by one.
    pub single: u32,
}

#[derive(Args)]
pub struct StoresPlan {
    /// Only these stores
    #[arg(long, value_delimiter = ',')]
    stores: Vec<Kind>,
    /// Only these arms
    #[arg(long, value_delimiter = ',')]
    arms: Vec<Arm>,
    /// Rounds; odd ones run the arms in reverse
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Slots or tasks of an arm that works in bulk
    #[arg(long, default_value_t = 50_000)]
    bulk: u32,
    /// Commits of an arm that works one by one
    #[arg(long, default_value_t = 1_000)]
    single: u32,
    /// Two short rounds: a look, not a measurement
    #[arg(long)]
    quick: bool,
    /// Where SQLite's files are made; the temporary folder otherwise
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Also write every sample as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write the tables as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

impl StoresPlan {
    pub fn run(mut self) -> anyhow::Result<()> {
        if self.quick {
            (self.rounds, self.bulk, self.single) = (2, 10_000, 300);
        }
        anyhow::ensure!(self.rounds > 0, "--rounds is at least 1");
        anyhow::ensure!(self.bulk >= 5_000 && self.single >= 100, "--bulk is at least 5000 and --single 100");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(self.measure())
    }

    async fn measure(&self) -> anyhow::Result<()> {
        let kinds = if self.stores.is_empty() { Kind::ALL.to_vec() } else { self.stores.clone() };
        let arms = if self.arms.is_empty() { Arm::ALL.to_vec() } else { self.arms.clone() };
        let sizes = Sizes { bulk: self.bulk, single: self.single };
        let folder = self.folder.clone().unwrap_or_else(std::env::temp_dir);
        let folder = tempfile::TempDir::new_in(folder)?;
        let mut heading = format!(
            "Windows of {}; bulk arms of {} slots or tasks, single ones of {} commits; {} rounds, odd ones in reverse order.",
            work::WINDOW,
            sizes.bulk,
            sizes.single,
            self.rounds
        );
        let mut samples = Vec::new();
        for kind in &kinds {
            let stand =
                Stand::new(*kind, folder.path()).await.with_context(|| format!("{} cannot be used", kind.name()))?;
            heading.push_str(&format!("\n{}: {}.", kind.name(), stand.durability));
            for round in 0..self.rounds {
                // The first arm of each pair stands at both ends too: its two samples of a round show the noise.
                let mut order: Vec<(Arm, bool)> = arms.iter().map(|arm| (*arm, false)).collect();
                order.extend(arms.iter().filter(|arm| arm.shows_noise()).map(|arm| (*arm, true)));
                if round % 2 == 1 {
                    order.reverse();
                }
                for (arm, again) in order {
                    let bed = stand.bed(&format!("a{}", samples.len())).await?;
                    if let Some(measured) = arm.run(&bed, sizes).await.with_context(|| arm.name().to_owned())? {
                        let sample = Sample { store: *kind, arm, again, round, measured };
                        eprintln!("  {} round {} {}: {:.0}/s", kind.name(), round + 1, arm.name(), sample.rate());
                        samples.push(sample);
                    }
                    bed.remove().await?;
                }
            }
        }
        let text = report::render(&heading, &kinds, &arms, &samples);
        println!("{text}");
        if let Some(file) = &self.json {
            let all = serde_json::json!({ "heading": heading, "samples": samples });
            std::fs::write(file, serde_json::to_string_pretty(&all)?)?;
        }
        if let Some(file) = &self.markdown {
            std::fs::write(file, format!("{text}\n"))?;
        }
        Ok(())
    }
}
