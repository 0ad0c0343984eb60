//! `punctual tasks`: look at tasks, store, cancel and retry them.

mod report;

use super::arguments::json_argument;
use crate::exit::{Exit, Failure};
use crate::output::{Output, Shade, Table};
use crate::target::TargetFlags;
use clap::{Args, Subcommand};
use punctual_admin::{TaskAct, TaskDraft, TaskLine, TaskQuery};

/// The most tasks that one act of the contract takes.
const ACT_TASKS_MAX: usize = 1_000;

#[derive(Debug, Subcommand)]
pub(crate) enum TasksCommand {
    /// List tasks, newest first.
    List(ListArgs),
    /// Show all that is kept of a task: arguments, attempts, results, errors.
    #[command(after_help = "\
Examples:
  punctual tasks show 2G7K
  punctual tasks show 2G7K --json | jq '.attempts[-1].out'")]
    Show {
        /// The task, as `tasks list` prints it.
        id: String,
    },
    /// Store a task.
    Enqueue(EnqueueArgs),
    /// Cancel tasks: waiting ones at once, running ones by asking their handlers.
    Cancel(CancelArgs),
    /// Make ended tasks wait again, due now, with all their attempts.
    Retry(RetryArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual tasks list --state failed
  punctual tasks list --schedule nightly --limit 5
  punctual tasks list --queue mail --json | jq -r '.[].id'
  punctual tasks list --before 2G7K                          # the next page

Columns: id, state, method, queue, due, attempts, schedule, error.")]
pub(crate) struct ListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Only in this state.
    #[arg(long, value_parser = ["waiting", "parked", "running", "succeeded", "failed", "cancelled", "expired"])]
    state: Option<String>,
    /// Only older than this task: the last one of the page before.
    #[arg(long, value_name = "ID")]
    before: Option<String>,
    /// At most this many.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct FilterArgs {
    /// Only in this queue.
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Only of this method.
    #[arg(long, value_name = "SERVICE/METHOD")]
    method: Option<String>,
    /// Only occurrences of this schedule.
    #[arg(long, value_name = "NAME")]
    schedule: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual tasks enqueue Http/request '{\"url\": \"https://example.org/hook\", \"json\": {\"order\": 42}}'
  punctual tasks enqueue Billing/charge '{\"order\": 42, \"cents\": 995}' --key charge-42 --delay 1h
  punctual tasks enqueue Command/run '{\"program\": \"pg_dump\", \"args\": [\"app\"]}' --timeout 2h --attempts 2
  punctual tasks enqueue Billing/settle @settle.json --at 2026-12-31T22:00:00Z

The id of the task is printed. With a key that a task holds already, that task's id.")]
pub(crate) struct EnqueueArgs {
    /// The method.
    #[arg(value_name = "SERVICE/METHOD")]
    method: String,
    /// Its arguments by name, as a JSON object; @FILE reads a file and - standard input.
    #[arg(value_name = "JSON", default_value = "{}")]
    args: String,
    /// The queue; the service's name without it.
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// At most one task of the method that has not ended holds this key.
    #[arg(long, value_name = "TEXT")]
    key: Option<String>,
    /// How long to wait before the first attempt.
    #[arg(long, value_name = "DURATION", conflicts_with = "at")]
    delay: Option<String>,
    /// When the first attempt is due.
    #[arg(long, value_name = "INSTANT")]
    at: Option<String>,
    /// 0 (first) to 3 (last).
    #[arg(long, value_name = "0-3", value_parser = clap::value_parser!(u8).range(0..=3))]
    priority: Option<u8>,
    /// How many attempts may be spent in all.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempts: Option<u32>,
    /// How long one attempt may take.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual tasks cancel 2G7K 2G7M
  punctual tasks cancel --waiting --queue mail --dry-run     # which would be cancelled
  punctual tasks cancel --waiting --queue mail

Exit code 3 if one of them is unknown, 1 if one had ended before.")]
pub(crate) struct CancelArgs {
    /// The tasks.
    #[arg(value_name = "ID", required_unless_present = "waiting")]
    ids: Vec<String>,
    /// All waiting tasks, of one queue, method or schedule if given.
    #[arg(long, conflicts_with = "ids")]
    waiting: bool,
    /// Only list the tasks that would be cancelled.
    #[arg(long, requires = "waiting")]
    dry_run: bool,
    #[command(flatten)]
    filter: FilterArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual tasks retry 2G7K
  punctual tasks retry --failed --queue mail --dry-run       # which would be retried
  punctual tasks retry --failed --queue mail

Exit code 3 if one of them is unknown, 1 if one has not ended or its key is held by another.")]
pub(crate) struct RetryArgs {
    /// The tasks.
    #[arg(value_name = "ID", required_unless_present = "failed")]
    ids: Vec<String>,
    /// All failed tasks, of one queue, method or schedule if given.
    #[arg(long, conflicts_with = "ids")]
    failed: bool,
    /// Only list the tasks that would be retried.
    #[arg(long, requires = "failed")]
    dry_run: bool,
    #[command(flatten)]
    filter: FilterArgs,
}

pub(crate) async fn run(command: TasksCommand, target: TargetFlags, output: &mut Output) -> Result<(), Failure> {
    match command {
        TasksCommand::List(args) => {
            let ListArgs { filter: FilterArgs { queue, method, schedule }, state, before, limit } = args;
            let query = TaskQuery { state, queue, method, schedule, before, limit };
            let tasks = target.ask(async |admin| admin.list_tasks(query).await).await?;
            output.list(&tasks, table)
        }
        TasksCommand::Show { id } => {
            let report = target.ask(async |admin| admin.show_task(id).await).await?;
            if output.is_json() { output.json(&report) } else { report::print(&report, output) }
        }
        TasksCommand::Enqueue(args) => enqueue(args, target, output).await,
        TasksCommand::Cancel(CancelArgs { ids, waiting, dry_run, filter }) => {
            act(Act::Cancel, Chosen { ids, all: waiting, dry_run, filter }, target, output).await
        }
        TasksCommand::Retry(RetryArgs { ids, failed, dry_run, filter }) => {
            act(Act::Retry, Chosen { ids, all: failed, dry_run, filter }, target, output).await
        }
    }
}

async fn enqueue(args: EnqueueArgs, target: TargetFlags, output: &mut Output) -> Result<(), Failure> {
    let draft = TaskDraft {
        method: args.method,
        args: json_argument(&args.args)?,
        queue: args.queue,
        key: args.key,
        delay: args.delay,
        at: args.at,
        priority: args.priority,
        attempts: args.attempts,
        timeout: args.timeout,
    };
    let stored = target.ask(async |admin| admin.enqueue_task(draft).await).await?;
    if output.is_json() {
        return output.json(&stored);
    }
    output.line(&stored.id)?;
    if !stored.inserted && output.is_terminal() {
        output.line("(it was there already: a task that has not ended holds the key)")?;
    }
    Ok(())
}

/// What is done to tasks.
#[derive(Debug, Clone, Copy)]
enum Act {
    Cancel,
    Retry,
}

impl Act {
    /// Among which tasks a filter chooses, and the flag that says so.
    const fn all(self) -> (&'static str, &'static str) {
        match self {
            Act::Cancel => ("waiting", "--waiting"),
            Act::Retry => ("failed", "--failed"),
        }
    }
}

/// The tasks that something is done to.
#[derive(Debug)]
struct Chosen {
    ids: Vec<String>,
    all: bool,
    dry_run: bool,
    filter: FilterArgs,
}

async fn act(act: Act, chosen: Chosen, target: TargetFlags, output: &mut Output) -> Result<(), Failure> {
    let Chosen { ids, all, dry_run, filter: FilterArgs { queue, method, schedule } } = chosen;
    let (state, flag) = act.all();
    // The parser lets go of what `dry_run` requires where tasks are named, since that conflicts with them.
    if !all && (dry_run || queue.is_some() || method.is_some() || schedule.is_some()) {
        return Err(Failure::usage(format!(
            "--dry-run, --queue, --method and --schedule go with {state} tasks; add {flag}, or name tasks only"
        )));
    }
    let (acts, listed) = target
        .ask(async |admin| {
            let (mut acts, mut listed) = (Vec::new(), Vec::new());
            for part in ids.chunks(ACT_TASKS_MAX) {
                acts.extend(match act {
                    Act::Cancel => admin.cancel_tasks(part.to_vec()).await?,
                    Act::Retry => admin.retry_tasks(part.to_vec()).await?,
                });
            }
            if !all {
                return Ok((acts, listed));
            }
            let mut before = None;
            // Pages go back in time, so that a task which is again in that state meanwhile is not met twice.
            loop {
                let query = TaskQuery {
                    state: Some(state.to_owned()),
                    queue: queue.clone(),
                    method: method.clone(),
                    schedule: schedule.clone(),
                    before,
                    limit: u32::try_from(ACT_TASKS_MAX).unwrap_or(0),
                };
                let page = admin.list_tasks(query).await?;
                before = page.last().map(|task| task.id.clone());
                if before.is_none() {
                    break;
                }
                if dry_run {
                    listed.extend(page);
                    continue;
                }
                let page: Vec<String> = page.into_iter().map(|task| task.id).collect();
                acts.extend(match act {
                    Act::Cancel => admin.cancel_tasks(page).await?,
                    Act::Retry => admin.retry_tasks(page).await?,
                });
            }
            Ok((acts, listed))
        })
        .await?;
    if dry_run { output.list(&listed, table) } else { told(&acts, output) }
}

/// Prints what became of each task, and fails if one of them was not what it had to be.
fn told(acts: &[TaskAct], output: &mut Output) -> Result<(), Failure> {
    output.list(acts, |acts| {
        let mut table = Table::new(&["ID", "OUTCOME", "DETAIL"]);
        for act in acts {
            table.row([
                (act.id.clone(), Shade::Plain),
                (act.outcome.clone(), Shade::of_state(&act.outcome)),
                (act.detail.clone(), Shade::Plain),
            ]);
        }
        table
    })?;
    let unknown = acts.iter().filter(|act| act.outcome == "unknown").count();
    let is_refused = |outcome: &str| matches!(outcome, "ended" | "not_ended" | "key_held" | "series_cancelled");
    let refused = acts.iter().filter(|act| is_refused(&act.outcome)).count();
    match (unknown, refused) {
        (0, 0) => Ok(()),
        (0, refused) => Err(Failure::failed(format!("{refused} of {} tasks are not in a state for that", acts.len()))),
        (unknown, _) => Err(Failure::new(
            Exit::NotFound,
            "not_found",
            format!("{unknown} of {} tasks are not there; `punctual tasks list` shows those that are", acts.len()),
        )),
    }
}

fn table(tasks: &[TaskLine]) -> Table {
    let mut table = Table::new(&["ID", "STATE", "METHOD", "QUEUE", "DUE", "ATTEMPTS", "SCHEDULE", "ERROR"]);
    for task in tasks {
        let plain = |text: &str| (text.to_owned(), Shade::Plain);
        table.row([
            plain(&task.id),
            (task.state.clone(), Shade::of_state(&task.state)),
            plain(&task.method),
            plain(&task.queue),
            plain(&task.due),
            plain(&task.attempts.to_string()),
            plain(task.schedule.as_deref().unwrap_or_default()),
            plain(task.error.as_deref().unwrap_or_default()),
        ]);
    }
    table
}
