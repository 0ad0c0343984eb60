//! `punctual schedules preview`: the next slots of a schedule or of a rule.

use super::RuleFlags;
use crate::exit::Failure;
use crate::output::{Output, Shade, Table};
use crate::target::TargetFlags;
use clap::Args;
use punctual_admin::PreviewSlot;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual schedules preview nightly
  punctual schedules preview --cron '30 2 * * *' --zone America/New_York --start 2027-03-01T00:00:00Z -n 20
  punctual schedules preview --calendar '1 month on 31 overflow last at 09:00' --zone Europe/Rome --json

Columns: local time, UTC, what a change of the clocks does to it. A rule is previewed as of now; neither a daemon nor a \
database is asked.")]
pub(crate) struct PreviewArgs {
    /// A stored schedule.
    #[arg(required_unless_present = "rule", conflicts_with = "rule")]
    name: Option<String>,
    #[command(flatten)]
    rule: RuleFlags,
    /// How many slots.
    #[arg(short = 'n', long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    count: u32,
}

pub(super) async fn run(args: PreviewArgs, target: TargetFlags, output: &mut Output) -> Result<(), Failure> {
    let PreviewArgs { name, rule, count } = args;
    let slots = match name {
        Some(name) => target.ask(async |admin| admin.preview_schedule(name, count).await).await?,
        None => crate::admin::preview_now(&rule.into_text(), count)?,
    };
    if slots.is_empty() && !output.is_json() && output.is_terminal() {
        return output.line("no further slot");
    }
    output.list(&slots, table)
}

fn table(slots: &[PreviewSlot]) -> Table {
    let mut table = Table::new(&["LOCAL", "UTC", "NOTE"]);
    for slot in slots {
        let note = match (&slot.nominal, slot.skipped) {
            (Some(nominal), true) => format!("{nominal} does not exist: skipped"),
            (Some(nominal), false) => format!("moved from {nominal}"),
            (None, true) => "skipped".to_owned(),
            (None, false) => String::new(),
        };
        let shade = if slot.skipped { Shade::Odd } else { Shade::Plain };
        table.row([(slot.local.clone(), shade), (slot.at.clone(), Shade::Plain), (note, Shade::Odd)]);
    }
    table
}
