//! Opening: what is taken, and one clear line for what is not.

use crate::stand::{Place, START, config, enqueue};
use punctual_store_sqlite::{Migrator, SqliteConfig, SqliteStore, schema_version};
use punctual_task::{Store, StoreError, StoreErrorKind};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

async fn refused(path: &Path) -> StoreError {
    let error = SqliteStore::open(path.to_str().unwrap(), SqliteConfig::default()).await.expect_err("refused");
    let text = error.to_string();
    assert!(!text.contains('\n') && text.contains(path.to_str().unwrap()), "one line that names the file: {text}");
    error
}

/// A file that is not there is made, an empty one is taken, and both are ours the next time, with the same identity.
#[tokio::test]
async fn a_new_file_becomes_ours() {
    let place = Place::new();
    let store = place.open().await;
    let info = store.info();
    assert_eq!((info.kind, info.schema_version), ("sqlite", schema_version()));
    assert_eq!(info.location, place.text());
    let identity = store.identity().to_owned();
    assert_eq!(identity.len(), 32);
    store.close().await;
    assert_eq!(place.open().await.identity(), identity);

    let empty = place.dir.path().join("empty.db");
    fs::write(&empty, b"").unwrap();
    let other = SqliteStore::open(empty.to_str().unwrap(), SqliteConfig::default()).await.unwrap();
    assert_ne!(other.identity(), identity);
    let url = format!("sqlite://{}", place.dir.path().join("url.db").display());
    SqliteStore::open(&url, SqliteConfig::default()).await.unwrap();
}

/// In memory everything works the same, and each store is alone.
#[tokio::test]
async fn memory_is_private() {
    let place = Place::new();
    let [one, two] = [
        SqliteStore::open("sqlite::memory:", config(place.clock.clone())).await.unwrap(),
        SqliteStore::open("sqlite::memory:", config(place.clock.clone())).await.unwrap(),
    ];
    let ids = enqueue(&one, 3).await;
    assert!(one.task(ids[0]).await.unwrap().is_some());
    assert!(two.task(ids[0]).await.unwrap().is_none());
    assert_eq!(one.now().await.unwrap(), START);
}

/// What is no database of ours is refused before anything in it is touched.
#[tokio::test]
async fn other_files_are_refused_and_left_alone() {
    let place = Place::new();
    let path = |name: &str| place.dir.path().join(name);

    fs::write(path("text"), "dear diary, this is not a database").unwrap();
    assert_eq!(refused(&path("text")).await.kind(), StoreErrorKind::Corrupt);
    assert_eq!(fs::read_to_string(path("text")).unwrap(), "dear diary, this is not a database");

    let foreign = path("foreign.db");
    rusqlite::Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE notes (text)").unwrap();
    let before = fs::read(&foreign).unwrap();
    let error = refused(&foreign).await;
    assert_eq!(error.kind(), StoreErrorKind::Corrupt);
    assert!(error.to_string().contains("something else"), "{error}");
    assert_eq!(fs::read(&foreign).unwrap(), before);

    let torn = path("torn.db");
    fs::write(&torn, [b"SQLite format 3\0".as_slice(), &[0xff; 200]].concat()).unwrap();
    assert_eq!(refused(&torn).await.kind(), StoreErrorKind::Corrupt);
}

/// A wrong path is a wrong path: each line says what is wrong with it.
#[tokio::test]
async fn wrong_paths_are_refused() {
    let place = Place::new();
    let path = |name: &str| place.dir.path().join(name);
    let cases = [
        (place.dir.path().to_path_buf(), StoreErrorKind::Refused, "is a directory"),
        (path("missing/app.db"), StoreErrorKind::NotFound, "create it first"),
        (path("file/app.db"), StoreErrorKind::Unavailable, "cannot open"),
        ("/proc/punctual.db".into(), StoreErrorKind::Unavailable, "right to read and write"),
    ];
    fs::write(path("file"), "").unwrap();
    for (path, kind, says) in cases {
        let error = refused(&path).await;
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    let error = SqliteStore::open("mysql://host/db", SqliteConfig::default()).await.expect_err("another scheme");
    assert_eq!(error.kind(), StoreErrorKind::Refused);
}

/// Tables that this build may not touch, or must not, are refused with what to do.
#[tokio::test]
async fn versions_are_checked() {
    let place = Place::new();
    let mut careful = config(place.clock.clone());
    careful.migrate = false;
    let error = SqliteStore::open(&place.text(), careful.clone()).await.expect_err("no tables yet");
    assert_eq!(error.kind(), StoreErrorKind::Version);
    assert!(error.to_string().contains("punctual migrate"), "{error}");
    Migrator::open(&place.text(), careful.clone()).unwrap().up(None).unwrap();
    SqliteStore::open(&place.text(), careful).await.unwrap().close().await;

    place
        .connection()
        .execute("INSERT INTO migration (version, name, sha256, applied) VALUES (99, 'later', 'x', 0)", [])
        .unwrap();
    let error = refused(&place.path()).await;
    assert_eq!(error.kind(), StoreErrorKind::Version);
    assert!(error.to_string().contains("99"), "{error}");
}

/// A configuration out of its limits is refused by the field's name.
#[tokio::test]
async fn limits_of_the_configuration_are_checked() {
    type Spoil = fn(&mut SqliteConfig);
    let wrong: [(&str, Spoil); 6] = [
        ("wait", |config| config.wait = Duration::ZERO),
        ("wait", |config| config.wait = Duration::from_secs(3600)),
        ("readers", |config| config.readers = 0),
        ("queue_max", |config| config.queue_max = 0),
        ("group_time", |config| config.group_time = Duration::from_secs(2)),
        ("group_rows", |config| config.group_rows = 0),
    ];
    for (field, change) in wrong {
        let mut config = SqliteConfig::default();
        change(&mut config);
        let error = SqliteStore::open("sqlite::memory:", config).await.expect_err(field);
        assert_eq!(error.kind(), StoreErrorKind::Refused);
        assert!(error.to_string().contains(field), "{error}");
    }
}

/// Eight stores that open a new file at once all get it, and write one after another without an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_open_a_new_file_at_once() {
    let place = Arc::new(Place::new());
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let place = place.clone();
            tokio::spawn(async move {
                let store = place.open().await;
                for _ in 0..5 {
                    enqueue(&store, 3).await;
                }
                store.identity().to_owned()
            })
        })
        .collect();
    let mut identities = Vec::new();
    for task in tasks {
        identities.push(task.await.unwrap());
    }
    identities.dedup();
    assert_eq!(identities.len(), 1);
    let count: i64 = place.connection().query_row("SELECT count(*) FROM task", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 8 * 5 * 3);
}

/// How many POSIX locks this process holds on a file, as the kernel lists them.
#[cfg(target_os = "linux")]
fn locks_on(path: &Path) -> usize {
    use std::os::unix::fs::MetadataExt;
    let (process, inode) = (std::process::id().to_string(), fs::metadata(path).unwrap().ino());
    let listed = fs::read_to_string("/proc/locks").unwrap();
    let ours = |line: &&str| {
        let mut words = line.split_whitespace();
        line.contains("POSIX")
            && words.any(|word| word == process)
            && words.next().is_some_and(|place| place.ends_with(&format!(":{inode}")))
    };
    listed.lines().filter(ours).count()
}

/// Whatever else opens or refuses the same file in this process, the locks of a store that has it open stay: without
/// them another process believes to be the last one and deletes the log under us.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn opening_again_keeps_the_locks() {
    let place = Place::new();
    let store = place.open().await;
    enqueue(&store, 1).await;
    let held = locks_on(&place.path());
    assert!(held > 0, "an open log holds a lock on its database");
    place.open().await.close().await;
    assert_eq!(locks_on(&place.path()), held, "after another store of this process");
    Migrator::open(&place.text(), config(place.clock.clone())).unwrap().version().unwrap();
    assert_eq!(locks_on(&place.path()), held, "after a migrator");
    assert_eq!(store.identity().len(), 32);
}
