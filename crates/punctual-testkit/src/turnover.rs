//! Tasks and schedules that come and go by the thousand: what leaves a database with dead rows.

use bytes::Bytes;
use punctual_task::schedule::Every;
use punctual_task::{
    ClaimRequest, Claimed, Declaration, Due, Finish, Missed, NewTask, Next, Outcome, Overflow, ScheduleSpec, Store,
    Sweep, TaskId, TaskOptions, TaskState, WorkerId, WorkerInfo,
};
use std::time::Duration;

/// How many tasks [`enqueue`] writes.
pub const TASKS: usize = 20_000;
/// How many tasks are written, claimed and finished at once.
pub const BATCH: u32 = 500;
/// The one method of all of them.
pub const METHOD: &str = "Demo/run";
/// How many schedules [`declare`] makes.
pub const SCHEDULES: usize = 300;

/// A worker that lives long enough.
///
/// # Panics
/// As all of this module, if the store refuses.
pub async fn worker(store: &dyn Store) -> WorkerId {
    let info = WorkerInfo { name: "w".to_owned(), slots: 9 };
    store.register(info, Duration::from_secs(3_600)).await.expect("a worker")
}

/// Writes [`TASKS`] tasks that are due now.
///
/// # Panics
/// If the store refuses.
pub async fn enqueue(store: &dyn Store) {
    for _ in 0..TASKS / BATCH as usize {
        let mut ids = store.draw_ids(BATCH).await.expect("ids");
        let task = |id: TaskId| NewTask {
            id,
            method: METHOD.to_owned(),
            queue: "Demo".to_owned(),
            level: 1,
            due: Due::Now,
            args: Bytes::from_static(b"{}"),
            schema: 7,
            options: TaskOptions::default(),
            key: None,
        };
        store.enqueue(std::iter::from_fn(|| ids.take()).map(task).collect()).await.expect("an enqueue");
    }
}

/// Waits until a floor may stand at the very head: while that is younger than a second, what was claimed in the second before
/// it is read again, and a fast machine does all of this in less.
///
/// # Panics
/// If the store refuses.
pub async fn age(store: &dyn Store) {
    let written = store.now().await.expect("the time");
    while store.now().await.expect("the time") <= written.after(Duration::from_secs(1)) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Claims up to `limit` tasks.
///
/// # Panics
/// If the store refuses.
pub async fn claim(store: &dyn Store, worker: WorkerId, limit: u32) -> Vec<Claimed> {
    let request = ClaimRequest { queue: None, methods: vec![METHOD.to_owned()], limit, suspects: false };
    store.claim(worker, request).await.expect("a claim").tasks
}

/// Finishes tasks that were claimed.
///
/// # Panics
/// If the store refuses.
pub async fn finish(store: &dyn Store, worker: WorkerId, tasks: &[Claimed]) {
    let now = store.now().await.expect("the time");
    let finish = |task: &Claimed| Finish {
        task: task.task,
        n: task.n,
        started: now,
        ended: now,
        outcome: Outcome::Succeeded,
        out: Bytes::from_static(b"null"),
        next: Next::Final(TaskState::Succeeded),
    };
    store.finish(worker, tasks.iter().map(finish).collect()).await.expect("a finish");
}

/// Claims and finishes some; gives how many.
///
/// # Panics
/// If the store refuses.
pub async fn drain(store: &dyn Store, worker: WorkerId, limit: u32) -> usize {
    let tasks = claim(store, worker, limit).await;
    finish(store, worker, &tasks).await;
    tasks.len()
}

/// Declares [`SCHEDULES`] schedules of one slot a second, which run each slot that they missed. The caller puts their cursors back by
/// as many seconds, up to a thousand, as they are to be swept.
///
/// # Panics
/// If the store refuses.
pub async fn declare(store: &dyn Store) {
    let anchor = store.now().await.expect("the time").before(Duration::from_secs(1_000));
    for number in 0..SCHEDULES {
        let rule = Every::new(Duration::from_secs(1)).anchor(anchor).into();
        let mut spec = ScheduleSpec::new(format!("s{number}"), rule, METHOD, Bytes::from_static(b"{}"));
        let max_age = Duration::from_secs(86_400);
        spec.missed = Missed::All { max_count: ScheduleSpec::CATCH_UP_MAX, max_age, overflow: Overflow::Halt };
        spec.max_pending = 10;
        store.declare(Declaration { spec, revision: 0 }).await.expect("a declaration");
    }
}

/// Sweeps one slot of each of them, and runs what that made.
///
/// # Panics
/// If the store refuses, or one of them is not swept.
pub async fn sweep(store: &dyn Store, worker: WorkerId) {
    let one = Sweep { schedules_max: 500, window_max: 1 };
    let report = store.materialise(one).await.expect("a sweep");
    let created: usize = report.schedules.iter().map(|one| one.tasks.len()).sum();
    assert_eq!(created, SCHEDULES, "{report:?}");
    assert_eq!(drain(store, worker, BATCH).await, SCHEDULES);
}
