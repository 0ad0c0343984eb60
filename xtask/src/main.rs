//! The chores of the workspace: `cargo xtask test` is the test command, `cargo xtask check` the quick one, `cargo xtask
//! databases` has private database servers ready, and `cargo xtask fuzz` looks for inputs that break a promise.
//!
//! This file only reads the command line and turns the outcome into an exit code: 0 when all is well, 1 when a step
//! failed, 2 when the command line was wrong. What a chore consists of is listed in `test` and `check`.

mod arguments;
mod cargo;
mod check;
mod databases;
mod deny;
mod files;
mod fuzz;
mod graph;
mod layout;
mod licence;
mod purity;
mod rust_source;
mod sql;
mod step;
mod tally;
mod target_dir;
mod test;
mod toolchain;
mod workspace;

use std::process::ExitCode;

use arguments::{Arguments, Chore};
use cargo::Cargo;

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(refused) => {
            eprintln!("error: {refused}");
            return ExitCode::from(2);
        }
    };
    let outcome = match arguments.chore {
        Chore::Help => {
            print!("{}", arguments::help());
            return ExitCode::SUCCESS;
        }
        Chore::Databases => databases::run(&arguments),
        Chore::Fuzz => Cargo::prepare().and_then(|cargo| fuzz::run(&cargo, &arguments)),
        Chore::Check => Cargo::prepare().and_then(|cargo| check::run(&cargo, &arguments)),
        Chore::Test => Cargo::prepare().and_then(|cargo| test::run(&cargo, &arguments)),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
