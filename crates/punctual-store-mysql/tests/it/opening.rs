//! Opening: what is refused and why, in one line without the password; migrations up and down, stopped halfway, and newer.

use crate::server::Database;
use crate::stand::{any, enqueue, open};
use mysql_async::prelude::Queryable;
use punctual_store_mysql::{Migration, Migrator, MysqlConfig, MysqlStore, migrations, schema_version};
use punctual_task::{Report, Store, StoreErrorKind, WorkerInfo};
use std::time::Duration;

async fn refused(url: &str, kind: StoreErrorKind, word: &str) {
    let error = MysqlStore::open(url, MysqlConfig::default()).await.expect_err(word);
    assert_eq!(error.kind(), kind, "{error}");
    let text = error.to_string();
    assert!(text.contains(word) && !text.contains('\n') && !text.contains("geheim"), "{text}");
}

/// What a user gets wrong is said in one line: no database, no server, a wrong password, another database's URL.
#[tokio::test]
async fn wrong_places_are_refused() {
    let database = Database::new();
    let address = database.address();
    let user = if database.password().is_some() { database.url() } else { String::new() };
    if let Some(password) = database.password() {
        let missing = user.replace(&format!("/{}", user.rsplit('/').next().unwrap()), "/punctual_missing");
        assert!(missing.contains(password));
        let error = MysqlStore::open(&missing, MysqlConfig::default()).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::NotFound, "{error}");
        assert!(!error.to_string().contains(password) && error.to_string().contains("CREATE DATABASE"), "{error}");
    }
    refused(&format!("mysql://nobody:geheim@{address}/x"), StoreErrorKind::Unavailable, "refuses this user").await;
    refused("postgres://u:geheim@localhost/x", StoreErrorKind::Refused, "mysql://").await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    refused(&format!("mysql://u:geheim@127.0.0.1:{port}/x"), StoreErrorKind::Unavailable, "cannot be reached").await;
}

/// A store says where it is without its password, and what server it is on.
#[tokio::test]
async fn info_tells_no_secret() {
    let database = Database::new();
    let store = open(&database).await;
    let info = store.info();
    assert_eq!((info.kind, info.schema_version), ("mysql", schema_version()));
    assert!(info.version.contains("MariaDB"), "{info:?}");
    assert!(info.location.contains(&database.address()), "{info:?}");
    if let Some(password) = database.password() {
        // The connections are open by now.
        store.now().await.unwrap();
        assert!(!password.is_empty() && !format!("{info:?} {store:?}").contains(password), "{info:?}");
    }
    let again = open(&database).await;
    assert_eq!((again.identity(), again.identity().len()), (store.identity(), 32));
}

/// The database's clock is the server's in UTC, whatever time zone and mode its sessions have by default.
#[tokio::test]
async fn the_servers_settings_do_not_matter() {
    let database = Database::new();
    let mut conn = database.connection().await;
    conn.query_drop("SET SESSION time_zone = '+09:00'").await.unwrap();
    let store = open(&database).await;
    let now = store.now().await.unwrap().as_micros();
    let utc: i64 = conn.query_first("SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)").await.unwrap().unwrap();
    assert!((utc - now).abs() < 60_000_000, "{now} {utc}");
}

/// Names are equal as bytes are: case, accents and spaces at the end make others.
#[tokio::test]
async fn names_are_compared_as_bytes() {
    let database = Database::new();
    let store = open(&database).await;
    let names = ["Mail", "mail", "mail ", "mäil", "ma\u{308}il", "邮件", "😀"];
    for name in names {
        assert!(store.pause_queue(name.to_owned(), true).await.unwrap(), "{name:?}");
    }
    let mut sorted = names.map(str::to_owned).to_vec();
    sorted.sort();
    let listed: Vec<String> = store.queues().await.unwrap().into_iter().map(|queue| queue.name).collect();
    assert_eq!(listed, sorted);
}

static LATER: [Migration; 2] = [FIRST, SECOND];
/// One more than this build knows.
static NEWER: [Migration; 3] = [
    FIRST,
    migration(2, "progress", include_str!("../../migrations/0002_progress.up.sql"), ""),
    migration(
        3,
        "third",
        "CREATE TABLE IF NOT EXISTS punctual_extra (id INT);",
        "DROP TABLE IF EXISTS punctual_extra;",
    ),
];
const FIRST: Migration = migration(1, "first", FIRST_UP, FIRST_DOWN);
const SECOND: Migration = migration(
    2,
    "second",
    "CREATE TABLE IF NOT EXISTS punctual_extra (id INT);\nINSERT INTO punctual_extra VALUES (1);",
    "DROP TABLE IF EXISTS punctual_extra;",
);
const FIRST_UP: &str = include_str!("../../migrations/0001_first.up.sql");
const FIRST_DOWN: &str = include_str!("../../migrations/0001_first.down.sql");
/// The second statement of the second version fails.
static BROKEN: [Migration; 2] = [
    FIRST,
    migration(
        2,
        "second",
        "CREATE TABLE IF NOT EXISTS punctual_extra (id INT);\nINSERT INTO punctual_absent VALUES (1);",
        "DROP TABLE IF EXISTS punctual_extra;",
    ),
];

const fn migration(version: u32, name: &'static str, up: &'static str, down: &'static str) -> Migration {
    Migration::new(version, name, up, down)
}

async fn migrator(database: &Database, known: &'static [Migration]) -> Migrator {
    Migrator::open(&database.url(), MysqlConfig::default()).await.unwrap().with(known)
}

fn versions(migrations: &[&'static Migration]) -> Vec<u32> {
    migrations.iter().map(|migration| migration.version).collect()
}

/// What goes up comes down, and nothing is left.
#[tokio::test]
async fn up_and_down_meet() {
    let database = Database::new();
    let mut both = migrator(&database, &LATER).await;
    assert_eq!(both.version().await, Ok(0));
    assert_eq!(versions(&both.up(Some(1)).await.unwrap()), [1]);
    assert_eq!(versions(&both.up(None).await.unwrap()), [2]);
    assert_eq!(both.up(None).await.unwrap(), Vec::<&Migration>::new());
    assert_eq!(both.version().await, Ok(2));
    assert_eq!(versions(&both.down(1).await.unwrap()), [2]);
    assert_eq!(versions(&both.down(0).await.unwrap()), [1]);
    let tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()";
    assert_eq!(database.number(tables).await, 0);
    assert_eq!(versions(&both.up(None).await.unwrap()), [1, 2]);
    assert_eq!(both.up(Some(9)).await.unwrap_err().kind(), StoreErrorKind::Refused);
}

/// Tables of a newer build are refused by this one, and so is a migration whose text has changed since.
#[tokio::test]
async fn newer_and_changed_tables_are_refused() {
    let database = Database::new();
    migrator(&database, &NEWER).await.up(None).await.unwrap();
    let error = MysqlStore::open(&database.url(), MysqlConfig::default()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Version);
    assert!(error.to_string().contains("version 3") && error.to_string().contains("up to 2"), "{error}");
    database.run("UPDATE punctual_migration SET sha256 = 'other' WHERE version = 1; DELETE FROM punctual_migration WHERE version = 3");
    let error = MysqlStore::open(&database.url(), MysqlConfig::default()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Version, "{error}");
}

/// A migration that was stopped halfway is seen, is not worked on, and is gone on with by the next one who migrates.
#[tokio::test]
async fn a_stopped_migration_goes_on() {
    let database = Database::new();
    let error = migrator(&database, &BROKEN).await.up(None).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Version, "{error}");
    let steps = "SELECT step FROM punctual_migration WHERE version = 2";
    assert_eq!(database.number(steps).await, 1, "the first of two statements is done");
    assert_eq!(migrator(&database, &BROKEN).await.version().await, Ok(1));
    // What was missing is put right, and the rest runs.
    database.run("CREATE TABLE punctual_absent (id INT)");
    assert_eq!(versions(&migrator(&database, &BROKEN).await.up(None).await.unwrap()), [2]);
    assert_eq!(database.number("SELECT COUNT(*) FROM punctual_absent").await, 1);
    assert_eq!(migrator(&database, &BROKEN).await.version().await, Ok(2));
}

/// The first version stopped after some of its tables is no database to work on, and becomes one.
#[tokio::test]
async fn half_a_first_version_is_detected() {
    let database = Database::new();
    migrator(&database, migrations()).await.up(Some(1)).await.unwrap();
    database.run("UPDATE punctual_migration SET step = 7; DROP TABLE punctual_ready; DROP TABLE punctual_position");
    let mut only_look = MysqlConfig::default();
    only_look.migrate = false;
    let error = MysqlStore::open(&database.url(), only_look.clone()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Version);
    assert!(error.to_string().contains("halfway") && error.to_string().contains("punctual migrate"), "{error}");
    let store = open(&database).await;
    enqueue(&store, 3).await;
    assert!(MysqlStore::open(&database.url(), only_look).await.is_ok());
}

/// A way down that was stopped is finished before anything goes up again.
#[tokio::test]
async fn a_stopped_way_down_is_finished() {
    let database = Database::new();
    migrator(&database, migrations()).await.up(Some(1)).await.unwrap();
    database.run("UPDATE punctual_migration SET down = 1, step = 3; DROP TABLE punctual_missed_sum, punctual_missed, punctual_position");
    assert_eq!(migrator(&database, migrations()).await.version().await, Ok(0));
    let store = open(&database).await;
    enqueue(&store, 3).await;
}

/// A database of the first version with tasks in it is brought up and goes on; on the way down only what attempts said is lost.
#[tokio::test]
async fn a_database_of_the_first_version_goes_on() {
    let database = Database::new();
    let store = open(&database).await;
    let ids = enqueue(&store, 2).await;
    store.close().await;
    for percent in [1, 2] {
        assert_eq!(versions(&migrator(&database, migrations()).await.down(1).await.unwrap()), [2]);
        assert_eq!(database.number("SELECT COUNT(*) FROM punctual_task").await, 2);
        let store = open(&database).await;
        assert_eq!(store.task(ids[0]).await.unwrap().unwrap().progress, None);
        let info = WorkerInfo { name: "w".to_owned(), slots: 1 };
        let worker = store.register(info, Duration::from_secs(600)).await.unwrap();
        let claimed = store.claim(worker, any(1)).await.unwrap().tasks;
        let report = Report {
            task: ids[0],
            n: claimed[0].n,
            at: claimed[0].created,
            percent: Some(percent),
            message: "on".to_owned(),
            checkpoint: None,
        };
        assert_eq!(store.report(worker, vec![report]).await, Ok(vec![true]));
        assert_eq!(store.task(ids[0]).await.unwrap().unwrap().progress.unwrap().percent, Some(percent));
        store.retire(worker).await.unwrap();
        store.close().await;
    }
}

/// Tables of our name without a record of migrations are somebody else's, or half a backup: they are not touched.
#[tokio::test]
async fn foreign_tables_are_refused() {
    let database = Database::new();
    database.run("CREATE TABLE punctual_task (id INT); CREATE TABLE notes (id INT)");
    let error = MysqlStore::open(&database.url(), MysqlConfig::default()).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
    database.run("DROP TABLE punctual_task");
    let store = open(&database).await;
    enqueue(&store, 1).await;
    assert_eq!(database.number("SELECT COUNT(*) FROM notes").await, 0, "other tables beside ours are left alone");
}

/// A live worker keeps its tables.
#[tokio::test]
async fn live_workers_keep_their_tables() {
    let database = Database::new();
    let store = open(&database).await;
    let info = WorkerInfo { name: "w".to_owned(), slots: 1 };
    let worker = store.register(info, Duration::from_secs(600)).await.unwrap();
    let error = migrator(&database, migrations()).await.down(0).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Refused);
    store.retire(worker).await.unwrap();
    store.close().await;
    let down = migrator(&database, migrations()).await.down(0).await.unwrap();
    assert_eq!(versions(&down), (1..=schema_version()).rev().collect::<Vec<_>>());
}

/// Many processes that open a new database at once make its tables once.
#[tokio::test]
async fn one_of_many_migrates() {
    let database = Database::new();
    let url = database.url();
    let stores: Vec<_> = (0..6)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(
                async move { MysqlStore::open(&url, MysqlConfig::default()).await.unwrap().identity().to_owned() },
            )
        })
        .collect();
    let mut identities = Vec::new();
    for store in stores {
        identities.push(store.await.unwrap());
    }
    identities.dedup();
    assert_eq!(identities.len(), 1);
}
