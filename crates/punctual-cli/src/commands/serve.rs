//! `punctual serve`: the daemon.

use crate::commands::config::SettingArgs;
use crate::config::ConfigFile;
use crate::daemon;
use crate::exit::Failure;
use crate::output::Output;
use crate::target::TargetFlags;
use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual serve --db app.db
  punctual serve --config /etc/punctual/punctual.toml
  punctual serve --db app.db --listen tcp://127.0.0.1:0 --json   # prints the port that it got
  punctual serve --db app.db --allow-commands --listen unix:/run/punctual.sock
  punctual serve --config punctual.toml --calls-budget-max 1m --compression-profiles zstd,lz4
  punctual config show --config punctual.toml                    # what holds in the end, and who says so

A flag comes before the environment, the environment before the file, the file before the default; docs/punctual.toml names \
every setting. It prints the addresses and a line that begins with `ready`, logs to standard error, and stops in order at \
SIGTERM or SIGINT.")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    settings: SettingArgs,
    /// Print the configuration that holds in the end, and do not start.
    #[arg(long)]
    print_config: bool,
}

pub(crate) fn run(args: ServeArgs, target: TargetFlags, output: &mut Output) -> Result<(), Failure> {
    if target.addr.is_some() {
        return Err(Failure::usage("--addr names a daemon to speak to; say --listen for where this one listens"));
    }
    let settings = args.settings.read(target.db)?.resolve()?;
    if args.print_config {
        let config = ConfigFile::of(&settings);
        if output.is_json() {
            return output.json(&config);
        }
        let text = toml::to_string(&config)
            .map_err(|error| Failure::failed(format!("the configuration cannot be written as TOML: {error}")))?;
        return output.line(text.trim_end());
    }
    daemon::start_logging(&settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start the runtime: {error}")))?;
    runtime.block_on(daemon::run(settings, output))
}
