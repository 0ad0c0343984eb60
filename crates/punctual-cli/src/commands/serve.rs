//! `punctual serve`: the daemon.

use crate::config::{ConfigFile, Overrides, Settings};
use crate::daemon;
use crate::exit::Failure;
use crate::output::Output;
use crate::target::TargetFlags;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual serve --db app.db
  punctual serve --config /etc/punctual/punctual.toml
  punctual serve --db app.db --listen tcp://127.0.0.1:0 --json   # prints the port that it got
  punctual serve --db app.db --allow-commands --listen unix:/run/punctual.sock
  punctual serve --config punctual.toml --print-config           # what holds in the end

A flag comes before the environment, the environment before the file, the file before the default; docs/punctual.toml names \
every setting. It prints the addresses and a line that begins with `ready`, logs to standard error, and stops in order at \
SIGTERM or SIGINT.")]
pub(crate) struct ServeArgs {
    /// The configuration, a TOML file.
    #[arg(long, value_name = "FILE", env = "PUNCTUAL_CONFIG")]
    config: Option<PathBuf>,
    /// Where to listen: unix:/PATH or tcp://HOST:PORT; may be given again. Default: this user's socket and tcp://127.0.0.1:7400.
    #[arg(long, value_name = "ADDR", env = "PUNCTUAL_LISTEN", value_delimiter = ',')]
    listen: Vec<String>,
    /// Run programs (Command/run). Whoever reaches the Unix socket can then run them as this daemon's user.
    #[arg(
        long,
        env = "PUNCTUAL_ALLOW_COMMANDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = clap::builder::BoolishValueParser::new(),
        value_name = "BOOL"
    )]
    allow_commands: Option<bool>,
    /// Send HTTP requests (Http/request) to these hosts only: example.org, *.example.org, 10.0.0.7:8080; may be given again.
    #[arg(long, value_name = "HOST", env = "PUNCTUAL_HTTP_ALLOW", value_delimiter = ',')]
    http_allow: Vec<String>,
    /// How many attempts run at once.
    #[arg(long, value_name = "N", env = "PUNCTUAL_SLOTS")]
    slots: Option<u32>,
    /// The worker's name; host and process without it.
    #[arg(long, value_name = "TEXT", env = "PUNCTUAL_NAME")]
    name: Option<String>,
    /// How long calls and attempts may go on after the signal to stop.
    #[arg(long, value_name = "DURATION", env = "PUNCTUAL_SHUTDOWN_GRACE")]
    shutdown_grace: Option<String>,
    /// error, warn, info, debug, trace, or directives such as info,punctual_rpc=debug.
    #[arg(long, value_name = "LEVEL", env = "PUNCTUAL_LOG")]
    log_level: Option<String>,
    /// text or json.
    #[arg(long, value_name = "FORMAT", env = "PUNCTUAL_LOG_FORMAT")]
    log_format: Option<String>,
    /// Print the configuration that holds in the end, and do not start.
    #[arg(long)]
    print_config: bool,
}

pub(crate) fn run(args: ServeArgs, target: TargetFlags, output: &mut Output) -> Result<(), Failure> {
    if target.addr.is_some() {
        return Err(Failure::usage("--addr names a daemon to speak to; say --listen for where this one listens"));
    }
    let database = match target.db {
        Some(database) => Some(database),
        None => std::env::var("PUNCTUAL_DB").ok().filter(|database| !database.is_empty()),
    };
    let file = args.config.as_deref().map(ConfigFile::read).transpose()?.unwrap_or_default();
    let overrides = Overrides {
        database,
        listen: args.listen,
        shutdown_grace: args.shutdown_grace,
        log_level: args.log_level,
        log_format: args.log_format,
        name: args.name,
        slots: args.slots,
        allow_commands: args.allow_commands,
        http_allow: args.http_allow,
    };
    let settings = Settings::resolve(file, overrides)?;
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
