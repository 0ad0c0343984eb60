//! What the demo shows: progress bars on a terminal, and the table at the end.

use crate::demo::proof::Proof;
use crate::exit::Failure;
use crate::output::Output;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::collections::BTreeMap;

/// Everything that was measured and proved.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) calls: Vec<CallLine>,
    pub(crate) tasks: TaskLine,
    pub(crate) schedules: Vec<ScheduleLine>,
    pub(crate) proof: Proof,
}

/// Calls of one shape over one transport.
#[derive(Debug, Serialize)]
pub(crate) struct CallLine {
    pub(crate) shape: String,
    pub(crate) transport: String,
    pub(crate) calls: u64,
    pub(crate) seconds: f64,
    /// Absent for one-way calls, which nobody answers.
    pub(crate) p50_us: Option<f64>,
    /// As [`CallLine::p50_us`].
    pub(crate) p99_us: Option<f64>,
}

/// The durable tasks.
#[derive(Debug, Serialize)]
pub(crate) struct TaskLine {
    pub(crate) tasks: usize,
    pub(crate) enqueue_seconds: f64,
    pub(crate) run_seconds: f64,
}

/// The schedules of one missed policy.
#[derive(Debug, Serialize)]
pub(crate) struct ScheduleLine {
    pub(crate) policy: String,
    pub(crate) schedules: u32,
    pub(crate) due: u64,
    pub(crate) created: u64,
    /// Slots recorded as not run, by reason.
    pub(crate) lost: BTreeMap<String, u64>,
}

impl ScheduleLine {
    pub(crate) fn new(policy: &str) -> Self {
        ScheduleLine { policy: policy.to_owned(), schedules: 0, due: 0, created: 0, lost: BTreeMap::new() }
    }
}

/// A bar on standard error; nothing where that is not a terminal.
pub(crate) fn bar(length: u64, what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:32} {wide_bar} {percent:>3} %");
    let bar = ProgressBar::new(length).with_message(what.to_owned());
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}

fn rate(count: u64, seconds: f64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "counts of a demo are far below 2^52")]
    let rate = count as f64 / seconds.max(1e-9);
    format!("{rate:.0}/s")
}

impl Report {
    pub(crate) fn print(&self, output: &mut Output) -> Result<(), Failure> {
        if output.is_json() {
            return output.json(self);
        }
        output.line("calls, 64 in flight on one connection, both sides in this process")?;
        for line in &self.calls {
            let micros = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0} us"));
            output.line(format!(
                "  {:10} over {:4}  {:>12}   p50 {:>7}   p99 {:>7}   {} calls",
                line.shape,
                line.transport,
                rate(line.calls, line.seconds),
                micros(line.p50_us),
                micros(line.p99_us),
                line.calls,
            ))?;
        }
        let count = u64::try_from(self.tasks.tasks).unwrap_or(u64::MAX);
        output.line("durable tasks in SQLite, every commit on disk")?;
        output.line(format!("  enqueued   {:>12}   {count} tasks", rate(count, self.tasks.enqueue_seconds)))?;
        output.line(format!("  done       {:>12}   {count} tasks", rate(count, self.tasks.run_seconds)))?;
        output.line("schedules every 100 ms, their worker killed with SIGKILL and started again after a pause")?;
        for line in &self.schedules {
            let lost = if line.lost.is_empty() { "none".to_owned() } else { reasons(&line.lost) };
            output.line(format!(
                "  missed: {:8} {:>3} schedules   due {:>6}   created {:>6}   not run: {lost}",
                line.policy, line.schedules, line.due, line.created
            ))?;
        }
        let proof = &self.proof;
        output.line("proof from the handlers' own ledger")?;
        output.line(format!("  executions                 {:>8}", proof.executions))?;
        output.line(format!("  tasks lost                 {:>8}", proof.tasks_lost))?;
        output.line(format!("  slots lost                 {:>8}", proof.slots_lost))?;
        output.line(format!("  slots undecided            {:>8}", proof.slots_undecided))?;
        output.line(format!("  slots that ran twice       {:>8}", proof.slots_doubled))?;
        output.line(format!(
            "  attempts cut by the kill   {:>8}   (begun, killed before the record, run again)",
            proof.reruns_after_the_kill
        ))?;
        output.line(if proof.failures.is_empty() { "  proved" } else { "  NOT PROVED" })
    }
}

fn reasons(lost: &BTreeMap<String, u64>) -> String {
    lost.iter().map(|(reason, count)| format!("{count} ({reason})")).collect::<Vec<_>>().join(", ")
}
