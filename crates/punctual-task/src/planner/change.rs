//! What a decision tells a store to write.

use crate::id::TaskId;
use crate::schedule::{Slot, SlotKey};
use crate::series::{Loss, LossReason, Materialised, Position, ScheduleSpec, ScheduleState, SlotOutcome};
use crate::task::Occurrence;
use punctual_clock::Timestamp;

/// What to write to one schedule in the transaction that locked it, in this order: cancel or drop, creation, position,
/// definition, losses, grants.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Every occurrence that has not ended is cancelled first: waiting ones at once, running ones by request.
    pub cancel_live: bool,
    /// Every occurrence that has not begun is cancelled first; running ones go on.
    pub drop_waiting: bool,
    /// The schedule counts as created then: a new series of a cancelled one.
    pub created: Option<Timestamp>,
    /// The position as it is to be, with `rev` already counted on if `moved`.
    pub position: Position,
    /// Whether the position differs from the one in the snapshot.
    pub moved: bool,
    /// When a sweep is to look at the schedule next: `None` while it is not active, or until one of its occurrences ends.
    /// Always to be written; if `cancel_live` ended an occurrence at once and this is `None` in an active schedule, it
    /// becomes now, as with every end of an occurrence.
    pub wake: Option<Timestamp>,
    /// The definition that replaces the current one, with the version that `position` names.
    pub spec: Option<Box<ScheduleSpec>>,
    /// Ranges of slots that were decided not to run, for the list and for the counters.
    pub losses: Vec<Loss>,
    /// Occurrences to be created, in order.
    pub grants: Vec<Grant>,
}

impl Change {
    /// Nothing but the wake, which follows from the position.
    pub(crate) fn none(position: &Position) -> Self {
        Change {
            cancel_live: false,
            drop_waiting: false,
            created: None,
            position: position.clone(),
            moved: false,
            wake: wake(position),
            spec: None,
            losses: Vec::new(),
            grants: Vec::new(),
        }
    }

    /// The change from `before` to `position`.
    pub(crate) fn to(before: &Position, mut position: Position) -> Self {
        position.rev = before.rev;
        let moved = position != *before;
        if moved {
            position.rev = before.rev.saturating_add(1);
        }
        Change { moved, ..Change::none(&position) }
    }
}

/// When an unblocked schedule is to be looked at. Where a backfill is to be taken up this lies in the past.
pub(crate) fn wake(position: &Position) -> Option<Timestamp> {
    let backfill = position.backfill.filter(|_| position.is_backfilling()).and_then(|backfill| backfill.cursor);
    backfill.map(|slot| slot.at).into_iter().chain(series_wake(position)).min()
}

/// The same without the backfill.
pub(crate) fn series_wake(position: &Position) -> Option<Timestamp> {
    match position.state {
        ScheduleState::Active => position.cursor.map(|slot| slot.at),
        ScheduleState::Paused | ScheduleState::Halted | ScheduleState::Ended | ScheduleState::Cancelled => None,
    }
}

/// One occurrence to be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Its id, where the request drew one (a trigger); else the store draws.
    pub id: Option<TaskId>,
    /// The slot's identity; `None` for a trigger.
    pub slot: Option<SlotKey>,
    /// The nominal instant.
    pub at: Timestamp,
    /// When the task becomes due: the nominal instant and the schedule's [delay](ScheduleSpec::delay), or now if that is past.
    pub due: Timestamp,
    /// The run number, from 1; 0 for a trigger and in a backfill.
    pub run: u64,
    /// Whether the slot was already late.
    pub catch_up: bool,
    /// The backfill's number, to be kept with the task and with its hold; 0 for the series itself and for a trigger.
    pub pass: u32,
}

impl Grant {
    /// What the task's row says of it.
    #[must_use]
    pub fn occurrence(&self, position: &Position, name: &str) -> Occurrence {
        Occurrence {
            schedule: position.id,
            name: name.to_owned(),
            slot: self.slot,
            at: self.at,
            run: self.run,
            catch_up: self.catch_up,
            pass: self.pass,
        }
    }
}

/// What a sweep or a window does to one schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What to write.
    pub change: Change,
    /// Each slot looked at, in order of instants, with what becomes of it. Slots that were passed in a leap are not
    /// listed, and of those not reached at most as many as the window has.
    pub slots: Vec<(Slot, SlotOutcome)>,
    /// Whether due slots are left that the next sweep can decide at once.
    pub more: bool,
    /// Each slot that a backfill looked at; see [`with_backfill`](super::with_backfill).
    pub backfilled: Vec<(Slot, SlotOutcome)>,
    /// Why this host leaves the schedule alone, if it does.
    pub left: Option<String>,
    /// Nothing is decided yet: the walk ended before the pass could. [`Walk::go_on`](super::Walk::go_on) once, read again
    /// which slots have tasks, and ask for the plan again, which then is not short.
    pub short: bool,
}

impl Plan {
    pub(crate) fn new(change: Change, slots: Vec<(Slot, SlotOutcome)>, more: bool) -> Self {
        Plan { change, slots, more, backfilled: Vec::new(), left: None, short: false }
    }

    /// The report of it, once written. `tasks` are the created ones, in the order of the grants.
    #[must_use]
    pub fn report(self, name: &str, tasks: Vec<TaskId>) -> Materialised {
        Materialised {
            schedule: self.change.position.id,
            name: name.to_owned(),
            slots: self.slots,
            tasks,
            losses: self.change.losses,
            position: self.change.position,
            more: self.more,
            backfilled: self.backfilled,
            left: self.left,
        }
    }
}

/// Losses being gathered into ranges: neighbours with the same reason are one.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    ranges: Vec<Loss>,
    /// Whether the last range may still grow: nothing that is no loss lies after it.
    open: bool,
}

impl Losses {
    pub(crate) fn add(&mut self, at: Timestamp, reason: LossReason) {
        match self.ranges.last_mut().filter(|range| self.open && range.reason == reason) {
            Some(range) => {
                range.to = at;
                range.count = range.count.saturating_add(1);
            }
            None => self.ranges.push(Loss { from: at, to: at, reason, count: 1, exact: true }),
        }
        self.open = true;
    }

    /// A stretch of which only the ends were looked at.
    pub(crate) fn add_leap(&mut self, from: Timestamp, to: Timestamp, reason: LossReason) {
        self.add(from, reason);
        if to > from {
            self.add(to, reason);
        }
        if let Some(range) = self.ranges.last_mut() {
            range.exact = false;
        }
    }

    /// Something that is no loss lies here.
    pub(crate) fn close(&mut self) {
        self.open = false;
    }

    pub(crate) fn into_ranges(self) -> Vec<Loss> {
        self.ranges
    }
}
