//! Arbitrary text: whatever is handed to the parsers, they answer.

use proptest::prelude::*;
use punctual_clock::Timestamp;
use punctual_task::schedule::crontab::{self, Format, Outcome};
use punctual_task::schedule::{CivilDate, CivilDateTime, CompiledRule, Cron, DayMode, Rule, RuleErrorKind, WallTime};

/// Text made of what the parsers look for, which comes further than text at random.
fn near_cron() -> impl Strategy<Value = String> {
    let part = proptest::sample::select(vec![
        "*",
        "/",
        "-",
        ",",
        "?",
        "L",
        "W",
        "#",
        " ",
        "\t",
        "0",
        "1",
        "5",
        "7",
        "15",
        "29",
        "31",
        "59",
        "60",
        "99999999999",
        "FRI",
        "JAN",
        "mon",
        "@",
        "daily",
        "@reboot",
        "%",
        "\\",
        "root",
        "=",
        "\"",
        "'",
        "\n",
        "\r\n",
        "é",
        "\u{0}",
        "A=",
        "CRON_TZ=",
        "Europe/Rome",
        "+",
        "LW",
        "L-",
    ]);
    proptest::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![near_cron(), ".{0,80}", "[0-9*/,L#W -]{5,60}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// Any text is an expression or an error, and what is an expression has a next slot and reads back.
    #[test]
    fn any_text_is_an_expression_or_an_error(text in any_text()) {
        for mode in [DayMode::Or, DayMode::And] {
            let Ok(cron) = Cron::parse_with(&text, mode) else { continue };
            let rule = cron.zone("Pacific/Apia");
            let compiled = CompiledRule::new(&rule, Timestamp::EPOCH).unwrap();
            prop_assert!(compiled.next_after(Timestamp::from_secs(1_325_000_000)).unwrap().is_some());
            let json = serde_json::to_string(&rule).unwrap();
            prop_assert_eq!(serde_json::from_str::<Rule>(&json).unwrap(), rule);
        }
        let _ = (text.parse::<CivilDate>(), text.parse::<WallTime>(), text.parse::<CivilDateTime>());
    }

    /// Any text is a crontab: every line comes back, and each that is taken can be compiled.
    #[test]
    fn any_text_is_a_crontab(text in any_text(), system in any::<bool>()) {
        let format = if system { Format::System } else { Format::User };
        let lines = crontab::parse(&text, format, "UTC").unwrap();
        prop_assert_eq!(lines.len(), text.split_inclusive('\n').count());
        for line in lines {
            if let Outcome::Taken(entry) = line.outcome {
                prop_assert!(CompiledRule::new(&entry.rule, Timestamp::EPOCH).is_ok());
                prop_assert!(!entry.command.is_empty() && !entry.name.is_empty());
            }
        }
    }
}

proptest! {
    // Each misspelt name is compared with every known one.
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any text is a zone or is refused as an unknown one.
    #[test]
    fn any_text_is_a_zone_or_an_unknown_one(name in ".{0,40}") {
        let rule = Cron::parse("0 3 * * *").unwrap().zone(name);
        if let Err(error) = CompiledRule::new(&rule, Timestamp::EPOCH) {
            prop_assert_eq!(error.kind(), RuleErrorKind::UnknownZone);
        }
    }
}

/// The stored form is what it is: names, units and defaults. A change of this test is a change for every stored rule.
#[test]
fn the_stored_form_is_stable() {
    let forms = [
        r#"{"kind":{"interval":{"every_micros":90000000}}}"#,
        r#"{"kind":{"interval":{"every_micros":1000,"anchor":-5}},"start":7,"until":9,"max_occurrences":3}"#,
        r#"{"kind":{"cron":{"text":"0 3 * * *"}},"zone":"Europe/Rome"}"#,
        r#"{"kind":{"cron":{"text":"0 3 13 * 5","days":"and"}},"gap":"shift","fold":"second"}"#,
        r#"{"kind":{"cron":{"text":"@daily"}},"gap":"skip","fold":"both"}"#,
        r#"{"kind":{"calendar":{"every":2,"unit":"days","at":["09:00"]}}}"#,
        r#"{"kind":{"calendar":{"every":2,"unit":{"weeks":{"on":["mon","sun"]}},"at":["09:00"],"from":"2026-01-06"}}}"#,
        r#"{"kind":{"calendar":{"every":1,"unit":{"months":{"on":[31],"overflow":"last_day"}},"at":["09:00","21:30:15"]}}}"#,
        r#"{"kind":{"calendar":{"every":1,"unit":{"months":{"on":[1],"overflow":"roll_over"}},"at":["09:00"]}},"exclusions":[{"weekday":"sat"},{"date":"2026-12-25"},{"civil":{"from":"2026-01-01T00:00","to":"2026-01-02T12:30"}},{"utc":{"from":1,"to":2}}]}"#,
    ];
    for form in forms {
        let rule: Rule = serde_json::from_str(form).unwrap();
        assert_eq!(serde_json::to_string(&rule).unwrap(), form);
    }
}

/// A stored rule that this release does not understand is refused, not run as another one; so is one with a bad part.
#[test]
fn what_is_not_understood_is_refused() {
    let forms = [
        r#"{"kind":{"lunar":{}}}"#,
        r#"{"kind":{"cron":{"text":"0 3 * * *"}},"jitter":5}"#,
        r#"{"kind":{"cron":{"text":"0 3 * * *","seconds":true}}}"#,
        r#"{"kind":{"cron":{"text":"0 0 30 2 *"}}}"#,
        r#"{"kind":{"interval":{"every_micros":-1}}}"#,
        r#"{"kind":{"calendar":{"every":1,"unit":{"months":{"on":[31]}},"at":["09:00"]}}}"#,
        r#"{"kind":{"calendar":{"every":1,"unit":"days","at":["25:00"]}}}"#,
        r#"{"kind":{"cron":{"text":"0 3 * * *"}},"gap":"ignore"}"#,
    ];
    for form in forms {
        assert!(serde_json::from_str::<Rule>(form).is_err(), "{form}");
    }
}
