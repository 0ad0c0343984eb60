//! Declarations and operators' commands.

use super::writing::{Decided, add_position, write};
use super::{Locked, Surroundings, find, live};
use crate::connection::Db;
use crate::definitions;
use crate::errors::{Done, Fault};
use crate::session::Session;
use crate::tasks::{self, draw};
use punctual_clock::Timestamp;
use punctual_task::planner::{Walk, decide_command, decide_creation, decide_declaration, refuse_broken};
use punctual_task::schedule::{CompiledRule, Every, Rule};
use punctual_task::{Declaration, Declared, ScheduleCommand, ScheduleId, Steered, StoreError, TaskId};
use rusqlite::params;
use std::borrow::Cow;
use std::time::Duration;

const ADD: &str = "INSERT INTO schedule (id, name, created, hash, revision) VALUES (?1, ?2, ?3, ?4, ?5)";
const DECLARED: &str = "SELECT hash, revision FROM schedule WHERE id = ?1";
const DECLARE: &str = "UPDATE schedule SET hash = ?2, revision = ?3 WHERE id = ?1 AND (hash <> ?2 OR revision <> ?3)";

/// Creates a schedule or brings it up to a declaration.
pub(crate) fn declare(session: &mut Session, declaration: &Declaration) -> Done<Declared> {
    let now = session.now();
    let Some(id) = find(&session.db, &declaration.spec.name)? else {
        return create(session, declaration, now);
    };
    let Session { db, definitions, .. } = session;
    let locked = read(db, definitions, id)?;
    let rule = rule_of(&locked)?;
    let snapshot = locked.snapshot(&rule);
    let walk = Walk::for_declaration(&snapshot, declaration, now);
    let taken = Surroundings::of(db).taken(&locked.position, &walk)?;
    let (hash, revision): (i64, i64) =
        db.sql(DECLARED)?.query_row(params![id.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let plan =
        decide_declaration(&snapshot, hash.cast_unsigned(), revision.cast_unsigned(), declaration, &walk, &taken)?;
    if let Some(change) = &plan.change {
        write(session, &[Decided { spec: &locked.definition.spec, change }], now)?;
    }
    session.db.sql(DECLARE)?.execute(params![id.0, plan.hash.cast_signed(), plan.revision.cast_signed()])?;
    Ok(plan.answer)
}

fn create(session: &mut Session, declaration: &Declaration, now: Timestamp) -> Done<Declared> {
    let db = &session.db;
    let id = ScheduleId(draw(db, "schedule", 1)?);
    let plan = decide_creation(declaration, id, now)?;
    let change = plan.change.ok_or_else(|| Fault::bug("a creation without a position"))?;
    db.sql(ADD)?.execute(params![
        id.0,
        declaration.spec.name,
        now.as_micros(),
        plan.hash.cast_signed(),
        plan.revision.cast_signed()
    ])?;
    definitions::add(db, id, change.position.version, &declaration.spec)?;
    add_position(db, &change)?;
    Ok(plan.answer)
}

/// Does what an operator asks.
pub(crate) fn steer(session: &mut Session, name: &str, command: &ScheduleCommand) -> Done<Steered> {
    let now = session.now();
    let id = find(&session.db, name)?
        .ok_or_else(|| StoreError::not_found(format!("there is no schedule named {name:?}")))?;
    if let ScheduleCommand::Trigger { id: task, .. } = command
        && let Some(answer) = triggered(&session.db, id, *task)?
    {
        return Ok(answer);
    }
    let Session { db, definitions, .. } = session;
    let locked = read(db, definitions, id)?;
    if let Err(error) = locked.definition.rule() {
        refuse_broken(name, command, error)?;
    }
    let rule = rule_of(&locked)?;
    let snapshot = locked.snapshot(&rule);
    let walk = Walk::for_command(&snapshot, command, now);
    let taken = Surroundings::of(db).taken(&locked.position, &walk)?;
    let plan = decide_command(&snapshot, command, &walk, &taken, live(db, id)?)?;
    for change in plan.first.iter().chain([&plan.change]) {
        write(session, &[Decided { spec: &locked.definition.spec, change }], now)?;
    }
    Ok(plan.answer)
}

/// A trigger whose task is there already is the resend of one whose reply was lost.
fn triggered(db: &Db, schedule: ScheduleId, task: TaskId) -> Done<Option<Steered>> {
    let Some(known) = tasks::read(db, task.0)? else { return Ok(None) };
    if known.gate() == schedule.0 && known.series.is_some_and(|series| series.is_trigger()) {
        return Ok(Some(Steered::Triggered(task)));
    }
    Err(Fault::Store(StoreError::refused(format!("task {task} is there already: draw a fresh id for each trigger"))))
}

fn read(db: &Db, definitions: &mut definitions::Definitions, id: ScheduleId) -> Done<Locked> {
    Locked::read(db, definitions, id)?.ok_or_else(|| Fault::corrupt(format!("schedule {} has no position", id.0)))
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
