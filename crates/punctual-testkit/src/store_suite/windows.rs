//! Windows under compare-and-swap, and what holds for them in sweeps too.

use super::stand::*;
use punctual_task::schedule::Rule;
use punctual_task::{
    LossReason, Overlap, ScheduleCommand, ScheduleSpec, ScheduleState, SlotOutcome, Steered, TaskFilter, TaskState,
    Window,
};
use std::sync::Arc;

use SlotOutcome::{Created, CursorMoved, Exists, Inactive, NotReached, VersionMismatch};

/// B1: N free slots become N tasks, in order, with run numbers from 1, in one commit.
pub async fn b01_free_slots_are_created_in_order(stand: Stand) {
    stand.declare(minutely("s")).await;
    let before = stand.view("s").await.position;
    stand.advance(10 * 60);
    let report = stand.sweep().await;
    assert_eq!(report.schedules.len(), 1);
    let done = &report.schedules[0];
    assert_eq!(outcomes(done), [Created; 10]);
    assert_eq!(done.position.rev, before.rev + 1);
    assert_eq!(done.position.runs, 10);
    assert_eq!(done.position.cursor.unwrap().at, at(11 * 60));
    assert_eq!(report.next_due, Some(at(11 * 60)));
    assert!(!done.more && done.losses.is_empty());
    assert_eq!(stand.runs("s").await, minutes(1..=10, 1));
    assert!(done.tasks.is_sorted());
    let ran: Vec<_> = stand.drain().await.iter().map(|task| task.task).collect();
    assert_eq!(ran, done.tasks);
}

/// B1: the same for a window that a caller computed, also where its slots lie ahead: their tasks wait until then.
pub async fn b01_a_window_creates_its_slots_in_order(stand: Stand) {
    stand.declare(minutely("s")).await;
    let window = stand.window("s", 5).await;
    let done = stand.store.apply(window).await.unwrap();
    assert_eq!(outcomes(&done), [Created; 5]);
    assert_eq!(done.position, stand.view("s").await.position);
    assert_eq!(done.position.cursor.unwrap().at, at(6 * 60));
    assert_eq!(stand.runs("s").await, minutes(1..=5, 1));
    assert!(stand.drain().await.is_empty());
    stand.advance(3 * 60);
    assert_eq!(stand.drain().await.len(), 3);
}

/// B2: a slot that has a task exists; the others are created, the cursor passes all, run numbers have no hole.
pub async fn b02_a_taken_slot_exists_and_the_rest_are_created(stand: Stand) {
    for (name, taken) in [("second", 1usize), ("fourth", 3)] {
        stand.declare(minutely(name)).await;
        let all = stand.window(name, 6).await;
        take(&stand, name, &all, &[taken]).await;
        let done = stand.store.apply(Window { slots: all.slots.clone(), ..stand.window(name, 6).await }).await.unwrap();
        let mut expected = vec![Created; 6];
        expected[taken] = Exists;
        assert_eq!(outcomes(&done), expected);
        assert_eq!(done.position.cursor.unwrap().at, at(7 * 60));
        assert_eq!(done.position.runs, 6);
        let mut runs = stand.runs(name).await;
        runs.sort_unstable_by_key(|(_, run)| *run);
        assert_eq!(runs.iter().map(|(_, run)| *run).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    }
}

/// B3: the first, the last, or all slots taken: they spend nothing, and the grants go on to the slots after them.
pub async fn b03_grants_pass_over_taken_slots(stand: Stand) {
    let cases: [(&str, &[usize]); 3] = [("first", &[0]), ("last", &[3]), ("all", &[0, 1, 2, 3])];
    for (name, taken) in cases {
        stand.declare(ScheduleSpec { max_pending: 4, ..minutely(name) }).await;
        let window = stand.window(name, 4).await;
        take(&stand, name, &window, taken).await;
    }
    stand.drain().await;
    stand.advance(20 * 60);
    stand.drain().await;
    let report = stand.sweep().await;
    for done in &report.schedules {
        let taken = cases.iter().find(|(name, _)| *name == done.name).unwrap().1;
        let created = done.slots.iter().filter(|(_, outcome)| *outcome == Created).count();
        let exists = done.slots.iter().filter(|(_, outcome)| *outcome == Exists).count();
        assert_eq!((created, exists), (4, taken.len()), "{}", done.name);
        assert_eq!(done.position.cursor.unwrap().at, at((taken.len() as u64 + 5) * 60), "{}", done.name);
    }
    assert_eq!(report.schedules.len(), 3);
}

/// Gives the slots at `taken` of a window a task each, and sets the cursor back to the window's beginning.
async fn take(stand: &Stand, name: &str, window: &Window, taken: &[usize]) {
    for index in taken {
        stand.rewind(name, window.slots[*index]);
        let one = stand.window(name, 1).await;
        let done = stand.store.apply(one).await.unwrap();
        assert_eq!(outcomes(&done), [Created]);
    }
    stand.rewind(name, window.cursor);
}

/// B4: a window computed from another version of the definition writes nothing.
pub async fn b04_another_version_writes_nothing(stand: Stand) {
    stand.declare(minutely("s")).await;
    let window = stand.window("s", 3).await;
    let edit = ScheduleCommand::edit(ScheduleSpec { level: 2, ..minutely("s") }, 1);
    assert_eq!(stand.steer("s", edit).await, Ok(Steered::Applied));
    unwritten(&stand, window, VersionMismatch).await;
}

/// B5: a window that begins where the cursor no longer is writes nothing.
pub async fn b05_a_moved_cursor_writes_nothing(stand: Stand) {
    stand.declare(minutely("s")).await;
    let window = stand.window("s", 3).await;
    stand.store.apply(stand.window("s", 1).await).await.unwrap();
    unwritten(&stand, window, CursorMoved).await;
}

/// The window's slots all come to `outcome`, and nothing changes.
async fn unwritten(stand: &Stand, window: Window, outcome: SlotOutcome) {
    let before = stand.view("s").await;
    let rows = stand.runs("s").await;
    let count = window.slots.len();
    let done = stand.store.apply(window).await.unwrap();
    assert_eq!(outcomes(&done), vec![outcome; count]);
    assert!(done.tasks.is_empty() && done.losses.is_empty());
    assert_eq!(done.position, before.position);
    assert_eq!(stand.view("s").await, before);
    assert_eq!(stand.runs("s").await, rows);
}

/// B6: schedules that are paused, ended or cancelled get no child, from windows or from sweeps.
pub async fn b06_inactive_schedules_get_no_child(stand: Stand) {
    stand.declare(minutely("paused")).await;
    stand.declare(minutely("cancelled")).await;
    let rule = every_minute().until(at(61));
    stand.declare(ScheduleSpec { rule, ..minutely("ended") }).await;
    let mut windows = Vec::new();
    for name in ["paused", "cancelled", "ended"] {
        windows.push((name, stand.window(name, 1).await));
    }
    stand.steer("paused", ScheduleCommand::Pause { note: "n".to_owned() }).await.unwrap();
    stand.steer("cancelled", ScheduleCommand::Cancel).await.unwrap();
    stand.advance(60);
    assert_eq!(outcomes(&stand.sweep().await.schedules[0]), [Created]);
    assert_eq!(stand.view("ended").await.position.state, ScheduleState::Ended);
    stand.advance(600);
    let report = stand.sweep().await;
    assert!(report.schedules.is_empty(), "{report:?}");
    assert_eq!(report.next_due, None);
    for (name, window) in windows {
        let rows = stand.runs(name).await;
        assert_eq!(outcomes(&stand.store.apply(window).await.unwrap()), [Inactive], "{name}");
        assert_eq!(stand.runs(name).await, rows, "{name}");
    }
}

/// B7: an ended schedule has no cursor, and no window matches that, not even an empty one.
pub async fn b07_an_ended_schedule_matches_no_expectation(stand: Stand) {
    let rule = every_minute().max_occurrences(1);
    stand.declare(ScheduleSpec { rule, ..minutely("s") }).await;
    let window = stand.window("s", 1).await;
    stand.store.apply(window.clone()).await.unwrap();
    let ended = stand.view("s").await;
    assert_eq!((ended.position.state, ended.position.cursor), (ScheduleState::Ended, None));
    for slots in [Vec::new(), window.slots.clone()] {
        unwritten(&stand, Window { slots, ..window.clone() }, Inactive).await;
    }
    stand.advance(600);
    assert!(stand.sweep().await.schedules.is_empty());
}

/// B8: whether the cancel comes before or after the write, a cancelled schedule has no live child.
pub async fn b08_a_cancelled_schedule_has_no_live_child(stand: Stand) {
    for (name, first) in [("before", true), ("after", false)] {
        stand.declare(minutely(name)).await;
        let window = stand.window(name, 3).await;
        if first {
            stand.steer(name, ScheduleCommand::Cancel).await.unwrap();
        }
        stand.store.apply(window).await.unwrap();
        if !first {
            stand.steer(name, ScheduleCommand::Cancel).await.unwrap();
        }
        no_live_child(&stand, name).await;
    }
}

/// B8: the same when both happen at once.
pub async fn b08_a_cancel_races_the_write(stand: Stand) {
    for round in 0..20 {
        let name = format!("s{round}");
        stand.declare(minutely(&name)).await;
        let window = stand.window(&name, 5).await;
        let (one, two) = (Arc::clone(&stand.store), Arc::clone(&stand.store));
        let steered = name.clone();
        let cancel = tokio::spawn(async move { one.steer(steered, ScheduleCommand::Cancel).await.unwrap() });
        let write = tokio::spawn(async move { two.apply(window).await.unwrap() });
        cancel.await.unwrap();
        write.await.unwrap();
        no_live_child(&stand, &name).await;
    }
}

async fn no_live_child(stand: &Stand, name: &str) {
    let view = stand.view(name).await;
    assert_eq!((view.position.state, view.live), (ScheduleState::Cancelled, 0));
    let filter = TaskFilter { schedule: Some(name.to_owned()), ..TaskFilter::default() };
    for task in stand.tasks(filter).await {
        assert_eq!(task.state, TaskState::Cancelled);
    }
}

/// B9: two writers of one window make one row a slot, and the loser is told for each slot.
pub async fn b09_two_writers_of_one_window_make_one_row_a_slot(stand: Stand) {
    stand.declare(minutely("s")).await;
    for round in 1..=10u64 {
        let window = stand.window("s", 4).await;
        let (one, two) = (Arc::clone(&stand.store), Arc::clone(&stand.store));
        let same = window.clone();
        let one = tokio::spawn(async move { one.apply(window).await.unwrap() });
        let two = tokio::spawn(async move { two.apply(same).await.unwrap() });
        let mut ends = [outcomes(&one.await.unwrap()), outcomes(&two.await.unwrap())];
        ends.sort_by_key(|outcomes| outcomes[0] != Created);
        assert_eq!(ends[0], [Created; 4]);
        assert!(ends[1].iter().all(|end| [CursorMoved, SlotOutcome::Busy].contains(end)), "{:?}", ends[1]);
        assert_eq!(stand.runs("s").await, minutes(1..=round * 4, 1));
    }
}

/// B9: sweeps that run at once make one row a slot.
pub async fn b09_sweeps_at_once_make_one_row_a_slot(stand: Stand) {
    for name in ["a", "b", "c"] {
        stand.declare(minutely(name)).await;
    }
    for round in 1..=5u64 {
        stand.advance(60 * 7);
        let sweeps: Vec<_> = (0..4)
            .map(|_| {
                let store = Arc::clone(&stand.store);
                tokio::spawn(async move { store.materialise(punctual_task::Sweep::default()).await.unwrap() })
            })
            .collect();
        for sweep in sweeps {
            sweep.await.unwrap();
        }
        stand.sweep_all(500).await;
        for name in ["a", "b", "c"] {
            assert_eq!(stand.runs(name).await, minutes(1..=round * 7, 1));
        }
    }
}

/// B10: of overlapping windows the union is created, and the cursor stands at the furthest decided slot.
pub async fn b10_overlapping_windows_unite(stand: Stand) {
    stand.declare(minutely("s")).await;
    let (short, long) = (stand.window("s", 5).await, stand.window("s", 8).await);
    assert_eq!(outcomes(&stand.store.apply(short).await.unwrap()), [Created; 5]);
    assert_eq!(outcomes(&stand.store.apply(long.clone()).await.unwrap()), [CursorMoved; 8]);
    // The second writer reads again and writes what is left of its window.
    let again = stand.window("s", 1).await;
    let slots = long.slots.into_iter().filter(|slot| slot.at >= again.cursor.at).collect();
    let done = stand.store.apply(Window { slots, ..again }).await.unwrap();
    assert_eq!(outcomes(&done), [Created; 3]);
    assert_eq!(stand.runs("s").await, minutes(1..=8, 1));
    assert_eq!(stand.view("s").await.position.cursor.unwrap().at, at(9 * 60));
}

/// B11: with R runs left and more slots asked for, R are created, and the series ends in that commit.
pub async fn b11_the_budget_ends_the_series_in_the_same_commit(stand: Stand) {
    for (name, by_window) in [("window", true), ("sweep", false)] {
        let rule = every_minute().max_occurrences(3);
        stand.declare(ScheduleSpec { rule, ..minutely(name) }).await;
        let window = stand.window(name, 5).await;
        let done = if by_window {
            stand.store.apply(window).await.unwrap()
        } else {
            stand.advance(5 * 60);
            stand.sweep().await.schedules.remove(0)
        };
        assert_eq!(outcomes(&done), [Created, Created, Created, NotReached, NotReached]);
        assert_eq!((done.position.state, done.position.cursor), (ScheduleState::Ended, None));
        assert_eq!(done.position.runs, 3);
        assert!(!done.more);
        assert_eq!(stand.runs(name).await, minutes(1..=3, 1));
    }
}

/// B12: a slot that exists spends nothing of the budget: the series goes on until all of it is really created.
pub async fn b12_a_conflict_does_not_end_the_series_early(stand: Stand) {
    let rule = every_minute().max_occurrences(4);
    stand.declare(ScheduleSpec { rule, ..minutely("s") }).await;
    let window = stand.window("s", 4).await;
    take(&stand, "s", &window, &[1]).await;
    let done = stand.store.apply(window).await.unwrap();
    assert_eq!(outcomes(&done), [Created, Exists, Created, Created]);
    assert_eq!((done.position.runs, done.position.state), (4, ScheduleState::Ended));

    let rule = every_minute().max_occurrences(4);
    stand.declare(ScheduleSpec { rule, ..minutely("t") }).await;
    let window = stand.window("t", 3).await;
    take(&stand, "t", &window, &[1]).await;
    let done = stand.store.apply(window).await.unwrap();
    assert_eq!(outcomes(&done), [Created, Exists, Created]);
    assert_eq!((done.position.runs, done.position.state), (3, ScheduleState::Active));
    let done = stand.store.apply(stand.window("t", 3).await).await.unwrap();
    assert_eq!(outcomes(&done), [Created, NotReached, NotReached]);
    assert_eq!((done.position.runs, done.position.state), (4, ScheduleState::Ended));
}

/// B13: `until` is exclusive on the slot, and the series ends once, with the commit that decides its last slot.
pub async fn b13_until_is_exclusive_and_ends_once(stand: Stand) {
    let bounded = |rule: Rule| rule.until(at(4 * 60));
    stand.declare(ScheduleSpec { rule: bounded(every_minute()), ..minutely("s") }).await;
    stand.declare(minutely("free")).await;
    let free = stand.window("free", 5).await;
    let window = Window { slots: free.slots, ..stand.window("s", 1).await };
    let done = stand.store.apply(window.clone()).await.unwrap();
    assert_eq!(outcomes(&done), [Created, Created, Created, NotReached, NotReached]);
    assert_eq!((done.position.state, done.position.cursor), (ScheduleState::Ended, None));
    let rev = done.position.rev;
    assert_eq!(outcomes(&stand.store.apply(window).await.unwrap()), [Inactive; 5]);
    stand.advance(3600);
    stand.sweep_all(500).await;
    assert_eq!(stand.view("s").await.position.rev, rev);
    assert_eq!(stand.runs("s").await, minutes(1..=3, 1));
}

/// B14: a window that is wrong at one slot writes no row of the others.
pub async fn b14_a_failure_inside_a_window_writes_nothing(stand: Stand) {
    stand.declare(minutely("s")).await;
    let before = stand.view("s").await;
    let window = stand.window("s", 6).await;
    let mut stray = window.clone();
    stray.slots[3].at = stray.slots[3].at.after(secs(1));
    let mut holed = window.clone();
    holed.slots.remove(2);
    let mut doubled = window.clone();
    doubled.slots[3] = doubled.slots[2];
    for wrong in [stray, holed, doubled] {
        assert_eq!(kind(stand.store.apply(wrong).await), punctual_task::StoreErrorKind::Refused);
        assert_eq!(stand.view("s").await, before);
        assert!(stand.runs("s").await.is_empty());
    }
    assert_eq!(outcomes(&stand.store.apply(window).await.unwrap()), [Created; 6]);
}

/// B17: windows of more rows than one statement takes leave no seam.
pub async fn b17_windows_over_a_chunk_are_consistent(stand: Stand) {
    stand.declare(minutely("s")).await;
    for round in 1..=2u64 {
        let done = stand.store.apply(stand.window("s", 1_700).await).await.unwrap();
        assert_eq!(outcomes(&done), [Created; 1_700]);
        assert_eq!(done.tasks.len(), 1_700);
        assert_eq!(done.position.runs, round * 1_700);
    }
    assert_eq!(stand.runs("s").await, minutes(1..=3_400, 1));
    assert_eq!(stand.view("s").await.live, 3_400);
}

/// B22: capacity counts under the lock: exactly as many are created as may live, from windows and from sweeps.
pub async fn b22_capacity_is_exact(stand: Stand) {
    stand.declare(ScheduleSpec { max_pending: 3, ..minutely("s") }).await;
    let done = stand.store.apply(stand.window("s", 5).await).await.unwrap();
    assert_eq!(outcomes(&done), [Created, Created, Created, NotReached, NotReached]);
    stand.advance(10 * 60);
    let report = stand.sweep().await;
    assert!(report.schedules.iter().all(|done| done.tasks.is_empty()));
    let worker = stand.worker().await;
    for task in stand.claim(worker, 2).await {
        stand.succeed(worker, &task).await;
    }
    let report = stand.sweep().await;
    let done = &report.schedules[0];
    assert_eq!(done.tasks.len(), 2);
    assert_eq!(outcomes(done)[..3], [Created, Created, NotReached]);
    assert!(!done.more);
    assert_eq!(stand.view("s").await.live, 3);
    assert_eq!(stand.runs("s").await, minutes(1..=5, 1));
}

/// B27: a writer whose reply was lost reads again: its window has moved the cursor, and its tasks are there.
pub async fn b27_a_lost_reply_is_read_again(stand: Stand) {
    stand.declare(minutely("s")).await;
    let window = stand.window("s", 3).await;
    let lost = stand.store.apply(window.clone()).await.unwrap();
    let again = stand.store.apply(window).await.unwrap();
    assert_eq!(outcomes(&again), [CursorMoved; 3]);
    assert_eq!(again.position, lost.position);
    let filter = TaskFilter { schedule: Some("s".to_owned()), ..TaskFilter::default() };
    let ids: Vec<_> = stand.tasks(filter).await.iter().map(|task| task.id).collect();
    assert_eq!(ids, lost.tasks);
}

/// A window's slot in a skipped gap is recorded as lost and never run; those around it are created.
pub async fn a_gap_in_a_window_is_recorded(stand: Stand) {
    let rule = Rule::from(punctual_task::schedule::Cron::parse("30 2 * * *").unwrap())
        .zone("America/New_York")
        .gap(punctual_task::schedule::Gap::Skip);
    stand.declare(ScheduleSpec { rule, overlap: Overlap::Allow, ..minutely("s") }).await;
    // 2 to 9 March 2026; the clocks go forward on the 8th.
    let done = stand.store.apply(stand.window("s", 8).await).await.unwrap();
    let mut expected = vec![Created; 8];
    expected[6] = SlotOutcome::Lost(LossReason::Gap);
    assert_eq!(outcomes(&done), expected);
    assert_eq!(done.losses.len(), 1);
    assert_eq!((done.losses[0].reason, done.losses[0].count), (LossReason::Gap, 1));
    assert_eq!(stand.view("s").await.lost, [(LossReason::Gap, 1)]);
}
