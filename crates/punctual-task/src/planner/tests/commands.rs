//! Commands and declarations, by state.

use super::*;
use crate::BackfillRequest;
use crate::error::StoreErrorKind;
use crate::id::TaskId;
use crate::series::{Declaration, Declared, Resume, ScheduleCommand, Steered};

const STATES: [ScheduleState; 5] = [
    ScheduleState::Active,
    ScheduleState::Paused,
    ScheduleState::Halted,
    ScheduleState::Ended,
    ScheduleState::Cancelled,
];

/// What a command comes to: the answer and the state afterwards, or a refusal.
fn command(series: &Series, command: &ScheduleCommand, now: Timestamp) -> Option<(Steered, ScheduleState)> {
    let snapshot = series.snapshot();
    let walk = Walk::for_command(&snapshot, command, now);
    match decide_command(&snapshot, command, &walk, &[], 0) {
        Ok(plan) => {
            let position = plan.change.position;
            // Nothing makes a schedule work without a slot to work on, or leaves one that has ended with a slot.
            let working =
                matches!(position.state, ScheduleState::Active | ScheduleState::Paused | ScheduleState::Halted);
            assert_eq!(position.cursor.is_some(), working, "{command:?}");
            Some((plan.answer, position.state))
        }
        Err(error) => {
            assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
            None
        }
    }
}

/// Every command in every state comes to what the written table says.
#[test]
fn every_row_of_the_table_holds() {
    use ScheduleState::{Active, Cancelled, Ended, Halted, Paused};
    use Steered::{Applied, Unchanged};
    let series = Series::new(minutely(), Missed::default());
    let id = TaskId(7);
    let triggered = || Steered::Triggered(id);
    let level = ScheduleSpec { level: 3, ..series.spec.clone() };
    let other = ScheduleSpec { rule: Every::new(Duration::from_secs(90)).into(), ..series.spec.clone() };
    let rows = [
        (
            ScheduleCommand::Pause { note: "n".to_owned() },
            [Some((Applied, Paused)), Some((Applied, Paused)), Some((Unchanged, Halted)), None, None],
        ),
        (
            ScheduleCommand::Resume(Resume::ByPolicy),
            [Some((Unchanged, Active)), Some((Applied, Active)), None, None, None],
        ),
        (
            ScheduleCommand::Resume(Resume::FromNow),
            [Some((Unchanged, Active)), Some((Applied, Active)), Some((Applied, Active)), None, None],
        ),
        (
            ScheduleCommand::Resume(Resume::Last(2)),
            [Some((Unchanged, Active)), Some((Applied, Active)), Some((Applied, Active)), None, None],
        ),
        (
            ScheduleCommand::Resume(Resume::All),
            [Some((Unchanged, Active)), Some((Applied, Active)), Some((Applied, Active)), None, None],
        ),
        (
            ScheduleCommand::Trigger { id, force: false },
            [
                Some((triggered(), Active)),
                Some((triggered(), Paused)),
                Some((triggered(), Halted)),
                Some((triggered(), Ended)),
                None,
            ],
        ),
        (
            ScheduleCommand::edit(level, 1),
            [Some((Applied, Active)), Some((Applied, Paused)), Some((Applied, Halted)), Some((Applied, Ended)), None],
        ),
        (
            ScheduleCommand::edit(other.clone(), 1),
            [Some((Applied, Active)), Some((Applied, Paused)), Some((Applied, Halted)), Some((Applied, Active)), None],
        ),
        (
            ScheduleCommand::Edit {
                spec: Box::new(other.clone()),
                version: 1,
                decide_first: true,
                drop_pending: false,
            },
            [Some((Applied, Active)), None, None, Some((Applied, Active)), None],
        ),
        (ScheduleCommand::NewSeries { spec: Box::new(other) }, [None, None, None, None, Some((Applied, Active))]),
        (
            ScheduleCommand::Backfill(BackfillRequest::new(1, T0, at(240))),
            [
                Some((Steered::Backfilling(1), Active)),
                Some((Steered::Backfilling(1), Paused)),
                Some((Steered::Backfilling(1), Halted)),
                Some((Steered::Backfilling(1), Ended)),
                None,
            ],
        ),
        (
            ScheduleCommand::StopBackfill,
            [
                Some((Unchanged, Active)),
                Some((Unchanged, Paused)),
                Some((Unchanged, Halted)),
                Some((Unchanged, Ended)),
                None,
            ],
        ),
        (
            ScheduleCommand::CheckZone,
            [
                Some((Unchanged, Active)),
                Some((Unchanged, Paused)),
                Some((Unchanged, Halted)),
                Some((Unchanged, Ended)),
                None,
            ],
        ),
        (
            ScheduleCommand::Cancel,
            [
                Some((Applied, Cancelled)),
                Some((Applied, Cancelled)),
                Some((Applied, Cancelled)),
                Some((Applied, Cancelled)),
                Some((Unchanged, Cancelled)),
            ],
        ),
    ];
    for (asked, expected) in rows {
        for (state, expected) in STATES.into_iter().zip(expected) {
            let got = command(&series.in_state(state), &asked, at(600));
            assert_eq!(got, expected, "{asked:?} when {}", state.as_str());
        }
    }
}

/// A halted schedule whose rule gave no slot goes on from now once the rule has one; nothing before is brought back.
#[test]
fn a_schedule_without_a_cursor_resumes_from_now() {
    let mut series = Series::new(minutely(), Missed::default()).in_state(ScheduleState::Halted);
    series.position.cursor = None;
    for how in [Resume::FromNow, Resume::All, Resume::Last(3)] {
        let snapshot = series.snapshot();
        let asked = ScheduleCommand::Resume(how);
        let walk = Walk::for_command(&snapshot, &asked, at(90));
        let plan = decide_command(&snapshot, &asked, &walk, &[], 0).unwrap();
        assert_eq!(plan.change.position.cursor.map(|slot| slot.at), Some(at(120)), "{how:?}");
        assert!(plan.change.losses.is_empty());
    }
}

/// Slots that have tasks are not lost with the backlog around them.
#[test]
fn a_given_up_backlog_leaves_out_what_exists() {
    let series = Series::new(minutely(), Missed::default()).in_state(ScheduleState::Paused);
    let snapshot = series.snapshot();
    let asked = ScheduleCommand::Resume(Resume::FromNow);
    let walk = Walk::for_command(&snapshot, &asked, at(310));
    let taken: Vec<_> = walk.slots().iter().map(|slot| slot.key).skip(1).take(1).collect();
    let plan = decide_command(&snapshot, &asked, &walk, &taken, 0).unwrap();
    let ranges: Vec<_> =
        plan.change.losses.iter().map(|loss| (loss.from.since(T0).as_secs(), loss.to.since(T0).as_secs())).collect();
    assert_eq!(ranges, [(60, 60), (180, 300)]);
}

/// The last slots that an operator keeps are found also at the end of a backlog that is too long to count.
#[test]
fn the_last_slots_of_a_long_backlog_are_kept() {
    let second = Every::new(Duration::from_secs(1)).anchor(T0).into();
    let series = Series::new(second, Missed::default()).in_state(ScheduleState::Paused);
    let snapshot = series.snapshot();
    let asked = ScheduleCommand::Resume(Resume::Last(4_000));
    let now = at(3_000_000);
    let walk = Walk::for_command(&snapshot, &asked, now);
    assert_eq!(walk.slots().len(), COMMAND_WALK_MAX as usize);
    let plan = decide_command(&snapshot, &asked, &walk, &[], 0).unwrap();
    assert_eq!(plan.change.position.cursor.map(|slot| slot.at), Some(at(3_000_000 - 3_999)));
    assert_eq!(plan.change.position.kept_to, Some(now));
    let loss = &plan.change.losses[0];
    assert_eq!((plan.change.losses.len(), loss.exact, loss.to), (1, false, at(3_000_000 - 4_000)));
}

/// A declaration that says what the definition says already, but was not the one declared last, is taken note of and writes
/// no new version.
#[test]
fn a_declaration_of_what_is_there_writes_no_version() {
    let series = Series::new(minutely(), Missed::default());
    let declaration = Declaration { spec: series.spec.clone(), revision: 4 };
    let walk = Walk::for_declaration(&series.snapshot(), &declaration, at(600));
    assert!(walk.slots().is_empty());
    let plan = decide_declaration(&series.snapshot(), 1, 2, &declaration, &walk, &[]).unwrap();
    assert_eq!((plan.change, plan.hash, plan.revision), (None, series.spec.fingerprint(), 4));
    assert_eq!(plan.answer, Declared::Updated { rule: false });
}

/// A definition's fingerprint is the same in every build and changes with each field: stores keep it.
#[test]
fn fingerprints_are_stable() {
    let spec = Series::new(minutely(), Missed::default()).spec;
    let others = [
        ScheduleSpec { name: "t".to_owned(), ..spec.clone() },
        ScheduleSpec { rule: minutely().zone("Europe/Rome"), ..spec.clone() },
        ScheduleSpec { args: "[]".into(), ..spec.clone() },
        ScheduleSpec { schema: 1, ..spec.clone() },
        ScheduleSpec { missed: Missed::Skip, ..spec.clone() },
        ScheduleSpec { late_after: Duration::ZERO, ..spec.clone() },
    ];
    assert_eq!(spec.fingerprint(), 17_486_579_220_812_530_071);
    for other in others {
        assert_ne!(other.fingerprint(), spec.fingerprint(), "{other:?}");
    }
}
