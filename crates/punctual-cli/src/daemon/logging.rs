//! Log lines, to standard error: standard output is for the line that says that the daemon is ready.

use crate::config::{LogFormat, Settings};
use crate::exit::Failure;
use std::io::{IsTerminal, stderr};
use tracing_subscriber::EnvFilter;

/// Starts to write log lines.
///
/// # Errors
/// Where the level or the directives mean nothing.
pub(crate) fn start(settings: &Settings) -> Result<(), Failure> {
    let filter = EnvFilter::builder().parse(&settings.log_level).map_err(|error| {
        Failure::usage(format!(
            "log level `{}`: {error}; write error, warn, info, debug, trace, or directives such as info,punctual_rpc=debug",
            crate::text::shown(&settings.log_level)
        ))
    })?;
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal() && !plain);
    let started = match settings.log_format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| Failure::failed(format!("cannot start to log: {error}")))
}
