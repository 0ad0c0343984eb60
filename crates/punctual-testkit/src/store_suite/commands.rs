//! What operators do to schedules.

use super::stand::*;
use punctual_task::schedule::Every;
use punctual_task::{
    LossReason, Missed, Overlap, Resume, RetryOutcome, ScheduleCommand, ScheduleSpec, ScheduleState, SlotOutcome,
    Steered, StoreErrorKind, TaskFilter, TaskState,
};

use ScheduleCommand::{Cancel, Pause, Trigger};

fn pause(note: &str) -> ScheduleCommand {
    Pause { note: note.to_owned() }
}

fn resume(how: Resume) -> ScheduleCommand {
    ScheduleCommand::Resume(how)
}

fn edit(spec: ScheduleSpec, version: u32) -> ScheduleCommand {
    ScheduleCommand::edit(spec, version)
}

/// A pause keeps its note, makes nothing, and is left once; the same command again changes nothing.
pub async fn a_pause_holds_until_resumed(stand: Stand) {
    stand.declare(minutely("s")).await;
    assert_eq!(stand.steer("s", pause("maintenance")).await, Ok(Steered::Applied));
    let view = stand.view("s").await;
    assert_eq!((view.position.state, view.position.note.as_str()), (ScheduleState::Paused, "maintenance"));
    assert_eq!(stand.steer("s", pause("maintenance")).await, Ok(Steered::Unchanged));
    assert_eq!(stand.view("s").await, view);
    assert_eq!(stand.steer("s", pause("still")).await, Ok(Steered::Applied));
    stand.advance(300);
    assert_eq!(stand.sweep().await.next_due, None);
    assert_eq!(stand.steer("s", resume(Resume::ByPolicy)).await, Ok(Steered::Applied));
    let view = stand.view("s").await;
    assert_eq!((view.position.state, view.position.note.as_str()), (ScheduleState::Active, ""));
    assert_eq!(stand.steer("s", resume(Resume::ByPolicy)).await, Ok(Steered::Unchanged));
    stand.sweep_all(500).await;
    assert_eq!(stand.runs("s").await, minutes(1..=5, 1));
}

/// What a pause left undecided is decided by the policy, or lost, or kept in part or in whole, as the operator says; the
/// sweeps that follow do not overrule that.
pub async fn a_resume_decides_what_the_pause_left(stand: Stand) {
    let cases = [
        ("by policy", Resume::ByPolicy, vec![10], vec![(60, 540, "policy", 9)]),
        ("from now", Resume::FromNow, vec![], vec![(60, 600, "paused", 10)]),
        ("last 3", Resume::Last(3), vec![8, 9, 10], vec![(60, 420, "paused", 7)]),
        ("last 0", Resume::Last(0), vec![], vec![(60, 600, "paused", 10)]),
        ("last 99", Resume::Last(99), (1..=10).collect(), vec![]),
        ("all", Resume::All, (1..=10).collect(), vec![]),
    ];
    for (name, ..) in &cases {
        let missed = Missed::Latest { max_age: secs(86_400) };
        stand.declare(ScheduleSpec { missed, max_pending: 2, ..minutely(name) }).await;
        stand.steer(name, pause("")).await.unwrap();
    }
    stand.advance(10 * 60 + 20);
    for (name, how, ..) in &cases {
        assert_eq!(stand.steer(name, resume(*how)).await, Ok(Steered::Applied), "{name}");
    }
    let view = stand.view("from now").await;
    assert_eq!(view.position.cursor.unwrap().at, at(660));
    // Two at a time: the operator's word must last over several sweeps.
    for _ in 0..6 {
        stand.sweep_all(500).await;
        stand.drain().await;
    }
    for (name, _, created, lost) in cases {
        assert_eq!(stand.runs(name).await, minutes(created, 1), "{name}");
        assert_eq!(stand.lost(name).await, lost, "{name}");
        assert_eq!(stand.view(name).await.position.cursor.unwrap().at, at(660), "{name}");
    }
}

/// A clock that went back while a schedule was paused brings nothing back: no resume moves the cursor to decided slots.
pub async fn a_resume_never_goes_back(stand: Stand) {
    for how in [Resume::ByPolicy, Resume::FromNow, Resume::Last(5), Resume::All] {
        let name = format!("{how:?}");
        stand.declare(minutely(&name)).await;
        stand.clock.set_wall(at(300));
        stand.sweep_all(500).await;
        stand.steer(&name, pause("")).await.unwrap();
        stand.clock.set_wall(at(100));
        stand.steer(&name, resume(how)).await.unwrap();
        let view = stand.view(&name).await;
        assert_eq!((view.position.cursor.unwrap().at, view.lost.len()), (at(360), 0), "{name}");
        stand.clock.set_wall(START);
    }
}

/// A halt is left only by saying what becomes of the backlog; what is given up counts as over the cap.
pub async fn a_halt_needs_an_operators_word(stand: Stand) {
    for name in ["now", "last", "all"] {
        stand.declare(ScheduleSpec { missed: Missed::all(2, secs(3600)), ..minutely(name) }).await;
    }
    stand.advance(5 * 60 + 30);
    stand.sweep_all(500).await;
    for (name, how, runs, lost) in [
        ("now", Resume::FromNow, vec![], vec![(60, 300, "cap", 5)]),
        ("last", Resume::Last(2), vec![4, 5], vec![(60, 180, "cap", 3)]),
        ("all", Resume::All, vec![1, 2, 3, 4, 5], vec![]),
    ] {
        assert_eq!(stand.view(name).await.position.state, ScheduleState::Halted);
        assert_eq!(kind(stand.steer(name, resume(Resume::ByPolicy)).await), StoreErrorKind::Refused);
        assert_eq!(stand.steer(name, pause("x")).await, Ok(Steered::Unchanged));
        assert_eq!(stand.view(name).await.position.state, ScheduleState::Halted);
        assert_eq!(stand.steer(name, resume(how)).await, Ok(Steered::Applied));
        assert_eq!(stand.view(name).await.position.state, ScheduleState::Active);
        stand.sweep_all(500).await;
        assert_eq!(stand.runs(name).await, minutes(runs, 1), "{name}");
        assert_eq!(stand.lost(name).await, lost, "{name}");
    }
}

/// A long pause is given up in one command: the cursor is right at once, and the count says that it is a lower bound.
pub async fn a_long_backlog_is_given_up_at_once(stand: Stand) {
    stand.declare(ScheduleSpec { rule: Every::new(secs(1)).anchor(START).into(), ..minutely("s") }).await;
    stand.steer("s", pause("")).await.unwrap();
    stand.advance(86_400 * 30);
    stand.steer("s", resume(Resume::FromNow)).await.unwrap();
    let view = stand.view("s").await;
    assert_eq!(view.position.cursor.unwrap().at, stand.now().after(secs(1)));
    let losses = stand.store.losses("s".to_owned(), 10).await.unwrap();
    assert_eq!(losses.len(), 1);
    assert_eq!((losses[0].from, losses[0].to), (at(1), stand.now()));
    assert!(!losses[0].exact && losses[0].count >= 10_000, "{losses:?}");
    assert!(stand.sweep().await.schedules.is_empty());
}

/// A trigger makes one occurrence beside the slots: no slot, no run number, the cursor stays, a hold is taken.
pub async fn a_trigger_runs_beside_the_slots(stand: Stand) {
    stand.declare(ScheduleSpec { max_pending: 1, ..minutely("s") }).await;
    let before = stand.view("s").await.position;
    stand.advance(10);
    let id = stand.id().await;
    assert_eq!(stand.steer("s", Trigger { id, force: false }).await, Ok(Steered::Triggered(id)));
    // The same id again is the resend of a command whose reply was lost.
    assert_eq!(stand.steer("s", Trigger { id, force: false }).await, Ok(Steered::Triggered(id)));
    let view = stand.view("s").await;
    assert_eq!((view.position.cursor, view.position.runs, view.live), (before.cursor, 0, 1));
    let task = stand.detail(id).await.view;
    let occurrence = task.occurrence.expect("a trigger's task is an occurrence");
    assert_eq!((occurrence.slot, occurrence.at, occurrence.run, occurrence.catch_up), (None, at(10), 0, false));
    assert_eq!((task.method.as_str(), task.queue.as_str(), task.due), ("Demo/run", "Demo", at(10)));

    let other = stand.id().await;
    assert_eq!(stand.steer("s", Trigger { id: other, force: false }).await, Ok(Steered::Busy { live: 1 }));
    assert!(stand.store.task(other).await.unwrap().is_none());
    assert_eq!(stand.steer("s", Trigger { id: other, force: true }).await, Ok(Steered::Triggered(other)));
    assert_eq!(stand.view("s").await.live, 2);
    // It counts as live: the slot waits for it.
    stand.advance(60);
    stand.sweep_all(500).await;
    assert_eq!(stand.runs("s").await, [(10, 0), (10, 0)]);
    stand.drain().await;
    stand.sweep_all(500).await;
    assert_eq!(stand.runs("s").await, [(10, 0), (10, 0), (60, 1)]);
}

/// A trigger's id that another task has is refused, and nothing of either changes.
pub async fn a_trigger_needs_a_fresh_id(stand: Stand) {
    stand.declare(minutely("s")).await;
    stand.declare(minutely("t")).await;
    let task = stand.enqueue(1).await[0];
    assert_eq!(kind(stand.steer("s", Trigger { id: task, force: true }).await), StoreErrorKind::Refused);
    let id = stand.id().await;
    stand.steer("t", Trigger { id, force: true }).await.unwrap();
    assert_eq!(kind(stand.steer("s", Trigger { id, force: true }).await), StoreErrorKind::Refused);
    assert_eq!(stand.view("s").await.live, 0);
}

/// Paused, halted and ended schedules can be triggered; a cancelled one cannot.
pub async fn triggers_by_state(stand: Stand) {
    stand.declare(minutely("paused")).await;
    stand.steer("paused", pause("")).await.unwrap();
    stand.declare(ScheduleSpec { rule: every_minute().until(at(61)), ..minutely("ended") }).await;
    stand.advance(70);
    stand.sweep_all(500).await;
    assert_eq!(stand.view("ended").await.position.state, ScheduleState::Ended);
    for name in ["paused", "ended"] {
        let id = stand.id().await;
        assert_eq!(stand.steer(name, Trigger { id, force: true }).await, Ok(Steered::Triggered(id)), "{name}");
    }
    stand.declare(minutely("cancelled")).await;
    stand.steer("cancelled", Cancel).await.unwrap();
    let id = stand.id().await;
    assert_eq!(kind(stand.steer("cancelled", Trigger { id, force: true }).await), StoreErrorKind::Refused);
}

/// An edit of the rule begins an era: due slots of the old rule are lost, the new rule's next slot lies after now, and what
/// was created before lives on.
pub async fn an_edited_rule_begins_an_era(stand: Stand) {
    stand.declare(minutely("s")).await;
    stand.advance(120);
    stand.sweep().await;
    stand.advance(185);
    let spec = ScheduleSpec { rule: Every::new(secs(100)).anchor(START).into(), ..minutely("s") };
    assert_eq!(stand.steer("s", edit(spec.clone(), 1)).await, Ok(Steered::Applied));
    let view = stand.view("s").await;
    assert_eq!(view.spec, spec);
    let position = &view.position;
    assert_eq!((position.era, position.version, position.runs), (2, 2, 2));
    assert_eq!(position.cursor.unwrap().at, at(400));
    assert_eq!(stand.lost("s").await, [(180, 300, "edit", 3)]);
    assert_eq!(view.lost, [(LossReason::Edit, 3)]);
    assert_eq!(view.live, 2);
    stand.advance(200);
    stand.sweep().await;
    assert_eq!(stand.runs("s").await, [(60, 1), (120, 2), (400, 3), (500, 4)]);
}

/// The same key in two eras is two slots: going back to the first rule creates what the first era had created already.
pub async fn eras_do_not_meet(stand: Stand) {
    stand.declare(minutely("s")).await;
    let done = stand.store.apply(stand.window("s", 3).await).await.unwrap();
    assert_eq!(outcomes(&done), [SlotOutcome::Created; 3]);
    let other = ScheduleSpec { rule: Every::new(secs(90)).anchor(START).into(), ..minutely("s") };
    stand.steer("s", edit(other, 1)).await.unwrap();
    stand.steer("s", edit(minutely("s"), 2)).await.unwrap();
    let done = stand.store.apply(stand.window("s", 3).await).await.unwrap();
    assert_eq!(outcomes(&done), [SlotOutcome::Created; 3]);
    assert_eq!(stand.runs("s").await, [(60, 1), (120, 2), (180, 3), (60, 4), (120, 5), (180, 6)]);
}

/// Any other edit keeps cursor and backlog, and what it says holds for the slots to come.
pub async fn other_edits_keep_the_backlog(stand: Stand) {
    stand.declare(ScheduleSpec { max_pending: 1, ..minutely("s") }).await;
    stand.advance(180);
    stand.sweep_all(500).await;
    let before = stand.view("s").await.position;
    let spec = ScheduleSpec { max_pending: 9, level: 3, args: "{\"new\":true}".into(), ..minutely("s") };
    assert_eq!(stand.steer("s", edit(spec, 1)).await, Ok(Steered::Applied));
    let position = stand.view("s").await.position;
    assert_eq!((position.era, position.version, position.cursor), (1, 2, before.cursor));
    // The schedule was full; the edit gave it room.
    stand.sweep_all(500).await;
    assert_eq!(stand.runs("s").await, minutes(1..=3, 1));
    let tasks = stand.tasks(TaskFilter::default()).await;
    assert_eq!(tasks.iter().map(|task| task.level).collect::<Vec<_>>(), [1, 3, 3]);
    assert_eq!(&stand.detail(tasks[0].id).await.args[..], b"{\"who\":\"schedule\"}");
    assert_eq!(&stand.detail(tasks[2].id).await.args[..], b"{\"new\":true}");
}

/// An edit counts only against the version that it was made from; the same definition again changes nothing.
pub async fn an_edit_is_a_compare_and_swap(stand: Stand) {
    stand.declare(minutely("s")).await;
    assert_eq!(stand.steer("s", edit(minutely("s"), 1)).await, Ok(Steered::Unchanged));
    let spec = ScheduleSpec { level: 0, ..minutely("s") };
    assert_eq!(kind(stand.steer("s", edit(spec.clone(), 2)).await), StoreErrorKind::Conflict);
    assert_eq!(stand.steer("s", edit(spec.clone(), 1)).await, Ok(Steered::Applied));
    assert_eq!(kind(stand.steer("s", edit(minutely("s"), 1)).await), StoreErrorKind::Conflict);
    assert_eq!(stand.view("s").await.spec, spec);
    for wrong in [
        ScheduleSpec { max_pending: 0, ..minutely("s") },
        ScheduleSpec { level: 4, ..minutely("s") },
        ScheduleSpec { rule: every_minute().zone("Mars/Olympus"), ..minutely("s") },
        minutely("another name"),
    ] {
        assert_eq!(kind(stand.steer("s", edit(wrong, 2)).await), StoreErrorKind::Refused);
    }
    assert_eq!(stand.view("s").await.spec, spec);
}

/// An ended schedule goes on when its rule is edited to have slots again; a paused one stays paused.
pub async fn an_edit_can_revive_what_ended(stand: Stand) {
    stand.declare(ScheduleSpec { rule: every_minute().max_occurrences(1), ..minutely("s") }).await;
    stand.advance(60);
    stand.sweep().await;
    assert_eq!(stand.view("s").await.position.state, ScheduleState::Ended);
    let more = ScheduleSpec { rule: every_minute().max_occurrences(2), ..minutely("s") };
    stand.steer("s", edit(more, 1)).await.unwrap();
    let position = stand.view("s").await.position;
    assert_eq!((position.state, position.cursor.unwrap().at), (ScheduleState::Active, at(120)));
    stand.advance(180);
    stand.sweep().await;
    assert_eq!(stand.runs("s").await, minutes(1..=2, 1));
    assert_eq!(stand.view("s").await.position.state, ScheduleState::Ended);
    stand.declare(minutely("p")).await;
    stand.steer("p", pause("")).await.unwrap();
    let slow = ScheduleSpec { rule: Every::new(secs(90)).anchor(START).into(), ..minutely("p") };
    stand.steer("p", edit(slow, 1)).await.unwrap();
    assert_eq!(stand.view("p").await.position.state, ScheduleState::Paused);
}

/// A cancel is for good: waiting occurrences end at once, running ones are asked to, and neither a command nor a
/// redrive brings it back.
pub async fn a_cancelled_schedule_stays_cancelled(stand: Stand) {
    stand.declare(ScheduleSpec { overlap: Overlap::Allow, ..minutely("s") }).await;
    stand.advance(180);
    stand.sweep().await;
    let worker = stand.worker().await;
    let running = stand.claim_one(worker).await;
    assert_eq!(stand.steer("s", Cancel).await, Ok(Steered::Applied));
    assert_eq!(stand.steer("s", Cancel).await, Ok(Steered::Unchanged));
    let view = stand.view("s").await;
    assert_eq!((view.position.state, view.position.cursor, view.live), (ScheduleState::Cancelled, None, 1));
    let states: Vec<_> = stand.tasks(TaskFilter::default()).await.iter().map(|task| task.state).collect();
    assert_eq!(states, [TaskState::Running, TaskState::Cancelled, TaskState::Cancelled]);
    let ended: Vec<_> = stand.tasks(TaskFilter::default()).await.iter().skip(1).map(|task| task.id).collect();
    let refused = vec![RetryOutcome::SeriesCancelled; 2];
    assert_eq!(stand.store.retry(ended).await.unwrap(), refused, "redriving them would bring it back");
    assert_eq!(stand.store.renew(worker, LEASE).await.unwrap().cancel, [running.task]);
    for command in [pause(""), resume(Resume::All), edit(ScheduleSpec { level: 0, ..minutely("s") }, 1)] {
        assert_eq!(kind(stand.steer("s", command).await), StoreErrorKind::Refused);
    }
    stand.advance(600);
    assert!(stand.sweep().await.schedules.is_empty());
}

/// Commands to a schedule that is not there, or out of their limits, say so.
pub async fn wrong_commands_are_refused(stand: Stand) {
    assert_eq!(kind(stand.steer("nobody", Cancel).await), StoreErrorKind::NotFound);
    assert_eq!(kind(stand.store.losses("nobody".to_owned(), 1).await), StoreErrorKind::NotFound);
    assert_eq!(stand.store.schedule("nobody".to_owned()).await, Ok(None));
    stand.declare(minutely("s")).await;
    assert_eq!(kind(stand.steer("s", pause(&"x".repeat(1_001))).await), StoreErrorKind::Refused);
    assert_eq!(stand.steer("s", pause(&"x".repeat(1_000))).await, Ok(Steered::Applied));
    assert_eq!(kind(stand.steer("s", resume(Resume::Last(10_001))).await), StoreErrorKind::Refused);
    let window = punctual_task::Window { schedule: punctual_task::ScheduleId(99_999), ..stand.window("s", 1).await };
    assert_eq!(kind(stand.store.apply(window).await), StoreErrorKind::NotFound);
}
