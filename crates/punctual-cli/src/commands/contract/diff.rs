//! `punctual contract diff`: what breaks between two descriptions.

use super::load;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::tls::TlsFlags;
use clap::Args;
use punctual::contract::{Change, Verdict, diff};
use serde::Serialize;
use std::cmp::Reverse;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual describe unix:/run/billing.sock --save billing.json   # kept with the source
  punctual contract diff billing.json unix:/run/billing.sock
  punctual contract diff v1.json v2.json --strict --json | jq '.changes[].place'

Each is a file that `describe --save` wrote, an address with its scheme, or `built-in`.

Verdicts:
  breaks         clients, callers in JSON or stored tasks of the old version fail with the new one
  servers first  only new clients of old servers fail: upgrade servers before their clients
  compatible     nobody notices, in any order of upgrade

Exit code 0 means that nothing breaks, 1 that something does (with --strict: that something is not compatible).")]
pub(crate) struct DiffArgs {
    /// The version that is in use.
    old: String,
    /// The version that is to replace it.
    new: String,
    /// Only this service.
    #[arg(long, value_name = "SERVICE")]
    service: Option<String>,
    /// Fail also where servers must be upgraded before their clients.
    #[arg(long)]
    strict: bool,
}

#[derive(Serialize)]
struct Difference<'a> {
    verdict: Verdict,
    changes: &'a [Change],
}

pub(super) async fn run(args: DiffArgs, tls: &TlsFlags, output: &mut Output) -> Result<(), Failure> {
    let (mut old, mut new) = (load(&args.old, tls).await?, load(&args.new, tls).await?);
    if let Some(name) = &args.service {
        old.retain(|service| service.name == *name);
        new.retain(|service| service.name == *name);
        if old.is_empty() && new.is_empty() {
            let text = format!("neither {} nor {} has a service `{name}`", args.old, args.new);
            return Err(Failure::new(Exit::NotFound, "not_found", text));
        }
    }
    let mut changes = diff(&old, &new);
    changes.sort_by_key(|change| Reverse(change.verdict));
    let verdict = changes.first().map_or(Verdict::Compatible, |change| change.verdict);
    if output.is_json() {
        output.json(&Difference { verdict, changes: &changes })?;
    } else if changes.is_empty() {
        output.line("nothing differs")?;
    } else {
        for change in &changes {
            output.line(change.to_string())?;
        }
    }
    let refused = if args.strict { Verdict::ServersFirst } else { Verdict::Breaks };
    if verdict < refused {
        return Ok(());
    }
    let count = changes.iter().filter(|change| change.verdict >= refused).count();
    let (code, what) = match refused {
        Verdict::Breaks => ("breaks", "what works with the old version"),
        _ => ("not_compatible", "what works between some of the old and the new version"),
    };
    let changes = if count == 1 { "1 change breaks" } else { &format!("{count} changes break") };
    Err(Failure::new(Exit::Failed, code, format!("{changes} {what}")))
}
