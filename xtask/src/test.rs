//! The test command: everything that a fresh clone needs to show that it works, with Rust and a C compiler alone.
//!
//! The main run comes last, so that the runner's own summary is what ends the output. The database servers that it needs are
//! started for it, and handed on by the environment.

use std::process::Command;

use anyhow::Result;

use crate::arguments::{Arguments, Chore};
use crate::cargo::Cargo;
use crate::databases::{Databases, Durability};
use crate::step::{self, Outcome, Report, Step};
use crate::tally::Tally;
use crate::{check, toolchain};

/// The steps in their order.
pub(crate) const STEPS: &[Step] = &[
    Step { name: "check", does: "the quick check, whole", run: quick_check },
    Step { name: "benches", does: "the benches compile", run: benches },
    Step { name: "doctests", does: "the examples in the documentation", run: doctests },
    Step { name: "tests", does: "every test, by nextest where it is installed, else by cargo test", run: tests },
];

/// The manifest of the benches, which are a workspace of their own.
pub(crate) const BENCHES: &str = "benches/Cargo.toml";

/// Runs the test command; true when all of it passed.
pub(crate) fn run(cargo: &Cargo, arguments: &Arguments) -> Result<bool> {
    toolchain::want_compiler()?;
    let report = step::run(STEPS, cargo, arguments)?;
    close(&report);
    Ok(report.failed.is_empty())
}

/// Says what the runner's summary cannot know. Nothing when all went well: then the summary is the last word.
fn close(report: &Report) {
    let before: Vec<&str> = report.failed.iter().copied().filter(|name| *name != "tests").collect();
    if !before.is_empty() {
        println!("error: failed before the tests: {}; scroll up to \"==>\"", before.join(", "));
    }
    for (name, why) in &report.skipped {
        println!("{name} was not done: {why}");
    }
}

/// The quick check as one step. A tool that this machine lacks is told, but does not fail the tests: the quick check by
/// itself does fail then.
fn quick_check(cargo: &Cargo, _: &Arguments) -> Result<Outcome> {
    let all = Arguments {
        chore: Chore::Check,
        only: Vec::new(),
        skip: Vec::new(),
        durable: false,
        steered: false,
        rest: Vec::new(),
    };
    let report = step::run(check::STEPS, cargo, &all)?;
    if !report.failed.is_empty() {
        return Ok(Outcome::Found(vec![format!("the quick check failed in {}", report.failed.join(", "))]));
    }
    if report.skipped.is_empty() {
        return Ok(Outcome::Passed);
    }
    let left: Vec<String> = report.skipped.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    Ok(Outcome::Skipped(left.join("; ")))
}

/// The benches are apart since the peers they measure are heavy. They share the target directory, so what both need is
/// compiled once, as far as their profiles agree.
fn benches(cargo: &Cargo, _: &Arguments) -> Result<Outcome> {
    if !cargo.root.join(BENCHES).is_file() {
        return Ok(Outcome::Passed);
    }
    cargo.run(&["check", "--manifest-path", BENCHES, "--workspace", "--all-targets", "--locked"])
}

fn doctests(cargo: &Cargo, _: &Arguments) -> Result<Outcome> {
    cargo.run(&["test", "--workspace", "--doc", "--locked"])
}

/// Servers that cannot be had fail the step, but not before the tests that do without have run.
fn tests(cargo: &Cargo, arguments: &Arguments) -> Result<Outcome> {
    let databases = Databases::start(Durability::Unsynced);
    let variables = match &databases {
        Ok(databases) => databases.variables(),
        Err(error) => {
            eprintln!("error: {error:#}");
            &[]
        }
    };
    let outcome = run_tests(cargo, arguments, variables)?;
    Ok(if databases.is_ok() { outcome } else { Outcome::Failed })
}

fn run_tests(cargo: &Cargo, arguments: &Arguments, variables: &[(&'static str, String)]) -> Result<Outcome> {
    let with_variables = |mut command: Command| {
        command.envs(variables.iter().cloned()).args(&arguments.rest);
        command
    };
    if toolchain::has_nextest(cargo) {
        let command = cargo.command(&["nextest", "run", "--workspace", "--locked", "--no-fail-fast"]);
        return cargo.finish_on_stdout(with_variables(command));
    }
    // Named targets keep the doctests out, which have had their own step.
    let command = cargo.command(&["test", "--workspace", "--locked", "--no-fail-fast", "--lib", "--bins", "--tests"]);
    let mut tally = Tally::default();
    // What follows `--` is the runner's own: for `cargo test` a filter and its options, as with nextest.
    let outcome = cargo.finish_by_line(with_variables(command), |line| tally.take(line))?;
    println!("{tally}");
    Ok(outcome)
}
