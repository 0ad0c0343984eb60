//! `punctual describe`: the services of a server.

use super::contract::{BUILT_IN, load, save};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::target::connect;
use crate::text::shown;
use crate::tls::TlsFlags;
use clap::Args;
use punctual::contract::ServiceDescription;
use serde::Serialize;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual describe tcp://127.0.0.1:7400
  punctual describe unix:/run/billing.sock Billing
  punctual describe 127.0.0.1:7400 --json | jq '.[].methods[].full_name'
  punctual describe 127.0.0.1:7400 --save contract.json          # for `punctual contract diff`
  punctual describe built-in Http                                # what this binary serves")]
pub(crate) struct DescribeArgs {
    /// Whom to ask: tcp://HOST:PORT, unix:/PATH, shm:/PATH, HOST:PORT or /PATH; `built-in` for what this binary serves.
    #[arg(value_name = "SERVER")]
    server: String,
    /// Only this service.
    service: Option<String>,
    /// Write the description to a file instead, as JSON for `punctual contract diff`.
    #[arg(long, value_name = "FILE")]
    save: Option<String>,
}

#[derive(Serialize)]
struct Saved<'a> {
    file: &'a str,
    services: Vec<&'a str>,
}

async fn ask(server: &str, tls: &TlsFlags) -> Result<Vec<ServiceDescription>, Failure> {
    if server == BUILT_IN {
        return load(server, tls).await;
    }
    let channel = connect(server, tls).await?;
    let services = channel.describe().await;
    channel.close().await;
    Ok(services?)
}

pub(crate) async fn run(args: DescribeArgs, tls: &TlsFlags, output: &mut Output) -> Result<(), Failure> {
    let mut services = ask(&args.server, tls).await?;
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
    if let Some(file) = &args.save {
        save(file, &services)?;
        let services: Vec<&str> = services.iter().map(|service| service.name.as_str()).collect();
        if output.is_json() {
            return output.json(&Saved { file, services });
        }
        return output.line(format!("{} described in {}", services.join(", "), shown(file)));
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
