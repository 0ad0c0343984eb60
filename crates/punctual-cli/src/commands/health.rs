//! `punctual health`: whether a server takes calls.

use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::target::connect;
use crate::text::shown;
use crate::tls::TlsFlags;
use clap::Args;
use punctual::rpc::HealthStatus;
use serde::Serialize;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual health tcp://127.0.0.1:7400
  punctual health unix:/run/billing.sock Billing
  until punctual health 127.0.0.1:7400 >/dev/null 2>&1; do sleep 1; done

Exit code 0 means serving, 3 that there is no such service, 4 that it does not take calls or nobody answers.")]
pub(crate) struct HealthArgs {
    /// Whom to ask: tcp://HOST:PORT, unix:/PATH, HOST:PORT or /PATH.
    #[arg(value_name = "SERVER")]
    server: String,
    /// Only this service; the whole server without it.
    service: Option<String>,
}

#[derive(Serialize)]
struct Health<'a> {
    server: &'a str,
    service: Option<&'a str>,
    status: HealthStatus,
}

pub(crate) async fn run(args: HealthArgs, tls: &TlsFlags, output: &mut Output) -> Result<(), Failure> {
    let channel = connect(&args.server, tls).await?;
    let status = channel.health(args.service.as_deref().unwrap_or_default()).await;
    channel.close().await;
    let status = status?;
    if output.is_json() {
        output.json(&Health { server: &args.server, service: args.service.as_deref(), status })?;
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
