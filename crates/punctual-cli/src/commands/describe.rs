//! `punctual describe`: the services of a server.

use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::target::connect;
use crate::text::shown;
use crate::tls::TlsFlags;
use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual describe tcp://127.0.0.1:7400
  punctual describe unix:/run/billing.sock Billing
  punctual describe 127.0.0.1:7400 --json | jq '.[].methods[].full_name'")]
pub(crate) struct DescribeArgs {
    /// Whom to ask: tcp://HOST:PORT, unix:/PATH, HOST:PORT or /PATH.
    #[arg(value_name = "SERVER")]
    server: String,
    /// Only this service.
    service: Option<String>,
}

pub(crate) async fn run(args: DescribeArgs, tls: &TlsFlags, output: &mut Output) -> Result<(), Failure> {
    let channel = connect(&args.server, tls).await?;
    let services = channel.describe().await;
    channel.close().await;
    let mut services = services?;
    if let Some(name) = &args.service {
        let all: Vec<String> = services.iter().map(|service| service.name.clone()).collect();
        services.retain(|service| service.name == *name);
        if services.is_empty() {
            return Err(Failure::new(
                Exit::NotFound,
                "not_found",
                format!("{} has no service `{}`; it has: {}", args.server, shown(name), all.join(", ")),
            ));
        }
    }
    if output.is_json() {
        return output.json(&services);
    }
    for (at, service) in services.iter().enumerate() {
        if at > 0 {
            output.line("")?;
        }
        output.line(service.to_string())?;
    }
    Ok(())
}
