//! `punctual call`: one call of a method of any server.

use super::arguments::json_argument;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::target::connect;
use crate::text::{parse_duration, shown};
use crate::tls::TlsFlags;
use clap::Args;
use punctual::rpc::{CallOptions, ServiceDescription};
use punctual::{Bytes, CallError};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual call tcp://127.0.0.1:7400 Admin/list_queues
  punctual call unix:/run/billing.sock Billing/charge '{\"order\": 42, \"cents\": 995}' --timeout 2s
  punctual call 127.0.0.1:7400 Billing/charge @charge.json --metadata tenant=a
  jq -n '{order: 42}' | punctual call 127.0.0.1:7400 Billing/quote -

The result is printed as JSON. An error that the method itself returns is exit code 1.")]
pub(crate) struct CallArgs {
    /// Whom to call: tcp://HOST:PORT, unix:/PATH, HOST:PORT or /PATH.
    #[arg(value_name = "SERVER")]
    server: String,
    /// The method, as `punctual describe` lists it.
    #[arg(value_name = "SERVICE/METHOD")]
    method: String,
    /// Its arguments by name, as a JSON object; @FILE reads a file and - standard input.
    #[arg(value_name = "JSON", default_value = "{}")]
    args: String,
    /// How long the call may take.
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    timeout: String,
    /// Metadata that travels with the call; may be given again.
    #[arg(long, value_name = "NAME=VALUE")]
    metadata: Vec<String>,
}

pub(crate) async fn run(args: CallArgs, tls: &TlsFlags, output: &mut Output) -> Result<(), Failure> {
    let body = Bytes::from(json_argument(&args.args)?);
    let timeout = parse_duration(&args.timeout).map_err(|error| Failure::usage(format!("--timeout: {error}")))?;
    if timeout.is_zero() {
        return Err(Failure::usage("--timeout 0 leaves no time to call; give at least 1ms"));
    }
    let mut options = CallOptions::new().timeout(timeout);
    for pair in &args.metadata {
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("--metadata `{}` has no `=`; write NAME=VALUE", shown(pair))))?;
        options = options.metadata(name, value);
    }
    let channel = connect(&args.server, tls).await?;
    let result = async {
        let services = channel.describe().await?;
        if is_oneway(&services, &args.method)? {
            channel.send_json(&args.method, body, options).await?;
            return Ok(None);
        }
        match channel.call_json(&args.method, body, options).await {
            Ok(reply) => Ok(Some(reply)),
            Err(CallError::Status(status)) => Err(Failure::from(status)),
            Err(CallError::App(error)) => Err(returned(&args.method, &error)),
        }
    }
    .await;
    channel.close().await;
    match result? {
        Some(reply) => output.json(&value(&reply)),
        None if output.is_json() => output.json(&serde_json::Value::Null),
        None => output.line("sent"),
    }
}

/// A reply as JSON; raw bytes as text, as far as they are some.
fn value(reply: &[u8]) -> serde_json::Value {
    serde_json::from_slice(reply).unwrap_or_else(|_| String::from_utf8_lossy(reply).into_owned().into())
}

fn returned(method: &str, error: &[u8]) -> Failure {
    let error = value(error);
    Failure::new(Exit::Failed, "application", format!("{method} returned an error: {error}")).with_detail(error)
}

/// Whether the method has no reply.
///
/// # Errors
/// Where the server has no such method: with those that it has.
fn is_oneway(services: &[ServiceDescription], method: &str) -> Result<bool, Failure> {
    let (service_name, method_name) = method.split_once('/').ok_or_else(|| {
        Failure::usage(format!("`{}` is not a method; write SERVICE/METHOD, such as Billing/charge", shown(method)))
    })?;
    let not_found = |text: String| Failure::new(Exit::NotFound, "not_found", text);
    let list = |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let service = services.iter().find(|service| service.name == service_name).ok_or_else(|| {
        let names = services.iter().map(|service| service.name.as_str()).collect();
        not_found(format!("the server has no service `{}`; it has: {}", shown(service_name), list(names)))
    })?;
    let found = service.method(method_name).ok_or_else(|| {
        let names = service.methods.iter().map(|method| method.name.as_str()).collect();
        not_found(format!("{service_name} has no method `{}`; it has: {}", shown(method_name), list(names)))
    })?;
    match found.shape.as_str() {
        "unary" => Ok(false),
        "oneway" => Ok(true),
        other => Err(Failure::failed(format!(
            "{method} is a {other} method, and `punctual call` takes unary and one-way ones"
        ))),
    }
}
