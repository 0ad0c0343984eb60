//! Backfills: past slots created after all, beside the series.

use super::stand::*;
use punctual_task::schedule::Every;
use punctual_task::{
    Backfill, BackfillPreview, BackfillRequest, BackfillSlot, Missed, Next, Outcome, Retention, ScheduleCommand,
    ScheduleSpec, ScheduleState, SlotEnd, SlotOutcome, Steered, StoreErrorKind, Sweep, TaskFilter, TaskState,
};

/// The minutes `from..to`, everything at once.
fn request(pass: u32, from: u64, to: u64) -> BackfillRequest {
    BackfillRequest { max_pending: 10_000, ..BackfillRequest::new(pass, at(from * 60), at(to * 60)) }
}

async fn begin(stand: &Stand, request: BackfillRequest) {
    let begun = stand.steer("s", ScheduleCommand::Backfill(request)).await;
    assert_eq!(begun, Ok(Steered::Backfilling(request.pass)));
}

async fn preview(stand: &Stand, request: BackfillRequest) -> BackfillPreview {
    match stand.steer("s", ScheduleCommand::PreviewBackfill(request)).await {
        Ok(Steered::Preview(preview)) => *preview,
        other => panic!("{other:?} is no preview"),
    }
}

/// Minute and pass of the occurrences that backfills created, in the order of their ids.
async fn filled(stand: &Stand) -> Vec<(u64, u32)> {
    let filter = TaskFilter { schedule: Some("s".to_owned()), ..TaskFilter::default() };
    let tasks = stand.tasks(filter).await.into_iter();
    tasks
        .filter_map(|task| task.occurrence)
        .filter(|occurrence| occurrence.pass > 0)
        .map(|occurrence| {
            assert_eq!((occurrence.run, occurrence.catch_up, occurrence.slot.is_some()), (0, true, true));
            (occurrence.at.since(START).as_secs() / 60, occurrence.pass)
        })
        .collect()
}

async fn last(stand: &Stand) -> Backfill {
    stand.view("s").await.position.backfill.expect("a backfill was begun")
}

/// What was missed is made up for, oldest first: what ran is left alone, run numbers and the cursor stay, and what was
/// filled in once is not filled in again.
pub async fn a_backfill_fills_what_was_missed(stand: Stand) {
    stand.declare(ScheduleSpec { missed: Missed::default(), ..minutely("s") }).await;
    stand.advance(120);
    stand.sweep_all(500).await;
    stand.advance(10 * 60 - 120 + 20);
    stand.sweep_all(500).await;
    // Of ten slots the first (late) and the second, and the last by the policy.
    let ran: Vec<u64> = stand.runs("s").await.iter().map(|(second, _)| second / 60).collect();
    assert_eq!(ran, [2, 10]);
    let before = stand.view("s").await;

    begin(&stand, request(1, 0, 100)).await;
    assert!(last(&stand).await.is_active());
    let reports = stand.sweep_all(500).await;
    let outcomes: Vec<_> =
        reports[0].schedules[0].backfilled.iter().map(|(slot, outcome)| (slot.at, *outcome)).collect();
    assert_eq!(outcomes.len(), 10);
    for (minute, (slot, outcome)) in (1..).zip(&outcomes) {
        let expected = if ran.contains(&minute) { SlotOutcome::Exists } else { SlotOutcome::Created };
        assert_eq!((*slot, *outcome), (at(minute * 60), expected));
    }
    assert_eq!(filled(&stand).await, [1, 3, 4, 5, 6, 7, 8, 9].map(|minute| (minute, 1)));
    let view = stand.view("s").await;
    assert_eq!((view.position.cursor, view.position.runs), (before.position.cursor, 2));
    assert_eq!((view.live, view.live_backfilled, &view.lost), (2, 8, &before.lost));
    let done = last(&stand).await;
    assert_eq!((done.is_active(), done.created, done.existed), (false, 8, 2));
    // The range was cut at the cursor.
    assert_eq!(done.request.to, at(660));

    begin(&stand, request(2, 0, 100)).await;
    stand.sweep_all(500).await;
    assert_eq!(filled(&stand).await.len(), 8);
    let done = last(&stand).await;
    assert_eq!((done.created, done.existed), (0, 10));
}

/// A backfill has a gate of its own: it neither waits for the series nor holds it up, and each end lets its next one in
/// although the series has nothing due.
pub async fn a_backfill_has_its_own_gate(stand: Stand) {
    let hourly = Every::new(secs(3600)).anchor(at(3600)).into();
    stand.declare(ScheduleSpec { rule: hourly, missed: Missed::Skip, max_pending: 1, ..minutely("s") }).await;
    stand.advance(3600 * 5 + 1800);
    stand.sweep_all(500).await;
    let range = BackfillRequest::new(1, START, at(3600 * 9));
    begin(&stand, range).await;
    for hour in 1..=5u64 {
        stand.sweep_all(500).await;
        let view = stand.view("s").await;
        assert_eq!((view.live, view.live_backfilled), (0, 1), "hour {hour}");
        assert_eq!(filled(&stand).await.len() as u64, hour);
        let ran = stand.drain().await;
        assert_eq!(ran[0].occurrence.as_ref().unwrap().at, at(3600 * hour));
    }
    stand.sweep_all(500).await;
    assert!(!last(&stand).await.is_active());
    // A live one of the backfill does not hold up the series.
    stand.advance(1800);
    begin(&stand, BackfillRequest { rerun: true, ..BackfillRequest { pass: 2, ..range } }).await;
    stand.sweep_all(500).await;
    let view = stand.view("s").await;
    assert_eq!((view.live, view.live_backfilled), (1, 1));
}

/// A rerun creates slots again that have a task, and no slot twice in one backfill.
pub async fn a_rerun_creates_again(stand: Stand) {
    stand.declare(minutely("s")).await;
    stand.advance(180);
    stand.sweep_all(500).await;
    begin(&stand, BackfillRequest { rerun: true, ..request(1, 2, 4) }).await;
    stand.sweep_all(1).await;
    assert_eq!(filled(&stand).await, [(2, 1), (3, 1)]);
    begin(&stand, BackfillRequest { rerun: true, limit: Some(2), ..request(2, 0, 4) }).await;
    stand.sweep_all(500).await;
    assert_eq!(filled(&stand).await, [(2, 1), (3, 1), (1, 2), (2, 2)]);
    assert_eq!(stand.runs("s").await.iter().filter(|(_, run)| *run > 0).count(), 3);
}

/// A preview says what would become of each slot and changes nothing.
pub async fn a_preview_of_a_backfill_changes_nothing(stand: Stand) {
    stand.declare(ScheduleSpec { missed: Missed::default(), ..minutely("s") }).await;
    stand.advance(150);
    stand.sweep_all(500).await;
    let before = stand.view("s").await;
    let mut seen = preview(&stand, request(1, 0, 100)).await;
    assert_eq!(stand.view("s").await, before);
    assert!(!seen.more);
    seen.recognise(&stand.store.losses("s".to_owned(), 100).await.unwrap());
    let what: Vec<_> = seen.slots.iter().map(|(slot, what)| (slot.at, *what)).collect();
    assert_eq!(what, [(at(60), BackfillSlot::Missed), (at(120), BackfillSlot::Exists)]);
    assert!(filled(&stand).await.is_empty());
    // Slots of another rule are not known.
    let spec = ScheduleSpec { rule: Every::new(secs(30)).anchor(START).into(), ..minutely("s") };
    stand.steer("s", ScheduleCommand::edit(spec, 1)).await.unwrap();
    stand.advance(60);
    let seen = preview(&stand, request(1, 2, 100)).await;
    let what: Vec<_> = seen.slots.iter().map(|(_, what)| *what).collect();
    assert_eq!(what, [BackfillSlot::Unknown, BackfillSlot::Unknown], "those from its edit on are the cursor's");
}

/// What retention has removed is not known any more: a backfill leaves it alone, and a rerun does not.
pub async fn a_backfill_knows_what_retention_removed(stand: Stand) {
    stand.declare(minutely("s")).await;
    stand.advance(180);
    stand.sweep_all(500).await;
    stand.drain().await;
    stand.advance(120);
    stand.sweep_all(500).await;
    let retention = Retention { ended: Some(secs(100)), failed: None };
    assert_eq!(stand.store.prune(retention, 100).await.unwrap().tasks, 3);
    let known = stand.view("s").await.position.known_from.expect("something was removed");
    assert!(known > at(180) && known < at(181), "{known:?}");
    let seen = preview(&stand, request(1, 0, 100)).await;
    let count = |what| seen.count(what);
    assert_eq!((count(BackfillSlot::Unknown), count(BackfillSlot::Exists), count(BackfillSlot::New)), (3, 2, 0));
    begin(&stand, request(1, 0, 100)).await;
    stand.sweep_all(500).await;
    assert_eq!(filled(&stand).await, []);
    begin(&stand, BackfillRequest { rerun: true, ..request(2, 0, 100) }).await;
    stand.sweep_all(500).await;
    assert_eq!(filled(&stand).await.len(), 5);
}

/// One backfill of a schedule is under way at a time; the same request again is a resend, another number a conflict, and a
/// range without slots is refused.
pub async fn backfills_come_one_by_one(stand: Stand) {
    stand.declare(ScheduleSpec { missed: Missed::Skip, ..minutely("s") }).await;
    stand.advance(300 + 10);
    stand.sweep_all(500).await;
    let steer = async |request| stand.steer("s", ScheduleCommand::Backfill(request)).await;
    let first = BackfillRequest::new(1, START, at(600));
    assert_eq!(kind(steer(BackfillRequest { pass: 2, ..first }).await), StoreErrorKind::Conflict);
    assert_eq!(kind(steer(BackfillRequest { to: START, ..first }).await), StoreErrorKind::Refused);
    assert_eq!(kind(steer(BackfillRequest { max_pending: 0, ..first }).await), StoreErrorKind::Refused);
    assert_eq!(kind(steer(BackfillRequest { limit: Some(0), ..first }).await), StoreErrorKind::Refused);
    assert_eq!(kind(steer(BackfillRequest { from: at(301), ..first }).await), StoreErrorKind::Refused);
    begin(&stand, first).await;
    let view = stand.view("s").await;
    begin(&stand, first).await;
    assert_eq!(stand.view("s").await, view, "a resend changes nothing");
    assert_eq!(kind(steer(BackfillRequest { pass: 2, ..first }).await), StoreErrorKind::Refused);
    stand.sweep_all(500).await;
    assert_eq!(filled(&stand).await, [(1, 1)]);
    assert_eq!(stand.steer("s", ScheduleCommand::StopBackfill).await, Ok(Steered::Applied));
    assert_eq!(stand.steer("s", ScheduleCommand::StopBackfill).await, Ok(Steered::Unchanged));
    begin(&stand, first).await;
    stand.drain().await;
    stand.sweep_all(500).await;
    assert_eq!(filled(&stand).await, [(1, 1)], "stopped, and the resend of what is over begins nothing");
    begin(&stand, BackfillRequest { pass: 2, max_pending: 9, ..first }).await;
    stand.sweep_all(500).await;
    assert_eq!(filled(&stand).await, [(1, 1), (2, 2), (3, 2), (4, 2), (5, 2)]);
}

/// A pause rests a backfill and a resume lets it go on; an ended schedule can be filled in; an edit of the rule ends it; a
/// cancel ends it with all that it has created.
pub async fn a_backfill_follows_its_schedule(stand: Stand) {
    let rule = every_minute().until(at(301));
    stand.declare(ScheduleSpec { rule, missed: Missed::Skip, ..minutely("s") }).await;
    stand.advance(200);
    stand.sweep_all(500).await;
    let range = BackfillRequest::new(1, START, at(600));
    begin(&stand, range).await;
    stand.steer("s", ScheduleCommand::Pause { note: String::new() }).await.unwrap();
    assert_eq!(stand.sweep().await.next_due, None);
    assert!(filled(&stand).await.is_empty());
    stand.steer("s", ScheduleCommand::Resume(punctual_task::Resume::ByPolicy)).await.unwrap();
    stand.sweep_all(500).await;
    assert_eq!(filled(&stand).await, [(1, 1)]);
    stand.advance(400);
    stand.sweep_all(500).await;
    assert_eq!(stand.view("s").await.position.state, ScheduleState::Ended);
    for expected in [2, 3, 3] {
        stand.drain().await;
        stand.sweep_all(500).await;
        assert_eq!(filled(&stand).await.len(), expected, "the range ended at the cursor of its beginning");
    }
    assert!(!last(&stand).await.is_active());
    begin(&stand, BackfillRequest { pass: 2, ..range }).await;
    stand.sweep_all(500).await;
    assert_eq!(filled(&stand).await.last(), Some(&(4, 2)));
    let edited = ScheduleSpec { rule: every_minute(), ..stand.view("s").await.spec };
    stand.steer("s", ScheduleCommand::edit(edited, 1)).await.unwrap();
    assert!(!last(&stand).await.is_active(), "its slots were those of the old rule");
    stand.drain().await;

    stand.advance(300);
    stand.sweep_all(500).await;
    begin(&stand, BackfillRequest { pass: 3, rerun: true, ..range }).await;
    stand.sweep_all(500).await;
    let live = stand.view("s").await.live_backfilled;
    stand.steer("s", ScheduleCommand::Cancel).await.unwrap();
    let view = stand.view("s").await;
    assert_eq!((live, view.live_backfilled, last(&stand).await.is_active()), (1, 0, false));
    let next = ScheduleCommand::Backfill(BackfillRequest { pass: 4, ..range });
    assert_eq!(kind(stand.steer("s", next).await), StoreErrorKind::Refused);
    assert!(stand.sweep().await.schedules.is_empty());
}

/// A long stretch of slots that exist is passed over in bounded steps, and other schedules are served meanwhile.
pub async fn a_long_backfill_starves_nobody(stand: Stand) {
    let spec = minutely("s");
    stand.declare(spec).await;
    stand.advance(60 * 1_500);
    stand.sweep_all(500).await;
    stand.declare(minutely("t")).await;
    begin(&stand, BackfillRequest { rerun: false, ..request(1, 0, 2_000) }).await;
    stand.advance(60);
    let report = stand.store.materialise(Sweep { schedules_max: 2, window_max: 500 }).await.unwrap();
    let done = report.schedules.iter().find(|done| done.name == "s").expect("the backfill is due");
    assert_eq!(done.backfilled.len(), 500);
    assert!(done.more);
    assert!(report.schedules.iter().any(|done| done.name == "t"));
    stand.sweep_all(500).await;
    let done = last(&stand).await;
    assert_eq!((done.is_active(), done.created, done.existed), (false, 0, 1_500));
}

/// A cancelled occurrence of a backfill lets the next one in, and a redriven one takes a place at the backfill's gate.
pub async fn a_backfilled_occurrence_holds_its_gate(stand: Stand) {
    stand.declare(ScheduleSpec { missed: Missed::Skip, ..minutely("s") }).await;
    stand.advance(310);
    stand.sweep_all(500).await;
    begin(&stand, BackfillRequest::new(1, START, at(600))).await;
    stand.sweep_all(500).await;
    let first = stand.tasks(TaskFilter::default()).await[0].id;
    stand.cancel(first).await;
    stand.sweep_all(500).await;
    assert_eq!(filled(&stand).await, [(1, 1), (2, 1)]);
    stand.store.retry(vec![first]).await.unwrap();
    let view = stand.view("s").await;
    assert_eq!((view.live, view.live_backfilled), (0, 2));
    let worker = stand.worker().await;
    let waiting =
        TaskFilter { schedule: Some("s".to_owned()), state: Some(TaskState::Waiting), ..TaskFilter::default() };
    assert_eq!(stand.tasks(waiting).await.len(), 2);
    // Two live ones at a gate of one: it opens after both have ended.
    for expected in [2, 3] {
        let task = stand.claim_one(worker).await;
        assert_eq!(task.occurrence.as_ref().unwrap().pass, 1);
        stand.succeed(worker, &task).await;
        stand.sweep_all(500).await;
        assert_eq!(filled(&stand).await.len(), expected);
    }
}

/// How a schedule's newest occurrences ended is told by their slots, whichever ids they have: a slot that was created again is
/// as old as it is. What has not ended, was cancelled, or is a trigger's, is left out.
pub async fn slots_end_in_the_order_of_their_instants(stand: Stand) {
    stand.declare(minutely("s")).await;
    stand.advance(300);
    stand.sweep_all(500).await;
    begin(&stand, BackfillRequest { rerun: true, ..request(1, 2, 4) }).await;
    stand.sweep_all(500).await;
    let id = stand.id().await;
    stand.steer("s", ScheduleCommand::Trigger { id, force: true }).await.unwrap();
    let worker = stand.worker().await;
    let mut tasks = std::collections::BTreeMap::new();
    for task in stand.claim(worker, 100).await {
        let occurrence = stand.detail(task.task).await.view.occurrence.expect("an occurrence");
        let minute = occurrence.at.since(START).as_secs() / 60;
        let next = match (minute, occurrence.slot.is_some()) {
            (1, true) => Next::Final(TaskState::Succeeded),
            (4, true) => Next::Final(TaskState::Cancelled),
            (5, true) => continue,
            _ => Next::Final(TaskState::Failed),
        };
        let outcome = if minute == 1 { Outcome::Succeeded } else { Outcome::Failed };
        stand.advance(1);
        stand.finish(worker, &task, outcome, next).await;
        tasks.insert((occurrence.slot.is_some(), minute, occurrence.pass), (task.task, stand.now()));
    }
    let end = |minute, pass, failed| {
        let (task, ended) = tasks[&(true, minute, pass)];
        SlotEnd { task, ended, failed }
    };
    let all = [end(3, 1, true), end(3, 0, true), end(2, 1, true), end(2, 0, true), end(1, 0, false)];
    assert_eq!(stand.store.slot_ends("s".to_owned(), 100).await.unwrap(), all);
    assert_eq!(stand.store.slot_ends("s".to_owned(), 2).await.unwrap(), all[..2]);
    assert_eq!(kind(stand.store.slot_ends("t".to_owned(), 2).await), StoreErrorKind::NotFound);
    // A later era comes first, and what an operator retries has not ended.
    let spec = ScheduleSpec { rule: Every::new(secs(30)).anchor(START).into(), ..minutely("s") };
    stand.steer("s", ScheduleCommand::edit(spec, 1)).await.unwrap();
    stand.store.retry(vec![all[1].task, all[4].task]).await.unwrap();
    stand.advance(30);
    stand.sweep_all(500).await;
    let mut failed = Vec::new();
    for task in stand.claim(worker, 100).await {
        let again = task.task == all[1].task || task.task == all[4].task;
        if !again {
            stand.finish(worker, &task, Outcome::Failed, Next::Final(TaskState::Failed)).await;
            failed.push(task.task);
        }
    }
    let ends = stand.store.slot_ends("s".to_owned(), 100).await.unwrap();
    let ids: Vec<_> = ends.iter().map(|end| end.task).collect();
    assert_eq!(ids, [failed, vec![all[0].task, all[2].task, all[3].task]].concat());
}
