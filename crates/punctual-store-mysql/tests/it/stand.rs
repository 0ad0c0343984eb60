//! What these tests share: a store on a database of its own, on a clock that the test moves or on the server's.

use crate::server::Database;
use bytes::Bytes;
use mysql_async::TxOpts;
use punctual_clock::{Clock, Timestamp};
use punctual_store_mysql::{MysqlConfig, MysqlStore};
use punctual_task::schedule::{Slot, ZoneStamp};
use punctual_task::{ClaimRequest, Due, Finish, NewTask, Next, Outcome, Store, TaskId, TaskOptions, TaskState};
use punctual_testkit::store_suite::{Opened, Transacted, Transaction};
use std::sync::Arc;

/// A store that lives by the given clock.
pub(crate) fn config(clock: Arc<dyn Clock>) -> MysqlConfig {
    let mut config = MysqlConfig::default();
    config.clock = Some(clock);
    config
}

/// An empty store for the suite.
pub(crate) fn opened(clock: Arc<dyn Clock>) -> Opened {
    let database = Arc::new(Database::new());
    let url = database.url();
    let store = tokio::runtime::Handle::current().block_on(MysqlStore::open(&url, config(clock))).unwrap();
    let store = Arc::new(store);
    let (same, other) = (Arc::clone(&database), Arc::clone(&database));
    let own = (Arc::clone(&store), Arc::clone(&database));
    Opened::new(store, move |schedule, cursor| rewind(&same, schedule, cursor))
        .restamped_by(move |schedule, stamp| restamp(&other, schedule, stamp))
        .transacting_by(move |transaction| {
            let (store, database) = own.clone();
            async move { transact(&store, &database, transaction).await }
        })
        .keeping(database)
}

/// On a connection of the caller's own, as any program has it.
async fn transact(store: &MysqlStore, database: &Database, transaction: Transaction) -> Transacted {
    let mut connection = database.connection().await;
    let mut tx = connection.start_transaction(TxOpts::default()).await.unwrap();
    let commit = transaction.commit;
    let answers = transaction.inside(store, &mut tx).await;
    if commit { tx.commit().await } else { tx.rollback().await }.unwrap();
    connection.disconnect().await.unwrap();
    Ok(answers)
}

/// Written beside the store, as a restore or an operator with a shell does: what the store remembers must not hide it.
pub(crate) fn rewind(database: &Database, schedule: &str, cursor: Slot) {
    database.run(&format!(
        "UPDATE punctual_position SET state = 0, rev = rev + 1, cursor_slot = {}, cursor_at = {}, cursor_gap = {}, wake = {},
         backfilling = COALESCE(backfill LIKE '%\"cursor\"%', 0)
         WHERE id = (SELECT id FROM punctual_schedule WHERE name = '{schedule}')",
        cursor.key.as_raw(),
        cursor.at.as_micros(),
        i32::from(cursor.gap),
        cursor.at.as_micros(),
    ));
}

fn restamp(database: &Database, schedule: &str, stamp: &ZoneStamp) {
    database.run(&format!(
        "UPDATE punctual_position SET zone = '{stamp}', rev = rev + 1
         WHERE id = (SELECT id FROM punctual_schedule WHERE name = '{schedule}')"
    ));
}

/// A store on the server's clock.
pub(crate) async fn open(database: &Database) -> MysqlStore {
    MysqlStore::open(&database.url(), MysqlConfig::default()).await.unwrap()
}

/// A task due now.
pub(crate) fn task(id: TaskId) -> NewTask {
    NewTask {
        id,
        method: "Demo/run".to_owned(),
        queue: "Demo".to_owned(),
        level: 1,
        due: Due::Now,
        args: Bytes::from_static(b"{\"n\":1}"),
        schema: 7,
        options: TaskOptions::default(),
        key: None,
    }
}

/// Writes `count` tasks due now.
pub(crate) async fn enqueue(store: &dyn Store, count: u32) -> Vec<TaskId> {
    let mut ids = store.draw_ids(count).await.unwrap();
    let tasks: Vec<NewTask> = std::iter::from_fn(|| ids.take()).map(task).collect();
    let ids = tasks.iter().map(|task| task.id).collect();
    store.enqueue(tasks).await.unwrap();
    ids
}

/// Asks for tasks of any queue.
pub(crate) fn any(limit: u32) -> ClaimRequest {
    ClaimRequest { queue: None, methods: vec!["Demo/run".to_owned()], limit, suspects: false }
}

/// The end of attempt `n` as a success.
pub(crate) fn success(task: TaskId, n: u32, now: Timestamp) -> Finish {
    Finish {
        task,
        n,
        started: now,
        ended: now,
        outcome: Outcome::Succeeded,
        out: Bytes::from_static(b"null"),
        next: Next::Final(TaskState::Succeeded),
    }
}

/// How much a test does: a number from the environment, for long runs before a release, or the default.
pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}
