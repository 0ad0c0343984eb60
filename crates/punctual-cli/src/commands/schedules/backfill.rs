//! `punctual schedules backfill`: create past slots after all.

use super::told;
use crate::exit::Failure;
use crate::output::{Output, Shade, Table};
use crate::target::TargetFlags;
use clap::Args;
use punctual_admin::{BackfillDraft, BackfillReport};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual schedules backfill nightly --from 2026-11-01T00:00:00Z --dry-run
  punctual schedules backfill nightly --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z
  punctual schedules backfill nightly --from 2026-11-01T00:00:00Z --max-pending 4 --limit 100
  punctual schedules backfill nightly --from 2026-11-01T00:00:00Z --rerun      # also what ran already
  punctual schedules backfill nightly --stop

Slots are created oldest first by the rule as it is now, beside the schedule's own and without a run number. Those that have \
a task are left alone, as are those of which retention has removed what there was (unknown); --rerun creates both again. One \
backfill of a schedule is under way at a time; `schedules show` tells how far it is.")]
pub(crate) struct BackfillArgs {
    /// The schedule's name.
    name: String,
    /// The first instant.
    #[arg(long, value_name = "INSTANT", required_unless_present = "stop")]
    from: Option<String>,
    /// The first instant that is not in the range any more; now without it.
    #[arg(long, value_name = "INSTANT")]
    to: Option<String>,
    /// How many of its occurrences may be live at once; 1 without it.
    #[arg(long, value_name = "N")]
    max_pending: Option<u32>,
    /// Create at most this many.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Also create slots that have a task, and those of which it is not known any more.
    #[arg(long)]
    rerun: bool,
    /// Only say what would be done.
    #[arg(long)]
    dry_run: bool,
    /// End the backfill that is under way; what it has created goes on.
    #[arg(long, conflicts_with_all = ["from", "to", "max_pending", "limit", "rerun", "dry_run"])]
    stop: bool,
}

pub(super) async fn run(args: BackfillArgs, target: TargetFlags, output: &mut Output) -> Result<(), Failure> {
    if args.stop {
        let act = target.ask(async |admin| admin.stop_backfill(args.name).await).await?;
        return told(&act, output);
    }
    let draft = BackfillDraft {
        from: args.from.unwrap_or_default(),
        to: args.to,
        max_pending: args.max_pending,
        limit: args.limit,
        rerun: args.rerun,
        dry_run: args.dry_run,
    };
    let report = target.ask(async |admin| admin.backfill_schedule(args.name, draft).await).await?;
    if output.is_json() { output.json(&report) } else { print(&report, output) }
}

fn print(report: &BackfillReport, output: &mut Output) -> Result<(), Failure> {
    let least = if report.more { "at least " } else { "" };
    let what = match report.pass {
        Some(pass) => format!("backfill {pass} of {} creates", report.schedule),
        None => format!("a backfill of {} would create", report.schedule),
    };
    output.line(format!(
        "{what} {least}{}: {} new, {} missed, {} exist, {} unknown",
        report.creates, report.new, report.missed, report.exists, report.unknown
    ))?;
    if !report.dry_run {
        return Ok(());
    }
    let mut table = Table::new(&["LOCAL", "UTC", "SLOT", "CREATED"]);
    for slot in &report.slots {
        let shade = if slot.creates { Shade::Plain } else { Shade::Odd };
        table.row([
            (slot.local.clone(), shade),
            (slot.at.clone(), Shade::Plain),
            (slot.what.clone(), shade),
            (if slot.creates { "yes" } else { "no" }.to_owned(), shade),
        ]);
    }
    output.line("")?;
    output.table(table)
}
