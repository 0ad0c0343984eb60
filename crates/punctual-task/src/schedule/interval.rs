//! Interval rules: anchor + k × step in UTC. They never drift and know no daylight saving.

use super::error::RuleError;
use super::rule::{Kind, Rule, micros};
use punctual_clock::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The shortest step. Shorter ones are a busy loop with a database in it.
pub const EVERY_MIN: Duration = Duration::from_millis(1);
/// The longest step: a hundred years of 365.25 days.
pub const EVERY_MAX: Duration = Duration::from_secs(36_525 * 86_400);

/// Every so often, counted in real time from an anchor.
///
/// ```
/// use punctual_task::schedule::{Every, Rule};
/// use std::time::Duration;
///
/// let rule: Rule = Every::new(Duration::from_secs(90)).into();
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Every {
    /// The step, a whole number of microseconds from [`EVERY_MIN`] to [`EVERY_MAX`]. In JSON: `every_micros`.
    #[serde(rename = "every_micros", with = "duration_micros")]
    pub every: Duration,
    /// The instant from which steps are counted, itself a slot. Without it: the rule's start if it has one, else the
    /// schedule's creation, which is not a slot itself. In JSON: microseconds since 1970 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "micros::option")]
    pub anchor: Option<Timestamp>,
}

impl Every {
    /// Every `step`. Whether the step is allowed is said when the rule is compiled.
    #[must_use]
    pub const fn new(step: Duration) -> Self {
        Every { every: step, anchor: None }
    }

    /// Counted from `anchor`.
    #[must_use]
    pub const fn anchor(mut self, anchor: Timestamp) -> Self {
        self.anchor = Some(anchor);
        self
    }
}

impl From<Every> for Rule {
    fn from(every: Every) -> Rule {
        Rule::new(Kind::Interval(every))
    }
}

/// A checked interval: the instants `anchor + k × step` from `first` on, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    anchor: i64,
    step: i64,
    first: i64,
}

impl Grid {
    pub(crate) fn new(every: &Every, start: Option<Timestamp>, creation: Timestamp) -> Result<Self, RuleError> {
        let step = every.every;
        if !(EVERY_MIN..=EVERY_MAX).contains(&step) {
            return Err(RuleError::out_of_range(format!(
                "an interval of {step:?} is out of range; it may be from {EVERY_MIN:?} to {} days",
                EVERY_MAX.as_secs() / 86_400
            )));
        }
        if !step.subsec_nanos().is_multiple_of(1_000) {
            return Err(RuleError::out_of_range(format!(
                "an interval of {step:?} is finer than a microsecond; give whole microseconds"
            )));
        }
        // Inside the bounds just checked, a step fits with room to spare.
        let step = i64::try_from(step.as_micros()).unwrap_or(i64::MAX);
        let (anchor, first) = match (every.anchor, start) {
            (Some(anchor), Some(start)) => (anchor, start.as_micros()),
            (Some(anchor), None) => (anchor, anchor.as_micros()),
            (None, Some(start)) => (start, start.as_micros()),
            (None, None) => (creation, creation.as_micros().saturating_add(step)),
        };
        Ok(Grid { anchor: anchor.as_micros(), step, first })
    }

    /// The first instant of the grid at or after `micros`; `None` past the end of time.
    pub(crate) fn at_or_after(&self, micros: i64) -> Option<i64> {
        let from = i128::from(micros.max(self.first));
        let (anchor, step) = (i128::from(self.anchor), i128::from(self.step));
        let behind = (from - anchor).rem_euclid(step);
        i64::try_from(if behind == 0 { from } else { from - behind + step }).ok()
    }
}

mod duration_micros {
    //! A duration as whole microseconds.

    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_micros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(every: Every, start: Option<i64>, creation: i64) -> Grid {
        Grid::new(&every, start.map(Timestamp::from_micros), Timestamp::from_micros(creation)).unwrap()
    }

    /// Which instants an interval holds follows from its anchor, its start or its creation, in this order.
    #[test]
    fn the_first_slot_follows_the_anchor_then_the_start_then_the_creation() {
        let every = Every::new(Duration::from_micros(1_000));
        assert_eq!(grid(every, None, 7).at_or_after(i64::MIN), Some(1_007));
        assert_eq!(grid(every, Some(50), 7).at_or_after(i64::MIN), Some(50));
        let anchored = every.anchor(Timestamp::from_micros(300));
        assert_eq!(grid(anchored, None, 7).at_or_after(i64::MIN), Some(300));
        assert_eq!(grid(anchored, Some(-5_000), 7).at_or_after(i64::MIN), Some(-4_700));
        assert_eq!(grid(anchored, Some(5_000), 7).at_or_after(0), Some(5_300));
    }

    /// The ends of the number range neither wrap nor panic.
    #[test]
    fn the_grid_ends_where_time_ends() {
        let anchored = Every::new(EVERY_MAX).anchor(Timestamp::MIN);
        assert_eq!(grid(anchored, None, 0).at_or_after(i64::MAX), None);
        assert_eq!(grid(anchored, None, 0).at_or_after(i64::MIN), Some(i64::MIN));
    }

    /// A step that is too short, too long or too fine is refused with what is allowed.
    #[test]
    fn steps_outside_the_bounds_are_refused() {
        for step in [Duration::ZERO, Duration::from_micros(999), EVERY_MAX * 2, Duration::from_nanos(1_000_001)] {
            let error = Grid::new(&Every::new(step), None, Timestamp::EPOCH).unwrap_err();
            assert_eq!(error.kind(), crate::schedule::RuleErrorKind::OutOfRange, "{error}");
        }
    }
}
