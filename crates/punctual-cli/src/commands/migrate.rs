//! `punctual migrate`: the version of a database's tables.

use crate::exit::Failure;
use crate::output::Output;
use crate::target::{Target, TargetFlags, must_be_there};
use clap::Args;
use punctual::sqlite::{Migration, Migrator, SqliteConfig, migrations, schema_version};
use serde::Serialize;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual migrate --db app.db                               # create it, or bring it up to this build's version
  punctual migrate --db app.db --status
  punctual migrate --print > tables.sql
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

#[derive(Serialize)]
struct Step {
    version: u32,
    name: &'static str,
}

pub(crate) fn run(args: &MigrateArgs, target: TargetFlags, output: &mut Output) -> Result<(), Failure> {
    if args.print {
        return print(args.down, output);
    }
    if target.addr.is_some() {
        return Err(Failure::usage(
            "a daemon migrates by itself when it starts; name its database by --db while it is stopped",
        ));
    }
    let Target::Database(location) = target.resolve()? else {
        return Err(Failure::usage("which database? name it by --db PATH or PUNCTUAL_DB"));
    };
    if args.status || args.down.is_some() {
        must_be_there(&location)?;
    }
    let migrator = Migrator::open(&location, SqliteConfig::default())?;
    let (mut applied, mut undone) = (Vec::new(), Vec::new());
    match args.down {
        _ if args.status => {}
        Some(version) => undone = steps(&migrator.down(version)?),
        None => applied = steps(&migrator.up(None)?),
    }
    let versions =
        Versions { location: &location, version: migrator.version()?, wanted: schema_version(), applied, undone };
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

fn steps(migrations: &[&'static Migration]) -> Vec<Step> {
    migrations.iter().map(|migration| Step { version: migration.version, name: migration.name }).collect()
}

/// Prints the SQL of the way up, or of the way down to a version.
fn print(down: Option<u32>, output: &mut Output) -> Result<(), Failure> {
    if output.is_json() {
        return Err(Failure::usage("--print prints SQL; leave out --json"));
    }
    let known = migrations();
    match down {
        None => {
            for migration in known {
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
