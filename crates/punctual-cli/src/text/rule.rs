//! Time rules as text: the fields of [`RuleText`] to a rule and back.

mod calendar;

use super::{BadText, parse_duration, parse_instant, show_duration, show_instant, shown};
use calendar::{parse_calendar, show_calendar};
use punctual::task::schedule::{Cron, DayMode, Every, Fold, Gap, Kind, Rule};
use punctual_admin::RuleText;

/// Reads a rule. Whether its parts fit together is said when it is compiled.
///
/// # Errors
/// Names the field that does not parse, or says that there is not exactly one kind.
pub(crate) fn parse_rule(text: &RuleText) -> Result<Rule, BadText> {
    let RuleText { cron, every, calendar, zone, gap, fold, days, start, until, max_occurrences } = text;
    let mode = match days.as_deref() {
        None | Some("or") => DayMode::Or,
        Some("and") => DayMode::And,
        Some(other) => return Err(BadText::new(format!("days `{}` is not known: write or, or and", shown(other)))),
    };
    if days.is_some() && cron.is_none() {
        return Err(BadText::new("`days` says how a cron expression joins its day fields; other rules have none"));
    }
    let mut rule: Rule = match (cron, every, calendar) {
        (Some(text), None, None) => Cron::parse_with(text, mode).map_err(|error| named("cron", error))?.into(),
        (None, Some(text), None) => Every::new(parse_duration(text).map_err(|error| named("every", error))?).into(),
        (None, None, Some(text)) => parse_calendar(text).map_err(|error| named("calendar", error))?.into(),
        _ => return Err(BadText::new("a rule is exactly one of cron, every and calendar")),
    };
    if let Some(zone) = zone {
        rule.zone.clone_from(zone);
    }
    if let Some(gap) = gap {
        rule.gap = parse_gap(gap)?;
    }
    if let Some(fold) = fold {
        rule.fold = parse_fold(fold)?;
    }
    let instant = |name: &'static str, text: &Option<String>| {
        text.as_deref().map(parse_instant).transpose().map_err(|error| named(name, error))
    };
    rule.start = instant("start", start)?;
    rule.until = instant("until", until)?;
    rule.max_occurrences = *max_occurrences;
    Ok(rule)
}

fn named(field: &str, error: impl std::fmt::Display) -> BadText {
    BadText::new(format!("{field}: {error}"))
}

fn parse_gap(text: &str) -> Result<Gap, BadText> {
    match text {
        "end" => Ok(Gap::End),
        "shift" => Ok(Gap::Shift),
        "skip" => Ok(Gap::Skip),
        other => Err(BadText::new(format!("gap `{}` is not known: write end, shift or skip", shown(other)))),
    }
}

fn parse_fold(text: &str) -> Result<Fold, BadText> {
    match text {
        "first" => Ok(Fold::First),
        "second" => Ok(Fold::Second),
        "both" => Ok(Fold::Both),
        other => Err(BadText::new(format!("fold `{}` is not known: write first, second or both", shown(other)))),
    }
}

/// The rule in words, defaults left out: `cron 0 3 * * * in Europe/Rome, gap skip`.
pub(crate) fn show_rule(rule: &Rule) -> String {
    let mut words = match &rule.kind {
        Kind::Interval(every) => format!("every {}", show_duration(every.every)),
        Kind::Cron(cron) => format!("cron {cron}"),
        Kind::Calendar(calendar) => show_calendar(calendar),
        _ => "a rule of a newer version".to_owned(),
    };
    // An interval has no wall times: its zone only says how it is shown.
    if !matches!(rule.kind, Kind::Interval(_)) {
        words.push_str(" in ");
        words.push_str(&rule.zone);
    }
    let mut add = |part: String| {
        words.push_str(", ");
        words.push_str(&part);
    };
    if let Kind::Cron(cron) = &rule.kind
        && cron.mode() == DayMode::And
    {
        add("days and".to_owned());
    }
    match rule.gap {
        Gap::End => {}
        Gap::Shift => add("gap shift".to_owned()),
        Gap::Skip => add("gap skip".to_owned()),
    }
    match rule.fold {
        Fold::First => {}
        Fold::Second => add("fold second".to_owned()),
        Fold::Both => add("fold both".to_owned()),
    }
    if let Some(start) = rule.start {
        add(format!("from {}", show_instant(start)));
    }
    if let Some(until) = rule.until {
        add(format!("until {}", show_instant(until)));
    }
    if let Some(count) = rule.max_occurrences {
        add(format!("{count} times"));
    }
    if !rule.exclusions.is_empty() {
        add(format!("{} exclusions", rule.exclusions.len()));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cron(text: &str) -> RuleText {
        RuleText { cron: Some(text.to_owned()), ..RuleText::default() }
    }

    /// Each field reaches its place in the rule, and the words name what differs from the defaults.
    #[test]
    fn fields_reach_the_rule() {
        let text = RuleText {
            zone: Some("Europe/Rome".to_owned()),
            gap: Some("skip".to_owned()),
            fold: Some("both".to_owned()),
            days: Some("and".to_owned()),
            start: Some("2026-01-01T00:00:00Z".to_owned()),
            until: Some("2027-01-01T00:00:00+01:00".to_owned()),
            max_occurrences: Some(5),
            ..cron("30 1 13 * 5")
        };
        let rule = parse_rule(&text).unwrap();
        assert_eq!((rule.gap, rule.fold, rule.max_occurrences), (Gap::Skip, Fold::Both, Some(5)));
        assert_eq!(
            show_rule(&rule),
            "cron 30 1 13 * 5 in Europe/Rome, days and, gap skip, fold both, from 2026-01-01T00:00:00Z, \
             until 2026-12-31T23:00:00Z, 5 times"
        );
        let every = RuleText { every: Some("1h30m".to_owned()), ..RuleText::default() };
        assert_eq!(show_rule(&parse_rule(&every).unwrap()), "every 1h 30m");
        assert_eq!(show_rule(&parse_rule(&cron("@daily")).unwrap()), "cron @daily in UTC");
    }

    /// What does not parse is refused by the name of its field.
    #[test]
    fn bad_fields_are_refused_by_name() {
        let refused = |text: RuleText, name: &str| {
            let error = parse_rule(&text).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        };
        refused(RuleText::default(), "exactly one");
        refused(RuleText { every: Some("1h".to_owned()), ..cron("* * * * *") }, "exactly one");
        refused(cron("61 * * * *"), "cron: minute");
        refused(cron("0 0 30 2 *"), "can never fire");
        refused(RuleText { every: Some("1x".to_owned()), ..RuleText::default() }, "every:");
        refused(RuleText { calendar: Some("x".to_owned()), ..RuleText::default() }, "calendar:");
        let with = |change: fn(&mut RuleText)| {
            let mut text = cron("* * * * *");
            change(&mut text);
            text
        };
        refused(with(|text| text.gap = Some("x".to_owned())), "gap");
        refused(with(|text| text.fold = Some("x".to_owned())), "fold");
        refused(with(|text| text.days = Some("x".to_owned())), "days");
        refused(with(|text| text.start = Some("x".to_owned())), "start");
        refused(with(|text| text.until = Some("x".to_owned())), "until");
        let days = RuleText { every: Some("1h".to_owned()), days: Some("or".to_owned()), ..RuleText::default() };
        refused(days, "days");
    }
}
