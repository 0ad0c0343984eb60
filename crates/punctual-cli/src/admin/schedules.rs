//! Schedules: drafts checked and stored, and what an operator does to one.

pub(super) mod backfill;
mod edit;

pub(super) use edit::edit;

use super::catalog::{Catalog, Commands};
use super::failures::{bad_field, bad_rule, from_engine, from_input, from_store};
use super::{lines, preview, tasks};
use crate::text::{parse_duration, parse_missed, parse_overlap, parse_resume, parse_rule, show_instant};
use punctual::clock::Timestamp;
use punctual::engine::{Durable, Engine};
use punctual::task::schedule::CompiledRule;
use punctual::task::{
    Declared, Loss, NOTE_BYTES_MAX, Page, Resume, ScheduleCommand, ScheduleSpec, ScheduleState, ScheduleView, Steered,
    TaskFilter, TaskOptions, TaskState, TaskView,
};
use punctual::{Bytes, Status};
use punctual_admin::{ScheduleAct, ScheduleDraft, ScheduleReport, Triggered, command};

/// How many slots and ranges of losses a report shows.
const SHOWN: u32 = 5;
/// How many occurrences that have not ended a report shows.
const PENDING_SHOWN: u32 = 10;

/// What became of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    Created,
    Updated,
    Unchanged,
}

impl Stored {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Stored::Created => "created",
            Stored::Updated => "updated",
            Stored::Unchanged => "unchanged",
        }
    }
}

/// A schedule that has to be there.
pub(super) async fn find(engine: &Engine, name: &str) -> Result<ScheduleView, Status> {
    look(engine, name).await?.ok_or_else(|| {
        Status::not_found(format!(
            "there is no schedule `{}`; `punctual schedules list` shows those that are there",
            crate::text::shown(name)
        ))
    })
}

/// A schedule that may be there.
pub(super) async fn look(engine: &Engine, name: &str) -> Result<Option<ScheduleView>, Status> {
    tasks::name("schedule's name", name)?;
    engine.store().schedule(name.to_owned()).await.map_err(from_store)
}

pub(super) async fn show(engine: &Engine, name: String) -> Result<ScheduleReport, Status> {
    let view = find(engine, &name).await?;
    let losses = losses(engine, &view).await?;
    let pending = pending(engine, &name).await?;
    let next = match view.position.state {
        ScheduleState::Ended | ScheduleState::Cancelled => Vec::new(),
        ScheduleState::Active | ScheduleState::Paused | ScheduleState::Halted => preview::of_schedule(&view, SHOWN)?,
    };
    let now = engine.store().now().await.map_err(from_store)?;
    Ok(lines::schedule_report(&view, &losses, next, &pending, now))
}

/// The latest stretches of lost slots, newest first. A long one is many rows.
async fn losses(engine: &Engine, view: &ScheduleView) -> Result<Vec<Loss>, Status> {
    let rows = engine.store().losses(view.spec.name.clone(), Page::LIMIT_MAX).await.map_err(from_store)?;
    let mut losses = match CompiledRule::new(&view.spec.rule, view.created) {
        Ok(rule) => Loss::join(&rule, rows),
        // Rows can be shown although this build does not know the rule's zone.
        Err(_) => rows,
    };
    losses.truncate(SHOWN as usize);
    Ok(losses)
}

/// Occurrences that have not ended, newest first.
async fn pending(engine: &Engine, name: &str) -> Result<Vec<TaskView>, Status> {
    let mut pending = Vec::new();
    for state in [TaskState::Running, TaskState::Waiting] {
        let filter = TaskFilter { schedule: Some(name.to_owned()), state: Some(state), ..TaskFilter::default() };
        let page = Page { before: None, limit: PENDING_SHOWN };
        pending.extend(engine.store().tasks(filter, page).await.map_err(from_store)?);
    }
    pending.sort_by_key(|task| std::cmp::Reverse(task.id));
    pending.truncate(PENDING_SHOWN as usize);
    Ok(pending)
}

pub(super) async fn add(
    engine: &Engine,
    catalog: &Catalog,
    draft: ScheduleDraft,
    replace: bool,
) -> Result<ScheduleAct, Status> {
    let new_series = draft.new_series;
    let spec = spec(catalog, draft)?;
    let now = engine.store().now().await.map_err(from_store)?;
    check_slots(&spec, now)?;
    let name = spec.name.clone();
    let mut notes = Vec::new();
    if spec.method == command::Run::METHOD && matches!(catalog.commands(), Commands::Stored) {
        notes.push("it runs on a worker that was started with --allow-commands; none does without".to_owned());
    }
    let existing = look(engine, &name).await?;
    let cancelled = existing.as_ref().is_some_and(|view| view.position.state == ScheduleState::Cancelled);
    let stored = if cancelled && new_series {
        let again = ScheduleCommand::NewSeries { spec: Box::new(spec) };
        engine.steer(name.clone(), again).await.map_err(from_engine)?;
        Stored::Created
    } else {
        store(engine, spec, existing, |_| replace).await?
    };
    act(engine, &name, stored.as_str(), notes).await
}

/// Creates a schedule, or edits the existing one if `may_replace` says so of it.
pub(super) async fn store(
    engine: &Engine,
    spec: ScheduleSpec,
    existing: Option<ScheduleView>,
    may_replace: impl FnOnce(&ScheduleView) -> bool,
) -> Result<Stored, Status> {
    let Some(existing) = existing else { return create(engine, spec).await };
    if existing.position.state == ScheduleState::Cancelled {
        return Err(cancelled(&spec.name));
    }
    // A definition that was stored where the method's schema is not known is still the same definition.
    let spec = ScheduleSpec { schema: existing.spec.schema, ..spec };
    if spec == existing.spec {
        return Ok(Stored::Unchanged);
    }
    if !may_replace(&existing) {
        return Err(Status::already_exists(format!("schedule `{}` is there with another definition", spec.name)));
    }
    let name = spec.name.clone();
    let edit = ScheduleCommand::edit(spec, existing.position.version);
    engine.steer(name, edit).await.map_err(from_engine)?;
    Ok(Stored::Updated)
}

async fn create(engine: &Engine, spec: ScheduleSpec) -> Result<Stored, Status> {
    let ScheduleSpec {
        name,
        rule,
        method,
        queue,
        level,
        args,
        options,
        missed,
        overlap,
        max_pending,
        late_after,
        jitter,
        pause_after,
        ..
    } = spec;
    let mut schedule = engine
        .schedule_json(name.clone(), rule, &method, args)
        .queue(queue)
        .priority(level)
        .missed(missed)
        .overlap(overlap)
        .max_pending(max_pending)
        .late_after(late_after)
        .jitter(jitter);
    if let Some(attempts) = options.attempts {
        schedule = schedule.attempts(attempts);
    }
    if let Some(timeout) = options.timeout {
        schedule = schedule.timeout(timeout);
    }
    if let Some(failures) = pause_after {
        schedule = schedule.pause_after(failures);
    }
    match schedule.await.map_err(from_input)? {
        Declared::Created => Ok(Stored::Created),
        // Somebody else was faster.
        Declared::Updated { .. } => Ok(Stored::Updated),
        Declared::Unchanged => Ok(Stored::Unchanged),
        Declared::OlderRevision => Err(Status::already_exists(format!(
            "schedule `{name}` was declared by a program with a revision; change it there, or edit it with --replace"
        ))),
        Declared::Cancelled => Err(cancelled(&name)),
    }
}

fn cancelled(name: &str) -> Status {
    Status::failed_precondition(format!(
        "schedule `{name}` was cancelled for good; choose another name, or begin a new series of it with --new-series"
    ))
}

/// A draft as a definition.
fn spec(catalog: &Catalog, draft: ScheduleDraft) -> Result<ScheduleSpec, Status> {
    let ScheduleDraft {
        name,
        rule,
        method,
        args,
        queue,
        priority,
        missed,
        overlap,
        max_pending,
        attempts,
        timeout,
        jitter,
        pause_after,
        ..
    } = draft;
    tasks::name("schedule's name", &name)?;
    let rule = parse_rule(&rule).map_err(|error| Status::invalid_argument(error.to_string()))?;
    tasks::method(&method)?;
    catalog.admit(&method, args.as_bytes())?;
    let queue = queue.unwrap_or_else(|| catalog.queue(&method));
    tasks::name("queue", &queue)?;
    let mut spec = ScheduleSpec::new(name, rule, method, Bytes::from(args));
    spec.queue = queue;
    spec.level = tasks::priority(priority)?;
    if let Some(missed) = missed {
        spec.missed = parse_missed(&missed).map_err(|error| bad_field("missed", &error))?;
    }
    if let Some(overlap) = overlap {
        spec.overlap = parse_overlap(&overlap).map_err(|error| bad_field("overlap", &error))?;
    }
    if let Some(count) = max_pending {
        spec.max_pending = count;
    }
    if let Some(jitter) = jitter {
        spec.jitter = parse_duration(&jitter).map_err(|error| bad_field("jitter", &error))?;
    }
    spec.pause_after = pause_after;
    spec.options = TaskOptions {
        attempts: tasks::attempts(attempts)?,
        timeout: tasks::timeout(timeout.as_deref())?,
        ..TaskOptions::default()
    };
    spec.validate().map_err(|error| Status::invalid_argument(error.to_string()))?;
    Ok(spec)
}

/// Refuses a rule that cannot be, and one without a slot to come: it would end before it began.
pub(super) fn check_slots(spec: &ScheduleSpec, now: Timestamp) -> Result<(CompiledRule, Timestamp), Status> {
    let compiled = CompiledRule::new(&spec.rule, now).map_err(|error| bad_rule(&error))?;
    match compiled.next_after(now).map_err(|error| bad_rule(&error))? {
        Some(slot) => Ok((compiled, slot.at)),
        None => Err(Status::invalid_argument(format!(
            "the rule has no slot after {}; check `until`, which must lie in the future",
            show_instant(now)
        ))),
    }
}

pub(super) async fn pause(engine: &Engine, name: String, note: String) -> Result<ScheduleAct, Status> {
    find(engine, &name).await?;
    if note.len() > NOTE_BYTES_MAX || note.chars().any(char::is_control) {
        return Err(Status::invalid_argument(format!(
            "note: at most {NOTE_BYTES_MAX} bytes without control characters"
        )));
    }
    steer(engine, name, ScheduleCommand::Pause { note }).await
}

pub(super) async fn resume(engine: &Engine, name: String, mode: &str) -> Result<ScheduleAct, Status> {
    let mode = parse_resume(mode).map_err(|error| Status::invalid_argument(error.to_string()))?;
    let view = find(engine, &name).await?;
    if view.position.state == ScheduleState::Halted && mode == Resume::ByPolicy {
        return Err(Status::failed_precondition(format!(
            "schedule `{name}` was halted, and its missed policy would halt it again; say --from now, --last N or --all"
        )));
    }
    steer(engine, name, ScheduleCommand::Resume(mode)).await
}

pub(super) async fn unhalt(engine: &Engine, name: String, mode: &str) -> Result<ScheduleAct, Status> {
    let mode = parse_resume(mode).map_err(|error| Status::invalid_argument(error.to_string()))?;
    if mode == Resume::ByPolicy {
        return Err(Status::invalid_argument(
            "mode: the missed policy would halt it again; say what becomes of the backlog: now, last:N or all",
        ));
    }
    let view = find(engine, &name).await?;
    if view.position.state != ScheduleState::Halted {
        return Err(Status::failed_precondition(format!(
            "schedule `{name}` is {} and not halted",
            view.position.state.as_str()
        )));
    }
    steer(engine, name, ScheduleCommand::Resume(mode)).await
}

pub(super) async fn cancel(engine: &Engine, name: String) -> Result<ScheduleAct, Status> {
    find(engine, &name).await?;
    steer(engine, name, ScheduleCommand::Cancel).await
}

async fn steer(engine: &Engine, name: String, command: ScheduleCommand) -> Result<ScheduleAct, Status> {
    let steered = engine.steer(name.clone(), command).await.map_err(from_engine)?;
    let outcome = if steered == Steered::Unchanged { "unchanged" } else { "changed" };
    act(engine, &name, outcome, Vec::new()).await
}

async fn act(engine: &Engine, name: &str, outcome: &str, notes: Vec<String>) -> Result<ScheduleAct, Status> {
    let view = find(engine, name).await?;
    Ok(ScheduleAct {
        name: view.spec.name.clone(),
        outcome: outcome.to_owned(),
        state: view.position.state.as_str().to_owned(),
        next: view.position.cursor.map(|cursor| show_instant(cursor.at)),
        notes,
    })
}

pub(super) async fn trigger(engine: &Engine, name: String, force: bool) -> Result<Triggered, Status> {
    find(engine, &name).await?;
    match engine.trigger(name.clone(), force).await.map_err(from_engine)? {
        Steered::Triggered(task) => Ok(Triggered { schedule: name, task: task.to_string() }),
        Steered::Busy { live } => Err(Status::failed_precondition(format!(
            "schedule `{name}` has {live} live occurrences, as many as it may; wait for their end, or use --force"
        ))),
        Steered::Applied | Steered::Unchanged | Steered::Backfilling(_) | Steered::Preview(_) => {
            Err(Status::internal("the store did not say which task a trigger made"))
        }
    }
}
