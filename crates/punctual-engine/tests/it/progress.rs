//! What attempts say of themselves while they run, and where the next one goes on.

use crate::calls::{Oops, Step, on};
use crate::world::{SECOND, World, pass};
use punctual_engine::{Attempt, ErrorKind, TaskEnd, Verdict};
use punctual_task::{CHECKPOINT_BYTES_MAX, StoreErrorKind};
use punctual_testkit::{Fault, Op};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What many attempts say within a second is one write, and is seen while they run.
#[tokio::test(start_paused = true)]
async fn progress_is_written_in_batches() {
    let world = World::new();
    let handler = |step: Step| async move {
        let attempt = Attempt::current().unwrap();
        for percent in 0..=250_u8 {
            assert!(attempt.progress(percent, format!("step {}\n{percent}", step.n)));
        }
        tokio::time::sleep(SECOND * 10).await;
        Ok(step.n)
    };
    let engine = world.builder_with(|config| config.slots = 8).serve(on(handler)).start().await.unwrap();
    let tasks = engine.enqueue_many((1..=8).map(|n| Step { n })).await.unwrap();
    pass(SECOND * 5).await;
    for (n, task) in (1..).zip(&tasks) {
        let progress = world.detail(task.id).await.progress.unwrap();
        assert_eq!((progress.n, progress.percent, progress.checkpoint), (1, Some(100), None));
        assert_eq!(progress.message, format!("step {n} 250"));
    }
    assert_eq!(world.store.calls(Op::Report), 1);
    for task in &tasks {
        assert!(engine.wait(task).await.unwrap().succeeded().is_some());
    }
    assert_eq!(world.store.calls(Op::Report), 1, "nothing was said since");
}

/// An attempt goes on where the last one said, whether that failed, was snoozed, or was given back by a worker that stops, although
/// each said so in its last moment, and although the store failed then.
#[tokio::test(start_paused = true)]
async fn the_next_attempt_goes_on() {
    let world = World::new();
    let handler = |step: Step| async move {
        let attempt = Attempt::current().unwrap();
        let done: u64 = attempt.last_checkpoint().await.unwrap().unwrap_or(0);
        assert!(attempt.checkpoint(&(done + 1)).unwrap());
        assert_eq!(attempt.last_checkpoint().await.unwrap(), Some(done + 1), "its own, not yet written");
        match done {
            0 => Err(Oops::new(1)),
            1 => Err(Oops::with(1, Verdict::Snooze(SECOND))),
            2 => {
                punctual_context::Context::current().unwrap().cancelled().await;
                Err(Oops::new(2))
            }
            _ => Ok(step.n + done),
        }
    };
    world.store.fail_next(Op::Report, Fault::Before(StoreErrorKind::Unavailable), 2);
    world.store.fail_next(Op::Report, Fault::After(StoreErrorKind::Unavailable), 1);
    let engine = world.builder().serve(on(handler)).start().await.unwrap();
    let task = engine.enqueue(Step { n: 10 }).await.unwrap();
    pass(SECOND * 60 * 3 / 4).await;
    assert_eq!(world.detail(task.id).await.view.attempts, 3);
    engine.shutdown(SECOND).await;
    assert_eq!(world.detail(task.id).await.progress.unwrap().checkpoint.as_deref(), Some(b"3".as_slice()));
    let next = world.builder().serve(on(handler)).start().await.unwrap();
    assert_eq!(next.wait(&task).await.unwrap(), TaskEnd::Succeeded(13));
    assert_eq!(world.detail(task.id).await.progress.unwrap().checkpoint.as_deref(), Some(b"4".as_slice()));
}

/// A checkpoint that is too large or reads as something else is refused by name; an attempt that has ended says nothing more.
#[tokio::test(start_paused = true)]
async fn wrong_checkpoints_are_refused() {
    let world = World::new();
    let left = Arc::new(std::sync::OnceLock::new());
    let (kept, seen) = (Arc::clone(&left), Arc::new(AtomicU64::new(0)));
    let count = Arc::clone(&seen);
    let handler = move |_: Step| {
        let (kept, count) = (Arc::clone(&kept), Arc::clone(&count));
        async move {
            let attempt = Attempt::current().unwrap();
            let large = "x".repeat(CHECKPOINT_BYTES_MAX);
            assert_eq!(attempt.checkpoint(&large).unwrap_err().kind(), ErrorKind::Payload);
            assert!(attempt.checkpoint(&"text").unwrap());
            assert_eq!(attempt.last_checkpoint::<u64>().await.unwrap_err().kind(), ErrorKind::Payload);
            count.fetch_add(1, Ordering::Relaxed);
            drop(kept.set(attempt));
            Ok(1)
        }
    };
    let engine = world.builder().serve(on(handler)).start().await.unwrap();
    let task = engine.enqueue(Step { n: 1 }).await.unwrap();
    assert_eq!(engine.wait(&task).await.unwrap(), TaskEnd::Succeeded(1));
    let attempt: &Attempt = left.get().unwrap();
    assert!(!attempt.progress(1, "late") && !attempt.checkpoint(&1).unwrap());
    assert_eq!(attempt.last_checkpoint::<String>().await.unwrap().as_deref(), Some("text"));
    assert_eq!(seen.load(Ordering::Relaxed), 1);
    let progress = world.detail(task.id).await.progress.unwrap();
    assert_eq!((progress.percent, progress.message.as_str()), (None, ""));
}
