//! A real file system without room: what was answered stays, the rest is told so, and work goes on when there is room.

use crate::stand::{config, task};
use bytes::Bytes;
use punctual_clock::SystemClock;
use punctual_store_sqlite::SqliteStore;
use punctual_task::{NewTask, Store, StoreErrorKind, TaskId};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

/// A file system in memory of so many bytes; gone with the value.
struct Small(TempDir);

impl Small {
    /// `None` where this process may not mount.
    fn mount(size: &str) -> Option<Self> {
        let dir = TempDir::new().unwrap();
        let options = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "punctual-test"])
            .arg(dir.path())
            .status()
            .is_ok_and(|status| status.success());
        mounted.then_some(Small(dir))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

fn large(id: i64) -> NewTask {
    NewTask { args: Bytes::from(vec![b'1'; 900]), ..task(TaskId(id)) }
}

/// Enqueues until nothing fits; gives the first id that was refused.
async fn fill(store: &SqliteStore, first: i64) -> i64 {
    for id in first.. {
        if let Err(error) = store.enqueue(vec![large(id)]).await {
            assert_eq!(error.kind(), StoreErrorKind::Full, "{error}");
            assert!(error.to_string().contains("make room"), "{error}");
            return id;
        }
        assert!(id < 100_000, "the disk is never full");
    }
    unreachable!("the loop ends by returning")
}

async fn check(store: &SqliteStore, written: std::ops::Range<i64>) {
    for id in written {
        assert!(store.task(TaskId(id)).await.unwrap().is_some(), "task {id} was answered and is lost");
    }
}

async fn work(directory: &Path) {
    let path = directory.join("full.db");
    let ballast = directory.join("ballast");
    std::fs::write(&ballast, vec![0; 1 << 20]).unwrap();
    let open = || SqliteStore::open(path.to_str().unwrap(), config(Arc::new(SystemClock)));
    let store = open().await.unwrap();
    let first = fill(&store, 1).await;
    assert!(first > 10);
    check(&store, 1..first).await;
    assert!(store.task(TaskId(first)).await.unwrap().is_none());
    // Still no room, and still no harm.
    assert_eq!(fill(&store, first).await, first);

    std::fs::remove_file(&ballast).unwrap();
    let second = fill(&store, first).await;
    assert!(second > first, "work goes on without opening the file again");
    check(&store, 1..second).await;
    store.close().await;

    let store = open().await.unwrap();
    check(&store, 1..second).await;
    store.close().await;
    let db = rusqlite::Connection::open(&path).unwrap();
    let ok: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(ok, "ok");
}

/// On a file system of 6 MiB. Mounting one takes privileges; who has none is covered by the writer's own test, which
/// limits the pages of the file.
#[tokio::test]
async fn a_full_file_system_loses_nothing() {
    match Small::mount("6m") {
        Some(small) => work(small.0.path()).await,
        None => assert!(
            !rustix::process::geteuid().is_root() || std::env::var_os("container").is_some(),
            "root may mount, unless in a container without that right"
        ),
    }
}
