//! The store suite.

use crate::stand::{Database, apart, config, connect};
use punctual_clock::Clock;
use punctual_store_postgres::PostgresStore;
use punctual_task::schedule::{Slot, ZoneStamp};
use punctual_testkit::store_suite::{Opened, Transacted, Transaction};
use std::sync::Arc;

const REWIND: &str = "UPDATE punctual.position SET state = 0, rev = rev + 1, cursor_slot = $2, cursor_at = $3,
    cursor_gap = $4, wake = $3, backfilling = coalesce(backfill LIKE '%cursor%', false) WHERE id = (SELECT id FROM punctual.schedule WHERE name = $1)";

pub(crate) fn open(clock: Arc<dyn Clock>) -> Opened {
    let database = Database::new();
    let url = database.url();
    let store = tokio::runtime::Handle::current().block_on(PostgresStore::open(&url, config(clock))).unwrap();
    let store = Arc::new(store);
    let (same, own) = (url.clone(), (Arc::clone(&store), url.clone()));
    Opened::new(store, move |schedule, cursor| rewind(&url, schedule, cursor))
        .restamped_by(move |schedule, stamp| restamp(&same, schedule, stamp))
        .transacting_by(move |transaction| {
            let (store, url) = own.clone();
            async move { transact(&store, &url, transaction).await }
        })
        .keeping(database)
}

/// Written beside the store, as a restore or an operator with a shell does: what the store remembers must not hide it.
fn rewind(url: &str, schedule: &str, cursor: Slot) {
    let (key, at) = (cursor.key.as_raw(), cursor.at.as_micros());
    let changed =
        apart(async || connect(url).await.execute(REWIND, &[&schedule, &key, &at, &cursor.gap]).await.unwrap());
    assert_eq!(changed, 1, "{schedule}");
}

fn restamp(url: &str, schedule: &str, stamp: &ZoneStamp) {
    let sql = "UPDATE punctual.position SET zone = $2, rev = rev + 1
        WHERE id = (SELECT id FROM punctual.schedule WHERE name = $1)";
    let stamp = stamp.to_string();
    assert_eq!(apart(async || connect(url).await.execute(sql, &[&schedule, &stamp]).await.unwrap()), 1);
}

/// On a connection of the caller's own, as any program has it.
async fn transact(store: &PostgresStore, url: &str, transaction: Transaction) -> Transacted {
    let mut client = connect(url).await;
    let mut tx = client.transaction().await.unwrap();
    let commit = transaction.commit;
    let answers = transaction.inside(store, &mut tx).await;
    if commit { tx.commit().await } else { tx.rollback().await }.unwrap();
    Ok(answers)
}

punctual_testkit::store_suite!(postgres, open);
