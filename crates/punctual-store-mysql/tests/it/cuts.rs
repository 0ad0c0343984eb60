//! A connection that breaks around its commit, before the server has got it or after, and then it looks the same: the tables
//! decide, nothing is lost and nothing is done twice.

use crate::server::Database;
use crate::stand::{any, enqueue, success, task};
use punctual_store_mysql::{MysqlConfig, MysqlStore};
use punctual_task::{
    CancelOutcome, Declaration, Declared, Finished, NewTask, RetryOutcome, ScheduleCommand, ScheduleSpec, Steered,
    Store, StoreErrorKind, Sweep, TaskId, TaskState, UniqueKey, Window, WorkerId, WorkerInfo,
};
use punctual_testkit::store_suite::{minutely, slots_from};
use punctual_testkit::{Cut, CutProxy};
use std::time::Duration;

/// A store behind a proxy.
struct Behind {
    database: Database,
    proxy: CutProxy,
    store: MysqlStore,
}

impl Behind {
    async fn new() -> Self {
        let database = Database::new();
        let proxy = CutProxy::start(&database.address()).await.unwrap();
        let address = proxy.address();
        let url = database.url_at(&address.ip().to_string(), address.port());
        let store = MysqlStore::open(&url, MysqlConfig::default()).await.unwrap();
        Behind { database, proxy, store }
    }

    async fn worker(&self) -> WorkerId {
        let info = WorkerInfo { name: "w".to_owned(), slots: 8 };
        self.store.register(info, Duration::from_secs(600)).await.unwrap()
    }

    /// Cuts at the next commit.
    fn cut(&self, cut: &Cut) {
        self.proxy.cut(cut.clone());
    }

    /// The cut was made, and its commit is known to be unknown.
    fn check(&self, cuts: usize) {
        assert_eq!(self.proxy.cuts(), cuts);
        assert_eq!(self.store.counters().unknown_commits, u64::try_from(cuts).unwrap());
    }

    async fn count(&self, table: &str) -> i64 {
        self.database.number(&format!("SELECT COUNT(*) FROM punctual_{table}")).await
    }
}

/// At the commit behind the statements that write: a new session sets READ COMMITTED, and must not be cut for it.
fn both() -> [Cut; 2] {
    [Cut::Before(b";COMMIT".to_vec()), Cut::After(b";COMMIT".to_vec())]
}

/// B27: tasks are written once, plain ones and keyed ones.
#[tokio::test]
async fn b27_an_enqueue_is_written_once() {
    for cut in both() {
        let behind = Behind::new().await;
        enqueue(&behind.store, 1).await;
        behind.cut(&cut);
        let given = behind.store.enqueue(vec![task(TaskId(10)), task(TaskId(11))]).await.unwrap();
        assert!(given.iter().all(|given| given.inserted), "{cut:?}");
        behind.check(1);
        let keyed = NewTask { key: Some(UniqueKey::new("k")), ..task(TaskId(12)) };
        behind.cut(&cut);
        let given = behind.store.enqueue(vec![keyed]).await.unwrap();
        assert_eq!((given[0].id, given[0].inserted), (TaskId(12), true), "{cut:?}");
        behind.check(2);
        assert_eq!((behind.count("task").await, behind.count("ready").await), (4, 4));
    }
}

/// B27: a claim is given to the worker once, and its finish recorded once.
#[tokio::test]
async fn b27_a_claim_and_its_finish_happen_once() {
    for cut in both() {
        let behind = Behind::new().await;
        let ids = enqueue(&behind.store, 6).await;
        let worker = behind.worker().await;
        behind.cut(&cut);
        let batch = behind.store.claim(worker, any(4)).await.unwrap();
        behind.check(1);
        assert_eq!(batch.tasks.iter().map(|task| task.task).collect::<Vec<_>>(), ids[..4], "{cut:?}");
        let held = behind.store.holdings(worker).await.unwrap();
        assert_eq!(held, ids[..4].iter().map(|id| (*id, 1)).collect::<Vec<_>>(), "{cut:?}");
        let now = behind.store.now().await.unwrap();
        let finishes = batch.tasks[..3].iter().map(|task| success(task.task, task.n, now)).collect();
        behind.cut(&cut);
        assert_eq!(behind.store.finish(worker, finishes).await.unwrap(), [Finished::Applied; 3], "{cut:?}");
        behind.check(2);
        assert_eq!((behind.count("attempt").await, behind.count("ready").await), (3, 2));
        behind.cut(&cut);
        assert_eq!(behind.store.hand_back(worker, vec![ids[3]]).await.unwrap(), 1, "{cut:?}");
        behind.check(3);
        assert_eq!((behind.count("claim").await, behind.count("ready").await), (0, 3));
    }
}

/// B27: a window and a sweep create each slot once, and their reports name what is there.
#[tokio::test]
async fn b27_a_window_is_created_once() {
    for cut in both() {
        let behind = Behind::new().await;
        behind.store.declare(Declaration { spec: minutely("s"), revision: 0 }).await.unwrap();
        for round in 1..=2 {
            let view = behind.store.schedule("s".to_owned()).await.unwrap().unwrap();
            let cursor = view.position.cursor.unwrap();
            let slots = slots_from(&view, cursor, 5);
            let window = Window { schedule: view.position.id, version: view.position.version, cursor, slots };
            behind.cut(&cut);
            let done = behind.store.apply(window).await.unwrap();
            behind.check(round);
            assert_eq!(done.tasks.len(), 5, "{cut:?}");
            for task in done.tasks {
                assert!(behind.store.task(task).await.unwrap().is_some(), "{cut:?}");
            }
            assert_eq!(behind.count("task").await, i64::try_from(round * 5).unwrap());
        }
        let due = "UPDATE punctual_position SET cursor_slot = 2000000000000000, cursor_at = 1000000000000000, wake = 1";
        behind.database.run(due);
        let before = behind.count("task").await;
        behind.cut(&cut);
        let report = behind.store.materialise(Sweep { schedules_max: 1, window_max: 7 }).await.unwrap();
        behind.check(3);
        let created = report.schedules[0].tasks.len();
        assert_eq!(behind.count("task").await - before, i64::try_from(created).unwrap(), "{cut:?}");
        assert_eq!(
            behind.database.number("SELECT COUNT(*) - COUNT(DISTINCT slot) FROM punctual_task").await,
            0,
            "{cut:?}"
        );
    }
}

/// B27: what an operator does is done once and answered as it was done.
#[tokio::test]
async fn b27_commands_are_answered_as_done() {
    for cut in both() {
        let behind = Behind::new().await;
        let spec = minutely("s");
        let cuts = std::cell::Cell::new(0);
        let next = || {
            behind.cut(&cut);
            cuts.set(cuts.get() + 1);
        };
        next();
        let declared = behind.store.declare(Declaration { spec: spec.clone(), revision: 0 }).await.unwrap();
        assert_eq!(declared, Declared::Created, "{cut:?}");
        let steer = async |command| behind.store.steer("s".to_owned(), command).await.unwrap();
        next();
        assert_eq!(steer(ScheduleCommand::edit(ScheduleSpec { level: 2, ..spec }, 1)).await, Steered::Applied);
        next();
        let trigger = ScheduleCommand::Trigger { id: TaskId(900), force: true };
        assert_eq!(steer(trigger).await, Steered::Triggered(TaskId(900)), "{cut:?}");
        next();
        assert_eq!(steer(ScheduleCommand::Pause { note: "n".to_owned() }).await, Steered::Applied, "{cut:?}");
        assert_eq!((behind.count("schedule").await, behind.count("task").await), (1, 1));
        let ids = enqueue(&behind.store, 1).await;
        next();
        assert_eq!(behind.store.cancel(ids.clone()).await.unwrap(), [CancelOutcome::Cancelled], "{cut:?}");
        next();
        assert_eq!(behind.store.retry(ids).await.unwrap(), [RetryOutcome::Waiting], "{cut:?}");
        next();
        behind.worker().await;
        assert_eq!(behind.count("worker").await, 1, "{cut:?}");
        behind.check(cuts.get());
    }
}

/// A server that is away is said so at once, and work goes on when it is back, through the same store.
#[tokio::test]
async fn a_server_that_is_away_comes_back() {
    let behind = Behind::new().await;
    let ids = enqueue(&behind.store, 2).await;
    let address = behind.proxy.address();
    drop(behind.proxy);
    // Every session through the proxy ends with its next word.
    behind.database.run(
        "BEGIN NOT ATOMIC DECLARE done INT DEFAULT 0; DECLARE n BIGINT;
         DECLARE c CURSOR FOR SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID();
         DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = 1;
         DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
         OPEN c; l: LOOP FETCH c INTO n; IF done THEN LEAVE l; END IF; KILL n; END LOOP; END",
    );
    let error = behind.store.task(ids[0]).await.expect_err("nobody listens");
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.is_retryable() && error.to_string().contains(&address.port().to_string()), "{error}");
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    let server = behind.database.address();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut server = tokio::net::TcpStream::connect(&server).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
        }
    });
    let found = behind.store.task(ids[0]).await.unwrap().unwrap();
    assert_eq!(found.view.state, TaskState::Waiting);
}
