//! A schedule as it is stored: its definition, its position, and what an operator may do to it.
//!
//! The rule that gives the slots is [`crate::schedule`]; what becomes of due slots is [`crate::planner`].

mod spec;

pub use spec::{Missed, NOTE_BYTES_MAX, Overflow, Overlap, ScheduleSpec};

use crate::backfill::{Backfill, BackfillPreview, BackfillRequest};
use crate::id::{ScheduleId, TaskId};
use crate::schedule::{CompiledRule, Slot, ZoneStamp};
use punctual_clock::Timestamp;
use serde::{Deserialize, Serialize};

/// Whether a schedule makes occurrences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleState {
    /// It does.
    Active,
    /// An operator paused it.
    Paused,
    /// More slots were missed than may be caught up; an operator must decide.
    Halted,
    /// Its last slot is decided, or its occurrences are all created.
    Ended,
    /// It was cancelled for good.
    Cancelled,
}

impl ScheduleState {
    /// The lower-case name, as JSON writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            ScheduleState::Active => "active",
            ScheduleState::Paused => "paused",
            ScheduleState::Halted => "halted",
            ScheduleState::Ended => "ended",
            ScheduleState::Cancelled => "cancelled",
        }
    }
}

/// Where a schedule stands. All of it changes under the schedule's lock, with `rev` growing by one each time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The schedule.
    pub id: ScheduleId,
    /// Whether it makes occurrences.
    pub state: ScheduleState,
    /// Why an operator paused it, or what halted it.
    pub note: String,
    /// Grows with every change of the position.
    pub rev: u64,
    /// Grows with each edit of the time rule: slots of different rules never meet.
    pub era: u32,
    /// Grows with each edit of anything in the definition.
    pub version: u32,
    /// The next slot that is not decided; `None` when there is none.
    pub cursor: Option<Slot>,
    /// Occurrences created over all eras; triggers and backfills do not count.
    pub runs: u64,
    /// Slots up to this instant are kept whatever the missed policy says: an operator resumed with
    /// [`Resume::All`] or [`Resume::Last`], and the sweeps that follow must not overrule that.
    pub kept_to: Option<Timestamp>,
    /// What became of slots before this instant is not known any more: retention removed tasks of theirs, or another rule
    /// held. Planner decisions set it for edits, a store's [`prune`](crate::Store::prune) for what it removes.
    pub known_from: Option<Timestamp>,
    /// The zone database that the cursor was computed with; `None` where no zone matters to the rule.
    pub zone: Option<ZoneStamp>,
    /// The last backfill, under way or over.
    pub backfill: Option<Backfill>,
}

impl Position {
    /// Whether sweeps take up a backfill: one is under way, and neither a pause nor a halt holds the schedule. Each end of
    /// an occurrence of such a schedule is to wake it, see [`crate::planner`].
    #[must_use]
    pub fn is_backfilling(&self) -> bool {
        matches!(self.state, ScheduleState::Active | ScheduleState::Ended)
            && self.backfill.is_some_and(|backfill| backfill.is_active())
    }
}

/// Why a slot was not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossReason {
    /// Older than the missed policy's age.
    Age,
    /// More than the missed policy's count.
    Cap,
    /// The missed policy takes other slots, or none.
    Policy,
    /// `max_pending` occurrences were live and the overlap rule is `skip`.
    Overlap,
    /// The instant does not exist in the zone on that day and the gap rule is `skip`.
    Gap,
    /// The schedule was paused and resumed from now.
    Paused,
    /// The rule was edited.
    Edit,
}

impl LossReason {
    /// All of them, in the order of their names in reports.
    pub const ALL: [LossReason; 7] = [
        LossReason::Age,
        LossReason::Cap,
        LossReason::Policy,
        LossReason::Overlap,
        LossReason::Gap,
        LossReason::Paused,
        LossReason::Edit,
    ];

    /// The lower-case name, as JSON writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            LossReason::Age => "age",
            LossReason::Cap => "cap",
            LossReason::Policy => "policy",
            LossReason::Overlap => "overlap",
            LossReason::Gap => "gap",
            LossReason::Paused => "paused",
            LossReason::Edit => "edit",
        }
    }
}

/// How an occurrence ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotEnd {
    /// Its task.
    pub task: TaskId,
    /// When its last attempt ended.
    pub ended: Timestamp,
    /// Whether it failed; else it succeeded.
    pub failed: bool,
}

/// A range of slots that were decided not to run: one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The first lost slot's instant.
    pub from: Timestamp,
    /// The last lost slot's instant; the same as `from` for one slot.
    pub to: Timestamp,
    /// Why.
    pub reason: LossReason,
    /// How many slots.
    pub count: u64,
    /// Whether `count` is exact; otherwise it is a lower bound, since the range was too long to walk.
    pub exact: bool,
}

impl Loss {
    /// Rows of one stretch joined: a long one is decided, and recorded, a pass at a time. `losses` are newest first, as
    /// [`Store::losses`](crate::Store::losses) gives them, and so is the answer. Two rows are one stretch if they have one
    /// reason and `rule` has no slot between them; rows of a rule that was replaced stay as they are.
    #[must_use]
    pub fn join(rule: &CompiledRule, losses: Vec<Loss>) -> Vec<Loss> {
        let mut joined: Vec<Loss> = Vec::with_capacity(losses.len());
        for loss in losses {
            match joined.last_mut() {
                Some(later) if later.reason == loss.reason && follows(rule, &loss, later) => {
                    later.from = loss.from;
                    later.count = later.count.saturating_add(loss.count);
                    later.exact &= loss.exact;
                }
                _ => joined.push(loss),
            }
        }
        joined
    }
}

/// Whether the first slot after `loss` is the first one of `later`.
fn follows(rule: &CompiledRule, loss: &Loss, later: &Loss) -> bool {
    matches!(rule.next_after(loss.to), Ok(Some(next)) if next.at == later.from)
}

/// What a program says at its start about a schedule that it needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Declaration {
    /// The definition.
    pub spec: ScheduleSpec,
    /// The build's revision: an older build never undoes a newer one's declaration. 0 if the program has none.
    pub revision: u64,
}

/// What a declaration gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Declared {
    /// The schedule is new.
    Created,
    /// The same was declared before: nothing changed, whatever an operator edited since.
    Unchanged,
    /// The definition changed; the time rule with it if `rule` is set.
    Updated {
        /// Whether the time rule changed, and with it the era and the cursor.
        rule: bool,
    },
    /// A newer build declared it: nothing changed.
    OlderRevision,
    /// The schedule was cancelled for good: nothing changed.
    Cancelled,
}

/// What an operator does to one schedule.
#[derive(Debug, Clone, PartialEq)]
pub enum ScheduleCommand {
    /// Stop making occurrences.
    Pause {
        /// Why, for the next reader.
        note: String,
    },
    /// Go on after a pause, or after a halt.
    Resume(Resume),
    /// Create one occurrence now, beside the slots.
    Trigger {
        /// The task's id, drawn before.
        id: TaskId,
        /// Also when `max_pending` occurrences are live.
        force: bool,
    },
    /// Replace the definition (the name stays). With another rule the slots that are due and not decided are lost, and the
    /// next one is the new rule's first after now: an edit never causes a catch-up.
    Edit {
        /// The new definition.
        spec: Box<ScheduleSpec>,
        /// Only if the definition still has this version.
        version: u32,
        /// The slots that are due are first decided by the definition as it was. Refused where that cannot be done at once.
        decide_first: bool,
        /// Occurrences that have not begun are cancelled; else they run as they were written.
        drop_pending: bool,
    },
    /// End it for good. Waiting occurrences are cancelled, running ones are asked to stop.
    Cancel,
    /// Begin a cancelled schedule anew, as if it were created now: run numbers start again.
    NewSeries {
        /// The new definition (the name stays).
        spec: Box<ScheduleSpec>,
    },
    /// Create past slots after all, by the rule as it is now. One backfill of a schedule is under way at a time.
    Backfill(BackfillRequest),
    /// Say what a backfill would do, and do nothing.
    PreviewBackfill(BackfillRequest),
    /// End the backfill that is under way. What it has created goes on.
    StopBackfill,
    /// Compare the schedule's zone with this host's database, and compute the cursor's instant anew if that is newer.
    CheckZone,
}

impl ScheduleCommand {
    /// An edit that decides nothing first and keeps what is pending.
    #[must_use]
    pub fn edit(spec: ScheduleSpec, version: u32) -> Self {
        ScheduleCommand::Edit { spec: Box::new(spec), version, decide_first: false, drop_pending: false }
    }
}

/// What happens to the slots that a pause or halt left undecided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resume {
    /// The missed policy decides. Not after a halt: it would halt again.
    ByPolicy,
    /// They are lost.
    FromNow,
    /// The last so many are kept, the rest are lost.
    Last(u32),
    /// All are kept.
    All,
}

/// What a command gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Steered {
    /// Done.
    Applied,
    /// It was so already.
    Unchanged,
    /// A trigger created this task.
    Triggered(TaskId),
    /// A trigger was refused: so many occurrences are live, which is all that may be.
    Busy {
        /// How many are live.
        live: u32,
    },
    /// The backfill of this number is under way, or is over if this is the answer to a resend.
    Backfilling(u32),
    /// What a backfill would do.
    Preview(Box<BackfillPreview>),
}

/// A schedule as an operator sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleView {
    /// The definition.
    pub spec: ScheduleSpec,
    /// Where it stands.
    pub position: Position,
    /// When it was created: what [`CompiledRule::new`](crate::schedule::CompiledRule::new) needs beside the rule.
    pub created: Timestamp,
    /// Occurrences that have not ended, triggered ones included: what `max_pending` counts.
    pub live: u32,
    /// Occurrences of backfills that have not ended: what a backfill's own `max_pending` counts.
    pub live_backfilled: u32,
    /// Slots that were not run, by reason; reasons without one are left out.
    pub lost: Vec<(LossReason, u64)>,
}

/// What a sweep may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    /// At most this many schedules.
    pub schedules_max: u32,
    /// At most this many occurrences of one schedule.
    pub window_max: u32,
}

impl Default for Sweep {
    /// 500 schedules, 500 occurrences of each: one commit is then some tens of milliseconds.
    fn default() -> Self {
        Sweep { schedules_max: 500, window_max: 500 }
    }
}

/// What became of one slot that a sweep or a compare-and-swap looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotOutcome {
    /// A task was created.
    Created,
    /// A task for it was there already.
    Exists,
    /// Decided not to run, for this reason.
    Lost(LossReason),
    /// The schedule is not active.
    Inactive,
    /// The definition has another version.
    VersionMismatch,
    /// The cursor is not where the request expected it.
    CursorMoved,
    /// No capacity or budget was left.
    NotReached,
    /// Another writer held the schedule.
    Busy,
}

/// What a sweep did to one schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Materialised {
    /// The schedule.
    pub schedule: ScheduleId,
    /// Its name.
    pub name: String,
    /// Each slot looked at, in order of instants, with what became of it.
    pub slots: Vec<(Slot, SlotOutcome)>,
    /// The tasks created, in order: those of the series, then those of a backfill.
    pub tasks: Vec<TaskId>,
    /// Losses, as ranges.
    pub losses: Vec<Loss>,
    /// The position afterwards.
    pub position: Position,
    /// Whether due slots are left for the next sweep although capacity is not used up.
    pub more: bool,
    /// Each slot that a backfill looked at; its tasks come last in `tasks`.
    pub backfilled: Vec<(Slot, SlotOutcome)>,
    /// Why the schedule was left alone by this host, if it was; another host decides it.
    pub left: Option<String>,
}

/// What a sweep gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Schedules that were due, in cursor order.
    pub schedules: Vec<Materialised>,
    /// When the next active schedule becomes due, if one will: a hint for the next sweep.
    pub next_due: Option<Timestamp>,
}

/// A window under compare-and-swap: written only if the schedule is active and still at this version and cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The schedule.
    pub schedule: ScheduleId,
    /// The definition's version that the slots were computed from.
    pub version: u32,
    /// The cursor that the slots begin at.
    pub cursor: Slot,
    /// The slots, in order of instants.
    pub slots: Vec<Slot>,
}
