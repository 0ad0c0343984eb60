//! What an edit does with what is due and with what is pending, and what begins after a cancel.

use super::stand::*;
use punctual_task::schedule::{Cron, Every, Rule};
use punctual_task::{
    Missed, Overlap, ScheduleCommand, ScheduleSpec, ScheduleState, Steered, StoreErrorKind, TaskFilter, TaskState,
};

fn edit(spec: ScheduleSpec, version: u32, decide_first: bool, drop_pending: bool) -> ScheduleCommand {
    ScheduleCommand::Edit { spec: Box::new(spec), version, decide_first, drop_pending }
}

fn slow(name: &str) -> ScheduleSpec {
    ScheduleSpec { rule: Every::new(secs(100)).anchor(START).into(), args: "[2]".into(), ..minutely(name) }
}

/// An edit that decides first leaves nothing due to be lost: the old rule's slots are created with the old arguments, the
/// missed policy of the old definition judges them, and the new rule begins after now.
pub async fn an_edit_can_decide_first(stand: Stand) {
    stand.declare(ScheduleSpec { missed: Missed::default(), ..minutely("s") }).await;
    stand.advance(190);
    assert_eq!(stand.steer("s", edit(slow("s"), 1, true, false)).await, Ok(Steered::Applied));
    let view = stand.view("s").await;
    assert_eq!((view.position.era, view.position.version, view.position.runs), (2, 2, 1));
    assert_eq!(view.position.cursor.unwrap().at, at(200));
    assert_eq!(stand.runs("s").await, [(180, 1)]);
    assert_eq!(stand.lost("s").await, [(60, 120, "policy", 2)]);
    let task = stand.tasks(TaskFilter::default()).await[0].id;
    assert_eq!(&stand.detail(task).await.args[..], b"{\"who\":\"schedule\"}");
    stand.advance(10);
    stand.sweep_all(500).await;
    assert_eq!(stand.runs("s").await, [(180, 1), (200, 2)]);
}

/// What cannot be decided at once is not lost behind the operator's back: the edit is refused, and nothing is written.
pub async fn an_edit_that_cannot_decide_is_refused(stand: Stand) {
    stand.declare(ScheduleSpec { max_pending: 1, ..minutely("s") }).await;
    stand.declare(ScheduleSpec { missed: Missed::all(1, secs(3600)), ..minutely("halts") }).await;
    stand.declare(minutely("paused")).await;
    stand.steer("paused", ScheduleCommand::Pause { note: String::new() }).await.unwrap();
    stand.advance(190);
    for name in ["s", "halts", "paused"] {
        let before = stand.view(name).await;
        assert_eq!(kind(stand.steer(name, edit(slow(name), 1, true, false)).await), StoreErrorKind::Refused, "{name}");
        assert_eq!(stand.view(name).await, before, "{name}");
    }
    assert!(stand.tasks(TaskFilter::default()).await.is_empty());
    assert_eq!(kind(stand.steer("s", edit(slow("s"), 1, true, true)).await), StoreErrorKind::Refused);
    // Where capacity does not count it can.
    let open = ScheduleSpec { overlap: Overlap::Allow, ..stand.view("s").await.spec };
    stand.steer("s", edit(open, 1, false, false)).await.unwrap();
    assert_eq!(stand.steer("s", edit(slow("s"), 2, true, false)).await, Ok(Steered::Applied));
    assert_eq!(stand.runs("s").await, minutes(1..=3, 1));
}

/// What is pending is kept unless the operator drops it; what runs goes on either way.
pub async fn an_edit_keeps_or_drops_what_is_pending(stand: Stand) {
    for (name, drop_pending) in [("keeps", false), ("drops", true)] {
        let other = ScheduleSpec { overlap: Overlap::Allow, ..minutely(name) };
        stand.declare(other.clone()).await;
        let from = stand.now().since(START).as_secs();
        stand.advance(180);
        stand.sweep_all(500).await;
        let worker = stand.worker().await;
        let running = stand.claim_one(worker).await;
        // Any edit may drop, not only one of the rule.
        let spec = ScheduleSpec { level: 2, ..other };
        assert_eq!(stand.steer(name, edit(spec, 1, false, drop_pending)).await, Ok(Steered::Applied));
        let filter = TaskFilter { schedule: Some(name.to_owned()), ..TaskFilter::default() };
        let states: Vec<_> = stand.tasks(filter).await.iter().map(|task| task.state).collect();
        let pending = if drop_pending { TaskState::Cancelled } else { TaskState::Waiting };
        let created = usize::try_from((stand.now().since(START).as_secs() - from) / 60).unwrap();
        assert_eq!(states.len(), created);
        assert_eq!(states[0], TaskState::Running);
        assert!(states[1..].iter().all(|state| *state == pending), "{name}: {states:?}");
        assert!(stand.store.renew(worker, LEASE).await.unwrap().cancel.is_empty(), "running ones are not asked");
        stand.succeed(worker, &running).await;
        stand.drain().await;
        stand.steer(name, ScheduleCommand::Pause { note: String::new() }).await.unwrap();
    }
}

/// An edit in the instant in which a slot is due: either the old rule has created it or it is lost, never both, and the new
/// rule creates nothing for that instant.
pub async fn an_edit_in_the_instant_of_a_slot(stand: Stand) {
    for (name, sweeps_first) in [("edited", false), ("swept", true)] {
        stand.declare(ScheduleSpec { rule: Every::new(secs(60)).anchor(START).into(), ..minutely(name) }).await;
        let slot = stand.view(name).await.position.cursor.unwrap().at;
        stand.clock.set_wall(slot);
        if sweeps_first {
            stand.sweep_all(500).await;
        }
        let spec = ScheduleSpec { rule: Every::new(secs(20)).anchor(START).into(), ..minutely(name) };
        stand.steer(name, edit(spec, 1, false, false)).await.unwrap();
        stand.sweep_all(500).await;
        let second = slot.since(START).as_secs();
        let created = usize::from(sweeps_first);
        assert_eq!(stand.runs(name).await.len(), created, "{name}");
        assert_eq!(stand.lost(name).await.len(), 1 - created, "{name}");
        assert_eq!(stand.view(name).await.position.cursor.unwrap().at, at(second + 20));
    }
}

/// A daily rule that is edited after both times have passed begins tomorrow; a yearly one that becomes frequent begins at
/// once.
pub async fn an_edit_never_catches_up(stand: Stand) {
    let cron = |text: &str| Rule::from(Cron::parse(text).unwrap());
    stand.declare(ScheduleSpec { rule: cron("0 1 * * *"), ..minutely("daily") }).await;
    stand.declare(ScheduleSpec { rule: cron("0 0 1 1 *"), ..minutely("yearly") }).await;
    stand.clock.set_wall(at(15 * 3600));
    stand.sweep_all(500).await;
    for (name, text, next) in [("daily", "0 2 * * *", 26 * 3600), ("yearly", "*/5 * * * *", 15 * 3600 + 300)] {
        let spec = ScheduleSpec { rule: cron(text), ..minutely(name) };
        stand.steer(name, edit(spec, 1, false, false)).await.unwrap();
        assert_eq!(stand.view(name).await.position.cursor.unwrap().at, at(next), "{name}");
        stand.sweep_all(500).await;
    }
    assert_eq!(stand.runs("daily").await, [(3600, 1)]);
    assert_eq!(stand.runs("yearly").await, []);
}

/// A cancelled name begins anew only when asked to, as a schedule created now: run numbers start again, what was lost
/// stays on record, and no slot of the old series comes back.
pub async fn a_new_series_begins_after_a_cancel(stand: Stand) {
    let every = ScheduleSpec { rule: Every::new(secs(60)).into(), ..minutely("s") };
    stand.declare(every.clone()).await;
    stand.advance(130);
    stand.sweep_all(500).await;
    let begin = |spec: ScheduleSpec| ScheduleCommand::NewSeries { spec: Box::new(spec) };
    assert_eq!(kind(stand.steer("s", begin(every.clone())).await), StoreErrorKind::Refused);
    stand.steer("s", ScheduleCommand::Cancel).await.unwrap();
    assert_eq!(kind(stand.steer("s", begin(minutely("t"))).await), StoreErrorKind::Refused);
    assert_eq!(
        kind(stand.steer("s", begin(ScheduleSpec { max_pending: 0, ..every.clone() })).await),
        StoreErrorKind::Refused
    );
    stand.advance(15);
    assert_eq!(stand.steer("s", begin(every)).await, Ok(Steered::Applied));
    let view = stand.view("s").await;
    let position = &view.position;
    assert_eq!((position.state, position.era, position.version, position.runs), (ScheduleState::Active, 2, 2, 0));
    // The anchor is the new creation.
    assert_eq!((view.created, position.cursor.unwrap().at), (at(145), at(205)));
    assert!(position.known_from.is_some_and(|known| known > at(145)), "of slots of the old series nothing is known");
    stand.advance(60);
    stand.sweep_all(500).await;
    assert_eq!(stand.runs("s").await, [(60, 1), (120, 2), (205, 1)]);
}

/// A zone check on hosts that agree changes nothing, and every schedule on a wall clock is stamped.
pub async fn schedules_remember_their_zone(stand: Stand) {
    let daily = Rule::from(Cron::parse("30 1 * * *").unwrap()).zone("Europe/Rome");
    stand.declare(ScheduleSpec { rule: daily, ..minutely("rome") }).await;
    stand.declare(minutely("utc")).await;
    let stamp = stand.view("rome").await.position.zone.expect("a wall clock is stamped");
    assert_eq!((stamp.tzdb.as_str(), stamp.from), (punctual_task::schedule::tzdb_version(), START));
    assert_eq!(stand.view("utc").await.position.zone, None);
    for name in ["rome", "utc"] {
        assert_eq!(stand.steer(name, ScheduleCommand::CheckZone).await, Ok(Steered::Unchanged));
    }
    // Renewed after a year, with the cursor where it was.
    stand.advance(370 * 86_400);
    let before = stand.view("rome").await.position;
    assert_eq!(stand.steer("rome", ScheduleCommand::CheckZone).await, Ok(Steered::Applied));
    let after = stand.view("rome").await.position;
    assert_eq!((after.cursor, after.zone.unwrap().from), (before.cursor, stand.now()));
}
