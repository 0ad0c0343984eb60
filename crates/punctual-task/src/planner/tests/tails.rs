//! The search for the last slots of a stretch.

use super::*;
use crate::planner::leap::tail;
use crate::schedule::{Cron, Exclusion, Slot};

/// The last slots by walking everything.
fn walked(rule: &CompiledRule, after: Timestamp, upto: Timestamp, count: usize) -> Vec<Slot> {
    let all: Vec<Slot> = rule
        .slots_after(after)
        .map(Result::unwrap)
        .take_while(|slot| slot.at <= upto)
        .filter(|slot| !slot.gap)
        .collect();
    all[all.len().saturating_sub(count)..].to_vec()
}

/// Probing finds what walking finds, for even rules, bursts and rules with holes, whatever the stretch and the count.
#[test]
fn probing_finds_what_walking_finds() {
    let hole = Exclusion::Utc { from: at(20_000), to: at(60_000) };
    let rules = [
        minutely(),
        Every::new(Duration::from_secs(1)).anchor(T0).into(),
        Every::new(Duration::from_secs(7)).anchor(T0).into(),
        Every::new(Duration::from_secs(3)).anchor(T0).into(),
        Rule::from(Cron::parse("* * 3 * * *").unwrap()),
        Rule::from(Cron::parse("0 9 1 * *").unwrap()),
        Rule::from(Cron::parse("30 2 * * *").unwrap()).zone("America/New_York").gap(crate::schedule::Gap::Skip),
        minutely().except(hole),
        Rule::from(Every::new(Duration::from_secs(1)).anchor(T0)).except(hole),
        minutely().until(at(500)),
    ];
    for rule in rules {
        let compiled = CompiledRule::new(&rule, T0).unwrap();
        for (from, upto) in [(0, 0), (0, 59), (0, 60), (10, 100_000), (70_000, 90_000), (0, 86_400 * 3)] {
            for count in [0, 1, 2, 50, 3_000] {
                let got = tail(&compiled, at(from), at(upto), count).unwrap();
                assert_eq!(got, walked(&compiled, at(from), at(upto), count), "{rule:?} {from} {upto} {count}");
            }
        }
    }
}

/// The search is bounded: the last slot of a thousand years of milliseconds takes no longer than that of a day.
#[test]
fn the_search_is_bounded() {
    let rule = CompiledRule::new(&Every::new(Duration::from_millis(1)).anchor(T0).into(), T0).unwrap();
    let end = at(1_000 * 365 * 86_400);
    let last = tail(&rule, T0, end, 2).unwrap();
    assert_eq!(last.iter().map(|slot| slot.at).collect::<Vec<_>>(), [end.before(Duration::from_millis(1)), end]);
}
