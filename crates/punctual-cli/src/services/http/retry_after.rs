//! `Retry-After`, in both of its forms (RFC 9110, 10.2.3).

use punctual::clock::Timestamp;

/// The longest wait that a server may ask for: longer, and it has forgotten us.
const SECONDS_MAX: u64 = 24 * 3600;

/// How many seconds to wait from `now`, at least one; nothing if the text is neither a number nor a date.
pub(super) fn seconds(text: &str, now: Timestamp) -> Option<u64> {
    let text = text.trim();
    let seconds = if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        // A number that does not fit is a long time.
        text.parse().unwrap_or(SECONDS_MAX)
    } else {
        let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp().as_second();
        let now = now.as_micros().div_euclid(1_000_000);
        u64::try_from(at.saturating_sub(now)).unwrap_or(0)
    };
    Some(seconds.clamp(1, SECONDS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both forms give the wait that they mean, within bounds that neither hurry nor park a task.
    #[test]
    fn both_forms_are_read() {
        // 1994-11-06T08:49:37Z
        let now = Timestamp::from_secs(784_111_777);
        for (text, wait) in [
            ("120", Some(120)),
            ("0", Some(1)),
            (" 5 ", Some(5)),
            ("99999999999999999999999", Some(SECONDS_MAX)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(1)),
            ("Fri, 31 Dec 1999 23:59:59 GMT", Some(SECONDS_MAX)),
            ("soon", None),
            ("-5", None),
            ("", None),
        ] {
            assert_eq!(seconds(text, now), wait, "{text}");
        }
    }
}
