//! `punctual call`: one call of a method of any server.

mod streams;

use super::arguments::json_argument;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::target::connect;
use crate::text::{parse_duration, shown};
use crate::tls::TlsFlags;
use clap::Args;
use punctual::contract::MethodDescription;
use punctual::rpc::{CallOptions, ServiceDescription};
use punctual::{Bytes, CallError};
use std::time::Duration;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual call tcp://127.0.0.1:7400 Admin/list_queues
  punctual call unix:/run/billing.sock Billing/charge '{\"order\": 42, \"cents\": 995}' --timeout 2s
  punctual call 127.0.0.1:7400 Billing/charge @charge.json --metadata tenant=a
  jq -n '{order: 42}' | punctual call 127.0.0.1:7400 Billing/quote -
  seq 1 9 | punctual call 127.0.0.1:7400 Billing/sum | jq .
  printf '%s\\n' '{\"lines\": \"hi\"}' '{\"marks\": 1}' | punctual call 127.0.0.1:7400 Chat/talk

The result is printed as JSON; a returned stream as one line for each item, as it comes. Arguments that are streams are read
from standard input, a JSON value a line; where there are several, each line is an object of the stream's name and its item.
An error that the method itself returns is exit code 1.")]
pub(crate) struct CallArgs {
    /// Whom to call: tcp://HOST:PORT, unix:/PATH, shm:/PATH, HOST:PORT or /PATH.
    #[arg(value_name = "SERVER")]
    server: String,
    /// The method, as `punctual describe` lists it.
    #[arg(value_name = "SERVICE/METHOD")]
    method: String,
    /// Its arguments by name, as a JSON object; @FILE reads a file and - standard input.
    #[arg(value_name = "JSON", default_value = "{}")]
    args: String,
    /// How long the call may take; 30s without it, or no limit for a call with streams.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// Metadata that travels with the call; may be given again.
    #[arg(long, value_name = "NAME=VALUE")]
    metadata: Vec<String>,
}

pub(crate) async fn run(args: CallArgs, tls: &TlsFlags, output: &mut Output) -> Result<(), Failure> {
    let reads_input = args.args == "-";
    let body = Bytes::from(json_argument(&args.args)?);
    let timeout = match &args.timeout {
        Some(text) => Some(parse_duration(text).map_err(|error| Failure::usage(format!("--timeout: {error}")))?),
        None => None,
    };
    if timeout.is_some_and(|timeout| timeout.is_zero()) {
        return Err(Failure::usage("--timeout 0 leaves no time to call; give at least 1ms"));
    }
    let mut options = CallOptions::new();
    if let Some(timeout) = timeout {
        options = options.timeout(timeout);
    }
    for pair in &args.metadata {
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("--metadata `{}` has no `=`; write NAME=VALUE", shown(pair))))?;
        options = options.metadata(name, value);
    }
    let channel = connect(&args.server, tls).await?;
    let result = async {
        let services = channel.describe().await?;
        let method = find(&services, &args.method)?;
        if method.item_err.is_some() || !method.streams.is_empty() {
            if reads_input && !method.streams.is_empty() {
                return Err(Failure::usage(
                    "standard input holds the items of the method's streams: give its other arguments in place or as @FILE",
                ));
            }
            return streams::call(&channel, method, body, options, output).await;
        }
        if timeout.is_none() {
            options = options.timeout(TIMEOUT);
        }
        if method.shape == "oneway" {
            channel.send_json(&args.method, body, options).await?;
            return Ok(Reply::None);
        }
        match channel.call_json(&args.method, body, options).await {
            Ok(reply) => Ok(Reply::One(reply)),
            Err(CallError::Status(status)) => Err(Failure::from(status)),
            Err(CallError::App(error)) => Err(returned(&args.method, &error)),
        }
    }
    .await;
    channel.close().await;
    match result? {
        Reply::One(reply) => output.json(&value(&reply)),
        Reply::Printed => Ok(()),
        Reply::None if output.is_json() => output.json(&serde_json::Value::Null),
        Reply::None => output.line("sent"),
    }
}

/// How long a call without streams may take where nothing else is said.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What a call gave.
enum Reply {
    /// Its result.
    One(Bytes),
    /// Items, which were printed as they came.
    Printed,
    /// Nothing: it has no reply.
    None,
}

/// A reply as JSON; raw bytes as text, as far as they are some.
fn value(reply: &[u8]) -> serde_json::Value {
    serde_json::from_slice(reply).unwrap_or_else(|_| String::from_utf8_lossy(reply).into_owned().into())
}

fn returned(method: &str, error: &[u8]) -> Failure {
    let error = value(error);
    Failure::new(Exit::Failed, "application", format!("{method} returned an error: {error}")).with_detail(error)
}

/// The method of this name.
///
/// # Errors
/// Where the server has no such method: with those that it has.
fn find<'a>(services: &'a [ServiceDescription], method: &str) -> Result<&'a MethodDescription, Failure> {
    let (service_name, method_name) = method.split_once('/').ok_or_else(|| {
        Failure::usage(format!("`{}` is not a method; write SERVICE/METHOD, such as Billing/charge", shown(method)))
    })?;
    let not_found = |text: String| Failure::new(Exit::NotFound, "not_found", text);
    let list = |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let service = services.iter().find(|service| service.name == service_name).ok_or_else(|| {
        let names = services.iter().map(|service| service.name.as_str()).collect();
        not_found(format!("the server has no service `{}`; it has: {}", shown(service_name), list(names)))
    })?;
    service.method(method_name).ok_or_else(|| {
        let names = service.methods.iter().map(|method| method.name.as_str()).collect();
        not_found(format!("{service_name} has no method `{}`; it has: {}", shown(method_name), list(names)))
    })
}
