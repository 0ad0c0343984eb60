//! Durable tasks: enqueued in bulk, run by an engine in this process.

use crate::demo::contract::{DemoServer, Handlers, demo};
use crate::demo::ledger::Ledger;
use crate::demo::report::{TaskLine, bar};
use crate::exit::Failure;
use punctual::clock::{Clock, SystemClock};
use punctual::engine::Engine;
use punctual::task::{Store, TaskId};
use std::sync::Arc;
use std::time::Duration;

/// As many tasks go to the store in one call.
const BATCH: u32 = 1_000;
const STEP: Duration = Duration::from_millis(20);
/// A run that makes no progress for this long has failed.
const STALL_MAX: Duration = Duration::from_secs(60);

/// What was enqueued, and how long it took.
#[derive(Debug)]
pub(crate) struct Tasks {
    /// Every id that the store acknowledged, with the number that it was enqueued with.
    pub(crate) acknowledged: Vec<(TaskId, u64)>,
    enqueue_seconds: f64,
    run_seconds: f64,
}

impl Tasks {
    pub(crate) fn line(&self) -> TaskLine {
        TaskLine {
            tasks: self.acknowledged.len(),
            enqueue_seconds: self.enqueue_seconds,
            run_seconds: self.run_seconds,
        }
    }
}

/// Enqueues `count` tasks, each commit acknowledged, then starts an engine and waits until all have ended.
pub(crate) async fn run(store: &Arc<dyn Store>, ledger: &Arc<Ledger>, count: u32) -> Result<Tasks, Failure> {
    let producer = Engine::builder(Arc::clone(store)).name("demo producer").start().await?;
    let mut acknowledged = Vec::new();
    let progress = bar(u64::from(count), "enqueue");
    let began = SystemClock.now();
    for first in (0..count).step_by(usize::try_from(BATCH).unwrap_or(1)) {
        let numbers = first..count.min(first.saturating_add(BATCH));
        let calls = numbers.clone().map(|number| demo::Record { number: u64::from(number) });
        let tasks = producer.enqueue_many(calls).await?;
        acknowledged.extend(tasks.iter().map(|task| task.id).zip(numbers.map(u64::from)));
        progress.inc(u64::from(BATCH));
    }
    let enqueue_seconds = SystemClock.now().since(began).as_secs_f64();
    progress.finish_and_clear();

    let progress = bar(u64::from(count), "run");
    let began = SystemClock.now();
    let handlers = DemoServer::from_arc(Handlers::new(Arc::clone(ledger)));
    let engine = Engine::builder(Arc::clone(store)).name("demo tasks").serve(handlers).start().await?;
    let (mut done, mut since) = (0, began);
    while done < u64::from(count) {
        tokio::time::sleep(STEP).await;
        let now = SystemClock.now();
        let finished = engine.stats().finished;
        if finished > done {
            (done, since) = (finished, now);
        } else if now.since(since) > STALL_MAX {
            return Err(Failure::failed(format!("{done} of {count} tasks have ended, and none for a minute")));
        }
        progress.set_position(done);
    }
    let run_seconds = SystemClock.now().since(began).as_secs_f64();
    progress.finish_and_clear();
    engine.shutdown(Duration::from_secs(5)).await;
    Ok(Tasks { acknowledged, enqueue_seconds, run_seconds })
}
