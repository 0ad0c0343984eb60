//! A schedule's definition: what is due when, and what happens to slots that nobody served or that find others live.

use crate::error::StoreError;
use crate::policy::{Policy, TaskOptions};
use crate::schedule::Rule;
use crate::task::{check_name, check_payload};
use bytes::Bytes;
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
    /// The most missed slots that may be kept, by [`Missed::All`] or [`Resume::Last`](crate::series::Resume::Last): a decision
    /// looks that far ahead.
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
