//! Opening: what is taken, one clear line for what is not, and the tables on their way up and down.

use crate::stand::{Database, Place, any, config, enqueue, server};
use punctual_store_postgres::{Migrator, PostgresConfig, PostgresStore, migrations, schema_version};
use punctual_task::{Report, Store, StoreError, StoreErrorKind, WorkerInfo};
use std::collections::BTreeSet;
use std::time::Duration;

async fn refused(url: &str) -> StoreError {
    let error = PostgresStore::open(url, PostgresConfig::default()).await.expect_err("refused");
    let text = error.to_string();
    assert!(!text.contains('\n') && !text.contains("s3cret"), "one line without the password: {text}");
    error
}

/// A new database gets its tables, has them the next time, and says where it is without the password.
#[tokio::test]
async fn a_new_database_becomes_ours() {
    let place = Place::new();
    let store = place.open().await;
    let info = store.info();
    assert_eq!((info.kind, info.schema_version), ("postgres", schema_version()));
    let url = place.database.url();
    let password = url.split(['@', ':']).nth(2).unwrap();
    assert!(!info.location.contains(password) && !format!("{store:?}").contains(password), "{info:?}");
    let identity = store.identity().to_owned();
    assert_eq!(identity.len(), 32);
    store.close();
    assert_eq!(place.open().await.identity(), identity);
}

/// Two schemas of one database are two stores.
#[tokio::test]
async fn schemas_are_apart() {
    let place = Place::new();
    let one = place.open().await;
    let url = format!("{}?schema=other", place.database.url());
    let two = PostgresStore::open(&url, config(place.clock.clone())).await.unwrap();
    let ids = enqueue(&one, 3).await;
    assert!(one.task(ids[0]).await.unwrap().is_some());
    assert!(two.task(ids[0]).await.unwrap().is_none());
    assert_ne!(one.identity(), two.identity());
    assert!(two.info().location.contains("other"));
}

/// A socket serves as well as an address.
#[cfg(unix)]
#[tokio::test]
async fn sockets_are_taken() {
    let database = Database::new();
    let client = database.connect().await;
    let row = client.query_one("SELECT current_setting('unix_socket_directories'), current_setting('port')", &[]);
    let row = row.await.unwrap();
    let (folders, port): (String, String) = (row.get(0), row.get(1));
    let url = database.url();
    let (user, rest) = url.strip_prefix("postgres://").unwrap().split_once('@').unwrap();
    let name = rest.rsplit_once('/').unwrap().1;
    let folder = folders.split(',').next().unwrap().trim();
    let (user, password) = user.split_once(':').unwrap();
    let url = format!("postgres:///{name}?host={folder}&port={port}&user={user}&password={password}");
    let store = PostgresStore::open(&url, PostgresConfig::default()).await.unwrap();
    assert_eq!(enqueue(&store, 2).await.len(), 2);
}

/// Each way in which a server cannot be used has its kind, and a line that names the place and not the password.
#[tokio::test]
async fn what_cannot_be_used_is_named() {
    let url = server();
    let (place, _) = url.rsplit_once('/').unwrap();
    let error = refused(&format!("{place}/there_is_no_such_database")).await;
    assert_eq!(error.kind(), StoreErrorKind::NotFound, "{error}");
    let host = place.split_once('@').unwrap().1;
    let error = refused(&format!("postgres://nobody_here:s3cret@{host}/postgres")).await;
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let error = refused(&format!("postgres://anna:s3cret@127.0.0.1:{port}/app")).await;
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    let error = refused(&format!("postgres://anna:s3cret@{host}/postgres?sslmode=require")).await;
    assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
    let error = refused("postgres://anna:s3cret@/app").await;
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
}

/// The tables, their columns and their indexes, by name.
async fn objects(database: &Database) -> BTreeSet<String> {
    let client = database.connect().await;
    let sql = "SELECT c.relname || ' ' || coalesce(string_agg(a.attname || ':' || a.atttypid::regtype, ',' ORDER BY a.attnum), '')
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_attribute a ON a.attrelid = c.oid
        AND a.attnum > 0 AND NOT a.attisdropped WHERE n.nspname = 'punctual' GROUP BY c.oid, c.relname";
    client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// Each version is reached on the way up, and the way down takes back what it added; the schema and the list of versions stay.
#[tokio::test]
async fn up_and_down_meet() {
    let database = Database::new();
    let mut migrator = Migrator::open(&database.url(), &PostgresConfig::default()).await.unwrap();
    assert_eq!(migrator.version().await, Ok(0));
    let mut seen = Vec::new();
    for migration in migrations() {
        let applied = migrator.up(Some(migration.version)).await.unwrap();
        assert_eq!(applied, [migration]);
        assert_eq!(migrator.version().await, Ok(migration.version));
        seen.push(objects(&database).await);
    }
    assert_eq!(migrator.up(None).await, Ok(Vec::new()));
    for migration in migrations().iter().rev() {
        assert_eq!(objects(&database).await, seen.pop().unwrap());
        assert_eq!(migrator.down(migration.version - 1).await.unwrap(), [migration]);
    }
    assert_eq!(objects(&database).await.len(), 2, "the list of versions and its index");
    assert_eq!(migrator.up(None).await.unwrap().len(), migrations().len());
    assert_eq!(migrator.up(Some(99)).await.expect_err("there is none").kind(), StoreErrorKind::Refused);
}

/// A database of the first version with tasks in it is brought up and goes on; on the way down only what attempts said is lost.
#[tokio::test]
async fn a_database_of_the_first_version_goes_on() {
    let place = Place::new();
    let store = place.open().await;
    let ids = enqueue(&store, 2).await;
    store.close();
    for percent in [1, 2] {
        let mut migrator = Migrator::open(&place.database.url(), &PostgresConfig::default()).await.unwrap();
        assert_eq!(migrator.down(1).await.unwrap().len(), migrations().len() - 1);
        let rows = place.database.connect().await.query_one("SELECT count(*) FROM task", &[]).await.unwrap();
        assert_eq!(rows.get::<_, i64>(0), 2);
        let store = place.open().await;
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
        store.close();
    }
}

/// While a worker is alive its tables stay.
#[tokio::test]
async fn live_workers_keep_their_tables() {
    let database = Database::new();
    let store = PostgresStore::open(&database.url(), PostgresConfig::default()).await.unwrap();
    let info = WorkerInfo { name: "w".to_owned(), slots: 1 };
    let worker = store.register(info, Duration::from_secs(3600)).await.unwrap();
    let mut migrator = Migrator::open(&database.url(), &PostgresConfig::default()).await.unwrap();
    let refused = migrator.down(0).await.expect_err("a worker is alive");
    assert_eq!(refused.kind(), StoreErrorKind::Refused);
    store.retire(worker).await.unwrap();
    assert_eq!(migrator.down(0).await.unwrap().len(), migrations().len());
    // The store that is still open says what is missing.
    let error = store.queues().await.expect_err("the tables are gone");
    assert_eq!(error.kind(), StoreErrorKind::Version, "{error}");
}

/// Tables of a newer build, and a migration that was changed after it was applied, are refused and left alone.
#[tokio::test]
async fn tables_of_other_builds_are_refused() {
    let database = Database::new();
    PostgresStore::open(&database.url(), PostgresConfig::default()).await.unwrap().close();
    database.execute("INSERT INTO punctual.migration (version, name, sha256) VALUES (77, 'later', 'x')");
    let error = refused(&database.url()).await;
    assert_eq!(error.kind(), StoreErrorKind::Version);
    assert!(error.to_string().contains("version 77"), "{error}");
    database.execute("DELETE FROM punctual.migration WHERE version = 77");
    database.execute("UPDATE punctual.migration SET sha256 = 'x' WHERE version = 1");
    let error = refused(&database.url()).await;
    assert_eq!(error.kind(), StoreErrorKind::Version);
}

/// Without leave to migrate a new database is refused; many that open one at once make its tables once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_made_once_and_only_with_leave() {
    let place = Place::new();
    let mut careful = config(place.clock.clone());
    careful.migrate = false;
    let error = PostgresStore::open(&place.database.url(), careful.clone()).await.expect_err("no tables yet");
    assert_eq!(error.kind(), StoreErrorKind::Version, "{error}");
    let opens: Vec<_> = (0..6)
        .map(|_| {
            let (url, config) = (place.database.url(), config(place.clock.clone()));
            tokio::spawn(async move { PostgresStore::open(&url, config).await.unwrap().identity().to_owned() })
        })
        .collect();
    let mut identities = BTreeSet::new();
    for open in opens {
        identities.insert(open.await.unwrap());
    }
    assert_eq!(identities.len(), 1);
    PostgresStore::open(&place.database.url(), careful).await.unwrap();
}
