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
    /// Occurrences become due up to this long after their slots' instants, always equally long in one schedule: so
    /// schedules with one rule do not all run in one moment. 0 by default.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub jitter: Duration,
    /// So many of its tasks failing in a row, by the order of their creation and with no success between them, pause the
    /// schedule. Not by default. After a resume the next failure pauses it again, unless one has succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_after: Option<u32>,
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

    /// The largest [`ScheduleSpec::pause_after`].
    pub const PAUSE_AFTER_MAX: u32 = 100;
    /// The largest [`ScheduleSpec::jitter`].
    pub const JITTER_MAX: Duration = Duration::from_secs(24 * 3600);

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
            jitter: Duration::ZERO,
            pause_after: None,
        }
    }

    /// How long after its slot's instant an occurrence becomes due: a part of [`jitter`](Self::jitter), in whole
    /// microseconds, that follows from the schedule's name alone. It is the same for each slot, on every host and in every
    /// release.
    #[must_use]
    pub fn delay(&self) -> Duration {
        let span = u64::try_from(self.jitter.as_micros()).unwrap_or(u64::MAX);
        // The top bits of FNV alone hardly differ between short names that differ in their last letter.
        let mixed = fnv(self.name.as_bytes()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let part = (u128::from(mixed) * u128::from(span)) >> 64;
        Duration::from_micros(u64::try_from(part).unwrap_or(span))
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
        if self.jitter > Self::JITTER_MAX {
            return Err(StoreError::refused(format!(
                "jitter {:?} is more than the limit of {:?}",
                self.jitter,
                Self::JITTER_MAX
            )));
        }
        if let Some(count) = self.pause_after.filter(|count| *count == 0 || *count > Self::PAUSE_AFTER_MAX) {
            return Err(StoreError::refused(format!("pause_after {count} is not 1 to {}", Self::PAUSE_AFTER_MAX)));
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
        fnv(&json)
    }
}

/// FNV-1a, 64 bits.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Every;

    fn named(name: &str, jitter: Duration) -> ScheduleSpec {
        let rule = Every::new(Duration::from_secs(60)).into();
        ScheduleSpec { jitter, ..ScheduleSpec::new(name, rule, "Demo/run", Bytes::new()) }
    }

    /// A schedule's delay is a part of its jitter that never changes, and schedules spread over all of it.
    #[test]
    fn schedules_spread_over_their_jitter() {
        let minute = Duration::from_secs(60);
        assert_eq!(named("nightly", Duration::ZERO).delay(), Duration::ZERO);
        assert_eq!(
            named("nightly", minute).delay(),
            Duration::from_micros(56_057_373),
            "as hosts of older releases have it"
        );
        let mut tenths = [0; 10];
        for number in 0..1_000 {
            let delay = named(&format!("tenant-{number}"), minute).delay();
            assert!(delay < minute);
            tenths[usize::try_from(delay.as_secs() / 6).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|count| (60..160).contains(count)), "{tenths:?}");
    }

    /// A jitter or a number of failures beyond its limit is refused; a definition without them reads, and is declared, as before.
    #[test]
    fn jitter_and_pauses_are_bounded_and_left_out_where_there_is_none() {
        let day = ScheduleSpec::JITTER_MAX;
        assert_eq!(named("s", day).validate(), Ok(()));
        let refused = named("s", day + Duration::from_micros(1)).validate().unwrap_err();
        assert!(refused.to_string().contains("86400s"), "{refused}");
        for count in [0, ScheduleSpec::PAUSE_AFTER_MAX + 1] {
            let spec = ScheduleSpec { pause_after: Some(count), ..named("s", day) };
            assert!(spec.validate().unwrap_err().to_string().contains("pause_after"));
        }
        let json = serde_json::to_string(&named("s", Duration::ZERO)).unwrap();
        assert!(!json.contains("jitter") && !json.contains("pause_after"), "{json}");
        assert_eq!(serde_json::from_str::<ScheduleSpec>(&json).unwrap().jitter, Duration::ZERO);
    }
}
