//! The bounded stretch of slots that one decision may look at.

use super::{COMMAND_WALK_MAX, Snapshot, WALK_MAX};
use crate::schedule::{RuleError, Slot, SlotKey};
use crate::series::{Declaration, Missed, Overlap, Resume, ScheduleCommand, ScheduleState, Window};
use punctual_clock::Timestamp;

/// Slots in order of instants, from the cursor on, and what comes after them.
///
/// The store reads which of them have tasks before it asks for the decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    /// The slots. All are due in a walk for a sweep, a command or a declaration.
    pub(crate) slots: Vec<Slot>,
    /// The slot after the last one, whether due or not; `Ok(None)` if the series ends there.
    pub(crate) next: Result<Option<Slot>, RuleError>,
    /// The instant of the decision.
    pub(crate) now: Timestamp,
    /// How many occurrences the caller wants at most.
    pub(crate) window_max: u32,
    /// Whether tasks of any pass count as those of a slot, not only those of the series.
    pub(crate) any_pass: bool,
}

impl Walk {
    /// For a sweep: the due slots from the cursor on, as many as one pass may have to look at.
    #[must_use]
    pub fn for_sweep(snapshot: &Snapshot<'_>, now: Timestamp, window_max: u32) -> Self {
        if snapshot.position.state != ScheduleState::Active {
            return Self::empty(snapshot, now, window_max);
        }
        let capacity = match snapshot.spec.overlap {
            Overlap::Allow => window_max,
            Overlap::Wait | Overlap::Skip | Overlap::Cancel => window_max.min(snapshot.spec.max_pending),
        };
        let ahead = match snapshot.spec.missed {
            Missed::Skip | Missed::Earliest => 0,
            Missed::Latest { .. } => 1,
            Missed::All { max_count, .. } => max_count,
        };
        let limit = WALK_MAX.saturating_add(capacity).saturating_add(ahead).saturating_add(1);
        Self::due(snapshot, now, window_max, limit)
    }

    /// For a window under compare-and-swap: its slots as the rule has them. The walk ends where the window leaves the rule.
    #[must_use]
    pub fn for_window(snapshot: &Snapshot<'_>, window: &Window, now: Timestamp) -> Self {
        let asked = u32::try_from(window.slots.len()).unwrap_or(u32::MAX);
        let mut walk = Self::empty(snapshot, now, asked);
        if snapshot.position.state != ScheduleState::Active {
            return walk;
        }
        for slot in &window.slots {
            match &walk.next {
                Ok(Some(next)) if next == slot => {
                    walk.next = snapshot.rule.next_after(next.at);
                    walk.slots.push(*slot);
                }
                _ => break,
            }
        }
        walk
    }

    /// For an operator's command: the due slots that it may have to decide.
    #[must_use]
    pub fn for_command(snapshot: &Snapshot<'_>, command: &ScheduleCommand, now: Timestamp) -> Self {
        let decides = match command {
            ScheduleCommand::Resume(Resume::FromNow | Resume::Last(_)) => true,
            ScheduleCommand::Edit { spec, decide_first, .. } => *decide_first || spec.rule != snapshot.spec.rule,
            ScheduleCommand::PreviewBackfill(request) => {
                return super::backfill::preview_walk(snapshot, request, now, COMMAND_WALK_MAX);
            }
            ScheduleCommand::Pause { .. }
            | ScheduleCommand::Resume(Resume::ByPolicy | Resume::All)
            | ScheduleCommand::Trigger { .. }
            | ScheduleCommand::Cancel
            | ScheduleCommand::NewSeries { .. }
            | ScheduleCommand::Backfill(_)
            | ScheduleCommand::StopBackfill
            | ScheduleCommand::CheckZone => false,
        };
        if decides { Self::due(snapshot, now, 0, COMMAND_WALK_MAX) } else { Self::empty(snapshot, now, 0) }
    }

    /// For a declaration of a schedule that exists: the due slots that a change of its rule leaves undecided.
    #[must_use]
    pub fn for_declaration(snapshot: &Snapshot<'_>, declaration: &Declaration, now: Timestamp) -> Self {
        if declaration.spec.rule == snapshot.spec.rule {
            Self::empty(snapshot, now, 0)
        } else {
            Self::due(snapshot, now, 0, COMMAND_WALK_MAX)
        }
    }

    /// The slots, in order of instants.
    #[must_use]
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Whether tasks of any pass of the era are to be read, not only those of the series (pass 0): for backfills.
    #[must_use]
    pub const fn any_pass(&self) -> bool {
        self.any_pass
    }

    /// The smallest and the largest key among the slots: which of them have tasks is to be read between these, both
    /// included. `None` if nothing is to be read.
    ///
    /// Keys of a zone's wall clock are not in the order of instants around a change of the clocks, so the range can hold
    /// slots that are not in the walk; these do no harm.
    #[must_use]
    pub fn keys(&self) -> Option<(SlotKey, SlotKey)> {
        let keys = self.slots.iter().map(|slot| slot.key);
        keys.clone().min().zip(keys.max())
    }

    pub(super) fn empty(snapshot: &Snapshot<'_>, now: Timestamp, window_max: u32) -> Self {
        Walk { slots: Vec::new(), next: Ok(cursor(snapshot)), now, window_max, any_pass: false }
    }

    fn due(snapshot: &Snapshot<'_>, now: Timestamp, window_max: u32, limit: u32) -> Self {
        let mut walk = Self::empty(snapshot, now, window_max);
        while let Ok(Some(slot)) = walk.next
            && slot.at <= now
            && walk.slots.len() < limit as usize
        {
            walk.slots.push(slot);
            walk.next = snapshot.rule.next_after(slot.at);
        }
        walk
    }
}

/// The cursor's slot under the zone's rules as they are now: a wall-clock slot keeps its key and moves with its zone.
fn cursor(snapshot: &Snapshot<'_>) -> Option<Slot> {
    let cursor = snapshot.position.cursor?;
    Some(snapshot.rule.slot(cursor.key).unwrap_or(cursor))
}
