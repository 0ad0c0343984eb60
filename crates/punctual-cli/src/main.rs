//! The `punctual` binary: a daemon, and the command line that speaks to it.
//!
//! [`commands`] has one file for each group of commands; all of them but `serve`, `call`, `config`, `doctor` and `migrate` speak the admin
//! contract, over RPC to a daemon or to the implementation in [`admin`] that this process hosts on a database file.
//! [`daemon`] is what `serve` runs, with the durable services of [`services`] and, where it is told to, [`http`].

mod admin;
mod commands;
mod config;
mod daemon;
mod demo;
mod doctor;
mod exit;
mod http;
mod output;
mod services;
mod target;
mod text;
mod tls;

use clap::Parser;
use commands::Cli;
use exit::Failure;
use output::Output;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return commands::refuse(&error),
    };
    let json = cli.shared.json;
    let mut output = Output::stdout(json);
    // What was printed before a failure is still of use, so it goes out first.
    let result = cli.run(&mut output);
    let flushed = output.flush();
    match result.and(flushed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if output::is_reader_gone(&failure) => ExitCode::SUCCESS,
        Err(failure) => {
            tell(&failure, json);
            failure.exit_code()
        }
    }
}

fn tell(failure: &Failure, json: bool) {
    output::tell(&if json { failure.json() } else { failure.line() });
}
