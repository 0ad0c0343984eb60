//! What a rule leaves out: weekdays, dates, windows.

use super::civil::{CivilDate, CivilDateTime, Weekday};
use super::day::{self, DAY_SECONDS};
use super::error::RuleError;
use punctual_clock::Timestamp;
use serde::{Deserialize, Serialize};

/// One thing that a rule leaves out. A slot that an exclusion holds is not a slot: nothing records it.
///
/// Civil exclusions look at the slot's nominal wall time, that is, at what the rule says and not at where a gap may
/// have moved it; for rules on UTC time, at the wall time of the instant in the rule's zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Exclusion {
    /// A day of every week.
    Weekday(Weekday),
    /// One date.
    Date(CivilDate),
    /// A stretch of wall time; `to` is no longer in it.
    Civil {
        /// The first moment left out.
        from: CivilDateTime,
        /// The first moment no longer left out.
        to: CivilDateTime,
    },
    /// A stretch of real time; `to` is no longer in it. In JSON: microseconds since 1970 UTC.
    Utc {
        /// The first instant left out.
        #[serde(with = "super::rule::micros")]
        from: Timestamp,
        /// The first instant no longer left out.
        #[serde(with = "super::rule::micros")]
        to: Timestamp,
    },
}

/// A rule's exclusions, sorted for the search: each answers with the end of what it leaves out, so that the search
/// steps over a long window at once instead of slot by slot.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exclusions {
    weekdays: u8,
    /// Civil stretches in seconds, sorted, overlaps merged.
    civil: Box<[(i64, i64)]>,
    /// UTC stretches in microseconds, sorted, overlaps merged.
    utc: Box<[(i64, i64)]>,
}

impl Exclusions {
    pub(crate) fn new(list: &[Exclusion]) -> Result<Self, RuleError> {
        let mut weekdays = 0;
        let (mut civil, mut utc) = (Vec::new(), Vec::new());
        for exclusion in list {
            match exclusion {
                Exclusion::Weekday(day) => weekdays |= 1 << day.cron_number(),
                Exclusion::Date(date) => civil.push((date.number() * DAY_SECONDS, (date.number() + 1) * DAY_SECONDS)),
                Exclusion::Civil { from, to } if from < to => civil.push((from.seconds(), to.seconds())),
                Exclusion::Utc { from, to } if from < to => utc.push((from.as_micros(), to.as_micros())),
                Exclusion::Civil { from, to } => {
                    return Err(RuleError::invalid(format!(
                        "excluded window from {from} to {to} is empty; `to` must be later than `from`"
                    )));
                }
                Exclusion::Utc { from, to } => {
                    return Err(RuleError::invalid(format!(
                        "excluded window from {} to {} (microseconds UTC) is empty; `to` must be later than `from`",
                        from.as_micros(),
                        to.as_micros()
                    )));
                }
            }
        }
        if weekdays == 0x7f {
            return Err(RuleError::never_fires("the rule can never fire: all seven weekdays are excluded"));
        }
        Ok(Exclusions { weekdays, civil: merged(civil), utc: merged(utc) })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.weekdays == 0 && self.civil.is_empty() && self.utc.is_empty()
    }

    /// The excluded weekdays as bits, bit 0 for Sunday.
    pub(crate) fn weekdays(&self) -> u8 {
        self.weekdays
    }

    /// If a wall time is left out: the first second that may not be.
    pub(crate) fn civil_end(&self, local: i64) -> Option<i64> {
        let day = local.div_euclid(DAY_SECONDS);
        if self.weekdays >> day::weekday(day) & 1 == 1 {
            return Some((day + 1) * DAY_SECONDS);
        }
        end_of(&self.civil, local)
    }

    /// If an instant is left out: the first microsecond that may not be.
    pub(crate) fn utc_end(&self, micros: i64) -> Option<i64> {
        end_of(&self.utc, micros)
    }
}

fn end_of(stretches: &[(i64, i64)], moment: i64) -> Option<i64> {
    let after = stretches.partition_point(|(from, _)| *from <= moment);
    let (_, to) = stretches.get(after.checked_sub(1)?)?;
    if moment < *to { Some(*to) } else { None }
}

fn merged(mut stretches: Vec<(i64, i64)>) -> Box<[(i64, i64)]> {
    stretches.sort_unstable();
    let mut out: Vec<(i64, i64)> = Vec::with_capacity(stretches.len());
    for (from, to) in stretches {
        match out.last_mut() {
            Some((_, end)) if from <= *end => *end = to.max(*end),
            _ => out.push((from, to)),
        }
    }
    out.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A merged list answers exactly as the windows one by one do.
    #[test]
    fn merged_windows_answer_as_each_window_does() {
        let windows = vec![(10, 20), (15, 25), (25, 30), (40, 50), (42, 44), (60, 61)];
        let list = merged(windows.clone());
        assert_eq!(&*list, &[(10, 30), (40, 50), (60, 61)]);
        for moment in 0..70 {
            let held = windows.iter().any(|(from, to)| (*from..*to).contains(&moment));
            assert_eq!(end_of(&list, moment).is_some(), held, "{moment}");
        }
    }
}
