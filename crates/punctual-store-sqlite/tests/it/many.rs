//! A hundred thousand schedules that are due at once.

use crate::stand::{Place, START};
use punctual_testkit::crowd;

/// The rows of the first schedule again and again, with other names.
const COPY: &str = "
    CREATE TEMP TABLE n AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 99999) SELECT i FROM n;
    BEGIN;
    INSERT INTO schedule (id, name, created, hash, revision)
        SELECT s.id + i, 's' || i, s.created, s.hash, s.revision FROM n, schedule s WHERE s.name = 's0';
    INSERT INTO definition (schedule, version, spec, args)
        SELECT d.schedule + i, d.version, replace(d.spec, '\"s0\"', '\"s' || i || '\"'), d.args FROM n, definition d;
    INSERT INTO position (id, state, note, rev, era, version, cursor_slot, cursor_at, cursor_gap, runs, kept_to, wake)
        SELECT p.id + i, p.state, p.note, p.rev, p.era, p.version, p.cursor_slot, p.cursor_at, p.cursor_gap, p.runs,
        p.kept_to, p.wake FROM n, position p;
    COMMIT;";

/// All of them are decided once, in passes of at most as many schedules and rows as a sweep may take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_schedules_are_swept_in_bounded_passes() {
    let place = Place::new();
    let store = place.open().await;
    crowd::declare(&store, START).await;
    let beside = place.connection();
    beside.execute_batch(COPY).unwrap();
    crowd::sweep(&store, &place.clock).await;
    let count = "SELECT count(*), count(DISTINCT schedule) FROM task";
    let counts: (i64, i64) = beside.query_row(count, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(counts, (100_000, 100_000));
}
