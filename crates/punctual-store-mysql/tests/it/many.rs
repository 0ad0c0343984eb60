//! A hundred thousand schedules that are due at once.

use crate::server::Database;
use crate::stand::config;
use punctual_clock::Timestamp;
use punctual_store_mysql::MysqlStore;
use punctual_testkit::{VirtualClock, crowd};
use std::sync::Arc;

const START: Timestamp = Timestamp::from_secs(1_772_409_600);

/// The rows of the first schedule again and again, with other names.
const COPY: &str = "
    CREATE TEMPORARY TABLE n AS SELECT seq AS i FROM seq_1_to_99999;
    INSERT INTO punctual_schedule (id, name, created, hash, revision)
        SELECT s.id + i, CONCAT('s', i), s.created, s.hash, s.revision FROM punctual_schedule s, n WHERE s.name = 's0';
    INSERT INTO punctual_definition (schedule, version, spec, args)
        SELECT d.schedule + i, d.version, REPLACE(d.spec, '\"s0\"', CONCAT('\"s', i, '\"')), d.args
        FROM punctual_definition d, n;
    INSERT INTO punctual_position (id, state, note, rev, era, version, cursor_slot, cursor_at, cursor_gap, runs, kept_to, wake,
        backfilling)
        SELECT p.id + i, p.state, p.note, p.rev, p.era, p.version, p.cursor_slot, p.cursor_at, p.cursor_gap, p.runs,
        p.kept_to, p.wake, p.backfilling FROM punctual_position p, n;
    DROP TEMPORARY TABLE n";

/// All of them are decided once, in passes of at most as many schedules and rows as a sweep may take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_schedules_are_swept_in_bounded_passes() {
    let database = Database::new();
    let clock = Arc::new(VirtualClock::starting_at(START));
    let store = MysqlStore::open(&database.url(), config(clock.clone())).await.unwrap();
    crowd::declare(&store, START).await;
    database.run(COPY);
    crowd::sweep(&store, &clock).await;
    assert_eq!(database.number("SELECT COUNT(*) FROM punctual_task").await, 100_000);
    assert_eq!(database.number("SELECT COUNT(DISTINCT schedule) FROM punctual_task").await, 100_000);
    store.close().await;
}
