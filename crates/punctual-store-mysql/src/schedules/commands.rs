//! Declarations and operators' commands.

use super::{LIVE, Locked, Surroundings, Writing, find, ids_wanted, lock};
use crate::answers::cell;
use crate::connection::Session;
use crate::errors::{Done, Fault};
use crate::ids;
use crate::moment::Moment;
use crate::script::{Script, Value};
use crate::tasks;
use punctual_clock::Timestamp;
use punctual_task::planner::{Change, Walk, decide_command, decide_creation, decide_declaration, refuse_broken};
use punctual_task::schedule::{CompiledRule, Every, Rule};
use punctual_task::{Declaration, Declared, Position, ScheduleCommand, ScheduleId, Steered, StoreError, TaskId};
use std::borrow::Cow;
use std::time::Duration;

const ADD: &str = "INSERT INTO punctual_schedule (id, name, created, hash, revision) VALUES ";
const DECLARED: &str = "SELECT hash, revision FROM punctual_schedule WHERE id = ?";
const DECLARE: &str = "UPDATE punctual_schedule SET hash = ?, revision = ? WHERE id = ?";

/// Where a schedule stood when its change was sent, and what was to be answered.
pub(crate) type Sent<T> = (Position, T);

/// Creates a schedule or brings it up to a declaration.
pub(crate) async fn declare(
    session: &mut Session,
    declaration: &Declaration,
    unsure: &mut Option<Sent<Declared>>,
) -> Done<Declared> {
    let name = &declaration.spec.name;
    let mut drawn = None;
    if find(session, name).await?.is_none() {
        drawn = Some(ScheduleId(ids::draw_one(session, "schedule").await?));
    }
    let (moment, _) = session.begin(&Script::new()).await?;
    let Some(id) = find(session, name).await? else {
        let id = drawn.ok_or(Fault::Moved)?;
        return create(session, declaration, id, moment, unsure).await;
    };
    let locked = read(session, id).await?;
    if let Some((position, answer)) = unsure.take()
        && locked.position == position
    {
        session.end().await?;
        return Ok(answer);
    }
    let rule = rule_of(&locked)?;
    let snapshot = locked.snapshot(&rule);
    let walk = Walk::for_declaration(&snapshot, declaration, moment.now);
    let around = Surroundings::read(session, &[(&locked.position, &walk, snapshot.spec)]).await?;
    let rows = session.run(&Script::of(DECLARED, &[id.0.into()])).await?.rows()?;
    let row = rows.first().ok_or_else(|| Fault::corrupt(format!("schedule {} has a position and no name", id.0)))?;
    let (hash, revision): (i64, i64) = (cell(row, 0)?, cell(row, 1)?);
    let taken = around.taken(id);
    let plan =
        decide_declaration(&snapshot, hash.cast_unsigned(), revision.cast_unsigned(), declaration, &walk, taken)?;
    let mut script = match &plan.change {
        Some(change) => written(session, &locked, change, moment).await?,
        None => Script::new(),
    };
    if (plan.hash.cast_signed(), plan.revision.cast_signed()) != (hash, revision) {
        script.add(DECLARE, &[plan.hash.cast_signed().into(), plan.revision.cast_signed().into(), id.0.into()]);
    }
    finish(
        session,
        script,
        plan.change.filter(|change| change.moved).map(|change| (change.position, plan.answer)),
        unsure,
    )
    .await?;
    Ok(plan.answer)
}

async fn create(
    session: &mut Session,
    declaration: &Declaration,
    id: ScheduleId,
    moment: Moment,
    unsure: &mut Option<Sent<Declared>>,
) -> Done<Declared> {
    let plan = decide_creation(declaration, id, moment.now)?;
    let change = plan.change.ok_or_else(|| Fault::bug("a creation without a position"))?;
    let mut script = Script::new();
    let row = [
        id.0.into(),
        declaration.spec.name.as_str().into(),
        moment.now.as_micros().into(),
        plan.hash.cast_signed().into(),
        Value::from(plan.revision.cast_signed()),
    ];
    script.insert(ADD, [row], "");
    let mut writing = Writing::new(moment.now);
    writing.add(session, &declaration.spec, &change, &mut std::iter::empty()).await?;
    script.append(&writing.script());
    match finish(session, script, Some((change.position, plan.answer)), unsure).await {
        // Another declared it at the same time: what it wrote counts.
        Err(fault) if fault.is_duplicate() => Err(Fault::Moved),
        Err(fault) => Err(fault),
        Ok(()) => Ok(plan.answer),
    }
}

/// Does what an operator asks.
pub(crate) async fn steer(
    session: &mut Session,
    name: &str,
    command: &ScheduleCommand,
    unsure: &mut Option<Sent<Steered>>,
) -> Done<Steered> {
    let (moment, _) = session.begin(&Script::new()).await?;
    let found = find(session, name).await?;
    let id = found.ok_or_else(|| StoreError::not_found(format!("there is no schedule named {name:?}")))?;
    let locked = read(session, id).await?;
    if let ScheduleCommand::Trigger { id: task, .. } = command
        && let Some(answer) = triggered(session, id, *task).await?
    {
        session.end().await?;
        return Ok(answer);
    }
    if let Some((position, answer)) = unsure.take()
        && locked.position == position
    {
        session.end().await?;
        return Ok(answer);
    }
    if let Err(error) = locked.definition.rule() {
        refuse_broken(name, command, error)?;
    }
    let rule = rule_of(&locked)?;
    let snapshot = locked.snapshot(&rule);
    let walk = Walk::for_command(&snapshot, command, moment.now);
    let around = Surroundings::read(session, &[(&locked.position, &walk, snapshot.spec)]).await?;
    let rows = session.run(&Script::of(LIVE, &[id.0.into()])).await?.rows()?;
    let live = rows.first().map_or(Ok(0), |row| cell(row, 0))?;
    let plan = decide_command(&snapshot, command, &walk, around.taken(id), live)?;
    if let Some(first) = &plan.first {
        // What follows sees it: an edit may drop what is decided before it.
        let script = written(session, &locked, first, moment).await?;
        session.run(&script).await?;
    }
    let mut script = written(session, &locked, &plan.change, moment).await?;
    if let ScheduleCommand::Trigger { id: task, .. } = command {
        ids::pass(session, task.0, &mut script).await?;
    }
    // What moves nothing is found by its task, or done again.
    let sent = plan.change.moved.then(|| (plan.change.position, plan.answer.clone()));
    match finish(session, script, sent, unsure).await {
        Err(fault) if fault.is_duplicate() => Err(Fault::Moved),
        Err(fault) => Err(fault),
        Ok(()) => Ok(plan.answer),
    }
}

async fn written(session: &mut Session, locked: &Locked, change: &Change, moment: Moment) -> Done<Script> {
    let count = ids_wanted(std::iter::once(change));
    let Some(ids) = session.shared.ids.take(count) else {
        // Nothing can be drawn inside a transaction: the whole is tried again with enough of them.
        session.roll_back().await;
        ids::reserve(session, count).await?;
        return Err(Fault::Moved);
    };
    let mut writing = Writing::new(moment.now);
    writing.add(session, &locked.definition.spec, change, &mut ids.into_iter()).await?;
    Ok(writing.script())
}

async fn finish<T>(
    session: &mut Session,
    script: Script,
    sent: Option<Sent<T>>,
    unsure: &mut Option<Sent<T>>,
) -> Done<()> {
    if script.is_empty() {
        return session.end().await;
    }
    *unsure = sent;
    session.commit(script).await?;
    Ok(())
}

/// A trigger whose task is there already is the resend of one whose reply was lost.
async fn triggered(session: &mut Session, schedule: ScheduleId, task: TaskId) -> Done<Option<Steered>> {
    let mut rows = tasks::read(session, &[task.0]).await?;
    let Some(known) = rows.remove(&task.0) else { return Ok(None) };
    if known.gate() == schedule.0 && known.series.is_some_and(|series| series.is_trigger()) {
        return Ok(Some(Steered::Triggered(task)));
    }
    Err(Fault::Store(StoreError::refused(format!("task {task} is there already: draw a fresh id for each trigger"))))
}

async fn read(session: &mut Session, id: ScheduleId) -> Done<Locked> {
    lock(session, id).await?.ok_or_else(|| Fault::corrupt(format!("schedule {} has no position", id.0)))
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
