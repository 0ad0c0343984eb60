//! Sweeps over due schedules.

use super::stand::*;
use punctual_task::planner::WALK_MAX;
use punctual_task::series::Overflow;
use punctual_task::{
    Declared, LossReason, Missed, Next, Outcome, Overlap, Retention, ScheduleCommand, ScheduleSpec, ScheduleState,
    SlotOutcome, Sweep, TaskFilter, TaskState,
};

use SlotOutcome::{Created, Exists, Lost, NotReached};

/// B16: what a sweep committed is run, each slot once, in order.
pub async fn b16_what_was_committed_runs(stand: Stand) {
    for name in ["a", "b"] {
        stand.declare(minutely(name)).await;
    }
    stand.advance(25 * 60);
    stand.sweep_all(500).await;
    let mut ran: Vec<(String, u64, u64)> = stand
        .drain()
        .await
        .into_iter()
        .map(|task| {
            let occurrence = task.occurrence.expect("a schedule's task is an occurrence");
            (occurrence.name, occurrence.at.since(START).as_secs(), occurrence.run)
        })
        .collect();
    ran.sort();
    let expected = |name: &str| minutes(1..=25, 1).into_iter().map(|(at, run)| (name.to_owned(), at, run)).collect();
    let expected: [Vec<(String, u64, u64)>; 2] = [expected("a"), expected("b")];
    assert_eq!(ran, expected.concat());
    assert!(stand.drain().await.is_empty());
}

/// B18: a long stretch of slots that have tasks is passed in bounded steps, as many as its length needs and no more.
pub async fn b18_a_long_served_stretch_is_linear(stand: Stand) {
    let length = 2_200u64;
    serve(&stand, "s", length).await;
    let mut passes = 0u64;
    loop {
        let report = stand.sweep().await;
        let Some(done) = report.schedules.first() else { break };
        passes += 1;
        let idle = done.slots.iter().filter(|(_, outcome)| *outcome == Exists).count();
        assert!(idle <= WALK_MAX as usize, "{idle} slots in one pass");
        assert!(done.tasks.is_empty(), "a served slot was created again");
    }
    assert_eq!(passes, length.div_ceil(u64::from(WALK_MAX)));
    let view = stand.view("s").await;
    assert_eq!(view.position.cursor.unwrap().at, at((length + 1) * 60));
    assert_eq!(view.position.runs, length);
    assert_eq!(stand.runs("s").await, minutes(1..=length, 1));
}

/// Creates and runs the first `length` slots of a schedule, then sets its cursor back to the first of them.
async fn serve(stand: &Stand, name: &str, length: u64) {
    stand.declare(minutely(name)).await;
    let first = stand.view(name).await.position.cursor.unwrap();
    stand.advance(length * 60);
    stand.sweep_all(1_000).await;
    stand.drain().await;
    assert_eq!(stand.view(name).await.position.runs, length);
    stand.rewind(name, first);
}

/// B19: a stretch over the bound is resumed where it stopped, and other schedules get their turn meanwhile.
pub async fn b19_a_stretch_over_the_bound_starves_nobody(stand: Stand) {
    serve(&stand, "long", 1_800).await;
    stand.declare(minutely("other")).await;
    stand.advance(120);
    let mut turns = Vec::new();
    loop {
        let sweep = Sweep { schedules_max: 1, ..Sweep::default() };
        let report = stand.store.materialise(sweep).await.unwrap();
        let Some(done) = report.schedules.first() else { break };
        turns.push(done.name.clone());
        assert!(turns.len() <= 20, "{turns:?}");
    }
    let other = turns.iter().position(|name| name == "other").expect("the other schedule has its turn");
    assert!(other <= 2, "it waited too long: {turns:?}");
    assert!(turns.iter().filter(|name| *name == "long").count() >= 4, "{turns:?}");
    assert_eq!(stand.view("long").await.position.runs, 1_802);
    assert_eq!(stand.view("other").await.position.runs, 2);
}

/// B20: the rows of a window are those that slots created one by one have.
pub async fn b20_rows_are_those_of_the_one_by_one_path(stand: Stand) {
    for name in ["bulk", "single"] {
        let mut spec = minutely(name);
        spec.options.attempts = Some(3);
        spec.level = 2;
        spec.schema = 9;
        stand.declare(spec).await;
    }
    stand.advance(7 * 60);
    stand.steer("single", ScheduleCommand::Pause { note: String::new() }).await.unwrap();
    stand.sweep_all(500).await;
    stand.steer("bulk", ScheduleCommand::Pause { note: String::new() }).await.unwrap();
    stand.steer("single", ScheduleCommand::Resume(punctual_task::Resume::ByPolicy)).await.unwrap();
    stand.sweep_all(1).await;
    let mut rows = Vec::new();
    for name in ["bulk", "single"] {
        let filter = TaskFilter { schedule: Some(name.to_owned()), ..TaskFilter::default() };
        let mut details = Vec::new();
        for task in stand.tasks(filter).await {
            let mut detail = stand.detail(task.id).await;
            detail.view.id = punctual_task::TaskId(0);
            let occurrence = detail.view.occurrence.as_mut().expect("a schedule's task is an occurrence");
            assert_eq!(occurrence.name, name);
            occurrence.name.clear();
            occurrence.schedule = punctual_task::ScheduleId(0);
            details.push(detail);
        }
        rows.push(details);
    }
    assert_eq!(rows[0].len(), 7);
    assert_eq!(rows[0], rows[1]);
}

/// B21: retention may prune what has run; no slot of it comes back, not even one that the cursor has yet to pass.
pub async fn b21_pruned_slots_never_come_back(stand: Stand) {
    stand.declare(minutely("s")).await;
    let first = stand.view("s").await.position.cursor.unwrap();
    stand.advance(5 * 60);
    stand.sweep().await;
    stand.drain().await;
    stand.advance(10);
    let everything = Retention { ended: Some(secs(1)), failed: Some(secs(1)) };
    stand.rewind("s", first);
    assert_eq!(stand.store.prune(everything, 100).await.unwrap().tasks, 0);
    let report = stand.sweep().await;
    assert_eq!(outcomes(&report.schedules[0]), [Exists; 5]);
    assert_eq!(stand.store.prune(everything, 100).await.unwrap().tasks, 5);
    assert!(stand.runs("s").await.is_empty());
    stand.advance(60);
    stand.sweep_all(500).await;
    assert_eq!(stand.runs("s").await, minutes([6], 6));
}

/// B23: sweeps that create one task at a time end in the same state as one that creates all.
pub async fn b23_one_by_one_ends_in_the_same_state(stand: Stand) {
    let policies = [
        minutely("s").missed,
        Missed::default(),
        Missed::Earliest,
        Missed::All { max_count: 3, max_age: secs(3600), overflow: Overflow::SkipOldest },
    ];
    for (index, missed) in policies.into_iter().enumerate() {
        for (name, overlap) in [("wait", Overlap::Wait), ("skip", Overlap::Skip)] {
            let (bulk, single) = (format!("{name} {index} bulk"), format!("{name} {index} single"));
            for name in [&bulk, &single] {
                stand.declare(ScheduleSpec { missed, overlap, max_pending: 5, ..minutely(name) }).await;
            }
        }
    }
    stand.advance(9 * 60 + 2);
    let names: Vec<String> =
        stand.store.schedules(None, 100).await.unwrap().into_iter().map(|view| view.spec.name).collect();
    for (kind, window_max) in [("bulk", 500), ("single", 1)] {
        for name in &names {
            let command = if name.ends_with(kind) {
                ScheduleCommand::Resume(punctual_task::Resume::ByPolicy)
            } else {
                ScheduleCommand::Pause { note: String::new() }
            };
            stand.steer(name, command).await.unwrap();
        }
        stand.sweep_all(window_max).await;
    }
    for bulk in names.iter().filter(|name| name.ends_with("bulk")) {
        let single = bulk.replace("bulk", "single");
        assert_eq!(stand.runs(bulk).await, stand.runs(&single).await, "{bulk}");
        let (one, two) = (stand.view(bulk).await, stand.view(&single).await);
        assert_eq!(one.position.cursor, two.position.cursor, "{bulk}");
        assert_eq!((one.position.runs, one.live, one.lost), (two.position.runs, two.live, two.lost), "{bulk}");
    }
}

/// B24: many schedules and a small budget a sweep: each gets its turn, those with a long backlog last.
pub async fn b24_a_small_budget_starves_nobody(stand: Stand) {
    for index in 0..30 {
        stand.declare(minutely(&format!("s{index:02}"))).await;
    }
    stand.advance(60 * 20);
    let mut turns = vec![0u32; 30];
    for _ in 0..10 {
        let sweep = Sweep { schedules_max: 3, window_max: 4 };
        let report = stand.store.materialise(sweep).await.unwrap();
        assert_eq!(report.schedules.len(), 3);
        for done in &report.schedules {
            assert_eq!(done.tasks.len(), 4);
            assert!(done.more);
            turns[done.name[1..].parse::<usize>().unwrap()] += 1;
        }
    }
    assert_eq!(turns, vec![1; 30], "each has one turn in ten sweeps of three");
    stand.sweep_all(500).await;
    for index in 0..30 {
        assert_eq!(stand.runs(&format!("s{index:02}")).await, minutes(1..=20, 1));
    }
}

/// B25: after a walk over taken slots the range of what was missed and the run numbers are right.
pub async fn b25_losses_and_run_numbers_are_right_after_a_walk(stand: Stand) {
    let policy = Missed::Latest { max_age: secs(86_400) };
    let spec = ScheduleSpec { missed: policy, ..minutely("s") };
    stand.declare(minutely("s")).await;
    let first = stand.view("s").await.position.cursor.unwrap();
    stand.advance(3 * 60);
    stand.sweep().await;
    let command = ScheduleCommand::edit(spec, 1);
    stand.steer("s", command).await.unwrap();
    stand.rewind("s", first);
    stand.advance(5 * 60 + 30);
    let report = stand.sweep().await;
    let done = &report.schedules[0];
    let lost = Lost(LossReason::Policy);
    assert_eq!(outcomes(done), [Exists, Exists, Exists, lost, lost, lost, lost, Created]);
    assert_eq!(stand.lost("s").await, [(4 * 60, 7 * 60, "policy", 4)]);
    assert_eq!(stand.runs("s").await, [(60, 1), (120, 2), (180, 3), (480, 4)]);
    assert_eq!(stand.view("s").await.lost, [(LossReason::Policy, 4)]);
}

/// B26: a clock that goes back, or a cursor that lies ahead, changes nothing.
pub async fn b26_a_clock_that_goes_back_does_nothing(stand: Stand) {
    stand.declare(minutely("s")).await;
    stand.advance(120);
    stand.sweep().await;
    let (view, rows) = (stand.view("s").await, stand.runs("s").await);
    for wall in [START, START.before(secs(86_400 * 365)), at(179)] {
        stand.clock.set_wall(wall);
        let report = stand.sweep().await;
        assert!(report.schedules.is_empty());
        assert_eq!(report.next_due, Some(at(180)));
        assert_eq!(stand.view("s").await, view);
        assert_eq!(stand.runs("s").await, rows);
    }
    stand.clock.set_wall(at(180));
    stand.sweep().await;
    assert_eq!(stand.runs("s").await, minutes(1..=3, 1));
}

/// What was missed while nobody swept: the default keeps the newest slot only, as a catch-up, and counts the others.
pub async fn the_newest_missed_slot_runs_by_default(stand: Stand) {
    let spec = ScheduleSpec::new("s", every_minute(), "Demo/run", "{}".into());
    assert_eq!(stand.declare(spec).await, Declared::Created);
    stand.advance(10 * 60 + 6);
    stand.sweep().await;
    assert_eq!(stand.runs("s").await, [(600, 1)]);
    assert_eq!(stand.lost("s").await, [(60, 540, "policy", 9)]);
    let ran = stand.drain().await;
    assert!(ran[0].occurrence.as_ref().unwrap().catch_up);
    // The next one comes on time.
    stand.advance(56);
    stand.sweep().await;
    let ran = stand.drain().await;
    let occurrence = ran[0].occurrence.as_ref().unwrap();
    assert_eq!((occurrence.at, occurrence.run, occurrence.catch_up), (at(660), 2, false));
    assert_eq!((ran[0].due, ran[0].created), (at(662), at(662)));
}

/// A strictly serial schedule whose occurrence runs is no work for sweeps until that ends; then the next one comes at once.
pub async fn a_full_schedule_neither_spins_nor_waits(stand: Stand) {
    stand.declare(ScheduleSpec { max_pending: 1, ..minutely("s") }).await;
    stand.advance(4 * 60);
    stand.sweep_all(500).await;
    assert_eq!(stand.runs("s").await, minutes([1], 1));
    for _ in 0..3 {
        let report = stand.sweep().await;
        assert!(report.schedules.is_empty(), "{report:?}");
        assert_eq!(report.next_due, None);
    }
    let worker = stand.worker().await;
    let ends = [
        Next::Final(TaskState::Succeeded),
        Next::Final(TaskState::Failed),
        Next::Again { due: START, spent: 1 },
        Next::Final(TaskState::Cancelled),
    ];
    for (round, next) in ends.into_iter().enumerate() {
        let task = stand.claim_one(worker).await;
        assert!(stand.sweep().await.schedules.is_empty());
        stand.finish(worker, &task, Outcome::Failed, next).await;
        let report = stand.sweep().await;
        // A retry is the same occurrence: it holds its place.
        assert_eq!(report.schedules.len(), usize::from(round != 2), "round {round}");
    }
    let task = stand.tasks(TaskFilter { state: Some(TaskState::Waiting), ..TaskFilter::default() }).await;
    assert_eq!(stand.cancel(task[0].id).await, punctual_task::CancelOutcome::Cancelled);
    stand.advance(60);
    assert_eq!(stand.sweep().await.schedules.len(), 1);
    assert_eq!(stand.view("s").await.live, 1);
}

/// Overlap `skip`: a slot that is due while the schedule is full is lost.
pub async fn overlap_skip_loses_what_does_not_fit(stand: Stand) {
    stand.declare(ScheduleSpec { overlap: Overlap::Skip, max_pending: 1, ..minutely("s") }).await;
    for minute in 1..=4 {
        stand.advance(60);
        stand.sweep_all(500).await;
        if minute == 2 {
            stand.drain().await;
        }
    }
    assert_eq!(stand.runs("s").await, [(60, 1), (180, 2)]);
    assert_eq!(stand.lost("s").await, [(120, 120, "overlap", 1), (240, 240, "overlap", 1)]);
}

/// Overlap `cancel`: live occurrences are cancelled, and the next is created when they have ended.
pub async fn overlap_cancel_replaces_the_running_one(stand: Stand) {
    stand.declare(ScheduleSpec { overlap: Overlap::Cancel, max_pending: 1, ..minutely("s") }).await;
    stand.advance(60);
    stand.sweep().await;
    let worker = stand.worker().await;
    let running = stand.claim_one(worker).await;
    stand.advance(60);
    let report = stand.sweep().await;
    assert_eq!(outcomes(&report.schedules[0]), [NotReached]);
    assert_eq!(stand.store.renew(worker, LEASE).await.unwrap().cancel, [running.task]);
    assert!(stand.sweep().await.schedules.is_empty());
    stand.finish(worker, &running, Outcome::Cancelled, Next::Final(TaskState::Cancelled)).await;
    stand.sweep().await;
    assert_eq!(stand.runs("s").await, minutes(1..=2, 1));
    // One that only waits is cancelled at once, and its successor comes in the same round of sweeps.
    stand.advance(60);
    stand.sweep_all(500).await;
    assert_eq!(stand.runs("s").await, minutes(1..=3, 1));
    let states: Vec<_> = stand.tasks(TaskFilter::default()).await.iter().map(|task| task.state).collect();
    assert_eq!(states, [TaskState::Cancelled, TaskState::Cancelled, TaskState::Waiting]);
}

/// Overlap `allow`: `max_pending` does not count.
pub async fn overlap_allow_creates_all(stand: Stand) {
    stand.declare(ScheduleSpec { overlap: Overlap::Allow, max_pending: 1, ..minutely("s") }).await;
    stand.advance(4 * 60);
    stand.sweep_all(500).await;
    assert_eq!(stand.view("s").await.live, 4);
    assert_eq!(stand.runs("s").await, minutes(1..=4, 1));
}

/// More missed slots than may be caught up halt the schedule, durably and with the reason, and create nothing.
pub async fn too_many_missed_slots_halt(stand: Stand) {
    stand.declare(ScheduleSpec { missed: Missed::all(3, secs(300)), ..minutely("s") }).await;
    stand.advance(10 * 60 + 30);
    stand.sweep_all(500).await;
    let view = stand.view("s").await;
    assert_eq!(view.position.state, ScheduleState::Halted);
    assert!(view.position.note.contains('3'), "{}", view.position.note);
    // What was too old in any case is decided; the cursor stands at the first that is not.
    assert_eq!(stand.lost("s").await, [(60, 300, "age", 5)]);
    assert_eq!(view.position.cursor.unwrap().at, at(360));
    assert!(stand.runs("s").await.is_empty());
    stand.advance(600);
    let report = stand.sweep().await;
    assert!(report.schedules.is_empty());
    assert_eq!(stand.view("s").await, view);
}

/// A sweep reports each slot that it looked at, and what it left is told by `more` and `next_due`.
pub async fn a_small_window_says_that_more_is_due(stand: Stand) {
    stand.declare(minutely("s")).await;
    stand.advance(5 * 60);
    let report = stand.store.materialise(Sweep { schedules_max: 10, window_max: 2 }).await.unwrap();
    let done = &report.schedules[0];
    assert_eq!(outcomes(done), [Created, Created, NotReached, NotReached]);
    assert!(done.more);
    assert_eq!(report.next_due, Some(stand.now()));
    assert_eq!(done.position.cursor.unwrap().at, at(180));
}

/// An occurrence is claimed no earlier than its schedule's jitter says, and its slot stays what it is; the store keeps what a
/// definition says of jitter and of failures in a row.
pub async fn jitter_puts_off_what_is_due(stand: Stand) {
    let spec = ScheduleSpec { jitter: secs(50), pause_after: Some(3), ..minutely("s") };
    let delay = spec.delay().as_secs();
    assert!(delay > 0, "else the scenario shows nothing");
    stand.declare(spec.clone()).await;
    assert_eq!(stand.view("s").await.spec, spec);
    stand.advance(60);
    stand.sweep().await;
    let worker = stand.worker().await;
    stand.advance(delay);
    assert!(stand.claim(worker, 1).await.is_empty(), "parts of a second are left");
    stand.advance(1);
    let claimed = stand.claim_one(worker).await;
    assert_eq!(claimed.occurrence.map(|occurrence| occurrence.at), Some(at(60)));
}
