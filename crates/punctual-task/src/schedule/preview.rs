//! What a rule will do next, for people.

use super::compiled::{CompiledRule, civil_text};
use super::error::RuleError;
use super::rule::Rule;
use super::slot::Slot;
use punctual_clock::Timestamp;

/// The most slots that one preview shows.
pub const PREVIEW_MAX: usize = 1_000;

/// One slot of a preview.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Upcoming {
    /// The slot itself.
    pub slot: Slot,
    /// Its instant in UTC: `2026-03-08T07:00:00Z`.
    pub utc: String,
    /// Its instant as wall time in the rule's zone, with the offset: `2026-03-08T03:00:00-04:00`.
    pub local: String,
    /// The wall time that the rule names, if a gap of the clocks moved the slot from it or skips it.
    pub moved_from: Option<String>,
}

/// The first `count` slots (at most [`PREVIEW_MAX`]) strictly later than `from`, as of a schedule created at `from`.
/// Fewer if the series ends; bounds by number of occurrences are the planner's and not looked at.
///
/// # Errors
/// If the rule cannot be used ([`CompiledRule::new`]) or a search was given up ([`CompiledRule::next_after`]).
pub fn preview(rule: &Rule, from: Timestamp, count: usize) -> Result<Vec<Upcoming>, RuleError> {
    CompiledRule::new(rule, from)?.preview(from, count)
}

impl CompiledRule {
    /// The first `count` slots (at most [`PREVIEW_MAX`]) strictly later than `from`. Fewer if the series ends; bounds by
    /// number of occurrences are the planner's and not looked at.
    ///
    /// # Errors
    /// If a search was given up ([`CompiledRule::next_after`]).
    pub fn preview(&self, from: Timestamp, count: usize) -> Result<Vec<Upcoming>, RuleError> {
        self.slots_after(from)
            .take(count.min(PREVIEW_MAX))
            .map(|slot| {
                let slot = slot?;
                let local = self.local(slot.at);
                let nominal = self.nominal(slot.key);
                let moved = self.key_class() == super::KeyClass::Local && !local.starts_with(&nominal);
                let moved_from = if moved { Some(nominal) } else { None };
                Ok(Upcoming { slot, utc: utc_text(slot.at), local, moved_from })
            })
            .collect()
    }
}

/// An instant in UTC: `2026-03-08T07:00:00Z`, with a fraction if there is one.
#[must_use]
pub fn utc_text(at: Timestamp) -> String {
    civil_text(at.as_micros()) + "Z"
}
