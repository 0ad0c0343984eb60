//! Rows that this build cannot read cost nobody else anything: they are put off, and what is behind them goes on.

use crate::stand::{Place, any, enqueue};
use bytes::Bytes;
use punctual_clock::Clock;
use punctual_task::schedule::{Every, Rule};
use punctual_task::{
    Declaration, Resume, ScheduleCommand, ScheduleSpec, ScheduleState, Steered, Store, StoreErrorKind, Sweep, TaskId,
    WorkerInfo,
};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// Declares schedules that are due each minute.
async fn declare(store: &dyn Store, names: &[&str]) {
    for name in names {
        let rule = Rule::from(Every::new(MINUTE)).zone("Europe/Berlin");
        let spec = ScheduleSpec::new(*name, rule, "Demo/run", Bytes::from_static(b"{}"));
        store.declare(Declaration { spec, revision: 1 }).await.unwrap();
    }
}

/// What a sweep created, by schedule.
async fn swept(store: &dyn Store) -> Vec<(String, usize)> {
    let report = store.materialise(Sweep::default()).await.unwrap();
    report.schedules.into_iter().map(|done| (done.name, done.tasks.len())).collect()
}

/// A schedule of a newer build, at the head of the sweep, is put off by a minute and stays as it is; the others run at
/// their time.
#[tokio::test]
async fn an_unreadable_schedule_stops_no_other() {
    let place = Place::new();
    let store = place.open().await;
    declare(&store, &["a", "b", "c"]).await;
    let change = |from: &str, to: &str| {
        let sql = format!("UPDATE punctual.definition SET spec = replace(spec, '{from}', '{to}') WHERE schedule = 1");
        assert_eq!(place.database.execute(&sql), 1);
    };
    store.close();
    change("\"name\"", "\"title\"");
    let store = place.open().await;
    place.clock.advance(MINUTE);
    assert_eq!(swept(&store).await, [("b".to_owned(), 1), ("c".to_owned(), 1)]);
    assert_eq!(swept(&store).await, [], "it does not spin");
    store.close();
    change("\"title\"", "\"name\"");
    let store = place.open().await;
    place.clock.advance(MINUTE);
    assert_eq!(swept(&store).await.first(), Some(&("a".to_owned(), 1)), "nothing was lost meanwhile");
}

/// A schedule in a zone that this build does not know is left as it is: a sweep decides nothing of it, resuming it is
/// refused, and what needs no rule works.
#[tokio::test]
async fn a_rule_of_another_build_is_left_alone() {
    let place = Place::new();
    let store = place.open().await;
    declare(&store, &["a", "b"]).await;
    store.close();
    let sql = "UPDATE punctual.definition SET spec = replace(spec, '\"Europe/Berlin\"', '\"Mars/Olympus\"')
        WHERE schedule = 1";
    assert_eq!(place.database.execute(sql), 1);
    let store = place.open().await;
    let before = store.schedule("a".to_owned()).await.unwrap().unwrap().position;
    place.clock.advance(MINUTE);
    assert!(swept(&store).await.contains(&("b".to_owned(), 1)));
    assert_eq!(swept(&store).await, [], "it does not spin");
    let view = store.schedule("a".to_owned()).await.unwrap().unwrap();
    assert_eq!((view.position.state, &view.position), (ScheduleState::Active, &before));

    let steer = |command| store.steer("a".to_owned(), command);
    steer(ScheduleCommand::Pause { note: String::new() }).await.unwrap();
    for how in [Resume::ByPolicy, Resume::FromNow, Resume::Last(3), Resume::All] {
        let error = steer(ScheduleCommand::Resume(how)).await.expect_err("the rule is not known");
        assert_eq!(error.kind(), StoreErrorKind::Refused);
        assert!(error.to_string().contains("Mars/Olympus"), "{error}");
    }
    let id = store.draw_ids(1).await.unwrap().take().unwrap();
    assert_eq!(steer(ScheduleCommand::Trigger { id, force: false }).await.unwrap(), Steered::Triggered(id));
    let view = store.schedule("a".to_owned()).await.unwrap().unwrap();
    assert_eq!((view.position.state, view.position.cursor), (ScheduleState::Paused, before.cursor));
}

/// Tasks that cannot be read, in each way, leave the head of their queue: the next claim gives what is behind them, and
/// they wait for a build that can read them.
#[tokio::test]
async fn an_unreadable_task_stops_no_other() {
    let place = Place::new();
    let store = place.open().await;
    let ids = enqueue(&store, 4).await;
    let worker = store.register(WorkerInfo { name: "w".to_owned(), slots: 9 }, MINUTE * 60).await.unwrap();
    let set = |column: &str, value: &str, id: TaskId| {
        let sql = format!("UPDATE punctual.task SET {column} = {value} WHERE id = {}", id.0);
        assert_eq!(place.database.execute(&sql), 1);
    };
    set("options", "'{\"attempts\":\"many\"}'", ids[0]);
    set("args", "NULL", ids[1]);
    set("options", "'{\"attempts\":3,\"of_a_newer_build\":true}'", ids[2]);
    let claimed = |batch: punctual_task::ClaimBatch| batch.tasks.iter().map(|task| task.task).collect::<Vec<_>>();
    let batch = store.claim(worker, any(3)).await.unwrap();
    assert_eq!(batch.tasks[0].options.attempts, Some(3), "an unknown option is passed over");
    assert_eq!(claimed(batch), [ids[2]]);
    assert_eq!(claimed(store.claim(worker, any(3)).await.unwrap()), [ids[3]]);
    set("options", "NULL", ids[0]);
    assert_eq!(claimed(store.claim(worker, any(3)).await.unwrap()), []);
    place.clock.advance(MINUTE);
    assert_eq!(claimed(store.claim(worker, any(3)).await.unwrap()), [ids[0]]);
    assert_eq!(store.holdings(worker).await.unwrap().len(), 3);
    let late = place.clock.timestamp().after(MINUTE);
    let waits: i64 = place.database.connect().await.query_one("SELECT due FROM ready", &[]).await.unwrap().get(0);
    assert_eq!(waits, late.as_micros());
}
