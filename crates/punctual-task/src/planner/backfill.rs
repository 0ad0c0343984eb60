//! What a backfill creates: asked for, previewed, and taken up by sweeps.

use super::change::{Change, Grant, Plan};
use super::command::CommandPlan;
use super::{Snapshot, WALK_MAX, Walk};
use crate::backfill::{Backfill, BackfillPreview, BackfillRequest, BackfillSlot};
use crate::error::{StoreError, StoreErrorKind};
use crate::schedule::{RuleError, Slot, SlotKey, utc_text};
use crate::series::{LossReason, Position, SlotOutcome, Steered};
use punctual_clock::Timestamp;
use std::time::Duration;

const TICK: Duration = Duration::from_micros(1);

impl Walk {
    /// For the backfill of a sweep: its slots from its cursor on, as many as one pass may have to look at. `None` where no
    /// backfill is to be taken up.
    #[must_use]
    pub fn for_backfill(snapshot: &Snapshot<'_>, now: Timestamp, window_max: u32) -> Option<Self> {
        let position = snapshot.position;
        let backfill = position.backfill.filter(|_| position.is_backfilling())?;
        let request = backfill.request;
        let first = match (backfill.cursor, position.known_from) {
            // Of what lies before nothing is known: it is passed over in one step.
            (Some(cursor), Some(known)) if cursor.at < known && !request.rerun => {
                snapshot.rule.next_after(known.before(TICK))
            }
            (cursor, _) => Ok(cursor.map(|cursor| snapshot.rule.slot(cursor.key).unwrap_or(cursor))),
        };
        let limit = WALK_MAX.saturating_add(window_max.min(request.max_pending)).saturating_add(1);
        Some(Self::range(snapshot, first, request.to, now, window_max, limit))
    }

    /// The slots from `first` on that lie before `end`, at most `limit`, with the tasks of any pass.
    pub(super) fn range(
        snapshot: &Snapshot<'_>,
        first: Result<Option<Slot>, RuleError>,
        end: Timestamp,
        now: Timestamp,
        window_max: u32,
        limit: u32,
    ) -> Self {
        let inside = |found: Result<Option<Slot>, RuleError>| found.map(|slot| slot.filter(|slot| slot.at < end));
        let mut walk = Walk { slots: Vec::new(), next: inside(first), now, window_max, any_pass: true, rest: 0 };
        while let Ok(Some(slot)) = walk.next
            && walk.slots.len() < limit as usize
        {
            walk.slots.push(slot);
            walk.next = inside(snapshot.rule.next_after(slot.at));
        }
        walk
    }
}

/// Adds to the plan of a sweep what the schedule's backfill does in it.
///
/// `walk` is [`Walk::for_backfill`], `taken` the keys of its slots that have a task of any pass in this era, in key order;
/// `live` is how many occurrences of backfills have not ended, counted up to the request's `max_pending`.
#[must_use]
pub fn with_backfill(snapshot: &Snapshot<'_>, plan: Plan, walk: &Walk, taken: &[SlotKey], live: u32) -> Plan {
    let mut position = plan.change.position.clone();
    let Some(backfill) = position.backfill.filter(|_| plan.left.is_none() && position.is_backfilling()) else {
        return plan;
    };
    let mut pass = Pass { backfill, grants: Vec::new(), slots: Vec::new(), walked: 0 };
    let blocked = pass.run(walk, taken, live);
    let next = match walk.slots.get(pass.slots.len()) {
        Some(slot) => Some(*slot),
        // A rule that gives no next slot ends the backfill: its last slot is decided.
        None => walk.next.clone().unwrap_or(None),
    };
    let spent = pass.backfill.request.limit.is_some_and(|limit| pass.backfill.created >= limit);
    pass.backfill.cursor = next.filter(|_| !spent);
    position.backfill = Some(pass.backfill);

    let more = pass.backfill.is_active() && !blocked;
    let Change { wake, mut grants, losses, cancel_live, .. } = plan.change;
    let mut change = Change::to(snapshot.position, position);
    change.wake = if more { Some(walk.now) } else { wake };
    change.cancel_live = cancel_live;
    change.losses = losses;
    grants.append(&mut pass.grants);
    change.grants = grants;
    Plan { change, more: plan.more || more, backfilled: pass.slots, ..plan }
}

struct Pass {
    backfill: Backfill,
    grants: Vec<Grant>,
    slots: Vec<(Slot, SlotOutcome)>,
    /// How many slots were decided that created nothing.
    walked: u32,
}

impl Pass {
    /// Decides slot by slot. Gives whether it stopped since capacity is used up.
    fn run(&mut self, walk: &Walk, taken: &[SlotKey], live: u32) -> bool {
        let request = self.backfill.request;
        let capacity = request.max_pending.saturating_sub(live) as usize;
        for slot in &walk.slots {
            if self.walked >= WALK_MAX || request.limit.is_some_and(|limit| self.backfill.created >= limit) {
                return false;
            }
            let outcome = if slot.gap {
                SlotOutcome::Lost(LossReason::Gap)
            } else if !request.rerun && taken.binary_search(&slot.key).is_ok() {
                self.backfill.existed = self.backfill.existed.saturating_add(1);
                SlotOutcome::Exists
            } else if self.grants.len() >= capacity {
                return true;
            } else if self.grants.len() >= walk.window_max as usize {
                return false;
            } else {
                self.backfill.created = self.backfill.created.saturating_add(1);
                self.grants.push(Grant {
                    id: None,
                    slot: Some(slot.key),
                    at: slot.at,
                    due: walk.now,
                    run: 0,
                    catch_up: true,
                    pass: request.pass,
                });
                SlotOutcome::Created
            };
            self.walked += u32::from(outcome != SlotOutcome::Created);
            self.slots.push((*slot, outcome));
        }
        false
    }
}

/// Begins a backfill; sweeps do the rest.
pub(super) fn begin(
    snapshot: &Snapshot<'_>,
    request: &BackfillRequest,
    now: Timestamp,
) -> Result<CommandPlan, StoreError> {
    request.validate()?;
    let last = snapshot.position.backfill;
    let number = last.map_or(0, |last| last.request.pass).saturating_add(1);
    if let Some(last) = last
        && request.pass == last.request.pass
        && is_resend(&last.request, request)
    {
        return Ok(CommandPlan::answer(snapshot, Steered::Backfilling(request.pass)));
    }
    if let Some(last) = last.filter(Backfill::is_active) {
        return Err(StoreError::refused(format!(
            "backfill {} of schedule {:?} is under way; wait for its end, or stop it",
            last.request.pass, snapshot.spec.name
        )));
    }
    if request.pass != number {
        return Err(StoreError::new(
            StoreErrorKind::Conflict,
            format!(
                "the next backfill of schedule {:?} has number {number}, not {}: somebody else was faster",
                snapshot.spec.name, request.pass
            ),
        ));
    }
    let to = end(snapshot.position, request, now);
    let first = first(snapshot, request).map_err(|error| StoreError::refused(error.to_string()))?;
    let Some(first) = first.filter(|slot| slot.at < to) else {
        return Err(StoreError::refused(format!(
            "schedule {:?} has no slot from {} on that lies before {}, where its cursor or the range ends",
            snapshot.spec.name,
            utc_text(request.from),
            utc_text(to)
        )));
    };
    let mut position = snapshot.position.clone();
    let request = BackfillRequest { to, ..*request };
    position.backfill = Some(Backfill { request, cursor: Some(first), created: 0, existed: 0 });
    let backfilling = position.is_backfilling();
    let mut change = Change::to(snapshot.position, position);
    if backfilling {
        change.wake = Some(now);
    }
    Ok(CommandPlan { first: None, change, answer: Steered::Backfilling(request.pass) })
}

/// The same request: its `to` may have been cut.
fn is_resend(kept: &BackfillRequest, request: &BackfillRequest) -> bool {
    let same = BackfillRequest { to: kept.to, ..*request };
    *kept == same && kept.to <= request.to
}

/// Only slots that the series itself has decided are filled in.
fn end(position: &Position, request: &BackfillRequest, now: Timestamp) -> Timestamp {
    let decided = position.cursor.map_or(now.after(TICK), |cursor| cursor.at);
    request.to.min(decided)
}

fn first(snapshot: &Snapshot<'_>, request: &BackfillRequest) -> Result<Option<Slot>, RuleError> {
    snapshot.rule.next_after(request.from.before(TICK))
}

/// The walk of a preview.
pub(super) fn preview_walk(snapshot: &Snapshot<'_>, request: &BackfillRequest, now: Timestamp, limit: u32) -> Walk {
    Walk::range(snapshot, first(snapshot, request), end(snapshot.position, request, now), now, 0, limit)
}

/// Says what a backfill would do. What was lost is told apart by whoever reads the losses.
pub(super) fn preview(
    snapshot: &Snapshot<'_>,
    request: &BackfillRequest,
    walk: &Walk,
    taken: &[SlotKey],
) -> Result<CommandPlan, StoreError> {
    request.validate()?;
    let more = walk.next.as_ref().map_err(|error| StoreError::refused(error.to_string()))?.is_some();
    let known_from = snapshot.position.known_from;
    let what = |slot: &Slot| {
        if slot.gap {
            BackfillSlot::Gap
        } else if taken.binary_search(&slot.key).is_ok() {
            BackfillSlot::Exists
        } else if known_from.is_some_and(|known| slot.at < known) {
            BackfillSlot::Unknown
        } else {
            BackfillSlot::New
        }
    };
    let slots = walk.slots.iter().map(|slot| (*slot, what(slot))).collect();
    let preview = Box::new(BackfillPreview { slots, more });
    Ok(CommandPlan::answer(snapshot, Steered::Preview(preview)))
}

/// Ends the backfill that is under way.
pub(super) fn stop(position: &mut Position) {
    if let Some(backfill) = &mut position.backfill {
        backfill.cursor = None;
    }
}
