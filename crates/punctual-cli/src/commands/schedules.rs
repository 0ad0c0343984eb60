//! `punctual schedules`: look at schedules, add, edit, preview, pause, resume, trigger and backfill them, import crontabs.

mod add;
mod backfill;
mod edit;
mod import;
mod preview;
mod report;

use crate::exit::Failure;
use crate::output::{Output, Shade, Table};
use crate::target::TargetFlags;
use clap::{Args, Subcommand};
use punctual_admin::{RuleText, ScheduleAct, ScheduleLine};

/// Schedules asked for at once, for a list of all.
const PAGE: u32 = 1_000;

#[derive(Debug, Subcommand)]
pub(crate) enum SchedulesCommand {
    /// List schedules by name.
    #[command(after_help = "\
Examples:
  punctual schedules list
  punctual schedules list --json | jq '.[] | select(.state == \"halted\")'

Columns: name, state, next, live, runs, lost, method, rule.")]
    List,
    /// Show all that is kept of a schedule: its state and why, its next slots, what is pending, what was not run and why.
    #[command(after_help = "\
Examples:
  punctual schedules show nightly
  punctual schedules show nightly --json | jq '.losses'
  punctual schedules show nightly --json | jq '.backfill'")]
    Show {
        /// Its name.
        name: String,
    },
    /// Store a schedule.
    Add(Box<add::AddArgs>),
    /// Show the next slots of a schedule, or of a rule that is not stored.
    Preview(Box<preview::PreviewArgs>),
    /// Stop a schedule from making occurrences.
    #[command(after_help = "\
Examples:
  punctual schedules pause nightly --note 'until the disk is replaced'")]
    Pause {
        /// Its name.
        name: String,
        /// Why, for the next reader.
        #[arg(long, default_value = "", value_name = "TEXT")]
        note: String,
    },
    /// Change a schedule's definition.
    Edit(Box<edit::EditArgs>),
    /// Go on after a pause or a halt.
    Resume(ResumeArgs),
    /// Go on after a halt, saying what becomes of the slots that halted it.
    Unhalt(UnhaltArgs),
    /// Create past slots after all, or say what that would do.
    Backfill(backfill::BackfillArgs),
    /// Create one occurrence now, beside the slots.
    #[command(after_help = "\
Examples:
  punctual schedules trigger nightly
  punctual schedules trigger nightly --force                 # also while an occurrence runs

The id of the task is printed.")]
    Trigger {
        /// Its name.
        name: String,
        /// Also when as many occurrences are live as may be.
        #[arg(long)]
        force: bool,
    },
    /// End a schedule for good: waiting occurrences are cancelled, running ones are asked to stop.
    #[command(after_help = "\
Examples:
  punctual schedules cancel nightly

The name stays taken, and the schedule cannot be resumed; `schedules add --new-series` begins it anew. To stop for a while, \
use `schedules pause`.")]
    Cancel {
        /// Its name.
        name: String,
    },
    /// Make schedules of the lines of a crontab.
    Import(import::ImportArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual schedules resume nightly                          # the missed policy decides what was not run
  punctual schedules resume nightly --from now               # what was not run is lost
  punctual schedules resume nightly --last 3                 # the last three run, the rest is lost
  punctual schedules resume nightly --all

After a halt one of --from now, --last and --all is needed: the policy would halt it again.")]
pub(crate) struct ResumeArgs {
    /// Its name.
    name: String,
    /// `now`: slots that were not run meanwhile are lost.
    #[arg(long, value_parser = ["now"], conflicts_with_all = ["last", "all"])]
    from: Option<String>,
    /// The last N of them run, the rest is lost.
    #[arg(long, value_name = "N", conflicts_with = "all")]
    last: Option<u32>,
    /// All of them run.
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual schedules unhalt nightly --from now               # what was not run is lost
  punctual schedules unhalt nightly --last 3                 # the last three run, the rest is lost
  punctual schedules unhalt nightly --all

A schedule halts when more slots were missed than its policy may catch up (all:COUNT:AGE:halt); `schedules show` tells why.")]
pub(crate) struct UnhaltArgs {
    /// Its name.
    name: String,
    /// `now`: the slots that were not run are lost.
    #[arg(
        long,
        value_parser = ["now"],
        required_unless_present_any = ["last", "all"],
        conflicts_with_all = ["last", "all"]
    )]
    from: Option<String>,
    /// The last N of them run, the rest is lost.
    #[arg(long, value_name = "N", conflicts_with = "all")]
    last: Option<u32>,
    /// All of them run.
    #[arg(long)]
    all: bool,
}

/// What becomes of the slots that were not decided, as the contract says it.
fn mode(from: Option<&String>, last: Option<u32>, all: bool) -> String {
    match (from, last, all) {
        (Some(_), _, _) => "now".to_owned(),
        (None, Some(count), _) => format!("last:{count}"),
        (None, None, true) => "all".to_owned(),
        (None, None, false) => "policy".to_owned(),
    }
}

/// A time rule on the command line.
#[derive(Debug, Clone, Args)]
pub(crate) struct RuleFlags {
    /// A cron expression of 5 fields, or 6 with seconds, or a macro such as @daily.
    #[arg(long, value_name = "EXPR", group = "rule")]
    cron: Option<String>,
    /// A fixed interval, such as 15m, counted from --start or from the schedule's creation.
    #[arg(long, value_name = "DURATION", group = "rule")]
    every: Option<String>,
    /// A calendar rule, such as `2 weeks on mon,thu at 08:30` or `1 month on 31 overflow last at 00:15`.
    #[arg(long, value_name = "RULE", group = "rule")]
    calendar: Option<String>,
    /// The IANA zone of cron and calendar rules; UTC without it.
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// A wall time that does not exist on some day runs at the gap's `end` (default), is `shift`ed, or is `skip`ped.
    #[arg(long, value_parser = ["end", "shift", "skip"])]
    gap: Option<String>,
    /// A wall time that comes twice on some day runs at its `first` (default), `second` or `both` times.
    #[arg(long, value_parser = ["first", "second", "both"])]
    fold: Option<String>,
    /// How a cron expression joins its two day fields: `or` (default) or `and`.
    #[arg(long, value_parser = ["or", "and"])]
    days: Option<String>,
    /// No slot before this instant.
    #[arg(long, value_name = "INSTANT")]
    start: Option<String>,
    /// No slot at or after this instant.
    #[arg(long, value_name = "INSTANT")]
    until: Option<String>,
    /// At most this many occurrences.
    #[arg(long, value_name = "N")]
    max_occurrences: Option<u64>,
}

impl RuleFlags {
    /// Whether one of the three kinds is there.
    fn is_some(&self) -> bool {
        self.cron.is_some() || self.every.is_some() || self.calendar.is_some()
    }

    /// Whether anything else of a rule is there.
    fn has_details(&self) -> bool {
        let RuleFlags { cron: _, every: _, calendar: _, zone, gap, fold, days, start, until, max_occurrences } = self;
        [zone, gap, fold, days, start, until].iter().any(|flag| flag.is_some()) || max_occurrences.is_some()
    }

    fn into_text(self) -> RuleText {
        let RuleFlags { cron, every, calendar, zone, gap, fold, days, start, until, max_occurrences } = self;
        RuleText { cron, every, calendar, zone, gap, fold, days, start, until, max_occurrences }
    }
}

pub(crate) async fn run(command: SchedulesCommand, target: TargetFlags, output: &mut Output) -> Result<(), Failure> {
    match command {
        SchedulesCommand::List => {
            let schedules = target
                .ask(async |admin| {
                    let mut all: Vec<ScheduleLine> = Vec::new();
                    loop {
                        let after = all.last().map(|line| line.name.clone()).unwrap_or_default();
                        let page = admin.list_schedules(after, PAGE).await?;
                        let full = page.len() >= PAGE as usize;
                        all.extend(page);
                        if !full {
                            return Ok(all);
                        }
                    }
                })
                .await?;
            output.list(&schedules, table)
        }
        SchedulesCommand::Show { name } => {
            let report = target.ask(async |admin| admin.show_schedule(name).await).await?;
            if output.is_json() { output.json(&report) } else { report::print(&report, output) }
        }
        SchedulesCommand::Add(args) => add::run(*args, target, output).await,
        SchedulesCommand::Preview(args) => preview::run(*args, target, output).await,
        SchedulesCommand::Pause { name, note } => {
            let act = target.ask(async |admin| admin.pause_schedule(name, note).await).await?;
            told(&act, output)
        }
        SchedulesCommand::Resume(args) => {
            let mode = mode(args.from.as_ref(), args.last, args.all);
            let act = target.ask(async |admin| admin.resume_schedule(args.name, mode).await).await?;
            told(&act, output)
        }
        SchedulesCommand::Unhalt(args) => {
            let mode = mode(args.from.as_ref(), args.last, args.all);
            let act = target.ask(async |admin| admin.unhalt_schedule(args.name, mode).await).await?;
            told(&act, output)
        }
        SchedulesCommand::Edit(args) => edit::run(*args, target, output).await,
        SchedulesCommand::Backfill(args) => backfill::run(args, target, output).await,
        SchedulesCommand::Trigger { name, force } => {
            let triggered = target.ask(async |admin| admin.trigger_schedule(name, force).await).await?;
            if output.is_json() { output.json(&triggered) } else { output.line(&triggered.task) }
        }
        SchedulesCommand::Cancel { name } => {
            let act = target.ask(async |admin| admin.cancel_schedule(name).await).await?;
            told(&act, output)
        }
        SchedulesCommand::Import(args) => import::run(args, target, output).await,
    }
}

/// Prints what an act did to one schedule.
fn told(act: &ScheduleAct, output: &mut Output) -> Result<(), Failure> {
    if output.is_json() {
        return output.json(act);
    }
    let outcome = match act.outcome.as_str() {
        "unchanged" => format!("{}, as before", act.state),
        "changed" => act.state.clone(),
        outcome => format!("{outcome}, {}", act.state),
    };
    let next = act.next.as_ref().map(|next| format!("; next {next}")).unwrap_or_default();
    output.line(format!("{} is {outcome}{next}", act.name))?;
    for note in &act.notes {
        output.line(format!("note: {note}"))?;
    }
    Ok(())
}

fn table(schedules: &[ScheduleLine]) -> Table {
    let mut table = Table::new(&["SCHEDULE", "STATE", "NEXT", "LIVE", "RUNS", "LOST", "METHOD", "RULE"]);
    for schedule in schedules {
        let plain = |text: String| (text, Shade::Plain);
        table.row([
            plain(schedule.name.clone()),
            (schedule.state.clone(), Shade::of_state(&schedule.state)),
            plain(schedule.next_local.clone().unwrap_or_default()),
            plain(schedule.live.to_string()),
            plain(schedule.runs.to_string()),
            plain(schedule.lost.to_string()),
            plain(schedule.method.clone()),
            plain(schedule.rule.clone()),
        ]);
    }
    table
}
