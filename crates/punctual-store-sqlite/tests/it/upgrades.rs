//! Databases of every released version of the tables, with data in them: they are brought up, lose nothing, and builds that know
//! the older version only go on beside.

use crate::stand::{Place, START, any, config, success};
use bytes::Bytes;
use punctual_store_sqlite::{Migrator, SqliteStore, schema_version};
use punctual_task::rows::Code;
use punctual_task::schedule::{CompiledRule, Every, Slot};
use punctual_task::{LossReason, Outcome, Page, ScheduleSpec, Store, Sweep, TaskFilter, TaskId, TaskState, WorkerInfo};
use rusqlite::{Connection, params};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(15);
/// What a build of the first version writes of a schedule's position.
const POSITION: &str =
    "INSERT INTO position (id, state, note, rev, era, version, cursor_slot, cursor_at, cursor_gap, runs,
    kept_to, wake) VALUES (?1, 0, '', 2, 1, 1, ?2, ?3, 0, ?4, NULL, ?3)";
/// How it moves one.
const MOVE: &str = "UPDATE position SET rev = rev + 1, cursor_slot = ?2, cursor_at = ?3, wake = ?3, runs = runs + 1
    WHERE id = ?1";
const HOLD: &str = "INSERT INTO hold (gate, task) VALUES (?1, ?2)";
const TASK: &str = "INSERT INTO task (id, lane, lvl, created, due, schema, args) VALUES (?1, 1, 1, ?2, ?2, 7, x'7b7d')";
const OCCURRENCE: &str =
    "INSERT INTO task (id, lane, lvl, created, due, schedule, era, slot, pass, at, run, catch_up, version)
    VALUES (?1, 1, 1, ?2, ?2, ?3, 1, ?4, 0, ?2, ?5, 0, 1)";
const READY: &str = "INSERT INTO ready (lane, class, due, id, n, spent, losses) VALUES (1, 1, ?2, ?1, 0, 0, 0)";

fn spec(name: &str) -> ScheduleSpec {
    let rule = Every::new(Duration::from_secs(60)).anchor(START);
    ScheduleSpec {
        max_pending: 10,
        ..ScheduleSpec::new(name, rule.into(), "Demo/run", Bytes::from_static(b"{\"n\":1}"))
    }
}

fn slots(count: usize) -> Vec<Slot> {
    let rule = CompiledRule::new(&spec("s").rule, START).unwrap();
    rule.slots_after(START).take(count).map(Result::unwrap).collect()
}

/// Writes what a build of the first version leaves: a task that waits, one that succeeded, and a schedule with a live
/// occurrence, two lost slots, and its next slot.
fn write_first(db: &Connection) {
    let (start, slots) = (START.as_micros(), slots(4));
    db.execute_batch(
        "INSERT INTO queue (id, name) VALUES (1, 'Demo'); INSERT INTO method (id, name) VALUES (1, 'Demo/run');
         INSERT INTO lane (id, queue, method) VALUES (1, 1, 1);
         UPDATE sequence SET next = 1000 WHERE name = 'task'; UPDATE sequence SET next = 2 WHERE name = 'schedule';",
    )
    .unwrap();
    for id in [1, 2] {
        db.execute(TASK, params![id, start]).unwrap();
    }
    db.execute(READY, params![1, start]).unwrap();
    let (good, ended) = (Outcome::Succeeded.code(), TaskState::Succeeded.code());
    let attempt = "INSERT INTO attempt (task, n, worker, started, ended, outcome, final, lane, out)
        VALUES (2, 1, 1, ?1, ?1, ?2, ?3, 1, x'3432')";
    db.execute(attempt, params![start, good, ended]).unwrap();
    let json = serde_json::to_string(&ScheduleSpec { args: Bytes::new(), ..spec("s") }).unwrap();
    db.execute("INSERT INTO schedule VALUES (1, 's', ?1, 0, 0)", params![start]).unwrap();
    db.execute("INSERT INTO definition VALUES (1, 1, ?1, ?2)", params![json, b"{\"n\":1}".as_slice()]).unwrap();
    let lost =
        "INSERT INTO missed (schedule, era, from_at, to_at, reason, count, exact) VALUES (1, 1, ?1, ?2, ?3, 2, 1)";
    let reason = LossReason::Policy.code();
    db.execute(lost, params![slots[0].at.as_micros(), slots[1].at.as_micros(), reason]).unwrap();
    db.execute("INSERT INTO missed_sum VALUES (1, ?1, 2)", params![reason]).unwrap();
    let third = slots[2];
    db.execute(OCCURRENCE, params![3, third.at.as_micros(), 1, third.key.as_raw(), 1]).unwrap();
    db.execute(READY, params![3, third.at.as_micros()]).unwrap();
    db.execute(HOLD, params![1, 3]).unwrap();
    db.execute(POSITION, params![1, slots[3].key.as_raw(), slots[3].at.as_micros(), 1]).unwrap();
}

async fn states(store: &SqliteStore) -> Vec<(i64, TaskState)> {
    let page = store.tasks(TaskFilter::default(), Page::default()).await.unwrap();
    page.iter().rev().map(|task| (task.id.0, task.state)).collect()
}

/// Everything of the first version is there after the upgrade and goes on; the statements of a build of the first version go
/// on beside, and after a way down all is there again.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_the_first_version_goes_on() {
    let place = Place::new();
    let migrator = || Migrator::open(&place.text(), config(place.clock.clone())).unwrap();
    assert_eq!(migrator().up(Some(1)).unwrap().len(), 1);
    write_first(&place.connection());
    // Up and down again with the data in it.
    assert_eq!(migrator().up(None).unwrap().len(), schema_version() as usize - 1);
    assert_eq!(migrator().down(1).unwrap().len(), schema_version() as usize - 1);

    place.clock.advance(Duration::from_secs(180));
    let store = place.open().await;
    assert_eq!(store.info().schema_version, schema_version());
    let (waiting, ended) = (TaskState::Waiting, TaskState::Succeeded);
    assert_eq!(states(&store).await, [(1, waiting), (2, ended), (3, waiting)]);
    let view = store.schedule("s".to_owned()).await.unwrap().unwrap();
    let fourth = slots(4)[3];
    assert_eq!((view.position.cursor, view.position.runs, view.live), (Some(fourth), 1, 1));
    assert_eq!((view.position.backfill, view.live_backfilled), (None, 0));
    assert_eq!(view.lost, [(LossReason::Policy, 2)]);
    assert_eq!(store.losses("s".to_owned(), 10).await.unwrap().len(), 1);

    // It works on.
    let worker = store.register(WorkerInfo { name: "new".to_owned(), slots: 9 }, LEASE).await.unwrap();
    let claimed = store.claim(worker, any(9)).await.unwrap().tasks;
    assert_eq!(claimed.iter().map(|task| task.task.0).collect::<Vec<_>>(), [1, 3]);
    let ends = claimed.iter().map(|task| success(task.task, task.n, START)).collect();
    store.finish(worker, ends).await.unwrap();
    place.clock.advance(Duration::from_secs(60));
    let report = store.materialise(Sweep::default()).await.unwrap();
    assert_eq!((report.schedules[0].tasks.len(), report.schedules[0].position.runs), (1, 2));

    // An older build, which began before the upgrade, decides the next slot, creates a schedule, and the newer one goes on.
    let (old, slots) = (place.connection(), slots(6));
    let fifth = slots[4];
    old.execute(OCCURRENCE, params![900, fifth.at.as_micros(), 1, fifth.key.as_raw(), 3]).unwrap();
    old.execute(READY, params![900, fifth.at.as_micros()]).unwrap();
    old.execute(HOLD, params![1, 900]).unwrap();
    old.execute(MOVE, params![1, slots[5].key.as_raw(), slots[5].at.as_micros()]).unwrap();
    old.execute("INSERT INTO schedule VALUES (2, 't', ?1, 0, 0)", params![START.as_micros()]).unwrap();
    let json = serde_json::to_string(&ScheduleSpec { args: Bytes::new(), ..spec("t") }).unwrap();
    old.execute("INSERT INTO definition VALUES (2, 1, ?1, ?2)", params![json, b"{}".as_slice()]).unwrap();
    old.execute(POSITION, params![2, slots[5].key.as_raw(), slots[5].at.as_micros(), 0]).unwrap();
    let view = store.schedule("s".to_owned()).await.unwrap().unwrap();
    assert_eq!((view.position.runs, view.live, view.live_backfilled), (3, 2, 0));
    place.clock.advance(Duration::from_secs(120));
    let report = store.materialise(Sweep::default()).await.unwrap();
    let created: Vec<_> = report.schedules.iter().map(|one| (one.name.as_str(), one.tasks.len())).collect();
    assert_eq!(created, [("s", 1), ("t", 1)]);
    assert!(store.task(TaskId(900)).await.unwrap().is_some());

    // No way down under a live worker; without one nothing of it is lost.
    store.renew(worker, LEASE).await.unwrap();
    let refused = migrator().down(1).unwrap_err();
    assert!(refused.to_string().contains("worker"), "{refused}");
    store.retire(worker).await.unwrap();
    let before = states(&store).await;
    drop(store);
    migrator().down(1).unwrap();
    assert_eq!(states(&place.open().await).await, before);
}
