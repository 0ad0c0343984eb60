//! Civil values as users write them: dates, wall times, weekdays. None of them knows a zone.

use super::day::{self, DAY_SECONDS};
use super::error::RuleError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The years that civil values may lie in: four digits, so that their text has one form.
const YEARS: std::ops::RangeInclusive<i64> = 1..=9998;

/// A date of the Gregorian calendar, in years 1 to 9998. Text form: `2026-12-25`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CivilDate {
    year: i16,
    month: u8,
    day: u8,
}

impl CivilDate {
    /// The date of a year, month (1 to 12) and day (1 to 31).
    ///
    /// # Errors
    /// If there is no such date.
    pub fn new(year: i16, month: u8, day: u8) -> Result<Self, RuleError> {
        if !YEARS.contains(&i64::from(year)) || !(1..=12).contains(&month) {
            return Err(RuleError::out_of_range(format!(
                "no such date: {year}-{month}-{day}; years run from 1 to 9998, months from 1 to 12"
            )));
        }
        let length = day::month_length(i64::from(year), month);
        if day == 0 || day > length {
            return Err(RuleError::out_of_range(format!(
                "no such date: {year:04}-{month:02} has days 1 to {length}, not {day}"
            )));
        }
        Ok(CivilDate { year, month, day })
    }

    pub(crate) fn number(self) -> i64 {
        day::day_number(i64::from(self.year), self.month, i64::from(self.day))
    }

    /// The date of a day number, held inside the years that a civil date may have.
    pub(crate) fn from_number(number: i64) -> Self {
        let first = day::day_number(*YEARS.start(), 1, 1);
        let last = day::day_number(*YEARS.end(), 12, 31);
        let (year, month, day) = day::civil(number.clamp(first, last));
        CivilDate { year: i16::try_from(year).unwrap_or(i16::MAX), month, day }
    }
}

impl fmt::Display for CivilDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl FromStr for CivilDate {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let wrong = || RuleError::syntax(format!("`{}` is not a date; write it as 2026-12-25", shown(text)));
        let mut parts = text.splitn(3, '-');
        let mut next = |digits| parts.next().and_then(|part| number(part, digits)).ok_or_else(wrong);
        let (year, month, day) = (next(4)?, next(2)?, next(2)?);
        CivilDate::new(
            i16::try_from(year).map_err(|_| wrong())?,
            u8::try_from(month).map_err(|_| wrong())?,
            u8::try_from(day).map_err(|_| wrong())?,
        )
    }
}

/// A time of day to the second, 00:00:00 to 23:59:59. Text form: `09:30`, or `09:30:15`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WallTime {
    seconds: u32,
}

impl WallTime {
    /// 00:00:00, which some zones do not have on some days.
    pub const MIDNIGHT: WallTime = WallTime { seconds: 0 };

    /// The time of an hour (0 to 23), a minute and a second (0 to 59).
    ///
    /// # Errors
    /// If there is no such time.
    pub fn new(hour: u8, minute: u8, second: u8) -> Result<Self, RuleError> {
        if hour > 23 || minute > 59 || second > 59 {
            return Err(RuleError::out_of_range(format!(
                "no such time of day: {hour:02}:{minute:02}:{second:02}; times run from 00:00:00 to 23:59:59"
            )));
        }
        Ok(WallTime { seconds: u32::from(hour) * 3600 + u32::from(minute) * 60 + u32::from(second) })
    }

    pub(crate) fn seconds(self) -> u32 {
        self.seconds
    }
}

impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hour, minute, second) = (self.seconds / 3600, self.seconds / 60 % 60, self.seconds % 60);
        write!(f, "{hour:02}:{minute:02}")?;
        if second == 0 { Ok(()) } else { write!(f, ":{second:02}") }
    }
}

impl FromStr for WallTime {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let wrong =
            || RuleError::syntax(format!("`{}` is not a time of day; write it as 09:30 or 09:30:15", shown(text)));
        let mut fields = [0u8; 3];
        let mut count = 0;
        for part in text.split(':') {
            let value = number(part, 2).and_then(|value| u8::try_from(value).ok()).ok_or_else(wrong)?;
            *fields.get_mut(count).ok_or_else(wrong)? = value;
            count += 1;
        }
        if count < 2 {
            return Err(wrong());
        }
        WallTime::new(fields[0], fields[1], fields[2])
    }
}

/// A date and a time of day. Text form: `2026-12-25T09:30`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CivilDateTime {
    /// The date.
    pub date: CivilDate,
    /// The time of day.
    pub time: WallTime,
}

impl CivilDateTime {
    /// The date at the time.
    #[must_use]
    pub const fn new(date: CivilDate, time: WallTime) -> Self {
        CivilDateTime { date, time }
    }

    /// Seconds since 1970-01-01T00:00:00 on the same wall clock.
    pub(crate) fn seconds(self) -> i64 {
        self.date.number() * DAY_SECONDS + i64::from(self.time.seconds())
    }
}

impl fmt::Display for CivilDateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}T{}", self.date, self.time)
    }
}

impl FromStr for CivilDateTime {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let (date, time) = text.split_once(['T', ' ']).ok_or_else(|| {
            RuleError::syntax(format!("`{}` is not a date with a time; write it as 2026-12-25T09:30", shown(text)))
        })?;
        Ok(CivilDateTime { date: date.parse()?, time: time.parse()? })
    }
}

/// A day of the week. Text form: its first three letters, `mon`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the days of the week say themselves")]
pub enum Weekday {
    #[serde(rename = "mon")]
    Monday,
    #[serde(rename = "tue")]
    Tuesday,
    #[serde(rename = "wed")]
    Wednesday,
    #[serde(rename = "thu")]
    Thursday,
    #[serde(rename = "fri")]
    Friday,
    #[serde(rename = "sat")]
    Saturday,
    #[serde(rename = "sun")]
    Sunday,
}

impl Weekday {
    /// All seven, from Monday on.
    pub const ALL: [Weekday; 7] = [
        Weekday::Monday,
        Weekday::Tuesday,
        Weekday::Wednesday,
        Weekday::Thursday,
        Weekday::Friday,
        Weekday::Saturday,
        Weekday::Sunday,
    ];

    /// Cron's number: Sunday is 0, Saturday is 6.
    pub(crate) const fn cron_number(self) -> u8 {
        (self as u8 + 1) % 7
    }
}

/// A set of weekdays. Text form in JSON: a list, `["mon", "fri"]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Weekday>", into = "Vec<Weekday>")]
pub struct Weekdays(u8);

impl Weekdays {
    /// No day.
    pub const NONE: Weekdays = Weekdays(0);
    /// Monday to Friday.
    pub const WORKDAYS: Weekdays = Weekdays(0b011_1110);

    /// Whether the set has no day.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the day is in the set.
    #[must_use]
    pub const fn contains(self, day: Weekday) -> bool {
        self.0 >> day.cron_number() & 1 == 1
    }

    /// The days of the set, from Monday on.
    pub fn iter(self) -> impl Iterator<Item = Weekday> {
        Weekday::ALL.into_iter().filter(move |day| self.contains(*day))
    }

    /// The set as bits, bit 0 for Sunday.
    pub(crate) const fn bits(self) -> u8 {
        self.0
    }
}

impl FromIterator<Weekday> for Weekdays {
    fn from_iter<I: IntoIterator<Item = Weekday>>(days: I) -> Self {
        Weekdays(days.into_iter().fold(0, |bits, day| bits | 1 << day.cron_number()))
    }
}

impl<const N: usize> From<[Weekday; N]> for Weekdays {
    fn from(days: [Weekday; N]) -> Self {
        days.into_iter().collect()
    }
}

impl From<Vec<Weekday>> for Weekdays {
    fn from(days: Vec<Weekday>) -> Self {
        days.into_iter().collect()
    }
}

impl From<Weekday> for Weekdays {
    fn from(day: Weekday) -> Self {
        [day].into()
    }
}

impl From<Weekdays> for Vec<Weekday> {
    fn from(days: Weekdays) -> Self {
        days.iter().collect()
    }
}

impl fmt::Debug for Weekdays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

macro_rules! text_form {
    ($($name:ident),*) => {$(
        impl TryFrom<String> for $name {
            type Error = RuleError;

            fn try_from(text: String) -> Result<Self, RuleError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.to_string()
            }
        }
    )*};
}

text_form!(CivilDate, WallTime, CivilDateTime);

/// A number of one to `digits_max` decimal digits and nothing else.
fn number(text: &str, digits_max: usize) -> Option<u32> {
    let plain = (1..=digits_max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// User text as an error may show it: short, and on one line.
pub(crate) fn shown(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 60;
    let mut out: String = text.chars().take(SHOWN_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Civil values have one text form, and it reads back as the same value.
    #[test]
    fn text_forms_read_back() {
        for text in ["2026-12-25", "0001-01-01", "2024-02-29"] {
            assert_eq!(text.parse::<CivilDate>().unwrap().to_string(), text);
        }
        for text in ["00:00", "09:30", "23:59:59"] {
            assert_eq!(text.parse::<WallTime>().unwrap().to_string(), text);
        }
        assert_eq!("2026-1-5 7:05".parse::<CivilDateTime>().unwrap().to_string(), "2026-01-05T07:05");
        let json = serde_json::to_string(&Weekdays::from([Weekday::Sunday, Weekday::Monday])).unwrap();
        assert_eq!(json, r#"["mon","sun"]"#);
        assert_eq!(serde_json::from_str::<Weekdays>(&json).unwrap().iter().count(), 2);
        assert_eq!(Weekdays::WORKDAYS.iter().count(), 5);
        assert!(!Weekdays::WORKDAYS.contains(Weekday::Sunday) && !Weekdays::WORKDAYS.contains(Weekday::Saturday));
    }

    /// What is not a date or a time is refused, whatever it is.
    #[test]
    fn wrong_text_is_refused() {
        for text in ["", "-", "2026", "2026-02-29", "2026-13-01", "2026-00-01", "0000-01-01", "9999-01-01", "é-1-1"] {
            assert!(text.parse::<CivilDate>().is_err(), "{text}");
        }
        for text in ["", "7", "24:00", "12:60", "12:00:60", "1:2:3:4", "+1:00", "12:", "12:00Z"] {
            assert!(text.parse::<WallTime>().is_err(), "{text}");
        }
    }
}
