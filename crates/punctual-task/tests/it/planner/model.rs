//! The model: the order of decisions written down plainly, over complete lists, without bounds or resumption.

use punctual_clock::Timestamp;
use punctual_task::schedule::{CompiledRule, Slot, SlotKey};
use punctual_task::series::Overflow;
use punctual_task::{LossReason, Missed, Overlap, Position, ScheduleSpec, ScheduleState};
use std::collections::{BTreeMap, BTreeSet};

/// Where the model ends when nothing more can be decided at one instant.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Slot, run number, whether it was late.
    pub(crate) created: Vec<(SlotKey, u64, bool)>,
    pub(crate) lost: BTreeMap<SlotKey, LossReason>,
    pub(crate) exists: BTreeSet<SlotKey>,
    pub(crate) cursor: Option<Slot>,
    pub(crate) state: Option<ScheduleState>,
    /// Whether the live occurrences are to be cancelled.
    pub(crate) cancel: bool,
}

/// Decides all that can be decided `now`.
pub(crate) fn settle(
    rule: &CompiledRule,
    spec: &ScheduleSpec,
    position: &Position,
    taken: &BTreeSet<SlotKey>,
    live: u32,
    now: Timestamp,
) -> Settled {
    let Some(cursor) = position.cursor else { panic!("an active schedule has a cursor") };
    let mut due = Vec::new();
    let mut next = Some(cursor);
    while let Some(slot) = next.filter(|slot| slot.at <= now) {
        due.push(slot);
        next = rule.next_after(slot.at).unwrap();
    }
    let keep = kept(spec, position, &due, now);
    let budget = rule.max_occurrences().map_or(u64::MAX, |max| max.saturating_sub(position.runs));
    let capacity = if spec.overlap == Overlap::Allow { u32::MAX } else { spec.max_pending.saturating_sub(live) };

    let mut settled = Settled { state: Some(ScheduleState::Active), ..Settled::default() };
    let ended = |settled: &mut Settled| {
        settled.state = Some(ScheduleState::Ended);
        settled.cursor = None;
    };
    if budget == 0 {
        ended(&mut settled);
        return settled;
    }
    for slot in &due {
        settled.cursor = Some(*slot);
        if taken.contains(&slot.key) {
            settled.exists.insert(slot.key);
            continue;
        }
        if slot.gap {
            settled.lost.insert(slot.key, LossReason::Gap);
            continue;
        }
        let late = now.since(slot.at) > spec.late_after;
        match keep[&slot.key] {
            Fate::Lose(reason) => {
                settled.lost.insert(slot.key, reason);
            }
            Fate::Halt => {
                settled.state = Some(ScheduleState::Halted);
                return settled;
            }
            Fate::Keep if settled.created.len() < capacity as usize => {
                let run = position.runs + settled.created.len() as u64 + 1;
                settled.created.push((slot.key, run, late));
                if settled.created.len() as u64 == budget {
                    ended(&mut settled);
                    return settled;
                }
            }
            Fate::Keep if spec.overlap == Overlap::Skip => {
                settled.lost.insert(slot.key, LossReason::Overlap);
            }
            Fate::Keep => {
                settled.cancel = spec.overlap == Overlap::Cancel;
                return settled;
            }
        }
    }
    settled.cursor = next;
    if next.is_none() {
        ended(&mut settled);
    }
    settled
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Keep,
    Lose(LossReason),
    Halt,
}

/// What the missed policy says of each due slot that is not in a gap.
fn kept(spec: &ScheduleSpec, position: &Position, due: &[Slot], now: Timestamp) -> BTreeMap<SlotKey, Fate> {
    let runnable: Vec<Slot> = due.iter().copied().filter(|slot| !slot.gap).collect();
    let mut fates: BTreeMap<SlotKey, Fate> = runnable.iter().map(|slot| (slot.key, Fate::Keep)).collect();
    let late: Vec<Slot> = runnable
        .iter()
        .copied()
        .filter(|slot| now.since(slot.at) > spec.late_after && position.kept_to.is_none_or(|to| slot.at > to))
        .collect();
    let on_time = runnable.iter().any(|slot| now.since(slot.at) <= spec.late_after);
    let policy = Fate::Lose(LossReason::Policy);
    match spec.missed {
        Missed::Skip => fates.extend(late.iter().map(|slot| (slot.key, policy))),
        Missed::Latest { max_age } => {
            fates.extend(late.iter().map(|slot| (slot.key, policy)));
            if let Some(newest) = late.last().filter(|_| !on_time) {
                let old = now.since(newest.at) > max_age;
                fates.insert(newest.key, if old { Fate::Lose(LossReason::Age) } else { Fate::Keep });
            }
        }
        Missed::Earliest => fates.extend(late.iter().skip(1).map(|slot| (slot.key, policy))),
        Missed::All { max_count, max_age, overflow } => {
            let (old, young): (Vec<_>, Vec<_>) = late.into_iter().partition(|slot| now.since(slot.at) > max_age);
            fates.extend(old.iter().map(|slot| (slot.key, Fate::Lose(LossReason::Age))));
            let excess = young.len().saturating_sub(max_count as usize);
            let fate = match overflow {
                Overflow::Halt => Fate::Halt,
                Overflow::SkipOldest => Fate::Lose(LossReason::Cap),
            };
            fates.extend(young.iter().take(excess).map(|slot| (slot.key, fate)));
        }
    }
    fates
}
