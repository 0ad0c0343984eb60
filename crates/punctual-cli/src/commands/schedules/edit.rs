//! `punctual schedules edit`: change a schedule's definition.

use super::{RuleFlags, told};
use crate::commands::arguments::json_argument;
use crate::exit::Failure;
use crate::output::Output;
use crate::target::TargetFlags;
use clap::Args;
use punctual_admin::ScheduleEdit;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual schedules edit nightly --max-pending 4 --missed all:500:24h
  punctual schedules edit nightly --cron '30 4 * * *'                    # due slots are lost; the next one is tomorrow's
  punctual schedules edit nightly --cron '30 4 * * *' --decide-first     # due slots are decided by the old rule
  punctual schedules edit nightly --args '{\"full\": true}' --pending drop
  punctual schedules edit nightly --every 1h --if-version 3

What is not named stays. A rule is replaced as a whole, its zone stays if none is given. An edit never causes a catch-up: \
slots before it are not created by the new rule.")]
pub(crate) struct EditArgs {
    /// Its name.
    name: String,
    #[command(flatten)]
    rule: RuleFlags,
    /// The method of each occurrence.
    #[arg(long, value_name = "SERVICE/METHOD")]
    method: Option<String>,
    /// Its arguments by name, as a JSON object; @FILE reads a file and - standard input.
    #[arg(long, value_name = "JSON")]
    args: Option<String>,
    /// What happens to slots that nobody served in time, as in `schedules add`.
    #[arg(long, value_name = "POLICY")]
    missed: Option<String>,
    /// What happens to a due slot while as many occurrences are live as may be: wait, skip, cancel, allow.
    #[arg(long, value_name = "POLICY")]
    overlap: Option<String>,
    /// How many occurrences may be live at once.
    #[arg(long, value_name = "N")]
    max_pending: Option<u32>,
    /// The queue.
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
    /// Pause the schedule after so many failures in a row; 0 for never.
    #[arg(long, value_name = "N")]
    pause_after: Option<u32>,
    /// Only if the definition still has this version, as `schedules show` tells it.
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u32>,
    /// Decide the slots that are due before the edit, instead of losing them with a change of the rule. Refused where that
    /// cannot be done at once.
    #[arg(long)]
    decide_first: bool,
    /// What becomes of occurrences that have not begun: `keep` them as they were written (default), or `drop` them.
    #[arg(long, value_parser = ["keep", "drop"], default_value = "keep")]
    pending: String,
}

pub(super) async fn run(args: EditArgs, target: TargetFlags, output: &mut Output) -> Result<(), Failure> {
    if !args.rule.is_some() && args.rule.has_details() {
        return Err(Failure::usage("a rule is replaced as a whole: give --cron, --every or --calendar with it"));
    }
    let edit = ScheduleEdit {
        rule: args.rule.is_some().then(|| args.rule.into_text()),
        method: args.method,
        args: args.args.as_deref().map(json_argument).transpose()?,
        queue: args.queue,
        priority: args.priority,
        missed: args.missed,
        overlap: args.overlap,
        max_pending: args.max_pending,
        attempts: args.attempts,
        timeout: args.timeout,
        jitter: args.jitter,
        pause_after: args.pause_after,
        version: args.if_version,
        decide_first: args.decide_first,
        drop_pending: args.pending == "drop",
    };
    // What is asked for besides is no change by itself.
    let asked = ScheduleEdit { version: None, decide_first: false, drop_pending: false, ..edit.clone() };
    if asked == ScheduleEdit::default() {
        return Err(Failure::usage("nothing to change: name what the edit is to replace, such as --cron or --missed"));
    }
    let act = target.ask(async |admin| admin.edit_schedule(args.name, edit).await).await?;
    told(&act, output)
}
