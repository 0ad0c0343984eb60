//! Instants: RFC 3339, always with an offset.

use super::{BadText, shown};
use punctual::clock::Timestamp;
use punctual::task::schedule::utc_text;

/// The instants that are read and written: years of four digits, as schedules have them.
const YEARS: std::ops::RangeInclusive<i16> = 1..=9998;

/// Reads `2026-03-08T07:00:00Z`, also with an offset or a space in place of the `T`.
///
/// # Errors
/// Where the text is something else, has no offset, or names an instant that there is not.
pub(crate) fn parse_instant(text: &str) -> Result<Timestamp, BadText> {
    let refused = |why: &str| {
        BadText::new(format!(
            "`{}` is not an instant{why}: write it as 2026-03-08T07:00:00Z or with an offset",
            shown(text)
        ))
    };
    let instant: jiff::Timestamp = text.trim().parse().map_err(|_| {
        // The commonest mistake deserves its own words: a wall time alone is a different instant in each zone.
        match text.trim().parse::<jiff::civil::DateTime>() {
            Ok(_) => refused(", since it has no offset"),
            Err(_) => refused(""),
        }
    })?;
    let year = instant.to_zoned_datetime(jiff::tz::TimeZone::UTC).year();
    if !YEARS.contains(&year) {
        return Err(refused(" of the years 1 to 9998"));
    }
    Ok(Timestamp::from_micros(instant.as_microsecond()))
}

/// The instant in UTC, with a fraction of a second only if there is one.
pub(crate) fn show_instant(at: Timestamp) -> String {
    utc_text(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One instant has many written forms and one that we write, which reads back.
    #[test]
    fn instants_read_back() {
        for text in ["2026-03-08T07:00:00Z", "2026-03-08T09:00:00+02:00", "2026-03-08 07:00:00.000Z"] {
            let instant = parse_instant(text).unwrap();
            assert_eq!(show_instant(instant), "2026-03-08T07:00:00Z", "{text}");
        }
        let fine = parse_instant("1969-12-31T23:59:59.999999Z").unwrap();
        assert_eq!(fine, Timestamp::from_micros(-1));
        assert_eq!(parse_instant(&show_instant(fine)), Ok(fine));
    }

    /// A wall time is not taken for an instant of some zone, and neither is anything else.
    #[test]
    fn other_texts_are_refused() {
        let error = parse_instant("2026-03-08T07:00:00").unwrap_err().to_string();
        assert!(error.contains("no offset") && error.contains("write it as"), "{error}");
        for text in [
            "",
            "tomorrow",
            "2026-02-30T00:00:00Z",
            "07:00",
            "1772953200",
            "+099999-01-01T00:00:00Z",
            "-000001-01-01T00:00:00Z",
        ] {
            assert!(parse_instant(text).is_err(), "{text}");
        }
    }
}
