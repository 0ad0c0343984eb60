//! The bounded stretch of slots that one decision may look at.

use super::{COMMAND_WALK_MAX, Snapshot, WALK_MAX};
use crate::schedule::{RuleError, Slot, SlotKey};
use crate::series::{Declaration, Missed, Overlap, Resume, ScheduleCommand, ScheduleState, Window};
use punctual_clock::Timestamp;

/// The first stretch of a sweep's walk has room for this part of its window once more, for slots that have tasks already:
/// one in five may, before the walk has to go on.
const SPARE_PART: u32 = 4;
/// The same for the smallest windows, in slots: the slot behind the window is what shows that the window is full.
const SPARE_MIN: u32 = 1;

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
    /// How many slots more one pass may have to look at.
    pub(crate) rest: u32,
}

impl Walk {
    /// For a sweep: the due slots from the cursor on, as many as one pass looks at where few of them have tasks. If
    /// [`Plan::short`](super::Plan::short) says that these are not enough, [`go_on`](Self::go_on) adds the rest.
    ///
    /// The first stretch is short because walking costs: a pass that creates one task of a long backlog would spend most of
    /// its time on slots that it does not reach.
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
        let whole = WALK_MAX.saturating_add(capacity).saturating_add(ahead).saturating_add(1);
        let late = snapshot.position.cursor.is_some_and(|cursor| cursor.at < now.before(snapshot.spec.late_after));
        let loses = late && !matches!(snapshot.spec.missed, Missed::All { .. });
        let first = if loses || snapshot.spec.overlap == Overlap::Skip {
            whole
        } else {
            let ahead = if late { ahead } else { 0 };
            whole.min(capacity.saturating_add(capacity / SPARE_PART).saturating_add(ahead).saturating_add(SPARE_MIN))
        };
        Walk { rest: whole - first, ..Self::due(snapshot, now, window_max, first) }
    }

    /// Walks on to the last slot that one pass may have to look at: which of them have tasks is to be read again.
    pub fn go_on(&mut self, snapshot: &Snapshot<'_>) {
        let limit = self.slots.len().saturating_add(std::mem::take(&mut self.rest) as usize);
        self.walk_to(snapshot, limit);
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
        Walk { slots: Vec::new(), next: Ok(cursor(snapshot)), now, window_max, any_pass: false, rest: 0 }
    }

    fn due(snapshot: &Snapshot<'_>, now: Timestamp, window_max: u32, limit: u32) -> Self {
        let mut walk = Self::empty(snapshot, now, window_max);
        walk.walk_to(snapshot, limit as usize);
        walk
    }

    fn walk_to(&mut self, snapshot: &Snapshot<'_>, limit: usize) {
        while let Ok(Some(slot)) = self.next
            && slot.at <= self.now
            && self.slots.len() < limit
        {
            self.slots.push(slot);
            self.next = snapshot.rule.next_after(slot.at);
        }
    }

    /// Whether one pass may have to look at due slots beyond this walk.
    pub(super) fn goes_on(&self) -> bool {
        self.rest > 0 && matches!(self.next, Ok(Some(next)) if next.at <= self.now)
    }
}

/// The cursor's slot under the zone's rules as they are now: a wall-clock slot keeps its key and moves with its zone.
fn cursor(snapshot: &Snapshot<'_>) -> Option<Slot> {
    let cursor = snapshot.position.cursor?;
    Some(snapshot.rule.slot(cursor.key).unwrap_or(cursor))
}
