//! What happens to a group when one of its members, its transaction or its commit fails.

use super::*;
use crate::tasks;
use bytes::Bytes;
use punctual_task::{Due, NewTask, TaskId, TaskOptions};
use rusqlite::ffi;
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Waker};
use tempfile::TempDir;

/// A writer and the directory of its file.
async fn writer() -> (Writer, TempDir) {
    let dir = TempDir::new().expect("a directory");
    let location = Location::File(dir.path().join("w.db"));
    // However slow the machine is: whatever is queued joins the group.
    let config = SqliteConfig { group_time: std::time::Duration::from_secs(1), ..SqliteConfig::default() };
    let writer = Writer::start(location, config, Arc::new(Counters::default())).await.expect("opens");
    (writer, dir)
}

fn task(id: i64, bytes: usize) -> NewTask {
    NewTask {
        id: TaskId(id),
        method: "Demo/run".to_owned(),
        queue: "Demo".to_owned(),
        level: 0,
        due: Due::Now,
        args: Bytes::from(vec![b'1'; bytes]),
        schema: 0,
        options: TaskOptions::default(),
        key: None,
    }
}

/// Enqueues one task.
async fn put(writer: &Writer, id: i64, bytes: usize) -> Result<(), StoreError> {
    let task = [task(id, bytes)];
    writer.run(move |session| tasks::enqueue(session, &task).map(drop)).await
}

async fn there(writer: &Writer, id: i64) -> bool {
    writer.run(move |session| tasks::read(&session.db, id).map(|task| task.is_some())).await.expect("a read")
}

/// Runs operations as one group: they are queued while the writer is held up by one before them.
macro_rules! together {
    ($writer:expr, $($operation:expr),+ $(,)?) => {{
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let held = Mutex::new(held);
        let mut holding = pin!($writer.run(move |_| {
            // The sender goes away: that is the sign to go on.
            let _ = held.lock().map(|held| held.recv());
            Ok(())
        }));
        let mut context = Context::from_waker(Waker::noop());
        assert!(holding.as_mut().poll(&mut context).is_pending());
        let mut queued = ($(Box::pin($operation)),+);
        together!(@poll queued, context, $($operation),+);
        drop(hold);
        // It is a member of the group too, and shares its fate.
        let _ = holding.await;
        queued
    }};
    (@poll $queued:ident, $context:ident, $a:expr, $b:expr, $c:expr) => {
        assert!($queued.0.as_mut().poll(&mut $context).is_pending());
        assert!($queued.1.as_mut().poll(&mut $context).is_pending());
        assert!($queued.2.as_mut().poll(&mut $context).is_pending());
    };
}

/// An operation that panics is a bug of its own; its neighbours are written and answered.
#[tokio::test]
async fn a_panic_fails_one() {
    let (writer, _dir) = writer().await;
    let (before, panics, after) = together!(
        writer,
        put(&writer, 1, 10),
        writer.run(|session: &mut Session| -> Done<()> {
            tasks::enqueue(session, &[task(2, 10)])?;
            panic!("on purpose")
        }),
        put(&writer, 3, 10),
    );
    before.await.expect("written");
    let error = panics.await.expect_err("it panicked");
    assert_eq!(error.kind(), StoreErrorKind::Bug);
    assert!(error.to_string().contains("on purpose"), "{error}");
    after.await.expect("written");
    assert_eq!([there(&writer, 1).await, there(&writer, 2).await, there(&writer, 3).await], [true, false, true]);
}

/// If SQLite gives up the whole transaction under one member, as it may when the disk is full, the others are run again.
#[tokio::test]
async fn a_lost_transaction_is_run_again() {
    let (writer, _dir) = writer().await;
    let (before, loses, after) = together!(
        writer,
        put(&writer, 1, 10),
        writer.run(|session: &mut Session| -> Done<()> {
            tasks::enqueue(session, &[task(2, 10)])?;
            session.db.conn().execute_batch("ROLLBACK")?;
            Err(Fault::Sql(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_FULL), None)))
        }),
        put(&writer, 3, 10),
    );
    before.await.expect("written after all");
    assert_eq!(loses.await.expect_err("no room").kind(), StoreErrorKind::Full);
    after.await.expect("written");
    assert_eq!([there(&writer, 1).await, there(&writer, 2).await, there(&writer, 3).await], [true, false, true]);
}

/// After a failure of the disk nobody of the group is told that anything is written, and the connection is opened again.
#[tokio::test]
async fn a_failing_disk_is_opened_again() {
    let (writer, _dir) = writer().await;
    let (before, fails, after) = together!(
        writer,
        put(&writer, 1, 10),
        writer.run(|_: &mut Session| -> Done<()> {
            Err(Fault::Sql(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR), None)))
        }),
        put(&writer, 3, 10),
    );
    assert_eq!(before.await.expect_err("unknown").kind(), StoreErrorKind::Unavailable);
    assert_eq!(fails.await.expect_err("the disk").kind(), StoreErrorKind::Unavailable);
    after.await.expect("written by the new connection");
    assert_eq!([there(&writer, 1).await, there(&writer, 3).await], [false, true]);
}

/// A disk that fails already where a group begins, or where one member is run again by itself, is opened again too.
#[tokio::test]
async fn a_disk_that_fails_early_is_opened_again() {
    let dir = TempDir::new().expect("a directory");
    let session = Session::open(Location::File(dir.path().join("w.db")), SqliteConfig::default()).expect("opens");
    let (_queue, queued) = mpsc::channel(1);
    let mut writer = Loop { session, queued, ahead: VecDeque::new(), counters: Arc::default() };
    let ioerr = || Fault::Sql(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR), None));
    let since = writer.session.config().clock.now();
    let opened = |writer: &mut Loop| {
        // A pragma of the connection: it is gone with it.
        let mark: i64 =
            writer.session.db.conn().pragma_query_value(None, "cache_size", |row| row.get(0)).expect("a pragma");
        writer.session.db.conn().pragma_update(None, "cache_size", 7).expect("a pragma");
        mark != 7
    };
    assert!(opened(&mut writer) && !opened(&mut writer));

    let (caller, answer) = oneshot::channel();
    let work = Box::new(Call { run: |_: &mut Session| Ok(()), result: None, caller });
    writer.refuse(Queued { work, since }, ioerr());
    assert_eq!(answer.await.expect("an answer").expect_err("the disk").kind(), StoreErrorKind::Unavailable);
    writer.session.begin().expect("begins");
    writer.session.commit().expect("commits");
    assert!(opened(&mut writer), "after a group that could not begin");

    let (caller, answer) = oneshot::channel();
    let work = Box::new(Call { run: move |_: &mut Session| -> Done<()> { Err(ioerr()) }, result: None, caller });
    writer.one_by_one(vec![Member { work, outcome: Ok(()) }]);
    assert_eq!(answer.await.expect("an answer").expect_err("the disk").kind(), StoreErrorKind::Unavailable);
    writer.session.begin().expect("begins");
    assert!(opened(&mut writer), "after a member that failed alone");
}

/// No room: the large one fails with that reason, the small ones beside it are written, and with room it is written too.
#[tokio::test]
async fn a_full_disk_fails_what_does_not_fit() {
    let (writer, _dir) = writer().await;
    put(&writer, 1, 10).await.expect("written");
    let limit = |pages: i64| {
        writer.run(move |session| {
            let pages_now: i64 = session.db.conn().pragma_query_value(None, "page_count", |row| row.get(0))?;
            session.db.conn().pragma_update_and_check(None, "max_page_count", pages_now + pages, |_| Ok(()))?;
            Ok(())
        })
    };
    limit(20).await.expect("a limit");
    let (before, large, after) = together!(writer, put(&writer, 2, 10), put(&writer, 3, 1 << 20), put(&writer, 4, 10));
    before.await.expect("it fits");
    let error = large.await.expect_err("it does not fit");
    assert_eq!(error.kind(), StoreErrorKind::Full);
    assert!(error.is_retryable() && error.to_string().contains("make room"), "{error}");
    after.await.expect("it fits");
    assert!(!there(&writer, 3).await);
    // Small ones, until nothing fits any more: all that were answered are there.
    let mut id = 100;
    while put(&writer, id, 900).await.is_ok() {
        id += 1;
        assert!(id < 1_000, "the limit does not hold");
    }
    for written in 100..id {
        assert!(there(&writer, written).await, "task {written}");
    }
    limit(10_000).await.expect("room");
    put(&writer, 3, 1 << 20).await.expect("there is room now");
    assert!(there(&writer, 3).await && there(&writer, 4).await);
}

/// Closing waits until the file is closed: it can be opened again at once, and everything is in it.
#[tokio::test]
async fn closing_finishes_what_was_asked() {
    let (writer, dir) = writer().await;
    put(&writer, 1, 10).await.expect("written");
    writer.close().await;
    let again =
        Writer::start(Location::File(dir.path().join("w.db")), SqliteConfig::default(), Arc::new(Counters::default()));
    let again = again.await.expect("opens");
    assert!(there(&again, 1).await);
}
