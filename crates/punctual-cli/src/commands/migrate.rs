//! `punctual migrate`: the version of a database's tables.

mod tables;

use crate::exit::Failure;
use crate::output::Output;
use crate::target::{Target, TargetFlags, must_be_there, shown};
use clap::Args;
use serde::Serialize;
use tables::{Step, Tables, scripts};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual migrate --db app.db                               # create it, or bring it up to this build's version
  punctual migrate --db app.db --status
  punctual migrate --print > tables.sql
  punctual migrate --db postgres://anna@db.example.org/app   # another user than the service's may own the tables
  punctual migrate --db app.db --down 0                      # removes the tables with all that they hold

`punctual serve` migrates by itself unless its configuration says otherwise. Going down is refused while a worker is alive.")]
pub(crate) struct MigrateArgs {
    /// Only say which version the tables have.
    #[arg(long, conflicts_with_all = ["print", "down"])]
    status: bool,
    /// Print the SQL and change nothing; with --down the SQL of the way down.
    #[arg(long)]
    print: bool,
    /// Take the tables down to this version, with all that newer ones hold.
    #[arg(long, value_name = "VERSION")]
    down: Option<u32>,
}

#[derive(Serialize)]
struct Versions<'a> {
    location: &'a str,
    version: u32,
    /// This build's.
    wanted: u32,
    applied: Vec<Step>,
    undone: Vec<Step>,
}

pub(crate) fn run(args: &MigrateArgs, target: TargetFlags, output: &mut Output) -> Result<(), Failure> {
    if args.print {
        let location = match target.resolve()? {
            Target::Database(location) => Some(location),
            Target::Daemon(_) => None,
        };
        return print(location.as_deref(), args.down, output);
    }
    if target.addr.is_some() {
        return Err(Failure::usage(
            "a daemon migrates by itself when it starts; name its database by --db while it is stopped",
        ));
    }
    let Target::Database(location) = target.resolve()? else {
        return Err(Failure::usage("which database? name it by --db PATH, --db postgres://.. or PUNCTUAL_DB"));
    };
    if args.status || args.down.is_some() {
        must_be_there(&location)?;
    }
    let mut tables = Tables::open(&location)?;
    let wanted = scripts(Some(&location)).last().map_or(0, |script| script.version);
    // From here on only for people, who need no password.
    let location = shown(&location);
    let (mut applied, mut undone) = (Vec::new(), Vec::new());
    match args.down {
        _ if args.status => {}
        Some(version) => undone = tables.down(version)?,
        None => applied = tables.up()?,
    }
    let versions = Versions { location: &location, version: tables.version()?, wanted, applied, undone };
    if output.is_json() {
        return output.json(&versions);
    }
    for step in &versions.applied {
        output.line(format!("applied {} {}", step.version, step.name))?;
    }
    for step in &versions.undone {
        output.line(format!("undone {} {}", step.version, step.name))?;
    }
    let note = if versions.version == versions.wanted {
        "this build's version".to_owned()
    } else {
        format!("this build works with version {}; run `punctual migrate --db {location}`", versions.wanted)
    };
    output.line(format!("{location} has tables of version {} ({note})", versions.version))
}

/// Prints the SQL of the way up, or of the way down to a version.
fn print(location: Option<&str>, down: Option<u32>, output: &mut Output) -> Result<(), Failure> {
    if output.is_json() {
        return Err(Failure::usage("--print prints SQL; leave out --json"));
    }
    let known = scripts(location);
    match down {
        None => {
            for migration in &known {
                output.line(format!("-- {} {}, up", migration.version, migration.name))?;
                output.line(migration.up.trim_end())?;
            }
        }
        Some(to) => {
            for migration in known.iter().rev().filter(|migration| migration.version > to) {
                output.line(format!("-- {} {}, down", migration.version, migration.name))?;
                output.line(migration.down.trim_end())?;
            }
        }
    }
    Ok(())
}
