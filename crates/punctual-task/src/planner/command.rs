//! What an operator's command does to a schedule.

use super::change::{Change, Grant, Losses};
use super::leap::tail;
use super::pass::{self, budget, end_series};
use super::{COMMAND_WALK_MAX, Snapshot, Walk, backfill};
use crate::error::{StoreError, StoreErrorKind};
use crate::schedule::{CompiledRule, RuleError, Slot, SlotKey, ZoneVerdict};
use crate::series::{
    LossReason, NOTE_BYTES_MAX, Overlap, Position, Resume, ScheduleCommand, ScheduleSpec, ScheduleState, Steered,
};
use punctual_clock::Timestamp;
use std::time::Duration;

/// What a command does.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandPlan {
    /// What to write before the rest, with the definition as it was: an edit decides what is due first.
    pub first: Option<Change>,
    /// What to write.
    pub change: Change,
    /// What to answer, once written.
    pub answer: Steered,
}

/// Decides a command. The table, by state:
///
/// | command | active | paused | halted | ended | cancelled |
/// |---|---|---|---|---|---|
/// | pause | paused | – (a new note is taken) | – | refused | refused |
/// | resume by policy | – | active | refused | refused | refused |
/// | resume from now, last, all | – | active | active | refused | refused |
/// | trigger | creates | creates | creates | creates | refused |
/// | edit | edited | edited, paused | edited, halted | active if the new rule has slots left | refused |
/// | edit, decide first | edited | refused | refused | as edit | refused |
/// | cancel | cancelled | cancelled | cancelled | cancelled | – |
/// | new series | refused | refused | refused | refused | active if the rule has slots left |
/// | backfill | begun | begun, rests until resumed | begun, rests until resumed | begun | refused |
/// | preview or stop a backfill, check the zone | as it is | as it is | as it is | as it is | refused |
///
/// `taken` as for [`plan`](super::plan), of any pass where [`Walk::any_pass`] says so; `live` is the whole count.
///
/// # Errors
/// If the schedule's state does not allow it ([`Refused`](StoreErrorKind::Refused)), if an edit is invalid (`Refused`) or
/// was made against another version ([`Conflict`](StoreErrorKind::Conflict)).
pub fn decide_command(
    snapshot: &Snapshot<'_>,
    command: &ScheduleCommand,
    walk: &Walk,
    taken: &[SlotKey],
    live: u32,
) -> Result<CommandPlan, StoreError> {
    match command {
        ScheduleCommand::Pause { note } => pause(snapshot, note),
        ScheduleCommand::Resume(how) => resume(snapshot, *how, walk, taken),
        ScheduleCommand::Trigger { id, force } => {
            refuse_in(snapshot, &[ScheduleState::Cancelled], "triggered")?;
            if live >= snapshot.spec.max_pending && !force && snapshot.spec.overlap != Overlap::Allow {
                return Ok(CommandPlan::answer(snapshot, Steered::Busy { live }));
            }
            let now = walk.now;
            let grant = Grant { id: Some(*id), slot: None, at: now, due: now, run: 0, catch_up: false, pass: 0 };
            let mut plan = CommandPlan::answer(snapshot, Steered::Triggered(*id));
            plan.change.grants.push(grant);
            Ok(plan)
        }
        ScheduleCommand::Edit { spec, version, decide_first, drop_pending } => {
            refuse_in(snapshot, &[ScheduleState::Cancelled], "edited")?;
            if *version != snapshot.position.version {
                return Err(StoreError::new(
                    StoreErrorKind::Conflict,
                    format!(
                        "schedule {:?} has version {} of its definition, not {version}: read it again and repeat the edit",
                        snapshot.spec.name, snapshot.position.version
                    ),
                ));
            }
            if **spec == *snapshot.spec {
                return Ok(unchanged(snapshot));
            }
            let mut plan = match decide_first {
                true => edit_after_deciding(snapshot, spec, *drop_pending, walk, taken, live)?,
                false => CommandPlan {
                    first: None,
                    change: redefine(snapshot, spec, walk, taken)?,
                    answer: Steered::Applied,
                },
            };
            plan.change.drop_waiting = *drop_pending;
            Ok(plan)
        }
        ScheduleCommand::Cancel => {
            if snapshot.position.state == ScheduleState::Cancelled {
                return Ok(unchanged(snapshot));
            }
            let mut position = snapshot.position.clone();
            end_series(&mut position);
            position.state = ScheduleState::Cancelled;
            position.kept_to = None;
            backfill::stop(&mut position);
            let mut plan = applied(snapshot, position);
            plan.change.cancel_live = true;
            Ok(plan)
        }
        ScheduleCommand::NewSeries { spec } => new_series(snapshot, spec, walk.now),
        ScheduleCommand::Backfill(request) => {
            refuse_in(snapshot, &[ScheduleState::Cancelled], "backfilled")?;
            backfill::begin(snapshot, request, walk.now)
        }
        ScheduleCommand::PreviewBackfill(request) => {
            refuse_in(snapshot, &[ScheduleState::Cancelled], "backfilled")?;
            backfill::preview(snapshot, request, walk, taken)
        }
        ScheduleCommand::StopBackfill => {
            refuse_in(snapshot, &[ScheduleState::Cancelled], "backfilled")?;
            let mut position = snapshot.position.clone();
            backfill::stop(&mut position);
            Ok(if position == *snapshot.position { unchanged(snapshot) } else { applied(snapshot, position) })
        }
        ScheduleCommand::CheckZone => {
            refuse_in(snapshot, &[ScheduleState::Cancelled], "checked")?;
            check_zone(snapshot, walk)
        }
    }
}

/// Compares the zone's rules with those that the cursor was computed with.
fn check_zone(snapshot: &Snapshot<'_>, walk: &Walk) -> Result<CommandPlan, StoreError> {
    match snapshot.rule.judge_zone(snapshot.position.zone.as_ref(), walk.now) {
        ZoneVerdict::Same => Ok(unchanged(snapshot)),
        ZoneVerdict::Leave(why) => Err(StoreError::refused(why)),
        ZoneVerdict::Restamp(stamp) => {
            // The walk begins at the cursor's slot as this host's database places it.
            let cursor = walk.next.clone().unwrap_or(snapshot.position.cursor);
            let position = Position { zone: Some(stamp), cursor, ..snapshot.position.clone() };
            Ok(applied(snapshot, position))
        }
    }
}

/// Decides what is due by the definition as it was, then edits.
fn edit_after_deciding(
    snapshot: &Snapshot<'_>,
    spec: &ScheduleSpec,
    drop_pending: bool,
    walk: &Walk,
    taken: &[SlotKey],
    live: u32,
) -> Result<CommandPlan, StoreError> {
    let refused = |why: &str| StoreError::refused(format!("schedule {:?} {why}", snapshot.spec.name));
    if drop_pending {
        return Err(refused("cannot be edited so: what is decided first would be dropped with what is pending"));
    }
    if matches!(snapshot.position.state, ScheduleState::Paused | ScheduleState::Halted) {
        return Err(refused(
            "decides nothing while it is paused or halted; resume it first, or edit it without deciding",
        ));
    }
    let whole = Walk { window_max: COMMAND_WALK_MAX, ..walk.clone() };
    let plan = pass::decide(snapshot, &whole, taken, live, COMMAND_WALK_MAX);
    if let Some(why) = plan.left {
        return Err(StoreError::refused(why));
    }
    let position = &plan.change.position;
    if position.state == ScheduleState::Halted {
        return Err(refused("would halt, since too many slots were missed; say what becomes of them, then edit it"));
    }
    if position.cursor.is_some_and(|cursor| cursor.at <= walk.now) {
        return Err(refused(
            "has due slots that cannot be decided now, since as many occurrences are live as may be or too many slots \
             are due; wait, or edit it without deciding first",
        ));
    }
    let decided = Snapshot { position, ..*snapshot };
    let change = redefine(&decided, spec, &Walk::empty(&decided, walk.now, 0), &[])?;
    Ok(CommandPlan { first: Some(plan.change), change, answer: Steered::Applied })
}

/// Begins a cancelled schedule anew.
fn new_series(snapshot: &Snapshot<'_>, spec: &ScheduleSpec, now: Timestamp) -> Result<CommandPlan, StoreError> {
    let before = snapshot.position;
    if before.state != ScheduleState::Cancelled {
        return Err(StoreError::refused(format!(
            "schedule {:?} is {} and goes on: edit it; only a cancelled one begins a new series",
            snapshot.spec.name,
            before.state.as_str()
        )));
    }
    check_definition(snapshot, spec)?;
    let first = CompiledRule::new(&spec.rule, now).and_then(|rule| first_position(before.id, &rule, now));
    let position = Position {
        era: before.era.saturating_add(1),
        version: before.version.saturating_add(1),
        known_from: Some(now.after(TICK)),
        backfill: before.backfill,
        ..first.map_err(|error| StoreError::refused(error.to_string()))?
    };
    let mut plan = applied(snapshot, position);
    plan.change.created = Some(now);
    plan.change.spec = Some(Box::new(spec.clone()));
    Ok(plan)
}

/// Refuses what needs the rule of a schedule whose stored rule cannot be compiled here: resuming it would pass over slots
/// that this build cannot see, or end the series. Everything else does without: a store decides it with a rule that has
/// no slots.
///
/// # Errors
/// [`Refused`](StoreErrorKind::Refused) for [`ScheduleCommand::Resume`].
pub fn refuse_broken(name: &str, command: &ScheduleCommand, error: &RuleError) -> Result<(), StoreError> {
    let what = match command {
        ScheduleCommand::Resume(_) => "resumed",
        ScheduleCommand::Backfill(_) | ScheduleCommand::PreviewBackfill(_) => "backfilled",
        ScheduleCommand::CheckZone => "checked",
        ScheduleCommand::Edit { decide_first: true, .. } => "decided",
        ScheduleCommand::Pause { .. }
        | ScheduleCommand::Trigger { .. }
        | ScheduleCommand::Edit { decide_first: false, .. }
        | ScheduleCommand::Cancel
        | ScheduleCommand::NewSeries { .. }
        | ScheduleCommand::StopBackfill => return Ok(()),
    };
    Err(StoreError::refused(format!(
        "schedule {name:?} cannot be {what} by this build, which cannot use its rule: {error}; \
         edit the rule, or use a build that knows it"
    )))
}

impl CommandPlan {
    /// An answer that changes nothing.
    pub(super) fn answer(snapshot: &Snapshot<'_>, answer: Steered) -> Self {
        CommandPlan { first: None, change: Change::none(snapshot.position), answer }
    }
}

fn unchanged(snapshot: &Snapshot<'_>) -> CommandPlan {
    CommandPlan::answer(snapshot, Steered::Unchanged)
}

fn applied(snapshot: &Snapshot<'_>, position: Position) -> CommandPlan {
    CommandPlan { first: None, change: Change::to(snapshot.position, position), answer: Steered::Applied }
}

fn refuse_in(snapshot: &Snapshot<'_>, states: &[ScheduleState], what: &str) -> Result<(), StoreError> {
    let state = snapshot.position.state;
    if states.contains(&state) {
        return Err(StoreError::refused(format!(
            "schedule {:?} is {} and cannot be {what}",
            snapshot.spec.name,
            state.as_str()
        )));
    }
    Ok(())
}

fn pause(snapshot: &Snapshot<'_>, note: &str) -> Result<CommandPlan, StoreError> {
    refuse_in(snapshot, &[ScheduleState::Ended, ScheduleState::Cancelled], "paused")?;
    if note.len() > NOTE_BYTES_MAX {
        return Err(StoreError::refused(format!("the note has {} bytes; the limit is {NOTE_BYTES_MAX}", note.len())));
    }
    let position = snapshot.position;
    // What halted it stays to be decided, and its note says what.
    if position.state == ScheduleState::Halted || (position.state == ScheduleState::Paused && position.note == note) {
        return Ok(unchanged(snapshot));
    }
    Ok(applied(snapshot, Position { state: ScheduleState::Paused, note: note.to_owned(), ..position.clone() }))
}

fn resume(snapshot: &Snapshot<'_>, how: Resume, walk: &Walk, taken: &[SlotKey]) -> Result<CommandPlan, StoreError> {
    refuse_in(snapshot, &[ScheduleState::Ended, ScheduleState::Cancelled], "resumed")?;
    let reason = match snapshot.position.state {
        ScheduleState::Halted => LossReason::Cap,
        ScheduleState::Paused => LossReason::Paused,
        ScheduleState::Active | ScheduleState::Ended | ScheduleState::Cancelled => return Ok(unchanged(snapshot)),
    };
    let broken = |error: RuleError| StoreError::refused(format!("the rule gives no next slot; edit it: {error}"));
    let mut position = Position { state: ScheduleState::Active, note: String::new(), ..snapshot.position.clone() };
    match snapshot.rule.judge_zone(position.zone.as_ref(), walk.now) {
        ZoneVerdict::Same => {}
        ZoneVerdict::Restamp(stamp) => {
            position.zone = Some(stamp);
            position.cursor = position.cursor.map(|cursor| snapshot.rule.slot(cursor.key).unwrap_or(cursor));
        }
        ZoneVerdict::Leave(why) => return Err(StoreError::refused(why)),
    }
    let mut losses = Losses::default();
    match how {
        Resume::ByPolicy if snapshot.position.state == ScheduleState::Halted => {
            return Err(StoreError::refused(format!(
                "schedule {:?} is halted and would halt again; resume it from now, with the last so many slots, or with all",
                snapshot.spec.name
            )));
        }
        Resume::ByPolicy => {}
        Resume::All => position.kept_to = Some(walk.now),
        Resume::FromNow | Resume::Last(0) => {
            lose(snapshot, walk, taken, reason, None, &mut losses).map_err(broken)?;
            position.cursor = after_due(snapshot, walk).map_err(broken)?;
        }
        Resume::Last(count) => {
            if count > ScheduleSpec::CATCH_UP_MAX {
                return Err(StoreError::refused(format!(
                    "{count} slots to keep are more than the limit of {}",
                    ScheduleSpec::CATCH_UP_MAX
                )));
            }
            let first = match first_due(walk) {
                Some(due) => {
                    tail(snapshot.rule, due.at.before(TICK), walk.now, count as usize).map_err(broken)?.first().copied()
                }
                None => None,
            };
            lose(snapshot, walk, taken, reason, first, &mut losses).map_err(broken)?;
            match first {
                Some(first) => {
                    position.cursor = Some(first);
                    position.kept_to = Some(walk.now);
                }
                None => position.cursor = after_due(snapshot, walk).map_err(broken)?,
            }
        }
    }
    if position.cursor.is_none() {
        // A rule that gave no slot when it halted may have one again only after an edit.
        match snapshot.rule.next_after(walk.now).map_err(broken)? {
            Some(slot) => position.cursor = Some(slot),
            None => end_series(&mut position),
        }
    }
    let mut plan = applied(snapshot, position);
    plan.change.losses = losses.into_ranges();
    Ok(plan)
}

/// The first slot after all that are due. A cursor that lies ahead, since the clock went back, stays: what lies before it is
/// decided.
fn after_due(snapshot: &Snapshot<'_>, walk: &Walk) -> Result<Option<Slot>, RuleError> {
    match snapshot.position.cursor {
        Some(cursor) if cursor.at > walk.now => Ok(Some(cursor)),
        _ => snapshot.rule.next_after(walk.now),
    }
}

const TICK: Duration = Duration::from_micros(1);

fn first_due(walk: &Walk) -> Option<Slot> {
    walk.slots.first().copied()
}

/// Loses the due slots that have no task, all of them or those before `kept`.
fn lose(
    snapshot: &Snapshot<'_>,
    walk: &Walk,
    taken: &[SlotKey],
    reason: LossReason,
    kept: Option<Slot>,
    losses: &mut Losses,
) -> Result<(), RuleError> {
    let end = kept.map_or(walk.now, |slot| slot.at.before(TICK));
    for slot in walk.slots.iter().take_while(|slot| slot.at <= end) {
        if taken.binary_search(&slot.key).is_ok() {
            losses.close();
        } else {
            losses.add(slot.at, if slot.gap { LossReason::Gap } else { reason });
        }
    }
    if let Ok(Some(beyond)) = walk.next
        && beyond.at <= end
    {
        let last = tail(snapshot.rule, beyond.at.before(TICK), end, 1)?.first().map_or(beyond.at, |slot| slot.at);
        losses.add_leap(beyond.at, last, reason);
    }
    Ok(())
}

/// Replaces the definition. With another rule the era grows, due slots that are not decided are lost, and the cursor is
/// the new rule's first slot after now: an edit never causes a catch-up.
pub(super) fn redefine(
    snapshot: &Snapshot<'_>,
    spec: &ScheduleSpec,
    walk: &Walk,
    taken: &[SlotKey],
) -> Result<Change, StoreError> {
    check_definition(snapshot, spec)?;
    let mut position = snapshot.position.clone();
    position.version = position.version.saturating_add(1);
    let mut losses = Losses::default();
    if spec.rule != snapshot.spec.rule {
        let refused = |error: RuleError| StoreError::refused(error.to_string());
        let rule = CompiledRule::new(&spec.rule, snapshot.created).map_err(refused)?;
        position.era = position.era.saturating_add(1);
        position.kept_to = None;
        position.known_from = position.known_from.max(Some(walk.now.after(TICK)));
        position.zone = rule.zone_stamp(walk.now);
        // What is left of a backfill are slots of the rule as it was.
        backfill::stop(&mut position);
        position.cursor = rule.next_after(walk.now).map_err(refused)?;
        lose(snapshot, walk, taken, LossReason::Edit, None, &mut losses).map_err(refused)?;
        if position.cursor.is_none() || budget(&Snapshot { rule: &rule, ..*snapshot }) == 0 {
            end_series(&mut position);
        } else if position.state == ScheduleState::Ended {
            position.state = ScheduleState::Active;
        }
    }
    let mut change = Change::to(snapshot.position, position);
    change.spec = Some(Box::new(spec.clone()));
    change.losses = losses.into_ranges();
    Ok(change)
}

fn check_definition(snapshot: &Snapshot<'_>, spec: &ScheduleSpec) -> Result<(), StoreError> {
    spec.validate()?;
    if spec.name != snapshot.spec.name {
        return Err(StoreError::refused(format!(
            "schedule {:?} keeps its name: {:?} would be another schedule",
            snapshot.spec.name, spec.name
        )));
    }
    Ok(())
}

/// The position of a schedule that is created `now`.
pub(super) fn first_position(
    id: crate::id::ScheduleId,
    rule: &CompiledRule,
    now: Timestamp,
) -> Result<Position, RuleError> {
    let mut position = Position {
        id,
        state: ScheduleState::Active,
        note: String::new(),
        rev: 1,
        era: 1,
        version: 1,
        cursor: rule.next_after(now)?,
        runs: 0,
        kept_to: None,
        known_from: None,
        zone: rule.zone_stamp(now),
        backfill: None,
    };
    if position.cursor.is_none() {
        end_series(&mut position);
    }
    Ok(position)
}
