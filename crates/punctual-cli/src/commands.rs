//! The command line: one file for each group of commands.

mod arguments;
mod call;
mod config;
mod contract;
mod describe;
mod doctor;
mod health;
mod info;
mod migrate;
mod queues;
mod schedules;
mod serve;
mod tasks;
mod token;
mod workers;

use crate::demo::{self, DemoArgs, WorkerArgs};
use crate::exit::{EXIT_CODES, Exit, Failure};
use crate::output::{self, Output};
use crate::target::TargetFlags;
use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};
use std::process::ExitCode;

/// Typed service calls that happen on time: now with a deadline, or later on a schedule, without losing one.
#[derive(Debug, Parser)]
#[command(name = "punctual", version, max_term_width = 100, after_help = AFTER_HELP.as_str())]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) shared: Shared,
    #[command(subcommand)]
    command: Command,
}

static AFTER_HELP: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
    format!(
        "\
Examples:
  punctual serve --db app.db                                 # run a daemon
  punctual tasks enqueue Http/request '{{\"url\":\"https://example.org/\"}}'
  punctual schedules add nightly --cron '0 3 * * *' --zone Europe/Rome Http/request '{{\"url\":\"https://example.org/\"}}'
  punctual schedules import /etc/crontab --dry-run           # what would become of a crontab
  punctual tasks list --state failed --db app.db             # without a daemon, from the file itself

{EXIT_CODES}"
    )
});

/// Flags of every command.
#[derive(Debug, Args)]
pub(crate) struct Shared {
    /// Print one JSON document, and errors as JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: TargetFlags,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// See it work: calls, tasks, and a schedule whose worker is killed, with the proof that nothing was lost.
    Demo(DemoArgs),
    /// The demo's worker process.
    #[command(hide = true)]
    DemoWorker(WorkerArgs),
    /// Run the daemon: tasks, schedules and an RPC server.
    Serve(serve::ServeArgs),
    /// Call a method of any Punctual server.
    Call(call::CallArgs),
    /// Show the services of a Punctual server and their methods.
    Describe(describe::DescribeArgs),
    /// Compare two versions of contracts.
    #[command(subcommand)]
    Contract(contract::ContractCommand),
    /// Look for what is wrong around a daemon, and say what to do about it.
    Doctor(doctor::DoctorArgs),
    /// Ask whether a Punctual server, or one service of it, takes calls.
    Health(health::HealthArgs),
    /// Look at the daemon's settings, and check a file of them.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Show what answers, and where it keeps its state.
    #[command(after_help = info::EXAMPLES)]
    Info,
    /// Look at tasks, store, cancel and retry them.
    #[command(subcommand)]
    Tasks(tasks::TasksCommand),
    /// Look at schedules, add, preview, pause, resume and trigger them, import crontabs.
    #[command(subcommand)]
    Schedules(schedules::SchedulesCommand),
    /// Look at queues, pause and resume them.
    #[command(subcommand)]
    Queues(queues::QueuesCommand),
    /// Look at workers.
    #[command(subcommand)]
    Workers(workers::WorkersCommand),
    /// Make tokens for HTTP.
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// Create a database or bring its tables to this build's version.
    Migrate(migrate::MigrateArgs),
}

impl Cli {
    /// Does it.
    pub(crate) fn run(self, output: &mut Output) -> Result<(), Failure> {
        let target = self.shared.target;
        match self.command {
            Command::Demo(args) => demo::run(&args, output),
            Command::DemoWorker(args) => demo::work(&args),
            Command::Serve(args) => serve::run(args, target, output),
            Command::Migrate(args) => migrate::run(&args, target, output),
            Command::Config(command) => config::run(command, target, output),
            Command::Token(command) => token::run(&command, output),
            other => {
                // One thread is enough to wait for one answer.
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .map_err(|error| Failure::failed(format!("cannot start the runtime: {error}")))?;
                runtime.block_on(other.ask(target, output))
            }
        }
    }
}

impl Command {
    async fn ask(self, target: TargetFlags, output: &mut Output) -> Result<(), Failure> {
        match self {
            Command::Call(args) => call::run(args, &target.tls, output).await,
            Command::Describe(args) => describe::run(args, &target.tls, output).await,
            Command::Contract(command) => contract::run(command, &target.tls, output).await,
            Command::Doctor(args) => doctor::run(args, target, output).await,
            Command::Health(args) => health::run(args, &target.tls, output).await,
            Command::Info => info::run(target, output).await,
            Command::Tasks(command) => tasks::run(command, target, output).await,
            Command::Schedules(command) => schedules::run(command, target, output).await,
            Command::Queues(command) => queues::run(command, target, output).await,
            Command::Workers(command) => workers::run(command, target, output).await,
            // These run without the small runtime, and were taken out before.
            Command::Demo(_)
            | Command::DemoWorker(_)
            | Command::Serve(_)
            | Command::Migrate(_)
            | Command::Token(_)
            | Command::Config(_) => Ok(()),
        }
    }
}

/// Prints help, the version, or what is wrong with a command line.
pub(crate) fn refuse(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A reader that went away does not make help a failure.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        // Bare `punctual` shows what there is, and is still no command.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(Exit::Usage as u8)
        }
        _ => {
            let failure = Failure::usage(one_line(error));
            let json = std::env::args_os().any(|argument| argument == "--json");
            output::tell(&if json { failure.json() } else { failure.line() });
            failure.exit_code()
        }
    }
}

/// The parser's message without its decoration: what is wrong, then where to read on.
fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let told = text.split("\n\nUsage:").next().unwrap_or(&text);
    let told = told.split("\n\nFor more information").next().unwrap_or(told);
    let words: Vec<&str> = told.trim_start_matches("error: ").split_whitespace().collect();
    format!("{}; `punctual --help` or `punctual COMMAND --help` shows what there is", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// The definitions of all commands hold together: no flag is defined twice or shadows another.
    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Every command that does something has examples in its help.
    #[test]
    fn every_command_has_examples() {
        fn check(command: &clap::Command, path: &str) {
            let subcommands: Vec<_> = command.get_subcommands().filter(|sub| sub.get_name() != "help").collect();
            if subcommands.is_empty() {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("Example"), "{path} has no example");
            }
            for sub in subcommands {
                check(sub, &format!("{path} {}", sub.get_name()));
            }
        }
        for command in Cli::command().get_subcommands() {
            check(command, command.get_name());
        }
    }

    /// A wrong command line is told in one line that says where to read on.
    #[test]
    fn a_wrong_command_line_is_told_in_one_line() {
        for line in [&["punctual", "taks"][..], &["punctual", "tasks", "show"], &["punctual", "call", "--nope"]] {
            let error = Cli::try_parse_from(line).unwrap_err();
            let told = one_line(&error);
            assert!(!told.contains('\n') && told.contains("--help"), "{told}");
        }
    }
}
