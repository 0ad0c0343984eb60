//! Declarations and operators' commands.

use super::{Locked, Look, Writing, add_position, cancel_live, find, look, only};
use crate::definitions;
use crate::errors::{Done, Fault};
use crate::session::{Session, Step, step};
use crate::store::Shared;
use crate::tasks;
use punctual_clock::Timestamp;
use punctual_task::planner::{Change, Walk, decide_command, decide_creation, decide_declaration, refuse_broken};
use punctual_task::schedule::{CompiledRule, Every, Rule};
use punctual_task::{Declaration, Declared, ScheduleCommand, ScheduleId, ScheduleSpec, Steered, StoreError, TaskId};
use std::borrow::Cow;
use std::time::Duration;

const ADD: &str = "INSERT INTO schedule (name, created, hash, revision)
    VALUES ($1, current_setting('punctual.now')::bigint, 0, 0) ON CONFLICT (name) DO NOTHING RETURNING id";
const DECLARED: &str = "SELECT hash, revision FROM schedule WHERE id = $1";
const DECLARE: &str = "UPDATE schedule SET hash = $2, revision = $3 WHERE id = $1 AND (hash <> $2 OR revision <> $3)";

/// Creates a schedule or brings it up to a declaration.
pub(crate) async fn declare(shared: &Shared, session: &mut Session, declaration: &Declaration) -> Done<Declared> {
    let name = &declaration.spec.name;
    prepare_lane(shared, session, &declaration.spec).await?;
    let Some(id) = find(session, name).await? else {
        // Refused before a name is taken for it; a name that cannot be there was not even asked for.
        if !session.is_open() {
            session.ask(Vec::new()).await?;
        }
        decide_creation(declaration, ScheduleId(0), session.now()?)?;
        let rows = session.rows(step!(ADD, name.clone())).await?;
        let id = rows.first().map(|row| row.try_get(0)).transpose()?.map(ScheduleId);
        // Another call has just made it: the same from the beginning finds it.
        return create(session, declaration, id.ok_or(Fault::Again("the schedule"))?).await;
    };
    let locked = read(shared, session, id).await?;
    let now = session.now()?;
    let rule = rule_of(&locked)?;
    let snapshot = locked.snapshot(&rule);
    let walk = Walk::for_declaration(&snapshot, declaration, now);
    let looks = [Look { position: &locked.position, walk: &walk, enough: 1, backfilled: false }];
    let seen = only(look(session, &looks).await?)?;
    let rows = session.rows(step!(DECLARED, id.0)).await?;
    let row = rows.first().ok_or_else(|| Fault::corrupt(format!("schedule {} has no name", id.0)))?;
    let (hash, revision): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    let (hash, revision) = (hash.cast_unsigned(), revision.cast_unsigned());
    let plan = decide_declaration(&snapshot, hash, revision, declaration, &walk, &seen.taken)?;
    session.ask(vec![step!(DECLARE, id.0, plan.hash.cast_signed(), plan.revision.cast_signed())]).await?;
    match &plan.change {
        Some(change) => drop(write(shared, session, &locked, change).await?),
        None => drop(session.commit(Vec::new()).await?),
    }
    Ok(plan.answer)
}

async fn create(session: &mut Session, declaration: &Declaration, id: ScheduleId) -> Done<Declared> {
    let plan = decide_creation(declaration, id, session.now()?)?;
    let change = plan.change.ok_or_else(|| Fault::bug("a creation without a position"))?;
    let steps = vec![
        step!(DECLARE, id.0, plan.hash.cast_signed(), plan.revision.cast_signed()),
        definitions::add(id, change.position.version, &declaration.spec)?,
        add_position(&change),
    ];
    session.commit(steps).await?;
    Ok(plan.answer)
}

/// Has the lane of a schedule's occurrences there before any sweep creates one.
async fn prepare_lane(shared: &Shared, session: &mut Session, spec: &ScheduleSpec) -> Done<()> {
    // What is out of its limits is refused by the decision.
    if spec.validate().is_err() {
        return Ok(());
    }
    shared.names.lanes(session, &[(&spec.queue, &spec.method)]).await.map(drop)
}

/// Does what an operator asks.
pub(crate) async fn steer(
    shared: &Shared,
    session: &mut Session,
    name: &str,
    command: &ScheduleCommand,
) -> Done<Steered> {
    if let ScheduleCommand::Edit { spec, .. } = command {
        prepare_lane(shared, session, spec).await?;
    }
    let id = find(session, name)
        .await?
        .ok_or_else(|| StoreError::not_found(format!("there is no schedule named {name:?}")))?;
    let locked = read(shared, session, id).await?;
    if let ScheduleCommand::Trigger { id: task, .. } = command
        && let Some(answer) = triggered(session, id, *task).await?
    {
        return Ok(answer);
    }
    if let Err(error) = locked.definition.rule() {
        refuse_broken(name, command, error)?;
    }
    let now = session.now()?;
    let rule = rule_of(&locked)?;
    let snapshot = locked.snapshot(&rule);
    let walk = Walk::for_command(&snapshot, command, now);
    let looks = [Look { position: &locked.position, walk: &walk, enough: u32::MAX, backfilled: false }];
    let seen = only(look(session, &looks).await?)?;
    let plan = decide_command(&snapshot, command, &walk, &seen.taken, seen.live)?;
    if let Some(first) = &plan.first {
        let (writing, mut steps, _) = prepare(shared, session, &locked, first).await?;
        writing.flush(&mut steps);
        session.ask(steps).await?;
    }
    write(shared, session, &locked, &plan.change).await?;
    Ok(plan.answer)
}

/// A trigger whose task is there already is the resend of one whose reply was lost.
async fn triggered(session: &mut Session, schedule: ScheduleId, task: TaskId) -> Done<Option<Steered>> {
    let Some(known) = tasks::read(session, task.0).await? else { return Ok(None) };
    if known.gate() == schedule.0 && known.series.is_some_and(|series| series.is_trigger()) {
        return Ok(Some(Steered::Triggered(task)));
    }
    Err(Fault::Store(StoreError::refused(format!("task {task} is there already: draw a fresh id for each trigger"))))
}

/// Writes what was decided of one schedule and commits. Gives the created tasks, in the order of the grants.
pub(super) async fn write(
    shared: &Shared,
    session: &mut Session,
    locked: &Locked,
    change: &Change,
) -> Done<Vec<TaskId>> {
    let (writing, steps, created) = prepare(shared, session, locked, change).await?;
    writing.commit(shared, session, steps, None).await?;
    Ok(created)
}

/// What writes a change, and what must go before it.
async fn prepare(
    shared: &Shared,
    session: &mut Session,
    locked: &Locked,
    change: &Change,
) -> Done<(Writing, Vec<Step>, Vec<TaskId>)> {
    let now = session.now()?;
    let mut steps = cancel_live(session, change).await?;
    let spec = change.spec.as_deref().unwrap_or(&locked.definition.spec);
    let lane = if change.grants.is_empty() {
        None
    } else {
        shared.names.lanes(session, &[(&spec.queue, &spec.method)]).await?.pop()
    };
    let to_draw = change.grants.iter().filter(|grant| grant.id.is_none()).count();
    let mut ids = shared.sequence.draw_each(session, to_draw).await?.into_iter();
    for id in change.grants.iter().filter_map(|grant| grant.id) {
        shared.sequence.pass(session, id.0).await?;
    }
    let mut writing = Writing::default();
    let created = writing.add(&locked.definition.spec, change, now, lane, &mut ids)?;
    steps.extend(shared.names.list(lane.as_slice()));
    Ok((writing, steps, created))
}

async fn read(shared: &Shared, session: &mut Session, id: ScheduleId) -> Done<Locked> {
    let locked = Locked::read(shared, session, id).await?;
    locked.ok_or_else(|| Fault::corrupt(format!("schedule {} has no position", id.0)))
}

/// The schedule's rule. For one that this build cannot compile (a zone that it does not know), one without slots stands
/// in, so that an operator can pause, cancel or edit the schedule all the same.
fn rule_of(locked: &Locked) -> Done<Cow<'_, CompiledRule>> {
    match locked.definition.rule() {
        Ok(rule) => Ok(Cow::Borrowed(rule)),
        Err(_) => {
            let never = Rule::from(Every::new(Duration::from_secs(3600))).until(Timestamp::from_micros(1));
            CompiledRule::new(&never, Timestamp::EPOCH)
                .map(Cow::Owned)
                .map_err(|error| Fault::bug(format!("the rule without slots does not compile: {error}")))
        }
    }
}
