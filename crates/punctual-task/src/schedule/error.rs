//! What can be wrong with a rule, said so that the one who wrote it can mend it.

use std::fmt;

/// Which of the few ways a rule is wrong in. The text of the error says the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleErrorKind {
    /// The text is not of the form it should have.
    Syntax,
    /// A number, name or size is outside what is allowed.
    OutOfRange,
    /// The rule can be read, but no slot would ever come of it.
    NeverFires,
    /// The text means something that Punctual does not do, such as `@reboot`.
    Unsupported,
    /// The time zone is not in the bundled database.
    UnknownZone,
    /// Something that the rule needs is missing, or two parts of it contradict each other.
    Invalid,
    /// The search for the next slot was given up at its bound, since exclusions leave out too much.
    SearchExhausted,
}

/// A rule that cannot be used, or a search that was given up. Always the fault of the rule's author; never retryable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    kind: RuleErrorKind,
    message: Box<str>,
}

impl RuleError {
    pub(crate) fn new(kind: RuleErrorKind, message: impl Into<String>) -> Self {
        RuleError { kind, message: message.into().into_boxed_str() }
    }

    pub(crate) fn syntax(message: impl Into<String>) -> Self {
        Self::new(RuleErrorKind::Syntax, message)
    }

    pub(crate) fn out_of_range(message: impl Into<String>) -> Self {
        Self::new(RuleErrorKind::OutOfRange, message)
    }

    pub(crate) fn never_fires(message: impl Into<String>) -> Self {
        Self::new(RuleErrorKind::NeverFires, message)
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(RuleErrorKind::Unsupported, message)
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(RuleErrorKind::Invalid, message)
    }

    /// Which way the rule is wrong in.
    #[must_use]
    pub const fn kind(&self) -> RuleErrorKind {
        self.kind
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RuleError {}
