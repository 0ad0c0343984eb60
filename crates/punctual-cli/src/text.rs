//! Values as people write them on a command line, in a configuration file and in the admin contract's text fields.

mod duration;
mod instant;
mod policy;
mod rule;

pub(crate) use duration::{parse_duration, show_duration};
pub(crate) use instant::{parse_instant, show_instant};
pub(crate) use policy::{parse_missed, parse_overlap, parse_resume, show_missed, show_overlap};
pub(crate) use rule::{parse_rule, show_rule};

use std::fmt;

/// A text that means nothing: which field it was given for, what is wrong, and what to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadText(String);

impl BadText {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        BadText(text.into())
    }
}

impl fmt::Display for BadText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadText {}

/// A user's text as an error may show it: short, and on one line.
pub(crate) fn shown(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 80;
    let mut out: String = text.chars().take(SHOWN_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        out.push('…');
    }
    out
}

/// A database as output and logs may show it: of a URL everything but the password.
pub(crate) fn without_password(database: &str) -> String {
    let hidden = || {
        let (scheme, rest) = database.split_once("://")?;
        // A password may hold an @ itself, the host may not.
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (account, place) = rest.get(..end)?.rsplit_once('@')?;
        let (user, _) = account.split_once(':')?;
        Some(format!("{scheme}://{user}:***@{place}{}", rest.get(end..)?))
    };
    hidden().unwrap_or_else(|| database.to_owned())
}

#[cfg(test)]
mod tests {
    use super::without_password;

    /// No password is shown, and what has none is shown as it is.
    #[test]
    fn passwords_are_hidden() {
        for (database, shown) in [
            ("mysql://u:geheim@h:3306/d?require_ssl=true", "mysql://u:***@h:3306/d?require_ssl=true"),
            ("postgres://u:ge@heim@h/d", "postgres://u:***@h/d"),
            ("mysql://u@h/d", "mysql://u@h/d"),
            ("punctual.db", "punctual.db"),
        ] {
            assert_eq!(without_password(database), shown);
        }
    }
}
