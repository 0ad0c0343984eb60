//! Random rules in random zones around clock changes, against the reference model.

use super::generate::{Case, case};
use proptest::prelude::*;
use punctual_clock::Timestamp;
use punctual_task::schedule::{CompiledRule, KeyClass, Rule, Slot, SlotKey};

/// How many slots of a window are compared: the busiest rules have one a second.
const ENOUGH: usize = 1_500;

fn slots(rule: &CompiledRule, from: i64, to: i64) -> Vec<Slot> {
    rule.slots_after(Timestamp::from_micros(from - 1))
        .map(|slot| slot.unwrap())
        .take_while(|slot| slot.at.as_micros() < to)
        .take(ENOUGH)
        .collect()
}

fn compiled(case: &Case) -> CompiledRule {
    CompiledRule::new(&case.rule, case.creation).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    /// The slots of a window are those that looking at every minute of it finds, with the same keys and marks.
    #[test]
    fn slots_are_those_that_a_scan_finds(case in case()) {
        let rule = compiled(&case);
        let found: Vec<_> =
            slots(&rule, case.from, case.to).iter().map(|s| (s.at.as_micros(), s.key.as_raw(), s.gap)).collect();
        let mut expected = case.model.slots(case.from, case.to, ENOUGH);
        expected.truncate(ENOUGH);
        // The first difference says more than two lists of a thousand.
        let length = found.len().max(expected.len());
        if let Some(at) = (0..length).find(|n| found.get(*n) != expected.get(*n)) {
            prop_assert!(false, "slot {}: found {:?}, expected {:?}", at, found.get(at), expected.get(at));
        }
    }

    /// The slots of two windows that touch are those of the window that they make; from anywhere in it, the next slot
    /// is the first one later, and every key gives its slot back.
    #[test]
    fn windows_tile_and_the_next_slot_is_the_first_later_one(case in case(), share in 0..=1_000i64) {
        let rule = compiled(&case);
        let mut whole = slots(&rule, case.from, case.to);
        // A busy rule's window ends before the last slot that was looked for.
        let to = if whole.len() < ENOUGH { case.to } else { whole.pop().map_or(case.to, |last| last.at.as_micros()) };
        let middle = case.from + (to - case.from) / 1_000 * share;
        let mut parts = slots(&rule, case.from, middle);
        parts.extend(slots(&rule, middle, to));
        prop_assert_eq!(&parts, &whole);
        if let Some(first) = whole.iter().find(|slot| slot.at.as_micros() > middle) {
            prop_assert_eq!(rule.next_after(Timestamp::from_micros(middle)), Ok(Some(*first)));
        }
        for slot in whole {
            prop_assert_eq!(rule.slot(slot.key), Some(slot));
            prop_assert_eq!(rule.key_class() == KeyClass::Utc && slot.key.micros() != slot.at.as_micros(), false);
        }
    }

    /// A rule is the same rule after a round through its stored form.
    #[test]
    fn a_rule_survives_its_json(case in case()) {
        let json = serde_json::to_string(&case.rule).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Rule>(&json).unwrap(), &case.rule, "{}", json);
    }

    /// Any key resolves to something or nothing, never to a panic.
    #[test]
    fn any_key_can_be_asked_for(case in case(), raw in any::<i64>()) {
        let rule = compiled(&case);
        if let Some(slot) = rule.slot(SlotKey::from_raw(raw)) {
            prop_assert_eq!(slot.key.as_raw(), raw);
            prop_assert!(!rule.nominal(slot.key).is_empty());
        }
    }
}
