//! The fuzz targets, one after the other: each looks for an input that breaks a promise, for a minute or as long as it is told.
//!
//! They are built by the toolchain of everything else, with AddressSanitizer and the coverage that libFuzzer steers by, which
//! stable Rust has behind a variable. libFuzzer itself is C++, so this wants g++ besides.

use std::process::Command;

use anyhow::{Context, Result};

use crate::arguments::Arguments;
use crate::cargo::Cargo;
use crate::step::Outcome;

/// The targets and what each is given.
pub(crate) const TARGETS: &[(&str, &str)] = &[
    ("frames", "frames that no honest peer sends"),
    ("operations", "calls with streams, their items and ends in any order"),
    ("handshake", "the first words of either side"),
    ("codecs", "values in each codec, descriptions, metadata, statuses"),
    ("patterns", "cron patterns and crontabs"),
];

const MANIFEST: &str = "fuzz/Cargo.toml";

/// The time of one target where none is said.
const SECONDS: &str = "-max_total_time=60";

/// What the targets may hold: their inputs are small, and each promises to be bounded.
const MEMORY: &str = "-rss_limit_mb=1024";

/// The coverage that libFuzzer reads, as its documentation lists it, and the sanitizer.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address -Ccodegen-units=1";

/// Refuses a target that there is not.
///
/// # Errors
/// One line that names those that there are.
pub(crate) fn known(name: &str) -> Result<(), String> {
    if TARGETS.iter().any(|(target, _)| *target == name) {
        return Ok(());
    }
    let names: Vec<&str> = TARGETS.iter().map(|(target, _)| *target).collect();
    Err(format!("there is no target \"{name}\"; there are: {}", names.join(", ")))
}

/// Runs the wanted targets; true when none found anything.
pub(crate) fn run(cargo: &Cargo, arguments: &Arguments) -> Result<bool> {
    let triple = host(cargo)?;
    let mut clean = true;
    for (target, does) in TARGETS.iter().filter(|(target, _)| arguments.wants(target)) {
        println!("==> {target}: {does}");
        // What it finds interesting is kept for the next run, and what breaks a promise is kept to be looked at.
        let corpus = cargo.root.join("fuzz/target/corpus").join(target);
        std::fs::create_dir_all(&corpus).with_context(|| format!("cannot make {}", corpus.display()))?;
        let mut command =
            cargo.command(&["run", "--manifest-path", MANIFEST, "--release", "--locked", "--bin", target]);
        command.args(["--target", &triple, "--"]).arg(&corpus).args([SECONDS, MEMORY]);
        command.arg(format!("-artifact_prefix={}/", cargo.root.join("fuzz/target").display()));
        // The last word on an option counts.
        command.args(&arguments.rest);
        command.env("RUSTFLAGS", FLAGS).env("RUSTC_BOOTSTRAP", "1");
        clean &= matches!(cargo.finish(command)?, Outcome::Passed);
    }
    Ok(clean)
}

/// The host's triple: with it named, build scripts and macros are built without the instruments.
fn host(cargo: &Cargo) -> Result<String> {
    let mut rustc = Command::new("rustc");
    rustc.arg("-vV").current_dir(&cargo.root);
    let output = rustc.output().context("rustc did not start")?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let triple = told.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    Ok(triple.to_owned())
}
