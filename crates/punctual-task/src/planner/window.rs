//! A window under compare-and-swap.

use super::change::{Change, Losses, Plan};
use super::pass::{budget, capacity, end_series, forget_kept, grant, halt_without_cursor};
use super::{Snapshot, Walk};
use crate::error::StoreError;
use crate::schedule::{SlotKey, ZoneVerdict, utc_text};
use crate::series::{LossReason, ScheduleSpec, ScheduleState, SlotOutcome, Window};

/// Decides a window, in the order inactive, version, cursor, exists, created.
///
/// # Errors
/// If a slot of the window is none of the rule's, if one is left out between, or if there are more than
/// [`ScheduleSpec::MAX_PENDING_MAX`]: the caller computed it from something else.
pub fn decide_window(
    snapshot: &Snapshot<'_>,
    window: &Window,
    walk: &Walk,
    taken: &[SlotKey],
    live: u32,
) -> Result<Plan, StoreError> {
    let before = snapshot.position;
    let refused = if before.state != ScheduleState::Active {
        Some(SlotOutcome::Inactive)
    } else if before.version != window.version {
        Some(SlotOutcome::VersionMismatch)
    } else if before.cursor != Some(window.cursor) {
        Some(SlotOutcome::CursorMoved)
    } else {
        None
    };
    if let Some(outcome) = refused {
        let slots = window.slots.iter().map(|slot| (*slot, outcome)).collect();
        return Ok(Plan::new(Change::none(before), slots, false));
    }
    let mut position = before.clone();
    match snapshot.rule.judge_zone(before.zone.as_ref(), walk.now) {
        ZoneVerdict::Same => {}
        ZoneVerdict::Restamp(stamp) => position.zone = Some(stamp),
        ZoneVerdict::Leave(why) => return Err(StoreError::refused(why)),
    }
    check(window, walk)?;

    let (capacity, mut budget) = (capacity(snapshot, live), budget(snapshot));
    let late_before = walk.now.before(snapshot.spec.late_after);
    let (mut grants, mut losses) = (Vec::new(), Losses::default());
    let mut slots = Vec::with_capacity(window.slots.len());
    let mut blocked = false;
    for slot in &walk.slots {
        if taken.binary_search(&slot.key).is_ok() {
            losses.close();
            slots.push((*slot, SlotOutcome::Exists));
        } else if slot.gap {
            losses.add(slot.at, LossReason::Gap);
            slots.push((*slot, SlotOutcome::Lost(LossReason::Gap)));
        } else if budget == 0 {
            break;
        } else if grants.len() >= capacity as usize {
            blocked = true;
            break;
        } else {
            losses.close();
            budget -= 1;
            grants.push(grant(snapshot, grants.len(), *slot, walk.now, slot.at < late_before));
            slots.push((*slot, SlotOutcome::Created));
        }
    }

    position.runs = position.runs.saturating_add(grants.len() as u64);
    let next = match walk.slots.get(slots.len()) {
        Some(slot) => Ok(Some(*slot)),
        None => walk.next.clone(),
    };
    match next {
        _ if budget == 0 => end_series(&mut position),
        Ok(None) => end_series(&mut position),
        Ok(Some(cursor)) => position.cursor = Some(cursor),
        Err(error) => halt_without_cursor(&mut position, &error),
    }
    forget_kept(&mut position);
    slots.extend(window.slots.iter().skip(slots.len()).map(|slot| (*slot, SlotOutcome::NotReached)));
    let mut change = Change::to(before, position);
    let more = !blocked && change.wake.is_some_and(|wake| wake <= walk.now);
    if blocked && change.wake.is_some_and(|wake| wake <= walk.now) {
        change.wake = None;
    }
    change.losses = losses.into_ranges();
    change.grants = grants;
    Ok(Plan::new(change, slots, more))
}

/// Refuses slots that are not the rule's next ones. Slots past the series' end are none of its business.
fn check(window: &Window, walk: &Walk) -> Result<(), StoreError> {
    if window.slots.len() > ScheduleSpec::MAX_PENDING_MAX as usize {
        return Err(StoreError::refused(format!(
            "the window has {} slots; the limit is {}: write it in parts",
            window.slots.len(),
            ScheduleSpec::MAX_PENDING_MAX
        )));
    }
    let Some(stray) = window.slots.get(walk.slots.len()) else { return Ok(()) };
    match &walk.next {
        Ok(None) => Ok(()),
        Ok(Some(next)) => Err(StoreError::refused(format!(
            "the window's slot at {} is not the rule's next one, which is at {}",
            utc_text(stray.at),
            utc_text(next.at)
        ))),
        Err(error) => Err(StoreError::refused(format!("the rule gives no slot at {}: {error}", utc_text(stray.at)))),
    }
}
