//! `punctual health`: whether a server takes calls.

use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::target::connect;
use crate::text::{parse_duration, shown};
use crate::tls::TlsFlags;
use clap::Args;
use punctual::rpc::{Channel, HealthStatus};
use serde::Serialize;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual health tcp://127.0.0.1:7400
  punctual health unix:/run/billing.sock Billing
  until punctual health 127.0.0.1:7400 >/dev/null 2>&1; do sleep 1; done
  punctual health 127.0.0.1:7400 --watch

Exit code 0 means serving, 3 that there is no such service, 4 that it does not take calls or nobody answers.")]
pub(crate) struct HealthArgs {
    /// Whom to ask: tcp://HOST:PORT, unix:/PATH, shm:/PATH, HOST:PORT or /PATH.
    #[arg(value_name = "SERVER")]
    server: String,
    /// Only this service; the whole server without it.
    service: Option<String>,
    /// Print each change, up to an interrupt. A server that does not answer any more is `unreachable`.
    #[arg(long)]
    watch: bool,
    /// With --watch: how long to wait before it is asked again.
    #[arg(long, value_name = "DURATION", default_value = "1s", requires = "watch")]
    every: String,
}

#[derive(Serialize)]
struct Health<'a> {
    server: &'a str,
    service: Option<&'a str>,
    status: Seen,
}

/// What was seen of a server's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum Seen {
    /// What it says.
    Says(HealthStatus),
    /// It does not answer.
    Unreachable(Unreachable),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Unreachable {
    Unreachable,
}

/// The shortest wait between two questions: each is a call.
const EVERY_MIN: Duration = Duration::from_millis(10);

/// Prints the health, and then each change of it.
async fn watch(channel: &Channel, args: &HealthArgs, output: &mut Output) -> Result<(), Failure> {
    let every = parse_duration(&args.every).map_err(|error| Failure::usage(format!("--every: {error}")))?;
    if every < EVERY_MIN {
        return Err(Failure::usage(format!("--every {} is too often; give at least {EVERY_MIN:?}", args.every)));
    }
    let service = args.service.as_deref();
    let mut changes = channel.watch_health(service.unwrap_or_default()).every(every);
    while let Some(seen) = changes.next().await {
        let seen = seen.map_or(Seen::Unreachable(Unreachable::Unreachable), Seen::Says);
        match seen {
            seen if output.is_json() => output.json(&Health { server: &args.server, service, status: seen })?,
            Seen::Says(status) => output.line(status.to_string())?,
            Seen::Unreachable(_) => output.line("unreachable")?,
        }
        output.flush()?;
    }
    Ok(())
}

pub(crate) async fn run(args: HealthArgs, tls: &TlsFlags, output: &mut Output) -> Result<(), Failure> {
    let channel = connect(&args.server, tls).await?;
    if args.watch {
        return watch(&channel, &args, output).await;
    }
    let status = channel.health(args.service.as_deref().unwrap_or_default()).await;
    channel.close().await;
    let status = status?;
    if output.is_json() {
        output.json(&Health { server: &args.server, service: args.service.as_deref(), status: Seen::Says(status) })?;
    } else if status != HealthStatus::UnknownService {
        output.line(status.to_string())?;
    }
    match status {
        HealthStatus::Serving => Ok(()),
        HealthStatus::UnknownService => {
            let name = shown(args.service.as_deref().unwrap_or_default());
            Err(Failure::new(
                Exit::NotFound,
                "not_found",
                format!("{} has no service `{name}`; `punctual describe {}` lists them", args.server, args.server),
            ))
        }
        HealthStatus::NotServing | HealthStatus::Draining => Err(Failure::new(
            Exit::Unavailable,
            "unavailable",
            format!("{} is {status}; it may take calls later", args.server),
        )),
    }
}
