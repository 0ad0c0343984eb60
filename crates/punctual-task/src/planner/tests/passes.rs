//! Sweeps' passes and windows.

use super::*;
use crate::schedule::{Cron, SlotKey};
use crate::series::{Loss, LossReason, Overflow, SlotOutcome, Window};

fn created(plan: &Plan) -> Vec<u64> {
    plan.change.grants.iter().map(|grant| grant.at.since(T0).as_secs() / 60).collect()
}

/// Lateness begins after `late_after`, not at it; a slot on time is never dropped by the policy.
#[test]
fn lateness_begins_after_the_threshold() {
    let series = Series::new(minutely(), Missed::Skip);
    let on_time = series.pass(at(65), 0);
    assert_eq!(created(&on_time), [1]);
    assert!(!on_time.change.grants[0].catch_up);
    let late = series.pass(at(65).after(Duration::from_micros(1)), 0);
    assert_eq!(late.slots[0].1, SlotOutcome::Lost(LossReason::Policy));
    assert!(late.change.grants.is_empty());
}

/// The newest missed slot gives way to one on time, and is lost by age when it is older than allowed.
#[test]
fn latest_gives_way_to_a_slot_on_time() {
    let latest = |seconds| Missed::Latest { max_age: Duration::from_secs(seconds) };
    assert_eq!(created(&Series::new(minutely(), latest(3_600)).pass(at(181), 0)), [3]);
    assert_eq!(created(&Series::new(minutely(), latest(3_600)).pass(at(190), 0)), [3]);
    let old = Series::new(minutely(), latest(9)).pass(at(190), 0);
    assert!(old.change.grants.is_empty());
    let reasons: Vec<_> = old.change.losses.iter().map(|loss| (loss.reason, loss.count)).collect();
    assert_eq!(reasons, [(LossReason::Policy, 2), (LossReason::Age, 1)]);
}

/// A slot that is exactly as old as allowed is kept; a microsecond more and it is lost by age.
#[test]
fn ages_count_to_the_microsecond() {
    let age = Duration::from_secs(130);
    let tick = Duration::from_micros(1);
    for missed in [Missed::Latest { max_age: age }, Missed::all(9, age)] {
        let mut series = Series::new(minutely().until(at(61)), missed);
        series.spec.late_after = Duration::ZERO;
        assert_eq!(created(&series.pass(at(60).after(age), 0)), [1], "{missed:?}");
        let late = series.pass(at(60).after(age).after(tick), 0);
        assert!(late.change.grants.is_empty());
        assert_eq!(late.change.losses[0].reason, LossReason::Age, "{missed:?}");
    }
}

/// What an operator kept is kept by every policy, and the word is forgotten once the cursor has passed it.
#[test]
fn what_an_operator_kept_is_kept() {
    for missed in [Missed::Skip, Missed::default(), Missed::Earliest, Missed::all(0, Duration::ZERO)] {
        let mut series = Series::new(minutely(), missed);
        series.position.kept_to = Some(at(200));
        series.spec.max_pending = 2;
        let first = series.pass(at(210), 0);
        assert_eq!(created(&first), [1, 2], "{missed:?}");
        assert_eq!(first.change.position.kept_to, Some(at(200)));
        series.position = first.change.position;
        let second = series.pass(at(210), 0);
        assert_eq!(created(&second), [3], "{missed:?}");
        assert_eq!(second.change.position.kept_to, None);
    }
}

/// The policy looks at instants: a newest slot that another writer created is still the newest.
#[test]
fn the_policy_ignores_what_others_created() {
    let series = Series::new(minutely(), Missed::default());
    let snapshot = series.snapshot();
    let walk = Walk::for_sweep(&snapshot, at(190), 500);
    let newest: Vec<SlotKey> = walk.slots().iter().map(|slot| slot.key).skip(2).collect();
    let plan = plan(&snapshot, &walk, &newest, 0);
    let outcomes: Vec<_> = plan.slots.iter().map(|(_, outcome)| *outcome).collect();
    let lost = SlotOutcome::Lost(LossReason::Policy);
    assert_eq!(outcomes, [lost, lost, SlotOutcome::Exists]);
}

/// A schedule without work is asked for again at its cursor; one with its budget used up ends even before.
#[test]
fn idle_passes_write_nothing() {
    let series = Series::new(minutely(), Missed::default());
    let plan = series.pass(at(59), 0);
    assert!(!plan.change.moved && !plan.more && plan.slots.is_empty());
    assert_eq!(plan.change.wake, Some(at(60)));
    for state in [ScheduleState::Paused, ScheduleState::Halted, ScheduleState::Ended, ScheduleState::Cancelled] {
        let plan = series.in_state(state).pass(at(9_999), 0);
        assert_eq!((plan.change.moved, plan.change.wake, plan.slots.len()), (false, None, 0), "{state:?}");
    }
    let mut spent = Series::new(minutely().max_occurrences(3), Missed::default());
    spent.position.runs = 3;
    let plan = spent.pass(at(59), 0);
    assert_eq!((plan.change.position.state, plan.change.position.cursor), (ScheduleState::Ended, None));
}

/// A rule whose next slot cannot be found halts its schedule with what it had decided. A rule that this build cannot
/// compile only puts the schedule off: another build may know it. Neither stops the sweep.
#[test]
fn broken_rules_stop_only_their_schedule() {
    let error = CompiledRule::new(&minutely().zone("Mars/Olympus"), T0).unwrap_err();
    let series = Series::new(minutely(), Missed::all(100, Duration::from_secs(3_600)));
    let snapshot = series.snapshot();
    let mut walk = Walk::for_sweep(&snapshot, at(250), 500);
    walk.next = Err(error.clone());
    let plan = plan(&snapshot, &walk, &[], 0);
    assert_eq!(created(&plan), [1, 2, 3, 4]);
    let position = &plan.change.position;
    assert_eq!((position.state, position.cursor, position.runs), (ScheduleState::Halted, None, 4));
    assert!(position.note.contains("no next slot"), "{}", position.note);
    let before = Series::new(minutely(), Missed::default()).position;
    let plan = plan_broken(&before, at(250));
    assert!(!plan.change.moved && plan.change.position == before && plan.change.losses.is_empty());
    assert_eq!(plan.change.wake, Some(at(250).after(UNREADABLE_WAIT)));
    let halted = Series::new(minutely(), Missed::default()).in_state(ScheduleState::Halted).position;
    assert_eq!(plan_broken(&halted, at(250)).change.wake, None);
}

/// A halt says how many were too many, and leaves the cursor at the first slot that an operator must decide.
#[test]
fn a_halt_names_its_reason() {
    let series = Series::new(minutely(), Missed::all(2, Duration::from_secs(200)));
    let plan = series.pass(at(310), 0);
    let position = &plan.change.position;
    assert_eq!((position.state, position.cursor.map(|slot| slot.at)), (ScheduleState::Halted, Some(at(120))));
    assert!(position.note.contains("more than 2 slots"), "{}", position.note);
    assert_eq!(plan.change.losses.len(), 1);
    let skip = Missed::All { max_count: 2, max_age: Duration::from_secs(200), overflow: Overflow::SkipOldest };
    let plan = Series::new(minutely(), skip).pass(at(310), 0);
    assert_eq!(created(&plan), [4, 5]);
    let reasons: Vec<_> = plan.change.losses.iter().map(|loss| (loss.reason, loss.count)).collect();
    assert_eq!(reasons, [(LossReason::Age, 1), (LossReason::Cap, 2)]);
}

/// Slots of one key are one slot whatever instant the zone gives them: the cursor follows its key when the zone's rules
/// changed since it was written.
#[test]
fn a_wall_clock_cursor_follows_its_zone() {
    let rule = Rule::from(Cron::parse("0 9 * * *").unwrap()).zone("Europe/Rome");
    let mut series = Series::new(rule, Missed::default());
    let right = series.position.cursor.unwrap();
    let hour = Duration::from_secs(3_600);
    for wrong in [right.at.before(hour), right.at.after(hour)] {
        series.position.cursor = Some(crate::schedule::Slot { at: wrong, ..right });
        let plan = series.pass(right.at.before(hour * 2), 0);
        assert_eq!(plan.change.position.cursor, Some(right));
        assert!(plan.change.moved);
        assert_eq!(plan.change.wake, Some(right.at));
    }
}

/// A window may hold slots to come, counts capacity and budget, and leaves the missed policy to its caller.
#[test]
fn windows_do_not_judge_lateness() {
    let mut series = Series::new(minutely(), Missed::Skip);
    series.spec.max_pending = 3;
    let slots: Vec<_> = series.rule.slots_after(T0).take(5).map(Result::unwrap).collect();
    let window = Window { schedule: ScheduleId(1), version: 1, cursor: slots[0], slots };
    let snapshot = series.snapshot();
    let walk = Walk::for_window(&snapshot, &window, at(150));
    let plan = decide_window(&snapshot, &window, &walk, &[], 0).unwrap();
    assert_eq!(created(&plan), [1, 2, 3]);
    let flags: Vec<_> = plan.change.grants.iter().map(|grant| (grant.due, grant.catch_up)).collect();
    assert_eq!(flags, [(at(150), true), (at(150), true), (at(180), false)]);
    // The fourth slot lies ahead: capacity may be free by then.
    assert_eq!((plan.more, plan.change.wake), (false, Some(at(240))));
    let late = decide_window(&snapshot, &window, &Walk::for_window(&snapshot, &window, at(250)), &[], 0).unwrap();
    assert_eq!((late.more, late.change.wake), (false, None));
}

/// A pass that creates one task of a backlog of hundreds looks at a handful of slots; where tasks of other writers fill
/// these the plan is short, and after the walk went on the pass passes over as many as it may.
#[test]
fn a_walk_is_no_longer_than_it_must_be() {
    let mut series = Series::new(minutely(), Missed::all(1, Duration::from_secs(1)));
    series.spec.late_after = ScheduleSpec::LATE_AFTER_MAX;
    let snapshot = series.snapshot();
    let now = at(60 * 1_000);
    let mut walk = Walk::for_sweep(&snapshot, now, 1);
    assert!(walk.slots().len() <= 8, "{} slots for a window of one", walk.slots().len());
    assert_eq!(created(&plan(&snapshot, &walk, &[], 0)), [1]);

    let taken: Vec<SlotKey> = series.rule.slots_after(T0).take(300).map(|slot| slot.unwrap().key).collect();
    let short = plan(&snapshot, &walk, &taken, 0);
    assert!(short.short && !short.change.moved && short.slots.is_empty(), "{short:?}");
    walk.go_on(&snapshot);
    let whole = plan(&snapshot, &walk, &taken, 0);
    assert_eq!((whole.short, created(&whole)), (false, vec![301]));
    let all = series.rule.slots_after(T0).take(1_000).map(|slot| slot.unwrap().key).collect::<Vec<_>>();
    let bounded = plan(&snapshot, &walk, &all, 0);
    let passed = bounded.slots.iter().filter(|(_, outcome)| *outcome == SlotOutcome::Exists).count();
    assert_eq!((bounded.short, bounded.more, passed), (false, true, WALK_MAX as usize));
}

/// Jitter puts off when an occurrence becomes due, by the same for each slot, and nothing else: neither which slots are
/// decided nor which of them are late.
#[test]
fn jitter_moves_only_what_is_due_when() {
    let plain = Series::new(minutely(), Missed::Skip);
    let mut spread = plain.clone();
    spread.spec.jitter = Duration::from_secs(3_600);
    let delay = spread.spec.delay();
    assert!(delay > Duration::from_secs(120), "else the test shows nothing");
    let (without, with) = (plain.pass(at(64), 0), spread.pass(at(64), 0));
    assert_eq!((&without.slots, created(&without)), (&with.slots, created(&with)));
    assert_eq!(with.change.position, without.change.position);
    assert_eq!(with.change.grants[0].due, at(60).after(delay));
    assert_eq!(without.change.grants[0].due, at(64));
}

/// A stretch of lost slots that takes several passes is several rows, and reads as one range; a slot that ran, another
/// reason, and a rule that has slots between two rows keep ranges apart.
#[test]
fn rows_of_one_stretch_read_as_one_range() {
    let mut series = Series::new(minutely(), Missed::Skip);
    let (now, mut rows) = (at(60 * 1_701), Vec::new());
    for _ in 0..4 {
        let plan = series.pass(now, 0);
        rows.extend(plan.change.losses);
        series.position = plan.change.position;
    }
    assert_eq!(rows.len(), 4, "{rows:?}");
    rows.reverse();
    let range = Loss { from: at(60), to: at(60 * 1_700), reason: LossReason::Policy, count: 1_700, exact: true };
    assert_eq!(Loss::join(&series.rule, rows.clone()), [range]);

    let mut apart = rows.clone();
    apart[1].reason = LossReason::Age;
    assert_eq!(Loss::join(&series.rule, apart).len(), 3);
    let mut gone = rows.clone();
    gone.remove(1);
    assert_eq!(Loss::join(&series.rule, gone).len(), 2);
    let mut rough = rows.clone();
    rough[2].exact = false;
    assert!(!Loss::join(&series.rule, rough)[0].exact);
    let denser = CompiledRule::new(&Every::new(Duration::from_secs(30)).anchor(T0).into(), T0).unwrap();
    assert_eq!(Loss::join(&denser, rows.clone()), rows);
}
