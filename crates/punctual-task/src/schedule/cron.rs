//! Cron expressions: five fields, or six with seconds in front, or a macro such as `@daily`.
//!
//! The dialect is Vixie's with the usual additions (`L W #`, names, wrap-around ranges); weekdays are numbered as in
//! POSIX, Sunday is 0 or 7. What is parsed is a set of wall times; zones, gaps and folds are the search's business.

mod days;
mod field;

pub(crate) use days::CronDays;

use super::civil::shown;
use super::day;
use super::error::RuleError;
use super::pattern::{Days, Pattern, Times};
use super::rule::{Kind, Rule};
use field::Field;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The longest expression in bytes. Every value of every field, listed, takes less.
pub const CRON_TEXT_BYTES_MAX: usize = 640;

/// How the two day fields combine when both are restricted.
///
/// A day field is unrestricted if its text begins with `*` or `?`. If at least one of the two is unrestricted, a day
/// must match both in either mode, so that `0 0 */2 * 1` means Mondays with an odd date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DayMode {
    /// A day matches if either field does, as POSIX and Vixie's cron have it.
    #[default]
    Or,
    /// A day matches if both fields do, as in Quartz.
    And,
}

/// A parsed cron expression.
///
/// It is *elapsed* if the text of its second, minute or hour field contains `*`, `/` or `-`: then it names instants of
/// real time, both copies of a fold and nothing for a gap. Else it is *fixed*: it names wall times, and the rule's
/// [`Gap`](super::Gap) and [`Fold`](super::Fold) choices say what becomes of those that are missing or double.
///
/// | field | values | besides `*` `,` `-` `/` |
/// |---|---|---|
/// | second (only with six fields) | 0-59 | |
/// | minute | 0-59 | |
/// | hour | 0-23 | |
/// | day of month | 1-31 | `?`, `L` (last), `L-3` (third before the last), `15W` (workday nearest the 15th), `LW` |
/// | month | 1-12, JAN-DEC | |
/// | day of week | 0-7, SUN-SAT | `?`, `5L` or `FRIL` (last Friday), `FRI#2` (second Friday) |
///
/// Ranges may wrap around (`FRI-MON`, `22-2`); `8/15` means from 8 to the field's end.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "CronText", into = "CronText")]
pub struct Cron {
    text: Box<str>,
    mode: DayMode,
    elapsed: bool,
    seconds: u64,
    minutes: u64,
    hours: u32,
    days: CronDays,
}

/// The stored form.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CronText {
    text: String,
    #[serde(default, skip_serializing_if = "is_or")]
    days: DayMode,
}

fn is_or(mode: &DayMode) -> bool {
    *mode == DayMode::Or
}

impl Cron {
    /// Reads an expression whose day fields combine by "or".
    ///
    /// # Errors
    /// If it cannot be read, names a value that its field does not have, or could never fire; the message names the
    /// field, its text, what is allowed and what to write.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        Cron::parse_with(text, DayMode::Or)
    }

    /// Reads an expression whose day fields combine by `mode`.
    ///
    /// # Errors
    /// As [`Cron::parse`].
    pub fn parse_with(text: &str, mode: DayMode) -> Result<Self, RuleError> {
        let text = text.trim();
        if text.len() > CRON_TEXT_BYTES_MAX {
            return Err(RuleError::syntax(format!(
                "the cron expression has {} bytes; at most {CRON_TEXT_BYTES_MAX} are allowed",
                text.len()
            )));
        }
        let written = match text.strip_prefix('@') {
            Some(name) => expand_macro(name)?,
            None => text,
        };
        let mut fields: Vec<&str> = written.split_ascii_whitespace().collect();
        if fields.len() == 5 {
            fields.insert(0, "0");
        }
        let [second, minute, hour, day_of_month, month, day_of_week] = fields[..] else {
            return Err(wrong_field_count(text, fields.len()));
        };
        let cron = Cron {
            text: text.into(),
            mode,
            elapsed: [second, minute, hour].iter().any(|field| field.contains(['*', '/', '-'])),
            seconds: Field::Second.set(second)?,
            minutes: Field::Minute.set(minute)?,
            hours: Field::Hour.set(hour)? as u32,
            days: CronDays::parse(day_of_month, month, day_of_week, mode)?,
        };
        if cron.never(0) {
            return Err(never_fires(&cron, day_of_month, month, day_of_week));
        }
        Ok(cron)
    }

    /// With this way to combine the day fields.
    ///
    /// # Errors
    /// If the expression could then never fire.
    pub fn days(self, mode: DayMode) -> Result<Self, RuleError> {
        Cron::parse_with(&self.text, mode)
    }

    /// The expression as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How the day fields combine.
    #[must_use]
    pub const fn mode(&self) -> DayMode {
        self.mode
    }

    /// Whether it names instants of real time, not wall times.
    #[must_use]
    pub const fn is_elapsed(&self) -> bool {
        self.elapsed
    }

    /// As a rule in the zone of this IANA name.
    #[must_use]
    pub fn zone(self, name: impl Into<String>) -> Rule {
        Rule::from(self).zone(name)
    }

    pub(crate) fn pattern(&self, without: u8) -> Pattern {
        let times = Times::Sets { hours: self.hours, minutes: self.minutes, seconds: self.seconds };
        Pattern::new(Days::Cron(self.days), times, without)
    }

    /// Whether no day ever matches, once the weekdays `without` are taken away.
    pub(crate) fn never(&self, without: u8) -> bool {
        // Any 28 years without a century hold all fourteen kinds of year: leap or not, beginning on each weekday.
        (2001..=2028).all(|year| {
            (1..=12).all(|month| {
                let first = day::weekday(day::day_number(year, month, 1));
                let days = self.days.in_month(month, day::month_length(year, month), first);
                days & !day::weekdays_in_month(without, first) == 0
            })
        })
    }
}

impl FromStr for Cron {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        Cron::parse(text)
    }
}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The sets follow from these two.
        f.debug_struct("Cron").field("text", &self.text).field("mode", &self.mode).finish()
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Cron> for Rule {
    fn from(cron: Cron) -> Rule {
        Rule::new(Kind::Cron(cron))
    }
}

impl TryFrom<CronText> for Cron {
    type Error = RuleError;

    fn try_from(stored: CronText) -> Result<Self, RuleError> {
        Cron::parse_with(&stored.text, stored.days)
    }
}

impl From<Cron> for CronText {
    fn from(cron: Cron) -> CronText {
        CronText { text: cron.text.into(), days: cron.mode }
    }
}

fn expand_macro(name: &str) -> Result<&'static str, RuleError> {
    const MACROS: [(&str, &str); 7] = [
        ("yearly", "0 0 1 1 *"),
        ("annually", "0 0 1 1 *"),
        ("monthly", "0 0 1 * *"),
        ("weekly", "0 0 * * 0"),
        ("daily", "0 0 * * *"),
        ("midnight", "0 0 * * *"),
        ("hourly", "0 * * * *"),
    ];
    if let Some((_, fields)) = MACROS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        return Ok(fields);
    }
    if name.eq_ignore_ascii_case("reboot") {
        return Err(RuleError::unsupported(
            "`@reboot` names no time: a schedule outlives restarts and cannot tell one; enqueue the task when your service starts",
        ));
    }
    if name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("every")) {
        return Err(RuleError::unsupported(format!(
            "`@{}` is not cron; use an interval rule, which counts real time and never drifts",
            shown(name)
        )));
    }
    Err(RuleError::syntax(format!(
        "unknown macro `@{}`; there are @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly",
        shown(name)
    )))
}

fn wrong_field_count(text: &str, count: usize) -> RuleError {
    let hint = match count {
        0 => "write minute, hour, day of month, month and day of week, such as `0 3 * * *`",
        7 => "a year field is not supported; leave it out and bound the rule with `start` and `until`",
        _ => "there must be 5 (minute, hour, day of month, month, day of week), or 6 with the second in front",
    };
    RuleError::syntax(format!("cron expression `{}` has {count} fields; {hint}", shown(text)))
}

fn never_fires(cron: &Cron, day_of_month: &str, month: &str, day_of_week: &str) -> RuleError {
    let longest =
        (1..=12).filter(|month| cron.days.has_month(*month)).map(|month| day::month_length(2000, month)).max();
    let weekday = match cron.mode {
        DayMode::And if !day_of_week.starts_with(['*', '?']) => format!(" and day of week `{}`", shown(day_of_week)),
        _ => String::new(),
    };
    RuleError::never_fires(format!(
        "cron expression `{}` can never fire: no day of any year has day of month `{}`{weekday} in month `{}` \
         (its longest month has {} days); change one of them",
        shown(&cron.text),
        shown(day_of_month),
        shown(month),
        longest.unwrap_or(31),
    ))
}

#[cfg(test)]
mod tests;
