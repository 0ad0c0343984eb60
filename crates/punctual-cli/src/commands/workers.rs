//! `punctual workers`: who runs tasks.

use crate::exit::Failure;
use crate::output::{Output, Shade, Table};
use crate::target::TargetFlags;
use clap::Subcommand;
use punctual_admin::WorkerLine;

#[derive(Debug, Subcommand)]
pub(crate) enum WorkersCommand {
    /// List workers that are alive, and those that were found dead within the last hour.
    #[command(after_help = "\
Examples:
  punctual workers list
  punctual workers list --json | jq '.[] | select(.alive | not)'

Columns: id, state, holds, slots, lease until, name.")]
    List,
}

pub(crate) async fn run(command: WorkersCommand, target: TargetFlags, output: &mut Output) -> Result<(), Failure> {
    let WorkersCommand::List = command;
    let workers = target.ask(async |admin| admin.list_workers().await).await?;
    output.list(&workers, table)
}

fn table(workers: &[WorkerLine]) -> Table {
    let mut table = Table::new(&["WORKER", "STATE", "HOLDS", "SLOTS", "LEASE UNTIL", "NAME"]);
    for worker in workers {
        let plain = |text: String| (text, Shade::Plain);
        let state = if worker.alive { "alive" } else { "dead" };
        table.row([
            plain(worker.id.to_string()),
            (state.to_owned(), Shade::of_state(state)),
            plain(worker.holds.to_string()),
            plain(worker.slots.to_string()),
            plain(worker.lease_until.clone()),
            plain(worker.name.clone()),
        ]);
    }
    table
}
