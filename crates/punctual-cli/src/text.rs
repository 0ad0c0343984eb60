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
