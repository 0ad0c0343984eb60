//! The quick check: what can be said about the workspace without running its tests.
//!
//! The checks of our own come first: they take a second, and a wrong edge in the graph is cheaper to hear of before clippy
//! has compiled it.

use anyhow::Result;

use crate::arguments::Arguments;
use crate::cargo::Cargo;
use crate::step::{self, Outcome, Step};
use crate::{deny, files, graph, layout, purity, sql, toolchain, workspace};

/// The steps in their order.
pub(crate) const STEPS: &[Step] = &[
    Step { name: "graph", does: "our crates depend on each other one way", run: check_graph },
    Step {
        name: "purity",
        does: "proto and task name no runtime and no I/O; unsafe stays forbidden",
        run: check_purity,
    },
    Step { name: "deny", does: "licences, version floors, bans and sources of deny.toml", run: check_deny },
    Step { name: "sql", does: "no SQL is put together with format!", run: check_sql },
    Step { name: "layout", does: "file names and heads, leftovers, paths of someone's machine", run: check_layout },
    Step { name: "format", does: "cargo fmt --check", run: format },
    Step { name: "clippy", does: "clippy over all targets, warnings refused", run: clippy },
    Step { name: "docs", does: "rustdoc, warnings refused", run: docs },
];

/// Runs the check by itself; true when all of it passed. Here a tool that is missing is a failure.
pub(crate) fn run(cargo: &Cargo, arguments: &Arguments) -> Result<bool> {
    toolchain::want_compiler()?;
    let report = step::run(STEPS, cargo, arguments)?;
    for (name, why) in &report.skipped {
        println!("{name} was not done: {why}");
    }
    let missing = report.failed.iter().copied().chain(report.skipped.iter().map(|(name, _)| *name));
    let missing: Vec<&str> = missing.collect();
    if missing.is_empty() {
        println!("check: passed");
        return Ok(true);
    }
    println!("check: failed in {}", missing.join(", "));
    Ok(false)
}

fn check_graph(cargo: &Cargo, _: &Arguments) -> Result<Outcome> {
    let members = workspace::members(cargo)?;
    Ok(Outcome::Found(graph::findings(&members)))
}

fn check_purity(cargo: &Cargo, _: &Arguments) -> Result<Outcome> {
    let members = workspace::members(cargo)?;
    let files = files::rust_sources(&cargo.root)?;
    let mut found = purity::findings(&members, &files);
    found.extend(purity::unsafe_findings(&cargo.root, &members)?);
    Ok(Outcome::Found(found))
}

fn check_deny(cargo: &Cargo, _: &Arguments) -> Result<Outcome> {
    let policy = deny::Policy::read(&cargo.root.join("deny.toml"))?;
    let packages = workspace::packages(cargo)?;
    for line in deny::duplicates(&packages) {
        eprintln!("note: {line}");
    }
    Ok(Outcome::Found(policy.findings(&packages)))
}

fn check_sql(cargo: &Cargo, _: &Arguments) -> Result<Outcome> {
    Ok(Outcome::Found(sql::findings(&files::rust_sources(&cargo.root)?)))
}

fn check_layout(cargo: &Cargo, _: &Arguments) -> Result<Outcome> {
    let texts = files::texts(&cargo.root)?;
    for line in layout::long_files(&texts) {
        eprintln!("note: {line}");
    }
    Ok(Outcome::Found(layout::findings(&texts)))
}

fn format(cargo: &Cargo, _: &Arguments) -> Result<Outcome> {
    if let Some(why) = toolchain::missing_component(cargo, "fmt", "rustfmt") {
        return Ok(Outcome::Skipped(why));
    }
    cargo.run(&["fmt", "--all", "--check"])
}

fn clippy(cargo: &Cargo, _: &Arguments) -> Result<Outcome> {
    if let Some(why) = toolchain::missing_component(cargo, "clippy", "clippy") {
        return Ok(Outcome::Skipped(why));
    }
    cargo.run(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
}

fn docs(cargo: &Cargo, _: &Arguments) -> Result<Outcome> {
    let mut command = cargo.command(&["doc", "--workspace", "--no-deps", "--locked"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    cargo.finish(command)
}
