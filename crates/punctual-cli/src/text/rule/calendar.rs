//! Calendar rules as text: `2 days at 09:00,18:00`, `1 week on mon,thu at 08:30`, `1 month on 31 overflow last at 00:15`.

use crate::text::{BadText, shown};
use punctual::task::schedule::{Calendar, CalendarUnit, CivilDate, Overflow, WallTime, Weekday, Weekdays};

/// The days of the week as they are read and written.
const WEEKDAYS: [(&str, Weekday); 7] = [
    ("mon", Weekday::Monday),
    ("tue", Weekday::Tuesday),
    ("wed", Weekday::Wednesday),
    ("thu", Weekday::Thursday),
    ("fri", Weekday::Friday),
    ("sat", Weekday::Saturday),
    ("sun", Weekday::Sunday),
];

const FORM: &str = "write N days|weeks|months, then `on` with weekdays or days of the month, `overflow` skip|last|roll, \
                    `from` a date, and `at` with times, such as `2 weeks on mon,thu at 08:30`";

/// What the words say, before it is known whether they fit together.
#[derive(Default)]
struct Parts<'a> {
    on: Option<&'a str>,
    overflow: Option<&'a str>,
    from: Option<&'a str>,
    at: Option<&'a str>,
}

/// Reads a calendar rule.
///
/// # Errors
/// Says which word is wrong or missing.
pub(super) fn parse_calendar(text: &str) -> Result<Calendar, BadText> {
    let refused = |why: String| BadText::new(format!("`{}`: {why}; {FORM}", shown(text)));
    let mut words = text.split_ascii_whitespace().peekable();
    words.next_if_eq(&"every");
    let every = match words.next_if(|word| word.bytes().all(|byte| byte.is_ascii_digit())) {
        Some(number) => number.parse().map_err(|_| refused(format!("{} is too large", shown(number))))?,
        None => 1,
    };
    let unit = words.next().ok_or_else(|| refused("it says nothing".to_owned()))?;
    let mut parts = Parts::default();
    while let Some(word) = words.next() {
        let place = match word {
            "on" => &mut parts.on,
            "overflow" => &mut parts.overflow,
            "from" => &mut parts.from,
            "at" => &mut parts.at,
            other => return Err(refused(format!("`{}` is not known", shown(other)))),
        };
        let value = words.next().ok_or_else(|| refused(format!("`{word}` has nothing after it")))?;
        if place.replace(value).is_some() {
            return Err(refused(format!("`{word}` comes twice; separate values by commas")));
        }
    }
    let mut calendar = match unit {
        "day" | "days" => {
            if parts.on.is_some() {
                return Err(refused("days have no `on`; use weeks or months".to_owned()));
            }
            Calendar::days(every)
        }
        "week" | "weeks" => {
            let on = parts.on.ok_or_else(|| refused("weeks need `on` with weekdays".to_owned()))?;
            Calendar::weeks(every, weekdays(on).map_err(refused)?)
        }
        "month" | "months" => {
            let on = parts.on.ok_or_else(|| refused("months need `on` with days of the month".to_owned()))?;
            let days = days_of_month(on).map_err(refused)?;
            let overflow = match parts.overflow {
                Some("skip") => Overflow::Skip,
                Some("last") => Overflow::LastDay,
                Some("roll") => Overflow::RollOver,
                Some(other) => return Err(refused(format!("overflow `{}` is not known", shown(other)))),
                // Every month has the first 28: the choice changes nothing and need not be made.
                None if days.iter().all(|day| *day <= 28) => Overflow::Skip,
                None => {
                    return Err(refused("some months are too short, so `overflow` must say what happens".to_owned()));
                }
            };
            Calendar::months(every, days, overflow)
        }
        other => return Err(refused(format!("`{}` is neither days, weeks nor months", shown(other)))),
    };
    if parts.overflow.is_some() && !matches!(calendar.unit, CalendarUnit::Months { .. }) {
        return Err(refused("only months overflow".to_owned()));
    }
    if let Some(from) = parts.from {
        calendar.from = Some(from.parse::<CivilDate>().map_err(|error| refused(error.to_string()))?);
    }
    let at = parts.at.ok_or_else(|| refused("`at` with a time of day is missing".to_owned()))?;
    for time in at.split(',') {
        calendar = calendar.at(time.parse::<WallTime>().map_err(|error| refused(error.to_string()))?);
    }
    Ok(calendar)
}

fn weekdays(text: &str) -> Result<Weekdays, String> {
    if text == "workdays" {
        return Ok(Weekdays::WORKDAYS);
    }
    text.split(',')
        .map(|word| {
            let word = word.to_ascii_lowercase();
            let found = WEEKDAYS.iter().find(|(name, _)| *name == word);
            found
                .map(|(_, day)| *day)
                .ok_or_else(|| format!("`{}` is no weekday (mon to sun, or workdays)", shown(&word)))
        })
        .collect()
}

fn days_of_month(text: &str) -> Result<Vec<u8>, String> {
    text.split(',')
        .map(|word| match word.parse() {
            Ok(day @ 1..=31) => Ok(day),
            _ => Err(format!("`{}` is no day of a month (1 to 31)", shown(word))),
        })
        .collect()
}

/// The rule as [`parse_calendar`] reads it back.
pub(super) fn show_calendar(calendar: &Calendar) -> String {
    let mut words = vec![calendar.every.to_string()];
    let plural = if calendar.every == 1 { "" } else { "s" };
    let join = |parts: Vec<String>| parts.join(",");
    match &calendar.unit {
        CalendarUnit::Days => words.push(format!("day{plural}")),
        CalendarUnit::Weeks { on } => {
            let days = on.iter().filter_map(|day| WEEKDAYS.iter().find(|(_, known)| *known == day));
            words.push(format!("week{plural} on {}", join(days.map(|(name, _)| (*name).to_owned()).collect())));
        }
        CalendarUnit::Months { on, overflow } => {
            words.push(format!("month{plural} on {}", join(on.iter().map(ToString::to_string).collect())));
            words.push(match overflow {
                Overflow::Skip => "overflow skip".to_owned(),
                Overflow::LastDay => "overflow last".to_owned(),
                Overflow::RollOver => "overflow roll".to_owned(),
            });
        }
        _ => words.push("units of a newer version".to_owned()),
    }
    if let Some(from) = calendar.from {
        words.push(format!("from {from}"));
    }
    words.push(format!("at {}", join(calendar.at.iter().map(ToString::to_string).collect())));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each rule has one written form that reads back as the same rule.
    #[test]
    fn rules_read_back() {
        for text in [
            "1 day at 09:00",
            "2 days from 2026-01-06 at 09:00,18:00:30",
            "1 week on mon,thu at 08:30",
            "3 weeks on sun at 00:00",
            "1 month on 31 overflow last at 00:15",
            "6 months on 1,15 overflow skip from 2026-02-01 at 12:00",
            "1 month on 30 overflow roll at 12:00",
        ] {
            let calendar = parse_calendar(text).unwrap();
            assert_eq!(show_calendar(&calendar), text);
            assert_eq!(parse_calendar(&show_calendar(&calendar)).unwrap(), calendar);
        }
        assert_eq!(parse_calendar("every day at 9:00").unwrap(), parse_calendar("1 day at 09:00").unwrap());
        assert_eq!(
            show_calendar(&parse_calendar("week on workdays at 7:00").unwrap()),
            "1 week on mon,tue,wed,thu,fri at 07:00"
        );
    }

    /// What is wrong is named, and the form is shown with it.
    #[test]
    fn other_texts_are_refused() {
        for (text, why) in [
            ("", "says nothing"),
            ("2", "says nothing"),
            ("2 years at 09:00", "neither days"),
            ("2 days", "`at`"),
            ("2 days at", "nothing after"),
            ("2 days at noon", "time of day"),
            ("2 days at 09:00 at 10:00", "twice"),
            ("2 days on mon at 09:00", "no `on`"),
            ("1 week at 09:00", "need `on`"),
            ("1 week on monday at 09:00", "no weekday"),
            ("1 week on mon overflow last at 09:00", "only months"),
            ("1 month on 32 at 09:00", "no day"),
            ("1 month on 31 at 09:00", "too short"),
            ("1 month on 31 overflow x at 09:00", "overflow `x`"),
            ("1 day from tomorrow at 09:00", "not a date"),
            ("99999999999 days at 09:00", "too large"),
            ("1 day at 09:00 please", "`please`"),
        ] {
            let error = parse_calendar(text).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("write N days"), "{text}: {error}");
        }
    }
}
