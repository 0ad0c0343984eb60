//! `punctual schedules add`: store a schedule.

use super::{RuleFlags, told};
use crate::commands::arguments::json_argument;
use crate::exit::Failure;
use crate::output::Output;
use crate::target::TargetFlags;
use clap::Args;
use punctual_admin::ScheduleDraft;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual schedules add nightly --cron '0 3 * * *' --zone Europe/Rome Billing/settle
  punctual schedules add ping --every 30s --missed skip Http/request '{\"url\": \"https://example.org/up\"}'
  punctual schedules add payday --calendar '1 month on 31 overflow last at 09:00' --zone Europe/Rome Payroll/run
  punctual schedules add dump --cron '@daily' --timeout 2h Command/run '{\"program\": \"pg_dump app\", \"shell\": true}'

Doing it again changes nothing. Another definition under the same name needs --replace, and a name whose schedule was \
cancelled --new-series.")]
pub(crate) struct AddArgs {
    /// Its name.
    name: String,
    /// The method of each occurrence.
    #[arg(value_name = "SERVICE/METHOD")]
    method: String,
    /// Its arguments by name, as a JSON object; @FILE reads a file and - standard input.
    #[arg(value_name = "JSON", default_value = "{}")]
    args: String,
    #[command(flatten)]
    rule: RuleFlags,
    /// What happens to slots that nobody served in time: skip, latest or latest:AGE (the default is latest:24h), earliest,
    /// all:COUNT:AGE, or all:COUNT:AGE:skip_oldest to lose the oldest beyond COUNT instead of halting.
    #[arg(long, value_name = "POLICY")]
    missed: Option<String>,
    /// What happens to a due slot while as many occurrences are live as may be: wait (default), skip, cancel, allow.
    #[arg(long, value_name = "POLICY")]
    overlap: Option<String>,
    /// How many occurrences may be live at once; 1 without it.
    #[arg(long, value_name = "N")]
    max_pending: Option<u32>,
    /// The queue; the service's name without it.
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// 0 (first) to 3 (last).
    #[arg(long, value_name = "0-3", value_parser = clap::value_parser!(u8).range(0..=3))]
    priority: Option<u8>,
    /// How many attempts each occurrence may spend.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempts: Option<u32>,
    /// How long one attempt may take.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// Occurrences become due up to this long after their slots, always equally long in one schedule, so that schedules
    /// with one rule do not all run in one moment.
    #[arg(long, value_name = "DURATION")]
    jitter: Option<String>,
    /// Pause the schedule after so many failures in a row.
    #[arg(long, value_name = "N")]
    pause_after: Option<u32>,
    /// Replace a schedule of this name.
    #[arg(long)]
    replace: bool,
    /// Begin anew a schedule of this name that was cancelled; run numbers start again.
    #[arg(long)]
    new_series: bool,
}

pub(super) async fn run(args: AddArgs, target: TargetFlags, output: &mut Output) -> Result<(), Failure> {
    if !args.rule.is_some() {
        return Err(Failure::usage("a schedule needs a rule: give one of --cron, --every and --calendar"));
    }
    let replace = args.replace;
    let draft = ScheduleDraft {
        name: args.name,
        rule: args.rule.into_text(),
        method: args.method,
        args: json_argument(&args.args)?,
        queue: args.queue,
        priority: args.priority,
        missed: args.missed,
        overlap: args.overlap,
        max_pending: args.max_pending,
        attempts: args.attempts,
        timeout: args.timeout,
        jitter: args.jitter,
        pause_after: args.pause_after,
        new_series: args.new_series,
    };
    let act = target.ask(async |admin| admin.add_schedule(draft, replace).await).await.map_err(|failure| {
        if failure.code() == "already_exists" {
            failure.map_message(|message| format!("{message}; add --replace to replace it"))
        } else {
            failure
        }
    })?;
    told(&act, output)
}
