//! A named step of a chore, and how a list of them is run and told.
//!
//! A failed step does not stop the ones behind it: one run shows all that is wrong.

use anyhow::Result;

use crate::arguments::Arguments;
use crate::cargo::Cargo;

/// One step of a chore.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// What it looks at, in half a sentence for the help text.
    pub(crate) does: &'static str,
    pub(crate) run: fn(&Cargo, &Arguments) -> Result<Outcome>,
}

/// How a step ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// The command that ran has already said what is wrong.
    Failed,
    /// What a check of our own found, a line each; no lines mean that it passed.
    Found(Vec<String>),
    /// It could not be done here, and why. Never used for something that was tried and went wrong.
    Skipped(String),
}

/// The names of the steps that did not pass.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) failed: Vec<&'static str>,
    /// The name and the reason.
    pub(crate) skipped: Vec<(&'static str, String)>,
}

/// Runs the steps that are asked for, in order.
///
/// # Errors
/// Only what keeps the tool itself from going on, such as a workspace that cargo cannot read.
pub(crate) fn run(steps: &[Step], cargo: &Cargo, arguments: &Arguments) -> Result<Report> {
    let mut report = Report::default();
    for step in steps.iter().filter(|step| arguments.wants(step.name)) {
        eprintln!("==> {}", step.name);
        match (step.run)(cargo, arguments)? {
            Outcome::Passed => {}
            Outcome::Failed => report.failed.push(step.name),
            Outcome::Found(lines) if lines.is_empty() => {}
            Outcome::Found(lines) => {
                for line in &lines {
                    eprintln!("error: {line}");
                }
                report.failed.push(step.name);
            }
            Outcome::Skipped(why) => {
                eprintln!("skipped: {why}");
                report.skipped.push((step.name, why));
            }
        }
    }
    Ok(report)
}
