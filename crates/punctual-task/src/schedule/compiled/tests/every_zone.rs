//! The next slot in every zone of the database, around every clock change from 2000 to 2040.

use super::*;
use crate::schedule::zone::tests::every_zone;

/// A rule without exclusions never needs more steps than this: forty years of months, and of clock changes at four a
/// year, until a 29 February falls on a given weekday.
const STEPS_BOUND: u32 = 40 * 12 + 40 * 4 + 20;

/// Deterministic numbers; a failure names the expression, which is all that a reader needs.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

/// Expressions of every shape, most of them in the hours at which clocks change.
fn expressions(count: usize) -> Vec<Cron> {
    let mut numbers = Numbers(1);
    let mut all: Vec<Cron> = Vec::with_capacity(count);
    while all.len() < count {
        let minute = numbers.pick(&["0", "30", "1", "59", "*", "*/7", "0,30", "15-45/10", "45", "*/30"]);
        let hour = numbers.pick(&["0", "1", "2", "3", "23", "*", "1,2", "*/2", "22-3", "0,12", "2", "0"]);
        let date = numbers.pick(&["*", "*", "?", "1", "29", "L", "15W", "LW", "L-3", "*/2", "1-7", "31", "29-2"]);
        let month = numbers.pick(&["*", "*", "*", "2", "MAR,OCT", "3-11", "*/3", "NOV-FEB"]);
        let weekday = numbers.pick(&["*", "*", "?", "0", "SUN", "1-5", "FRI-MON", "5L", "MON#5", "7#2", "*/2"]);
        let mode = if numbers.below(2) == 0 { DayMode::Or } else { DayMode::And };
        // Some of them can never fire, which is another test's subject.
        all.extend(Cron::parse_with(&format!("{minute} {hour} {date} {month} {weekday}"), mode));
    }
    all
}

/// For every zone and clock change, from just before, at and after it, and for thousands of expressions in turn: the
/// next slot exists, is strictly later, is found within the stated bound and is known again by its key; asking from
/// anywhere between gives the same.
#[test]
fn the_next_slot_exists_is_later_and_is_found_within_the_bound() {
    const GAPS: [Gap; 3] = [Gap::End, Gap::Shift, Gap::Skip];
    const FOLDS: [Fold; 3] = [Fold::First, Fold::Second, Fold::Both];
    let expressions = expressions(4_000);
    let (begin, end) = (second_of(at("2000-01-01T00:00:00Z")), second_of(at("2041-01-01T00:00:00Z")));
    let (mut turn, mut changes, mut most) = (0, 0, 0);
    for zone in every_zone() {
        let mut stretch = zone.stretch(begin);
        while stretch.end < end {
            changes += 1;
            let jump = (stretch.after - stretch.offset).abs();
            for from in [-jump - 1, -1, 0, jump / 2, jump, -jump - 1, -1, 0, jump / 2, jump] {
                let cron = &expressions[turn % expressions.len()];
                let (gap, fold) = (GAPS[turn % 3], FOLDS[turn / 3 % 3]);
                turn += 1;
                let pattern = cron.pattern(0);
                let times =
                    if cron.is_elapsed() { Series::Elapsed(pattern) } else { Series::Nominal { pattern, gap, fold } };
                let rule = CompiledRule {
                    zone: zone.clone(),
                    times,
                    exclusions: Exclusions::default(),
                    start: None,
                    until: None,
                    max_occurrences: None,
                };
                let says = || {
                    format!(
                        "{cron} {:?} {gap:?} {fold:?} in {} from {from} at {}",
                        cron.mode(),
                        zone.name(),
                        stretch.end
                    )
                };
                let mut last = Timestamp::from_secs(stretch.end + from);
                for _ in 0..3 {
                    let mut steps = Steps::new();
                    let slot =
                        rule.next_within(last, &mut steps).unwrap().unwrap_or_else(|| panic!("none: {}", says()));
                    assert!(slot.at > last, "not later: {}", says());
                    assert!(steps.spent() <= STEPS_BOUND, "{} steps: {}", steps.spent(), says());
                    most = most.max(steps.spent());
                    assert_eq!(rule.slot(slot.key), Some(slot), "{}", says());
                    let between =
                        Timestamp::from_micros(last.as_micros() + (slot.at.as_micros() - last.as_micros()) / 2);
                    assert_eq!(rule.next_after(between).unwrap(), Some(slot), "{}", says());
                    last = slot.at;
                }
            }
            stretch = zone.following(&stretch);
        }
    }
    assert!(changes > 10_000, "{changes} clock changes");
    assert!(most > 400, "the rarest expression was not among them: {most} steps at most");
}
