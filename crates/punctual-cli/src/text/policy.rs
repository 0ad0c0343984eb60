//! What happens to missed and overlapping slots, as text.

use super::{BadText, parse_duration, show_duration, shown};
use punctual::task::{Missed, Overflow, Overlap, Resume};

/// Reads `skip`, `latest`, `latest:AGE`, `earliest`, `all:COUNT:AGE`, `all:COUNT:AGE:halt` or `all:COUNT:AGE:skip_oldest`.
///
/// # Errors
/// Where the text is something else. Limits are the store's to check.
pub(crate) fn parse_missed(text: &str) -> Result<Missed, BadText> {
    let refused = || {
        BadText::new(format!(
            "missed `{}` is not known: write skip, latest[:AGE], earliest or all:COUNT:AGE[:halt|:skip_oldest], such as \
             all:500:24h",
            shown(text)
        ))
    };
    let parts: Vec<&str> = text.split(':').map(str::trim).collect();
    match parts[..] {
        ["skip"] => Ok(Missed::Skip),
        ["earliest"] => Ok(Missed::Earliest),
        ["latest"] => Ok(Missed::default()),
        ["latest", age] => Ok(Missed::Latest { max_age: parse_duration(age)? }),
        ["all", count, age] | ["all", count, age, "halt"] => {
            Ok(Missed::all(count.parse().map_err(|_| refused())?, parse_duration(age)?))
        }
        ["all", count, age, "skip_oldest"] => Ok(Missed::All {
            max_count: count.parse().map_err(|_| refused())?,
            max_age: parse_duration(age)?,
            overflow: Overflow::SkipOldest,
        }),
        _ => Err(refused()),
    }
}

/// The policy as [`parse_missed`] reads it back.
pub(crate) fn show_missed(missed: Missed) -> String {
    let age = |age| show_duration(age).replace(' ', "");
    match missed {
        Missed::Skip => "skip".to_owned(),
        Missed::Latest { max_age } => format!("latest:{}", age(max_age)),
        Missed::Earliest => "earliest".to_owned(),
        Missed::All { max_count, max_age, overflow } => {
            let overflow = match overflow {
                Overflow::Halt => "halt",
                Overflow::SkipOldest => "skip_oldest",
            };
            format!("all:{max_count}:{}:{overflow}", age(max_age))
        }
    }
}

/// Reads `wait`, `skip`, `cancel` or `allow`.
///
/// # Errors
/// Where the text is something else.
pub(crate) fn parse_overlap(text: &str) -> Result<Overlap, BadText> {
    match text.trim() {
        "wait" => Ok(Overlap::Wait),
        "skip" => Ok(Overlap::Skip),
        "cancel" => Ok(Overlap::Cancel),
        "allow" => Ok(Overlap::Allow),
        _ => Err(BadText::new(format!("overlap `{}` is not known: write wait, skip, cancel or allow", shown(text)))),
    }
}

/// The rule as [`parse_overlap`] reads it back.
pub(crate) fn show_overlap(overlap: Overlap) -> &'static str {
    match overlap {
        Overlap::Wait => "wait",
        Overlap::Skip => "skip",
        Overlap::Cancel => "cancel",
        Overlap::Allow => "allow",
    }
}

/// Reads `policy` (or nothing), `now`, `all` or `last:N`.
///
/// # Errors
/// Where the text is something else.
pub(crate) fn parse_resume(text: &str) -> Result<Resume, BadText> {
    let refused = || BadText::new(format!("mode `{}` is not known: write policy, now, all or last:N", shown(text)));
    match text.trim() {
        "" | "policy" => Ok(Resume::ByPolicy),
        "now" => Ok(Resume::FromNow),
        "all" => Ok(Resume::All),
        other => {
            let count = other.strip_prefix("last:").ok_or_else(refused)?;
            Ok(Resume::Last(count.trim().parse().map_err(|_| refused())?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Each policy has one written form that reads back as the same policy.
    #[test]
    fn policies_read_back() {
        for text in ["skip", "latest:1d", "latest:1h30m", "earliest", "all:500:1d:halt", "all:3:90s:skip_oldest"] {
            let missed = parse_missed(text).unwrap();
            assert_eq!(parse_missed(&show_missed(missed)), Ok(missed), "{text}");
        }
        assert_eq!(parse_missed("latest"), Ok(Missed::default()));
        assert_eq!(parse_missed("all:5:24h"), Ok(Missed::all(5, Duration::from_secs(86_400))));
        for text in ["wait", "skip", "cancel", "allow"] {
            assert_eq!(show_overlap(parse_overlap(text).unwrap()), text);
        }
        assert_eq!(parse_resume(""), Ok(Resume::ByPolicy));
        assert_eq!(parse_resume("last:3"), Ok(Resume::Last(3)));
    }

    /// A policy that is misspelt is refused with all that there are, never taken for the default.
    #[test]
    fn other_texts_are_refused() {
        for text in
            ["", "none", "latest:", "latest:1", "all", "all:5", "all:x:1h", "all:5:1h:drop", "all:-1:1h", "skip:1"]
        {
            assert!(parse_missed(text).is_err(), "{text}");
        }
        assert!(parse_overlap("queue").is_err());
        for text in ["last", "last:", "last:-1", "first", "last:1:2"] {
            assert!(parse_resume(text).is_err(), "{text}");
        }
    }
}
