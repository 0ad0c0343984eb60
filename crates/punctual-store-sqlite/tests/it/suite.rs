//! The store suite over a file and in memory.

use crate::stand::config;
use punctual_clock::Clock;
use punctual_store_sqlite::SqliteStore;
use punctual_task::schedule::{Slot, ZoneStamp};
use punctual_testkit::store_model;
use punctual_testkit::store_suite::{Opened, Transacted, Transaction};
use rusqlite::{Connection, TransactionBehavior, params};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const REWIND: &str = "UPDATE position SET state = 0, rev = rev + 1, cursor_slot = ?2, cursor_at = ?3, cursor_gap = ?4,
    wake = ?3, backfilling = coalesce(backfill LIKE '%\"cursor\"%', 0) WHERE id = (SELECT id FROM schedule WHERE name = ?1)";

fn open(clock: Arc<dyn Clock>) -> Opened {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("suite.db");
    let store =
        tokio::runtime::Handle::current().block_on(SqliteStore::open(path.to_str().unwrap(), config(clock))).unwrap();
    let store = Arc::new(store);
    let (same, own) = (path.clone(), (Arc::clone(&store), path.clone()));
    Opened::new(store, move |schedule, cursor| rewind(&path, schedule, cursor))
        .restamped_by(move |schedule, stamp| restamp(&same, schedule, stamp))
        .transacting_by(move |transaction| {
            let (store, path) = own.clone();
            async move { tokio::task::spawn_blocking(move || transact(&store, &path, transaction)).await.unwrap() }
        })
        .keeping(dir)
}

/// Written beside the store, as a restore or an operator with a shell does: what the store remembers must not hide it.
fn rewind(path: &Path, schedule: &str, cursor: Slot) {
    let changed = Connection::open(path)
        .unwrap()
        .execute(REWIND, params![schedule, cursor.key.as_raw(), cursor.at.as_micros(), cursor.gap])
        .unwrap();
    assert_eq!(changed, 1, "{schedule}");
}

fn restamp(path: &Path, schedule: &str, stamp: &ZoneStamp) {
    let sql = "UPDATE position SET zone = ?2, rev = rev + 1 WHERE id = (SELECT id FROM schedule WHERE name = ?1)";
    assert_eq!(Connection::open(path).unwrap().execute(sql, params![schedule, stamp.to_string()]).unwrap(), 1);
}

/// On a connection of the caller's own.
fn transact(store: &SqliteStore, path: &Path, transaction: Transaction) -> Transacted {
    let mut connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(60)).unwrap();
    let mut tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let commit = transaction.commit;
    let answers = transaction.inside_blocking(store, &mut tx);
    if commit { tx.commit() } else { tx.rollback() }.unwrap();
    Ok(answers)
}

punctual_testkit::store_suite!(sqlite, open);

/// Random histories, with backfills, edits, new series and rewinds among all else, give the same answers and the same rows as
/// on the model in memory.
#[test]
fn histories_agree_with_the_model() {
    for seed in 0..12 {
        store_model::compare(Opened::in_memory, open, seed, 400);
    }
}
