//! The next slots of a rule or of a stored schedule.

use super::failures::bad_rule;
use crate::exit::Failure;
use crate::text::{BadText, parse_rule, show_instant};
use punctual::Status;
use punctual::clock::{Clock, SystemClock, Timestamp};
use punctual::task::ScheduleView;
use punctual::task::schedule::{CompiledRule, KeyClass, PREVIEW_MAX, RuleError, Slot};
use punctual_admin::{PreviewSlot, RuleText};

/// How many slots a preview has where nobody says.
const COUNT_DEFAULT: usize = 10;

/// The next slots of a rule that nobody stored, as of now by this machine's clock.
///
/// # Errors
/// Where the rule does not parse or cannot be.
pub(crate) fn preview_now(rule: &RuleText, count: u32) -> Result<Vec<PreviewSlot>, Failure> {
    Ok(of_rule(rule, count, SystemClock.timestamp())?)
}

/// The next slots of a rule, as of a schedule created `now`.
pub(super) fn of_rule(text: &RuleText, count: u32, now: Timestamp) -> Result<Vec<PreviewSlot>, Status> {
    let rule = parse_rule(text).map_err(|error: BadText| Status::invalid_argument(error.to_string()))?;
    let compiled = CompiledRule::new(&rule, now).map_err(|error| bad_rule(&error))?;
    let count = bounded(count)?.min(at_most(rule.max_occurrences));
    collect(&compiled, None, now, count)
}

/// The next slots of a stored schedule, from its cursor on; none once it has ended.
pub(super) fn of_schedule(view: &ScheduleView, count: u32) -> Result<Vec<PreviewSlot>, Status> {
    let count = bounded(count)?;
    let Some(cursor) = view.position.cursor else { return Ok(Vec::new()) };
    let compiled = CompiledRule::new(&view.spec.rule, view.created).map_err(|error| bad_rule(&error))?;
    let left = view.spec.rule.max_occurrences.map(|max| max.saturating_sub(view.position.runs));
    collect(&compiled, Some(cursor), cursor.at, count.min(at_most(left)))
}

fn bounded(count: u32) -> Result<usize, Status> {
    match usize::try_from(count) {
        Ok(0) => Ok(COUNT_DEFAULT),
        Ok(count) if count <= PREVIEW_MAX => Ok(count),
        _ => Err(Status::invalid_argument(format!("count {count} is more than {PREVIEW_MAX}; ask for fewer slots"))),
    }
}

fn at_most(occurrences: Option<u64>) -> usize {
    occurrences.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX))
}

fn collect(
    compiled: &CompiledRule,
    first: Option<Slot>,
    after: Timestamp,
    count: usize,
) -> Result<Vec<PreviewSlot>, Status> {
    let slots = first.map(Ok).into_iter().chain(compiled.slots_after(after)).take(count);
    let slots: Result<Vec<PreviewSlot>, RuleError> = slots.map(|slot| slot.map(|slot| shown(compiled, slot))).collect();
    slots.map_err(|error| bad_rule(&error))
}

/// A slot for people.
fn shown(compiled: &CompiledRule, slot: Slot) -> PreviewSlot {
    let local = compiled.local(slot.at);
    let nominal = compiled.nominal(slot.key);
    let moved = compiled.key_class() == KeyClass::Local && !local.starts_with(&nominal);
    PreviewSlot { at: show_instant(slot.at), local, nominal: moved.then_some(nominal), skipped: slot.gap }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parse_instant;

    fn of(change: impl FnOnce(&mut RuleText), from: &str) -> Vec<PreviewSlot> {
        let mut text = RuleText { zone: Some("America/New_York".to_owned()), ..RuleText::default() };
        change(&mut text);
        of_rule(&text, 3, parse_instant(from).unwrap()).unwrap()
    }

    /// A preview tells what a change of the clocks does to a slot: moved, or skipped with a record.
    #[test]
    fn gaps_are_told() {
        let cron = |text: &mut RuleText| text.cron = Some("30 2 * * *".to_owned());
        let slots = of(cron, "2026-03-07T12:00:00Z");
        assert_eq!(slots[0].local, "2026-03-08T03:00:00-04:00");
        assert_eq!(slots[0].nominal.as_deref(), Some("2026-03-08T02:30:00"));
        assert_eq!((slots[1].local.as_str(), &slots[1].nominal), ("2026-03-09T02:30:00-04:00", &None));
        let skipped = of(
            |text| {
                cron(text);
                text.gap = Some("skip".to_owned());
            },
            "2026-03-07T12:00:00Z",
        );
        assert!(skipped[0].skipped && !skipped[1].skipped);
    }

    /// A rule with so many occurrences previews no more than that, and a count over the bound is refused.
    #[test]
    fn counts_are_bounded() {
        let slots = of(
            |text| {
                text.every = Some("1h".to_owned());
                text.max_occurrences = Some(2);
            },
            "2026-03-07T12:00:00Z",
        );
        assert_eq!(
            slots.iter().map(|slot| slot.at.as_str()).collect::<Vec<_>>(),
            ["2026-03-07T13:00:00Z", "2026-03-07T14:00:00Z"]
        );
        let text = RuleText { cron: Some("@daily".to_owned()), ..RuleText::default() };
        assert!(of_rule(&text, 1_001, Timestamp::EPOCH).is_err());
        assert_eq!(of_rule(&text, 0, Timestamp::EPOCH).unwrap().len(), 10);
    }
}
