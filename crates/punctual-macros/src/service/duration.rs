//! Spans of time and waits as attributes write them: `500ms`, `1m30s`, `exponential(1s, 10m)`.

use super::model::Backoff;
use proc_macro2::TokenStream;
use quote::quote;
use std::time::Duration;

/// A year: longer is a mistake of unit, and every clock here counts further than that.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Reads `2s`, `500ms`, `1h30m`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let refused = || {
        format!(
            "`{text}` is not a duration: write a number and a unit (us, ms, s, m, h, d), as in \"500ms\" or \"1m30s\""
        )
    };
    let mut rest = text;
    let mut sum = Duration::ZERO;
    if rest.is_empty() {
        return Err(refused());
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at(letters);
        let number: u64 = number.parse().map_err(|_| refused())?;
        let micros: u64 = match unit {
            "us" => 1,
            "ms" => 1_000,
            "s" => 1_000_000,
            "m" => 60_000_000,
            "h" => 3_600_000_000,
            "d" => 86_400_000_000,
            _ => return Err(refused()),
        };
        let part = number.checked_mul(micros).map(Duration::from_micros);
        sum = part
            .and_then(|part| sum.checked_add(part))
            .filter(|sum| *sum <= LONGEST)
            .ok_or_else(|| format!("`{text}` is longer than 365 days, the longest duration of a contract"))?;
        rest = after;
    }
    if sum.is_zero() {
        return Err(format!("`{text}` is no time at all: the shortest duration of a contract is \"1us\""));
    }
    Ok(sum)
}

/// Reads `fixed(5s)`, `linear(1s, 1m)`, `exponential(1s, 10m)`.
pub(crate) fn parse_backoff(text: &str) -> Result<Backoff, String> {
    let refused = || {
        format!(
            "`{text}` is not a backoff: write \"fixed(5s)\", \"linear(1s, 1m)\" or \"exponential(1s, 10m)\" (first wait, longest wait)"
        )
    };
    let (kind, rest) = text.split_once('(').ok_or_else(refused)?;
    let inside = rest.trim_end().strip_suffix(')').ok_or_else(refused)?;
    let parts = inside.split(',').map(|part| parse(part.trim())).collect::<Result<Vec<_>, _>>()?;
    let backoff = match (kind.trim(), parts.as_slice()) {
        ("fixed", [wait]) => Backoff::Fixed(*wait),
        ("linear", [first, max]) => Backoff::Linear(*first, *max),
        ("exponential", [first, max]) => Backoff::Exponential(*first, *max),
        _ => return Err(refused()),
    };
    match backoff {
        Backoff::Linear(first, max) | Backoff::Exponential(first, max) if first > max => {
            Err(format!("`{text}`: the first wait is longer than the longest wait"))
        }
        _ => Ok(backoff),
    }
}

/// The duration as an expression, in the coarsest unit that is exact.
pub(crate) fn tokens(duration: Duration) -> TokenStream {
    let micros = duration.as_micros();
    if micros.is_multiple_of(1_000_000) {
        let seconds = duration.as_secs();
        quote! { ::core::time::Duration::from_secs(#seconds) }
    } else if micros.is_multiple_of(1_000) {
        let millis = u64::try_from(micros / 1_000).unwrap_or(u64::MAX);
        quote! { ::core::time::Duration::from_millis(#millis) }
    } else {
        let micros = u64::try_from(micros).unwrap_or(u64::MAX);
        quote! { ::core::time::Duration::from_micros(#micros) }
    }
}

#[cfg(test)]
mod tests {
    use super::{parse, parse_backoff, tokens};
    use crate::service::model::Backoff;
    use std::time::Duration;

    /// The grammar takes whole numbers with units, in any sum, and nothing else.
    #[test]
    fn durations() {
        for (text, millis) in [("2s", 2_000), ("500ms", 500), ("1m", 60_000), ("1m30s", 90_000), ("1d", 86_400_000)] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "2", "s", "2 s", "-1s", "1.5s", "2sec", "0s", "366d", "99999999999999999999s", "1s2", "2µs"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    /// A backoff names its kind and its bounds in order.
    #[test]
    fn backoffs() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        assert_eq!(parse_backoff("fixed(1s)"), Ok(Backoff::Fixed(second)));
        assert_eq!(parse_backoff("linear(1s, 1m)"), Ok(Backoff::Linear(second, minute)));
        assert_eq!(parse_backoff("exponential(1s,60s)"), Ok(Backoff::Exponential(second, minute)));
        for text in ["", "1s", "fixed", "fixed(1s, 2s)", "exponential(1s)", "exponential(2m, 1m)", "cubic(1s, 2s)"] {
            assert!(parse_backoff(text).is_err(), "{text}");
        }
    }

    /// The expansion shows the unit that a reader would choose.
    #[test]
    fn expressions() {
        let text = |duration| tokens(duration).to_string().replace(' ', "");
        assert_eq!(text(Duration::from_secs(2)), "::core::time::Duration::from_secs(2u64)");
        assert_eq!(text(Duration::from_millis(1500)), "::core::time::Duration::from_millis(1500u64)");
        assert_eq!(text(Duration::from_micros(7)), "::core::time::Duration::from_micros(7u64)");
    }
}
