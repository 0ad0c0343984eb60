//! What a declaration does: at first, and each time a program starts again.

use super::change::Change;
use super::command::{first_position, redefine};
use super::{Snapshot, Walk};
use crate::error::StoreError;
use crate::id::ScheduleId;
use crate::schedule::{CompiledRule, SlotKey};
use crate::series::{Declaration, Declared, ScheduleState};
use punctual_clock::Timestamp;

/// What a declaration does.
#[derive(Debug, Clone, PartialEq)]
pub struct DeclarationPlan {
    /// What to write to the schedule; `None` leaves it as it is.
    pub change: Option<Change>,
    /// The declared definition's [`fingerprint`](crate::ScheduleSpec::fingerprint), to be kept with the schedule.
    pub hash: u64,
    /// The build's revision, to be kept with the schedule.
    pub revision: u64,
    /// What to answer, once written.
    pub answer: Declared,
}

/// Decides the first declaration of a name. The schedule is created `now`, with the definition that was declared; its
/// first slot is the first one after now. One that has no slot left is created as ended: a program that declares it does
/// not fail because its last day has passed.
///
/// # Errors
/// If the definition or its rule is invalid.
pub fn decide_creation(
    declaration: &Declaration,
    id: ScheduleId,
    now: Timestamp,
) -> Result<DeclarationPlan, StoreError> {
    declaration.spec.validate()?;
    let position = CompiledRule::new(&declaration.spec.rule, now)
        .and_then(|rule| first_position(id, &rule, now))
        .map_err(|error| StoreError::refused(error.to_string()))?;
    let change = Change { moved: true, spec: Some(Box::new(declaration.spec.clone())), ..Change::none(&position) };
    Ok(DeclarationPlan {
        change: Some(change),
        hash: declaration.spec.fingerprint(),
        revision: declaration.revision,
        answer: Declared::Created,
    })
}

/// Decides the declaration of a schedule that exists. `hash` and `revision` are those kept with it.
///
/// The same definition as declared before changes nothing but the kept revision, which never goes back: what an operator
/// edited since stays. Another definition applies only from an equal or newer revision.
///
/// # Errors
/// If the definition or its rule is invalid.
pub fn decide_declaration(
    snapshot: &Snapshot<'_>,
    hash: u64,
    revision: u64,
    declaration: &Declaration,
    walk: &Walk,
    taken: &[SlotKey],
) -> Result<DeclarationPlan, StoreError> {
    let declared = declaration.spec.fingerprint();
    let keep = |answer| DeclarationPlan { change: None, hash, revision, answer };
    if snapshot.position.state == ScheduleState::Cancelled {
        return Ok(keep(Declared::Cancelled));
    }
    if declared == hash {
        let revision = revision.max(declaration.revision);
        return Ok(DeclarationPlan { revision, ..keep(Declared::Unchanged) });
    }
    if declaration.revision < revision {
        return Ok(keep(Declared::OlderRevision));
    }
    let spec = &declaration.spec;
    let change = if spec == snapshot.spec { None } else { Some(redefine(snapshot, spec, walk, taken)?) };
    Ok(DeclarationPlan {
        change,
        hash: declared,
        revision: declaration.revision,
        answer: Declared::Updated { rule: spec.rule != snapshot.spec.rule },
    })
}
