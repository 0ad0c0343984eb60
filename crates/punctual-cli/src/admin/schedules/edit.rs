//! Edits: what is given replaces what is there, under compare-and-swap.

use super::{act, check_slots, find};
use crate::admin::catalog::Catalog;
use crate::admin::failures::{bad_field, from_engine, from_store};
use crate::admin::tasks;
use crate::text::{parse_duration, parse_missed, parse_overlap, parse_rule};
use punctual::engine::Engine;
use punctual::task::{ScheduleCommand, ScheduleSpec, Steered};
use punctual::{Bytes, Status};
use punctual_admin::{RuleText, ScheduleAct, ScheduleEdit};

pub(in crate::admin) async fn edit(
    engine: &Engine,
    catalog: &Catalog,
    name: String,
    edit: ScheduleEdit,
) -> Result<ScheduleAct, Status> {
    let view = find(engine, &name).await?;
    let version = edit.version.unwrap_or(view.position.version);
    let (decide_first, drop_pending) = (edit.decide_first, edit.drop_pending);
    if decide_first && drop_pending {
        return Err(Status::invalid_argument("what is decided first would be dropped: ask for one of the two"));
    }
    let spec = edited(&view.spec, edit)?;
    catalog.admit(&spec.method, &spec.args)?;
    if spec.rule != view.spec.rule {
        let now = engine.store().now().await.map_err(from_store)?;
        check_slots(&spec, now)?;
    }
    let command = ScheduleCommand::Edit { spec: Box::new(spec), version, decide_first, drop_pending };
    let steered = engine.steer(name.clone(), command).await.map_err(from_engine)?;
    let outcome = if steered == Steered::Unchanged { "unchanged" } else { "updated" };
    act(engine, &name, outcome, Vec::new()).await
}

fn edited(spec: &ScheduleSpec, edit: ScheduleEdit) -> Result<ScheduleSpec, Status> {
    let mut spec = spec.clone();
    if let Some(rule) = edit.rule {
        let zone = rule.zone.clone().unwrap_or_else(|| spec.rule.zone.clone());
        let text = RuleText { zone: Some(zone), ..rule };
        let exclusions = std::mem::take(&mut spec.rule.exclusions);
        spec.rule = parse_rule(&text).map_err(|error| Status::invalid_argument(error.to_string()))?;
        // The text of a rule names none: those that a program declared stay.
        spec.rule.exclusions = exclusions;
    }
    if let Some(method) = edit.method {
        tasks::method(&method)?;
        // The arguments were written for the other method's schema.
        spec.schema = if method == spec.method { spec.schema } else { 0 };
        spec.method = method;
    }
    if let Some(args) = edit.args {
        spec.args = Bytes::from(args);
    }
    if let Some(queue) = edit.queue {
        tasks::name("queue", &queue)?;
        spec.queue = queue;
    }
    if edit.priority.is_some() {
        spec.level = tasks::priority(edit.priority)?;
    }
    if let Some(missed) = edit.missed {
        spec.missed = parse_missed(&missed).map_err(|error| bad_field("missed", &error))?;
    }
    if let Some(overlap) = edit.overlap {
        spec.overlap = parse_overlap(&overlap).map_err(|error| bad_field("overlap", &error))?;
    }
    if let Some(count) = edit.max_pending {
        spec.max_pending = count;
    }
    if edit.attempts.is_some() {
        spec.options.attempts = tasks::attempts(edit.attempts)?;
    }
    if edit.timeout.is_some() {
        spec.options.timeout = tasks::timeout(edit.timeout.as_deref())?;
    }
    if let Some(jitter) = edit.jitter {
        spec.jitter = parse_duration(&jitter).map_err(|error| bad_field("jitter", &error))?;
    }
    if let Some(failures) = edit.pause_after {
        spec.pause_after = Some(failures).filter(|failures| *failures > 0);
    }
    spec.validate().map_err(|error| Status::invalid_argument(error.to_string()))?;
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual::schedule::{Cron, Exclusion, Rule, Weekday};

    /// What an edit does not name stays, the zone and the exclusions of a replaced rule too.
    #[test]
    fn what_is_not_named_stays() {
        let mut rule = Rule::from(Cron::parse("0 3 * * *").unwrap()).zone("Europe/Rome");
        rule.exclusions = vec![Exclusion::Weekday(Weekday::Sunday)];
        let before = ScheduleSpec { max_pending: 4, ..ScheduleSpec::new("s", rule, "A/b", "{}".into()) };
        assert_eq!(edited(&before, ScheduleEdit::default()).unwrap(), before);
        let text = RuleText { cron: Some("0 4 * * *".to_owned()), ..RuleText::default() };
        let after = edited(&before, ScheduleEdit { rule: Some(text), ..ScheduleEdit::default() }).unwrap();
        assert_eq!((after.rule.zone.as_str(), &after.rule.exclusions), ("Europe/Rome", &before.rule.exclusions));
        assert_ne!(after.rule.kind, before.rule.kind);
        assert_eq!(ScheduleSpec { rule: before.rule.clone(), ..after }, before);
        let wrong = ScheduleEdit { max_pending: Some(0), ..ScheduleEdit::default() };
        assert!(edited(&before, wrong).is_err());
    }
}
