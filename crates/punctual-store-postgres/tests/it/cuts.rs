//! Connections that break before and after the server commits: nothing or all of an operation is there, the caller is told that
//! it is unknown, and the same again ends in the same state.

use crate::proxy::{Cut, Proxy};
use crate::stand::{Place, any, config, enqueue, success, task};
use bytes::Bytes;
use punctual_clock::Clock;
use punctual_store_postgres::PostgresStore;
use punctual_task::schedule::Every;
use punctual_task::{
    Declaration, Enqueued, Finished, Missed, ScheduleSpec, Store, StoreErrorKind, Sweep, TaskFilter, TaskId, UniqueKey,
    WorkerInfo,
};
use std::time::Duration;

/// What a commit looks like on its way.
const COMMIT: &[u8] = b"COMMIT\0";
const MINUTE: Duration = Duration::from_secs(60);

/// A store on the far side of a proxy.
struct Far {
    place: Place,
    proxy: Proxy,
    store: PostgresStore,
}

impl Far {
    async fn new() -> Self {
        let place = Place::new();
        let (url, proxy) = through_proxy(&place).await;
        let mut config = config(place.clock.clone());
        // One connection, so that it is known which one is cut.
        config.connections = 1;
        let store = PostgresStore::open(&url, config).await.unwrap();
        Far { place, proxy, store }
    }

    async fn count(&self, sql: &str) -> i64 {
        self.place.database.connect().await.query_one(sql, &[]).await.unwrap().get(0)
    }
}

/// A proxy to the place's server, and the database's address through it.
pub(crate) async fn through_proxy(place: &Place) -> (String, Proxy) {
    let url = place.database.url();
    let (head, rest) = url.split_once('@').unwrap();
    let (target, database) = rest.split_once('/').unwrap();
    let proxy = Proxy::to(target.to_owned()).await;
    (format!("{head}@127.0.0.1:{}/{database}", proxy.port()), proxy)
}

/// An enqueue whose commit did not arrive wrote nothing; one whose answer was lost wrote all of it. Sent again, both give the
/// same answer, and each task is there once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_enqueue_is_sent_again() {
    for (cut, written) in [(Cut::Before, 0), (Cut::After, 3)] {
        let far = Far::new().await;
        let mut ids = far.store.draw_ids(3).await.unwrap();
        let mut tasks: Vec<_> = std::iter::from_fn(|| ids.take()).map(task).collect();
        tasks[0].key = Some(UniqueKey::new("k"));
        far.proxy.arm(cut, COMMIT);
        let error = far.store.enqueue(tasks.clone()).await.expect_err("cut");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert!(far.proxy.has_cut());
        assert_eq!(far.count("SELECT count(*) FROM task").await, written);
        let given = far.store.enqueue(tasks.clone()).await.unwrap();
        let all: Vec<Enqueued> = tasks.iter().map(|task| Enqueued { id: task.id, inserted: true }).collect();
        assert_eq!(given, all);
        assert_eq!(far.count("SELECT count(*) FROM task").await, 3);
        assert_eq!(far.count("SELECT count(*) FROM ready").await, 3);
    }
}

/// The same where the whole enqueue is one statement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_enqueue_of_one_statement_is_sent_again() {
    for (cut, written) in [(Cut::Before, 2), (Cut::After, 3)] {
        let far = Far::new().await;
        enqueue(&far.store, 2).await;
        let id = far.store.draw_ids(1).await.unwrap().take().unwrap();
        let new = vec![punctual_task::NewTask { args: Bytes::from_static(b"\"marked\""), ..task(id) }];
        far.proxy.arm(cut, b"\"marked\"");
        let error = far.store.enqueue(new.clone()).await.expect_err("cut");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        // The server may still be at it when the way is gone.
        assert_eq!(far.store.enqueue(new).await.unwrap(), [Enqueued { id, inserted: true }]);
        assert!(far.count("SELECT count(*) FROM task").await >= written);
        assert_eq!(far.count("SELECT count(*) FROM task").await, 3);
        assert_eq!(far.count("SELECT count(*) FROM ready").await, 3);
    }
}

/// B27: a sweep whose reply was lost is read again by what is there: each slot has one task, whichever way it was cut.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b27_a_lost_commit_reply_is_read_again() {
    for (cut, written) in [(Cut::Before, 0), (Cut::After, 5)] {
        let far = Far::new().await;
        let spec = ScheduleSpec {
            missed: Missed::all(100, MINUTE * 1000),
            max_pending: 100,
            ..ScheduleSpec::new("s", Every::new(MINUTE).into(), "Demo/run", Bytes::from_static(b"{}"))
        };
        far.store.declare(Declaration { spec, revision: 0 }).await.unwrap();
        far.place.clock.advance(MINUTE * 5);
        far.proxy.arm(cut, COMMIT);
        let error = far.store.materialise(Sweep::default()).await.expect_err("cut");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert_eq!(far.count("SELECT count(*) FROM task WHERE slot IS NOT NULL").await, written);
        let report = far.store.materialise(Sweep::default()).await.unwrap();
        let created: usize = report.schedules.iter().map(|done| done.tasks.len()).sum();
        assert_eq!(i64::try_from(created).unwrap(), 5 - written);
        let filter = TaskFilter { schedule: Some("s".to_owned()), ..TaskFilter::default() };
        let runs: Vec<u64> = far
            .store
            .tasks(filter, punctual_task::Page::default())
            .await
            .unwrap()
            .into_iter()
            .map(|task| task.occurrence.unwrap().run)
            .collect();
        assert_eq!(runs, [5, 4, 3, 2, 1]);
        assert_eq!(far.count("SELECT runs FROM position").await, 5);
    }
}

/// A claim whose answer was lost is found by the worker among what it holds; a finish is applied once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_and_finishes_are_found_again() {
    for (cut, held) in [(Cut::Before, 0), (Cut::After, 4)] {
        let far = Far::new().await;
        enqueue(&far.store, 4).await;
        let info = WorkerInfo { name: "w".to_owned(), slots: 9 };
        let worker = far.store.register(info, MINUTE * 60).await.unwrap();
        far.proxy.arm(cut, COMMIT);
        let error = far.store.claim(worker, any(10)).await.expect_err("cut");
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert_eq!(far.store.holdings(worker).await.unwrap().len(), held);
        far.store.claim(worker, any(10)).await.unwrap();
        let holdings: Vec<(TaskId, u32)> = far.store.holdings(worker).await.unwrap();
        assert_eq!(holdings.len(), 4);
        let now = far.place.clock.timestamp();
        let finishes: Vec<_> = holdings.iter().map(|(task, n)| success(*task, *n, now)).collect();
        far.proxy.arm(cut, COMMIT);
        far.store.finish(worker, finishes.clone()).await.expect_err("cut");
        let expected = if held == 0 { Finished::Applied } else { Finished::Already };
        assert_eq!(far.store.finish(worker, finishes).await.unwrap(), [expected; 4]);
        assert_eq!(far.count("SELECT count(*) FROM attempt").await, 4);
        assert_eq!(far.count("SELECT count(*) FROM claim").await, 0);
    }
}

/// A connection that broke while nobody used it, or before a commit was sent, costs the caller nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_break_before_the_commit_is_not_noticed() {
    let far = Far::new().await;
    enqueue(&far.store, 2).await;
    let info = WorkerInfo { name: "w".to_owned(), slots: 9 };
    let worker = far.store.register(info, MINUTE * 60).await.unwrap();
    far.proxy.arm(Cut::Before, b"BEGIN\0");
    assert_eq!(far.store.claim(worker, any(10)).await.unwrap().tasks.len(), 2);
    assert!(far.proxy.has_cut());
    assert!(far.store.counters().retries > 0);
}

/// While the server is away callers get one clear line, at once; when it is back, work goes on with what was acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_loses_nothing() {
    let far = Far::new().await;
    let mut acknowledged = Vec::new();
    for round in 0..20 {
        if round % 4 == 3 {
            far.proxy.close();
            // Ends the server's side too, as a restart does.
            far.place
                .database
                .connect()
                .await
                .execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE datname = current_database() AND pid <> pg_backend_pid()",
                    &[],
                )
                .await
                .unwrap();
            let id = TaskId(1_000_000 + round);
            let error = far.store.enqueue(vec![task(id)]).await.expect_err("the server is away");
            assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
            assert!(!error.to_string().contains('\n'), "{error}");
            far.proxy.open();
        }
        let mut ids = loop {
            match far.store.draw_ids(5).await {
                Ok(ids) => break ids,
                Err(error) => assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}"),
            }
        };
        let tasks: Vec<_> = std::iter::from_fn(|| ids.take()).map(task).collect();
        loop {
            match far.store.enqueue(tasks.clone()).await {
                Ok(given) => break acknowledged.extend(given.iter().map(|given| given.id)),
                Err(error) => assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}"),
            }
        }
    }
    let mut there = Vec::new();
    for task in far.store.tasks(TaskFilter::default(), punctual_task::Page { before: None, limit: 1000 }).await.unwrap()
    {
        there.push(task.id);
    }
    there.reverse();
    assert_eq!(there, acknowledged);
}
