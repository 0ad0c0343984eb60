//! `punctual queues`: look at queues, pause and resume them.

use crate::exit::Failure;
use crate::output::{Output, Shade, Table};
use crate::target::TargetFlags;
use clap::Subcommand;
use punctual_admin::QueueLine;

#[derive(Debug, Subcommand)]
pub(crate) enum QueuesCommand {
    /// List queues: what is due, what comes later, what runs, and since when the oldest waits.
    #[command(after_help = "\
Examples:
  punctual queues list
  punctual queues list --json | jq '.[] | select(.due > 100)'

Columns: name, state, due, later, running, due since.")]
    List,
    /// Stop claims from a queue; what runs goes on.
    #[command(after_help = "\
Examples:
  punctual queues pause mail")]
    Pause {
        /// Its name.
        name: String,
    },
    /// Claim from a queue again.
    #[command(after_help = "\
Examples:
  punctual queues resume mail")]
    Resume {
        /// Its name.
        name: String,
    },
}

pub(crate) async fn run(command: QueuesCommand, target: TargetFlags, output: &mut Output) -> Result<(), Failure> {
    match command {
        QueuesCommand::List => {
            let queues = target.ask(async |admin| admin.list_queues().await).await?;
            output.list(&queues, table)
        }
        QueuesCommand::Pause { name } => pause(name, true, target, output).await,
        QueuesCommand::Resume { name } => pause(name, false, target, output).await,
    }
}

async fn pause(name: String, paused: bool, target: TargetFlags, output: &mut Output) -> Result<(), Failure> {
    let act = target.ask(async |admin| admin.pause_queue(name, paused).await).await?;
    if output.is_json() {
        return output.json(&act);
    }
    let state = if act.paused { "paused" } else { "not paused" };
    let before = if act.changed { "" } else { ", as before" };
    output.line(format!("{} is {state}{before}", act.name))
}

fn table(queues: &[QueueLine]) -> Table {
    let mut table = Table::new(&["QUEUE", "STATE", "DUE", "LATER", "RUNNING", "DUE SINCE"]);
    for queue in queues {
        let plain = |text: String| (text, Shade::Plain);
        let state = if queue.paused { "paused" } else { "open" };
        table.row([
            plain(queue.name.clone()),
            (state.to_owned(), Shade::of_state(state)),
            plain(queue.due.to_string()),
            plain(queue.later.to_string()),
            plain(queue.running.to_string()),
            plain(queue.oldest.clone().unwrap_or_default()),
        ]);
    }
    table
}
