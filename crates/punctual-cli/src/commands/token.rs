//! `punctual token`: who may do what over HTTP.

use crate::exit::Failure;
use crate::http::{Role, check_name, make_token, role_of};
use crate::output::Output;
use clap::{Args, Subcommand};
use serde::Serialize;

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token, and the line that lets it in.
    #[command(after_help = "\
Examples:
  punctual token new alice admin
  punctual token new grafana view --json | jq -r .line >> /etc/punctual/tokens
  curl -H \"Authorization: Bearer $TOKEN\" http://127.0.0.1:8080/api/v1/queues

The token is shown once and kept nowhere: hand it to whoever is to use it. The line goes into the file that `punctual serve` reads \
(--http-tokens); a running daemon reads it again at SIGHUP. To take a token back, remove its line.")]
    New(NewArgs),
}

#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// Whose it is: letters, digits and _.@-
    #[arg(value_name = "NAME")]
    name: String,
    /// view looks at everything; operate also cancels, retries, pauses, resumes, triggers; admin does everything.
    #[arg(value_name = "ROLE", default_value = "view")]
    role: String,
}

#[derive(Serialize)]
struct Made<'a> {
    name: &'a str,
    role: &'static str,
    token: &'a str,
    line: &'a str,
}

pub(crate) fn run(command: &TokenCommand, output: &mut Output) -> Result<(), Failure> {
    let TokenCommand::New(args) = command;
    check_name(&args.name).map_err(Failure::usage)?;
    let role: Role = role_of(&args.role).map_err(Failure::usage)?;
    let (token, line) = make_token(&args.name, role);
    if output.is_json() {
        return output.json(&Made { name: &args.name, role: role.as_str(), token: &token, line: &line });
    }
    output.line(format!("token: {token}"))?;
    output.line(format!("line:  {line}"))
}
