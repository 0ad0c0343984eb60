//! Durations: `90s`, `1h 30m`, `250ms`.

use super::{BadText, shown};
use std::time::Duration;

/// The longest duration that is read: a hundred years, beyond which every use here is a mistake of unit.
const LONGEST: Duration = Duration::from_secs(36_525 * 86_400);

/// Each unit with its microseconds, longest first.
const UNITS: [(&str, u64); 7] = [
    ("w", 7 * 86_400_000_000),
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// Reads whole numbers with units, with or without spaces between them.
///
/// # Errors
/// Where the text is something else, or longer than a hundred years.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, BadText> {
    let refused = || {
        BadText::new(format!(
            "`{}` is not a duration: write whole numbers with units (w, d, h, m, s, ms, us), such as 90s or 1h 30m",
            shown(text)
        ))
    };
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(refused());
    }
    // Zero needs no unit.
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at(letters);
        let number: u64 = number.parse().map_err(|_| refused())?;
        let (_, micros) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(refused)?;
        let part = number.checked_mul(*micros).map(Duration::from_micros);
        sum = part.and_then(|part| sum.checked_add(part)).filter(|sum| *sum <= LONGEST).ok_or_else(|| {
            BadText::new(format!("`{}` is longer than a hundred years, the longest duration here", shown(text)))
        })?;
        rest = after.trim_start();
    }
    Ok(sum)
}

/// The duration in words, down to the microsecond: what [`parse_duration`] reads back.
pub(crate) fn show_duration(duration: Duration) -> String {
    let mut left = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    let mut parts = Vec::new();
    // Weeks are read and never written: people count longer spans in days.
    for (unit, micros) in UNITS.iter().skip(1) {
        let count = left / micros;
        if count > 0 {
            parts.push(format!("{count}{unit}"));
            left %= micros;
        }
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written reads back, and the forms that people use mean what they say.
    #[test]
    fn durations_read_back() {
        for text in ["0s", "1us", "250ms", "90s", "1m", "1h 30m", "36524d 23h 59m 59s 999ms 999us"] {
            let duration = parse_duration(text).unwrap();
            assert_eq!(parse_duration(&show_duration(duration)), Ok(duration), "{text}");
        }
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(parse_duration(" 2w 1d "), Ok(Duration::from_secs(15 * 86_400)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        assert_eq!(show_duration(Duration::from_secs(5_400)), "1h 30m");
        assert_eq!(show_duration(Duration::from_millis(90_500)), "1m 30s 500ms");
    }

    /// What is no duration is refused with what to write, never taken for another one.
    #[test]
    fn other_texts_are_refused() {
        for text in ["", "5", "s", "1.5h", "-1s", "1 s 2", "5 minutes", "1h,30m", "1y", "99999999999999999999s", "9e9s"]
        {
            assert!(parse_duration(text).unwrap_err().to_string().contains("write"), "{text}");
        }
        assert!(parse_duration("5300w").unwrap_err().to_string().contains("hundred years"));
        assert!(parse_duration("18446744073709551615w").is_err());
    }
}
