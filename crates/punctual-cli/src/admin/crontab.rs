//! Crontabs: each entry becomes a schedule of `Command/run` that keeps cron's meaning.

mod format;

use super::catalog::{Catalog, Commands};
use super::schedules::{self, check_slots};
use super::{failures, tasks};
use crate::services::CommandService;
use punctual::engine::{Durable, Engine};
use punctual::task::schedule::crontab::{Entry, Ignored, Line, Outcome, parse};
use punctual::task::{Missed, Overlap, ScheduleSpec, ScheduleView, TaskOptions};
use punctual::{Bytes, Status};
use punctual_admin::{CrontabImport, CrontabLine, CrontabReport, command};
use std::time::Duration;

/// Cron gives its commands all the time that they want; a task has a budget. A day is more than any daily job may take.
const TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// Cron looks once a minute: what is started within the minute is on time.
const LATE_AFTER: Duration = Duration::from_secs(60);

/// Where cron looks for programs unless the crontab says otherwise.
const PATH: &str = "/usr/bin:/bin";

/// Variables that are orders to cron and not meant for the commands.
const ORDERS: [(&str, &str); 6] = [
    ("MAILTO", "nothing is mailed: the output is kept with each attempt (`punctual tasks show`)"),
    ("MAILFROM", "nothing is mailed"),
    ("CONTENT_TYPE", "nothing is mailed"),
    ("CONTENT_TRANSFER_ENCODING", "nothing is mailed"),
    ("CRON_TZ", "the times of the entries below are in this zone"),
    ("RANDOM_DELAY", "runs are not delayed by chance"),
];

/// Reads a crontab and stores what it can take, or only says what it would do.
pub(super) async fn import(engine: &Engine, catalog: &Catalog, import: CrontabImport) -> Result<CrontabReport, Status> {
    let CrontabImport { text, format, zone, prefix, replace, dry_run } = import;
    // What would be refused as a whole is told at once, and a dry run says it with the rest.
    let mut notes = notes();
    match catalog.admit_commands() {
        Ok(()) => {}
        Err(status) if dry_run => notes.push(format!("an import would be refused: {}", status.message())),
        Err(status) => return Err(status),
    }
    if !prefix.is_empty() {
        tasks::name("prefix", &prefix)?;
    }
    let zone = zone.unwrap_or_else(|| "UTC".to_owned());
    let format = format::decide(&format, &text)?;
    let lines = parse(&text, format.of_parser(), &zone).map_err(|error| failures::bad_rule(&error))?;
    let importer = Importer { engine, catalog, prefix, replace, dry_run };
    let mut report = CrontabReport {
        format: format.as_str().to_owned(),
        zone,
        dry_run,
        lines: Vec::new(),
        taken: 0,
        refused: 0,
        notes,
    };
    for line in lines {
        let Some(line) = importer.line(line).await? else { continue };
        match line.outcome.as_str() {
            "refused" => report.refused += 1,
            "variable" => {}
            _ => report.taken += 1,
        }
        report.lines.push(line);
    }
    Ok(report)
}

/// What holds for every entry.
fn notes() -> Vec<String> {
    [
        "as cron does, a missed run is forgotten (missed = skip), and a command starts although the one before still runs \
         (overlap = allow)",
        "a command that fails is not retried (attempts = 1), and one that runs for more than 24 hours is ended",
        "a worker without --allow-commands runs none of them",
    ]
    .map(str::to_owned)
    .into()
}

struct Importer<'a> {
    engine: &'a Engine,
    catalog: &'a Catalog,
    prefix: String,
    replace: bool,
    dry_run: bool,
}

impl Importer<'_> {
    /// What becomes of a line; nothing for one that says nothing.
    ///
    /// # Errors
    /// Only where the store fails: what is wrong with a line is that line's outcome.
    async fn line(&self, line: Line) -> Result<Option<CrontabLine>, Status> {
        let mut told = CrontabLine {
            number: u32::try_from(line.number).unwrap_or(u32::MAX),
            outcome: String::new(),
            text: line.text,
            schedule: None,
            reason: None,
            notes: Vec::new(),
            next: None,
        };
        match line.outcome {
            Outcome::Ignored(Ignored::Blank | Ignored::Comment) => return Ok(None),
            Outcome::Ignored(Ignored::Variable { name, .. }) => {
                "variable".clone_into(&mut told.outcome);
                told.notes.extend(order(&name).map(str::to_owned));
            }
            Outcome::Refused(error) => refuse(&mut told, error.to_string()),
            Outcome::Taken(entry) => {
                let name = format!("{}{}", self.prefix, entry.name);
                told.schedule = Some(name.clone());
                told.notes.clone_from(&entry.notes);
                match self.entry(*entry, name, &mut told).await {
                    Ok(outcome) => outcome.clone_into(&mut told.outcome),
                    Err(status) if is_of_the_line(&status) => refuse(&mut told, status.message().to_owned()),
                    Err(status) => return Err(status),
                }
            }
        }
        Ok(Some(told))
    }

    async fn entry(&self, entry: Entry, name: String, told: &mut CrontabLine) -> Result<&'static str, Status> {
        let spec = spec(entry, name)?;
        self.check_user(&spec, told)?;
        let now = self.engine.store().now().await.map_err(failures::from_store)?;
        let (compiled, next) = check_slots(&spec, now)?;
        told.next = Some(compiled.local(next));
        let existing = schedules::look(self.engine, &spec.name).await?;
        let runs_the_same = |existing: &ScheduleView| runs(&existing.spec) == runs(&spec);
        if let Some(existing) = &existing
            && !self.replace
            && !runs_the_same(existing)
        {
            return Err(Status::already_exists(format!(
                "schedule `{}` is there and runs something else; import with another --prefix, or with --replace",
                spec.name
            )));
        }
        if self.dry_run {
            return Ok(match existing {
                None => "created",
                Some(existing) if ScheduleSpec { schema: existing.spec.schema, ..spec } == existing.spec => "unchanged",
                Some(_) => "updated",
            });
        }
        schedules::store(self.engine, spec, existing, |_| true).await.map(schedules::Stored::as_str)
    }

    /// Refuses an entry whose user this process could not become; a process that only stores cannot know.
    fn check_user(&self, spec: &ScheduleSpec, told: &mut CrontabLine) -> Result<(), Status> {
        let call: Option<command::Run> = serde_json::from_slice(&spec.args).ok();
        match (self.catalog.commands(), call.and_then(|call| call.user)) {
            (Commands::Run(service), Some(user)) => {
                service.can_become(&user).map(drop).map_err(Status::failed_precondition)
            }
            (_, None) => {
                told.notes.push("it runs as the worker's user".to_owned());
                Ok(())
            }
            (Commands::Stored | Commands::Refused, Some(_)) => Ok(()),
        }
    }
}

/// Whether a status is about the entry, so that the others can still be taken.
fn is_of_the_line(status: &Status) -> bool {
    use punctual::Code;
    matches!(
        status.code(),
        Code::InvalidArgument | Code::AlreadyExists | Code::FailedPrecondition | Code::Aborted | Code::OutOfRange
    )
}

fn refuse(told: &mut CrontabLine, reason: String) {
    "refused".clone_into(&mut told.outcome);
    told.reason = Some(reason);
}

/// What cron would have done at a variable's word, and what is done here.
fn order(name: &str) -> Option<&'static str> {
    ORDERS.iter().find(|(order, _)| *order == name).map(|(_, told)| *told)
}

/// An entry as a definition.
fn spec(entry: Entry, name: String) -> Result<ScheduleSpec, Status> {
    let mut env = entry.environment;
    env.retain(|name, _| order(name).is_none());
    env.entry("PATH".to_owned()).or_insert_with(|| PATH.to_owned());
    env.entry("SHELL".to_owned()).or_insert_with(|| "/bin/sh".to_owned());
    // Cron starts commands in the home directory, which a crontab may change.
    let dir = env.get("HOME").cloned();
    let call = command::Run {
        program: entry.command,
        args: Vec::new(),
        env,
        dir,
        stdin: entry.stdin,
        shell: true,
        user: entry.user,
    };
    CommandService::check(&call).map_err(Status::invalid_argument)?;
    let args =
        serde_json::to_vec(&call).map_err(|error| Status::internal(format!("a command has no JSON form: {error}")))?;
    let mut spec = ScheduleSpec::new(name, entry.rule, command::Run::METHOD, Bytes::from(args));
    spec.missed = Missed::Skip;
    spec.overlap = Overlap::Allow;
    spec.late_after = LATE_AFTER;
    spec.options = TaskOptions { attempts: Some(1), timeout: Some(TIMEOUT), ..TaskOptions::default() };
    spec.validate().map_err(|error| Status::invalid_argument(error.to_string()))?;
    Ok(spec)
}

/// What a definition runs, without when and how: an import recognises its own schedules by it.
fn runs(spec: &ScheduleSpec) -> Option<(String, Option<String>, Option<String>)> {
    if spec.method != command::Run::METHOD {
        return None;
    }
    let call: command::Run = serde_json::from_slice(&spec.args).ok()?;
    call.shell.then_some((call.program, call.stdin, call.user))
}

#[cfg(test)]
mod tests;
