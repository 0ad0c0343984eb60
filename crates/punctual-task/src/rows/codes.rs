//! The small integers that stand for enums in rows, in one place: a number, once written, keeps its meaning for ever.

use crate::rows::Damage;
use crate::{KeyScope, LossReason, Outcome, ScheduleState, TaskState};

/// An enum with a number for each of its values.
pub trait Code: Sized + Copy + PartialEq + 'static {
    /// What a row that cannot be read is said to hold.
    const WHAT: &'static str;
    /// Every value with its number.
    const CODES: &'static [(Self, i16)];

    /// The value's number.
    fn code(self) -> i16 {
        Self::CODES.iter().find(|(value, _)| *value == self).map_or(-1, |(_, code)| *code)
    }

    /// The value with this number.
    ///
    /// # Errors
    /// Where there is none.
    fn of(code: i64) -> Result<Self, Damage> {
        Self::CODES
            .iter()
            .find(|(_, known)| i64::from(*known) == code)
            .map(|(value, _)| *value)
            .ok_or_else(|| Damage(format!("{code} is no {}", Self::WHAT)))
    }
}

impl Code for TaskState {
    const WHAT: &'static str = "state of a task";
    const CODES: &'static [(Self, i16)] = &[
        (TaskState::Waiting, 0),
        (TaskState::Parked, 1),
        (TaskState::Running, 2),
        (TaskState::Failed, 3),
        (TaskState::Cancelled, 4),
        (TaskState::Expired, 5),
        // The largest, so that the ends that are by far the most frequent go to the right edge of their index.
        (TaskState::Succeeded, 9),
    ];
}

impl Code for Outcome {
    const WHAT: &'static str = "outcome of an attempt";
    const CODES: &'static [(Self, i16)] = &[
        (Outcome::Succeeded, 0),
        (Outcome::Failed, 1),
        (Outcome::Panicked, 2),
        (Outcome::TimedOut, 3),
        (Outcome::Cancelled, 4),
        (Outcome::Expired, 5),
        (Outcome::Snoozed, 6),
        (Outcome::Lost, 7),
        (Outcome::HandedBack, 8),
    ];
}

impl Code for ScheduleState {
    const WHAT: &'static str = "state of a schedule";
    const CODES: &'static [(Self, i16)] = &[
        (ScheduleState::Active, 0),
        (ScheduleState::Paused, 1),
        (ScheduleState::Halted, 2),
        (ScheduleState::Ended, 3),
        (ScheduleState::Cancelled, 4),
    ];
}

impl Code for LossReason {
    const WHAT: &'static str = "reason of a loss";
    const CODES: &'static [(Self, i16)] = &[
        (LossReason::Age, 0),
        (LossReason::Cap, 1),
        (LossReason::Policy, 2),
        (LossReason::Overlap, 3),
        (LossReason::Gap, 4),
        (LossReason::Paused, 5),
        (LossReason::Edit, 6),
    ];
}

impl Code for KeyScope {
    const WHAT: &'static str = "scope of a unique key";
    const CODES: &'static [(Self, i16)] = &[(KeyScope::Method, 0), (KeyScope::Queue, 1)];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Code + std::fmt::Debug>(count: usize) {
        assert_eq!(T::CODES.len(), count, "{}", T::WHAT);
        for (value, code) in T::CODES {
            assert_eq!(value.code(), *code);
            assert_eq!(T::of(i64::from(*code)).expect("a known code"), *value);
        }
        assert!(T::of(77).is_err());
    }

    /// Every value has one number and comes back from it; an unknown number is damage, not a guess.
    #[test]
    fn codes_round_trip() {
        check::<TaskState>(7);
        check::<Outcome>(9);
        check::<ScheduleState>(5);
        check::<LossReason>(LossReason::ALL.len());
        check::<KeyScope>(2);
    }
}
