//! A schedule as it is stored: its definition, its position, and what an operator may do to it.
//!
//! The rule that gives the slots is [`crate::schedule`]; what becomes of due slots is [`crate::planner`].

use crate::error::StoreError;
use crate::id::{ScheduleId, TaskId};
use crate::policy::{Policy, TaskOptions};
use crate::schedule::{Rule, Slot};
use crate::task::{check_name, check_payload};
use bytes::Bytes;
use punctual_clock::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What happens to slots that nobody served in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// None of them runs.
    Skip,
    /// The newest runs, if it is not older than `max_age` and no slot on time is due with it.
    Latest {
        /// 24 h by default.
        max_age: Duration,
    },
    /// The oldest runs.
    Earliest,
    /// All run that are not older than `max_age`, at most `max_count` of them.
    All {
        /// How many at most.
        max_count: u32,
        /// How old at most.
        max_age: Duration,
        /// What happens to more than `max_count`.
        overflow: Overflow,
    },
}

/// What happens to more missed slots than may be caught up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// The schedule halts until an operator decides.
    Halt,
    /// The oldest are lost.
    SkipOldest,
}

impl Missed {
    /// `latest` takes nothing older than a day unless told otherwise.
    pub const MAX_AGE_DEFAULT: Duration = Duration::from_secs(24 * 3600);

    /// All missed slots up to `max_count` and `max_age`; more halt the schedule.
    #[must_use]
    pub const fn all(max_count: u32, max_age: Duration) -> Self {
        Missed::All { max_count, max_age, overflow: Overflow::Halt }
    }
}

impl Default for Missed {
    fn default() -> Self {
        Missed::Latest { max_age: Self::MAX_AGE_DEFAULT }
    }
}

/// What happens to a due slot while `max_pending` occurrences have not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// It waits until one ends.
    #[default]
    Wait,
    /// It is lost.
    Skip,
    /// The live ones are cancelled; it is created when they have ended.
    Cancel,
    /// It is created all the same.
    Allow,
}

/// The longest note of an operator, in bytes.
pub const NOTE_BYTES_MAX: usize = 1_000;

/// A schedule's definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScheduleSpec {
    /// The name, unique in the store.
    pub name: String,
    /// Which instants.
    pub rule: Rule,
    /// `Service/method` of each occurrence.
    pub method: String,
    /// Its queue.
    pub queue: String,
    /// 0 (first) to 3 (last).
    pub level: u8,
    /// Its arguments as JSON.
    pub args: Bytes,
    /// The fingerprint of the method's schema when the arguments were written.
    pub schema: u64,
    /// What each occurrence overrides of its method's policy.
    pub options: TaskOptions,
    /// What happens to slots that nobody served in time.
    pub missed: Missed,
    /// What happens to a due slot while `max_pending` occurrences have not ended.
    pub overlap: Overlap,
    /// How many occurrences may be live at once, from 1. The default, 1, is strictly serial.
    pub max_pending: u32,
    /// A slot decided later than this after its instant is late.
    pub late_after: Duration,
}

impl ScheduleSpec {
    /// The default of [`ScheduleSpec::late_after`].
    pub const LATE_AFTER_DEFAULT: Duration = Duration::from_secs(5);
    /// The largest [`ScheduleSpec::max_pending`]: one window of one commit.
    pub const MAX_PENDING_MAX: u32 = 10_000;
    /// The most missed slots that may be kept, by [`Missed::All`] or [`Resume::Last`]: a decision looks that far ahead.
    pub const CATCH_UP_MAX: u32 = 10_000;
    /// The largest [`ScheduleSpec::late_after`]: a slot that a day has passed over is late under any name.
    pub const LATE_AFTER_MAX: Duration = Duration::from_secs(24 * 3600);

    /// A definition with defaults for the rest: the queue of the service, no options, `latest`, `wait`, 1 pending.
    #[must_use]
    pub fn new(name: impl Into<String>, rule: Rule, method: impl Into<String>, args: Bytes) -> Self {
        let method = method.into();
        ScheduleSpec {
            name: name.into(),
            rule,
            queue: method.split('/').next().unwrap_or_default().to_owned(),
            method,
            level: Policy::LEVEL_DEFAULT,
            args,
            schema: 0,
            options: TaskOptions::default(),
            missed: Missed::default(),
            overlap: Overlap::default(),
            max_pending: 1,
            late_after: Self::LATE_AFTER_DEFAULT,
        }
    }

    /// Checks every limit but the rule's, which its compilation checks.
    ///
    /// # Errors
    /// Names the field, the limit and the value.
    pub fn validate(&self) -> Result<(), StoreError> {
        check_name("schedule's name", &self.name)?;
        check_name("method", &self.method)?;
        check_name("queue", &self.queue)?;
        check_payload(&self.args)?;
        if self.level > Policy::LEVEL_MAX {
            return Err(StoreError::refused(format!("the priority {} is not 0 to {}", self.level, Policy::LEVEL_MAX)));
        }
        if self.max_pending == 0 || self.max_pending > Self::MAX_PENDING_MAX {
            return Err(StoreError::refused(format!(
                "max_pending {} is not 1 to {}",
                self.max_pending,
                Self::MAX_PENDING_MAX
            )));
        }
        if let Missed::All { max_count, .. } = self.missed
            && max_count > Self::CATCH_UP_MAX
        {
            return Err(StoreError::refused(format!(
                "{max_count} missed slots to catch up are more than the limit of {}; lower max_count",
                Self::CATCH_UP_MAX
            )));
        }
        if self.late_after > Self::LATE_AFTER_MAX {
            return Err(StoreError::refused(format!(
                "late_after {:?} is more than the limit of {:?}",
                self.late_after,
                Self::LATE_AFTER_MAX
            )));
        }
        if self.options.attempts == Some(0) {
            return Err(StoreError::refused("a task needs at least 1 attempt"));
        }
        Ok(())
    }

    /// A number that is the same for the same definition on every platform and in every release: what a declaration is
    /// known by. FNV-1a, 64 bits, over the JSON form. A field that a later release adds must be left out of that form while
    /// it has its default; else every schedule would look newly declared, and what operators edited would be undone.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        // A definition is plain data with text keys: writing it to memory does not fail.
        let json = serde_json::to_vec(self).unwrap_or_default();
        json.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
    }
}

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
    /// Replace the definition (the name stays).
    Edit {
        /// The new definition.
        spec: Box<ScheduleSpec>,
        /// Only if the definition still has this version.
        version: u32,
    },
    /// End it for good. Waiting occurrences are cancelled, running ones are asked to stop.
    Cancel,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// Occurrences that have not ended.
    pub live: u32,
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
    /// The tasks created, in order.
    pub tasks: Vec<TaskId>,
    /// Losses, as ranges.
    pub losses: Vec<Loss>,
    /// The position afterwards.
    pub position: Position,
    /// Whether due slots are left for the next sweep although capacity is not used up.
    pub more: bool,
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
