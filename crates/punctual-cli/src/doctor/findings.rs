//! What was found: each with its state, and with what to do where that is not fine.

use serde::Serialize;

/// How it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// Fine.
    Ok,
    /// It works, and somebody should know.
    Warn,
    /// It does not work.
    Fail,
}

impl State {
    /// The word for people and programs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Warn => "warn",
            State::Fail => "fail",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) check: &'static str,
    pub(crate) state: State,
    pub(crate) finding: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) advice: Option<&'static str>,
}

impl Finding {
    pub(crate) fn new(check: &'static str, state: State, finding: impl Into<String>) -> Self {
        Finding { check, state, finding: finding.into(), advice: None }
    }

    pub(crate) fn advise(mut self, advice: &'static str) -> Self {
        self.advice = Some(advice);
        self
    }
}

/// All of them, in the order in which they were looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    pub(crate) fn add(&mut self, finding: Finding) {
        self.0.push(finding);
    }

    pub(crate) fn ok(&mut self, check: &'static str, finding: impl Into<String>) {
        self.add(Finding::new(check, State::Ok, finding));
    }

    pub(crate) fn warn(&mut self, check: &'static str, finding: impl Into<String>, advice: &'static str) {
        self.add(Finding::new(check, State::Warn, finding).advise(advice));
    }

    pub(crate) fn fail(&mut self, check: &'static str, finding: impl Into<String>, advice: &'static str) {
        self.add(Finding::new(check, State::Fail, finding).advise(advice));
    }

    pub(crate) fn all(&self) -> &[Finding] {
        &self.0
    }

    /// How many are in this state.
    pub(crate) fn count(&self, state: State) -> usize {
        self.0.iter().filter(|finding| finding.state == state).count()
    }
}
