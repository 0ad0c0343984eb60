//! A hundred thousand schedules that are due at once.

use crate::stand::{Place, START};
use punctual_testkit::crowd;

/// The rows of the first schedule again and again, with other names.
const COPY: [&str; 4] = [
    "INSERT INTO schedule (created, hash, revision, name)
     SELECT created, hash, revision, 's' || i FROM schedule, generate_series(1, 99999) i WHERE name = 's0'",
    "INSERT INTO definition SELECT s.id, d.version, replace(d.spec, '\"s0\"', '\"' || s.name || '\"'), d.args
     FROM schedule s, definition d JOIN schedule f ON f.id = d.schedule WHERE f.name = 's0' AND s.name <> 's0'",
    "INSERT INTO position (id, state, note, rev, era, version, cursor_slot, cursor_at, cursor_gap, runs, kept_to, wake,
         known_from, zone, backfill, backfilling)
     SELECT s.id, p.state, p.note, p.rev, p.era, p.version, p.cursor_slot, p.cursor_at, p.cursor_gap, p.runs, p.kept_to, p.wake,
         p.known_from, p.zone, p.backfill, p.backfilling
     FROM schedule s, position p JOIN schedule f ON f.id = p.id WHERE f.name = 's0' AND s.name <> 's0'",
    "ANALYZE",
];

/// All of them are decided once, in passes of at most as many schedules and rows as a sweep may take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_schedules_are_swept_in_bounded_passes() {
    let place = Place::new();
    let store = place.open().await;
    crowd::declare(&store, START).await;
    let client = place.database.connect().await;
    for copy in COPY {
        client.batch_execute(copy).await.unwrap();
    }
    crowd::sweep(&store, &place.clock).await;
    let count = "SELECT count(*), count(DISTINCT schedule) FROM task";
    let row = client.query_one(count, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (100_000, 100_000));
}
