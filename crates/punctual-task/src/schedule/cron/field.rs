//! One field of a cron expression as a set of numbers.

use crate::schedule::civil::shown;
use crate::schedule::error::{RuleError, RuleErrorKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Second,
    Minute,
    Hour,
    DayOfMonth,
    Month,
    DayOfWeek,
}

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl Field {
    fn name(self) -> &'static str {
        match self {
            Field::Second => "second",
            Field::Minute => "minute",
            Field::Hour => "hour",
            Field::DayOfMonth => "day-of-month",
            Field::Month => "month",
            Field::DayOfWeek => "day-of-week",
        }
    }

    /// The lowest value, and how many there are. Sunday's second number, 7, is none of its own.
    fn span(self) -> (u32, u32) {
        match self {
            Field::Second | Field::Minute => (0, 60),
            Field::Hour => (0, 24),
            Field::DayOfMonth => (1, 31),
            Field::Month => (1, 12),
            Field::DayOfWeek => (0, 7),
        }
    }

    fn names(self) -> &'static [&'static str] {
        match self {
            Field::Month => &MONTHS,
            Field::DayOfWeek => &WEEKDAYS,
            _ => &[],
        }
    }

    fn allowed(self) -> &'static str {
        match self {
            Field::Second | Field::Minute => "0-59",
            Field::Hour => "0-23",
            Field::DayOfMonth => "1-31, L, L-3, 15W or LW",
            Field::Month => "1-12 or JAN-DEC",
            Field::DayOfWeek => "0-7 (0 and 7 are Sunday), SUN-SAT, 5L or FRI#2",
        }
    }

    /// An error about this field: its name, its text, what is wrong and what is allowed.
    pub(super) fn error(self, text: &str, kind: RuleErrorKind, what: impl std::fmt::Display) -> RuleError {
        RuleError::new(kind, format!("{} field `{}`: {what}; allowed: {}", self.name(), shown(text), self.allowed()))
    }

    pub(super) fn syntax(self, text: &str, what: impl std::fmt::Display) -> RuleError {
        self.error(text, RuleErrorKind::Syntax, what)
    }

    /// The whole field as a set: bit `n` for value `n`.
    pub(super) fn set(self, text: &str) -> Result<u64, RuleError> {
        text.split(',').try_fold(0, |set, item| Ok(set | self.item(text, item)?))
    }

    /// One item of the list: `*`, `*/n`, `a`, `a/n`, `a-b` or `a-b/n`. `text` is the field, for errors.
    pub(super) fn item(self, text: &str, item: &str) -> Result<u64, RuleError> {
        let (low, count) = self.span();
        let (base, step) = match item.split_once('/') {
            Some((base, step)) => (base, Some(self.step(text, step)?)),
            None => (item, None),
        };
        let top = low + count - 1;
        let (from, to) = if base == "*" {
            (low, top)
        } else if let Some((from, to)) = base.split_once('-') {
            (self.value(text, from)?, self.value(text, to)?)
        } else {
            let from = self.value(text, base)?;
            // A single value with a step runs to the end of the field.
            (from, if step.is_some() { top.max(from) } else { from })
        };
        // A range that wraps around counts on past the end of the field, as does one that begins with Sunday as 7.
        let to = if to < from { to + count } else { to };
        let mut set = 0;
        let mut value = from;
        while value <= to {
            set |= 1 << (low + (value - low) % count);
            value += step.unwrap_or(1);
        }
        Ok(set)
    }

    /// A number or a name of the field, inside its range.
    pub(super) fn value(self, text: &str, value: &str) -> Result<u32, RuleError> {
        let (low, count) = self.span();
        if let Some(place) = self.names().iter().position(|name| name.eq_ignore_ascii_case(value)) {
            return Ok(low + u32::try_from(place).unwrap_or(0));
        }
        let Some(number) = digits(value) else {
            let what = match value {
                "" => "a value is missing".to_owned(),
                "?" => "`?` may only stand alone, in a day field".to_owned(),
                _ => format!("`{}` is not a value of this field", shown(value)),
            };
            return Err(self.syntax(text, what));
        };
        let top = if self == Field::DayOfWeek { 7 } else { low + count - 1 };
        if (low..=top).contains(&number) {
            Ok(number)
        } else {
            Err(self.error(text, RuleErrorKind::OutOfRange, format!("{number} is out of range {low}-{top}")))
        }
    }

    fn step(self, text: &str, step: &str) -> Result<u32, RuleError> {
        let (_, count) = self.span();
        match digits(step) {
            Some(number) if (1..=count).contains(&number) => Ok(number),
            Some(0) => Err(self.error(text, RuleErrorKind::OutOfRange, "a step of 0 goes nowhere; write 1 or more")),
            Some(number) => Err(self.error(
                text,
                RuleErrorKind::OutOfRange,
                format!(
                    "a step of {number} is longer than the field, which has {count} values and begins anew after them; \
                     for longer steps use an interval rule"
                ),
            )),
            None => Err(self.syntax(text, format!("the step `{}` is not a number", shown(step)))),
        }
    }
}

/// A decimal number of up to four digits.
pub(super) fn digits(text: &str) -> Option<u32> {
    let plain = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}
