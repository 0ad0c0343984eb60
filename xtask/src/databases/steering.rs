//! Servers that a test has all to itself, steered by lines: it kills them, stops them and starts them again.
//!
//! `kill`, `stop` and `start` are done to each server that was started; the answer is `done`, or `error:` and why. All ends with
//! the input.

use std::io::{BufRead, Write};

use anyhow::{Context, Result};

use super::Databases;
use super::server::Server;

/// Does what the lines of the input say until it closes.
///
/// # Errors
/// When there is nothing to steer, or nobody to answer.
pub(super) fn run(databases: &mut Databases) -> Result<()> {
    anyhow::ensure!(
        !databases.servers.is_empty(),
        "the environment names the servers already: they are not ours to end"
    );
    let mut out = std::io::stdout();
    // The variables have been shown.
    writeln!(out, "ready").and_then(|()| out.flush()).context("nobody listens")?;
    for line in std::io::stdin().lock().lines() {
        let answer = match obey(databases, line.context("the input cannot be read")?.trim()) {
            Ok(()) => "done".to_owned(),
            Err(error) => format!("error: {error:#}").replace('\n', " "),
        };
        writeln!(out, "{answer}").and_then(|()| out.flush()).context("nobody listens")?;
    }
    Ok(())
}

fn obey(databases: &mut Databases, word: &str) -> Result<()> {
    match word {
        "kill" => databases.each(Server::kill),
        "stop" => databases.each(Server::stop),
        "start" => databases.each(Server::start_again),
        other => anyhow::bail!("\"{other}\" is none of kill, stop, start"),
    }
}
