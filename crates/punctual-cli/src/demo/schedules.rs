//! Schedules in a worker process that is killed in the middle and started again after a pause.

use crate::demo::contract::demo;
use crate::demo::paths::Paths;
use crate::demo::proof::Proof;
use crate::demo::report::{ScheduleLine, bar};
use crate::demo::worker::READY;
use crate::exit::Failure;
use punctual::clock::{Clock, SystemClock};
use punctual::engine::Engine;
use punctual::task::schedule::Every;
use punctual::task::{Missed, Overflow, ScheduleCommand, ScheduleView, Store, TaskId};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Schedules of each kind of missed policy.
const OF_EACH: u32 = 10;
const STEP: Duration = Duration::from_millis(100);
/// How long the worker runs before the kill and after the pause.
const LIFE: Duration = Duration::from_secs(3);
/// Groups of tasks that become due one after another while the worker lives, dies and lives again.
const GROUPS: u32 = 100;
/// Tasks of a group.
const GROUP: u32 = 20;
/// The first slot comes this long after the declarations.
const LEAD: Duration = Duration::from_millis(500);
/// Everything that is due must have ended this long after the last slot; a lease and a rescue are the most of it.
const SETTLE_MAX: Duration = Duration::from_secs(60);

/// What was run.
#[derive(Debug)]
pub(crate) struct Schedules {
    /// The schedules as they stand at the end, paused.
    pub(crate) views: Vec<ScheduleView>,
    /// The delayed tasks that the store acknowledged.
    pub(crate) acknowledged: Vec<(TaskId, u64)>,
}

impl Schedules {
    /// A line for each missed policy.
    pub(crate) fn lines(&self, proof: &Proof) -> Vec<ScheduleLine> {
        let mut lines: Vec<ScheduleLine> = Vec::new();
        for view in &self.views {
            let policy = view.spec.name.split('-').next().unwrap_or_default();
            if lines.last().is_none_or(|line| line.policy != policy) {
                lines.push(ScheduleLine::new(policy));
            }
            if let Some(line) = lines.last_mut() {
                line.schedules += 1;
                line.created += view.position.runs;
                line.due += proof.due.get(&view.spec.name).copied().unwrap_or(0);
                for (reason, count) in &view.lost {
                    *line.lost.entry(reason.as_str().to_owned()).or_default() += count;
                }
            }
        }
        lines
    }
}

/// A worker process; killed if it is still there at the end.
struct Worker(Child);

impl Worker {
    fn start(paths: &Paths) -> Result<Self, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::failed(format!("cannot tell where this program is: {error}")))?;
        let mut command = Command::new(program);
        command.arg("demo-worker").arg("--database").arg(paths.database_url()?).arg("--ledger").arg(paths.ledger());
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let child = child.map_err(|error| Failure::failed(format!("cannot start the worker process: {error}")))?;
        let mut worker = Worker(child);
        let mut line = String::new();
        if let Some(out) = worker.0.stdout.take() {
            let _ = BufReader::new(out).read_line(&mut line);
        }
        if line.trim_end() == READY {
            return Ok(worker);
        }
        Err(Failure::failed("the worker process ended before it was ready; its message stands above"))
    }

    /// SIGKILL: no destructor runs, no buffer is flushed.
    fn kill(mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Closes its standard input and waits for it, in the background of the runtime.
    async fn stop(mut self) -> Result<(), Failure> {
        drop(self.0.stdin.take());
        let ended = tokio::task::spawn_blocking(move || self.0.wait()).await;
        match ended {
            Ok(Ok(status)) if status.success() => Ok(()),
            other => Err(Failure::failed(format!("the worker process did not stop well: {other:?}"))),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Declares the schedules, lets a worker process live, die and live again, and waits until all is settled.
pub(crate) async fn run(store: &Arc<dyn Store>, paths: &Paths, pause: Duration) -> Result<Schedules, Failure> {
    let engine = Engine::builder(Arc::clone(store)).name("demo schedules").start().await?;
    let names = declare(&engine).await?;
    let spread = LIFE + pause + LIFE;
    let mut acknowledged = Vec::new();
    for group in 0..GROUPS {
        let numbers = (0..GROUP).map(|index| u64::from(group * GROUP + index));
        let calls = numbers.clone().map(|number| demo::Record { number });
        let tasks = engine.enqueue_many(calls).delay(spread * group / GROUPS).await?;
        acknowledged.extend(tasks.iter().map(|task| task.id).zip(numbers));
    }

    let worker = Worker::start(paths)?;
    wait(LIFE, "schedules, until the kill").await;
    worker.kill();
    wait(pause, "the worker is dead").await;
    let worker = Worker::start(paths)?;
    wait(LIFE, "schedules, after the restart").await;
    for name in &names {
        let note = "the demo ends".to_owned();
        engine.steer(name.clone(), ScheduleCommand::Pause { note }).await?;
    }
    settle(store, &names).await?;
    worker.stop().await?;

    let mut views = Vec::new();
    for name in names {
        let view = store.schedule(name.clone()).await?;
        views.push(view.ok_or_else(|| Failure::failed(format!("the schedule {name} is gone")))?);
    }
    Ok(Schedules { views, acknowledged })
}

/// One kind catches up with everything that it missed, one runs only what is on time.
async fn declare(engine: &Engine) -> Result<Vec<String>, Failure> {
    let all = Missed::All { max_count: 10_000, max_age: Duration::from_secs(3600), overflow: Overflow::Halt };
    let latest = Missed::Latest { max_age: Duration::from_secs(3600) };
    // A stated first slot lets the proof name all the others by itself.
    let first = SystemClock.timestamp().after(LEAD);
    let mut names = Vec::new();
    for (policy, missed) in [("all", all), ("latest", latest)] {
        for index in 0..OF_EACH {
            let name = format!("{policy}-{index}");
            let rule = Every::new(STEP).anchor(first);
            let schedule = engine.schedule(name.clone(), rule, demo::Tick {});
            schedule.missed(missed).max_pending(200).late_after(Duration::from_secs(1)).await?;
            names.push(name);
        }
    }
    Ok(names)
}

async fn wait(time: Duration, what: &str) {
    let bar = bar(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), what);
    let began = SystemClock.now();
    while SystemClock.now().since(began) < time {
        tokio::time::sleep(STEP.min(time)).await;
        bar.set_position(u64::try_from(SystemClock.now().since(began).as_millis()).unwrap_or(u64::MAX));
    }
    bar.finish_and_clear();
}

/// Waits until nothing waits and nothing runs.
async fn settle(store: &Arc<dyn Store>, names: &[String]) -> Result<(), Failure> {
    let began = SystemClock.now();
    let bar = bar(0, "until all is settled");
    loop {
        let queues = store.queues().await?;
        let left: u64 = queues.iter().map(|queue| queue.due + queue.later + queue.running).sum();
        let mut live = 0;
        for name in names {
            live += store.schedule(name.clone()).await?.map_or(0, |view| view.live);
        }
        if left == 0 && live == 0 {
            bar.finish_and_clear();
            return Ok(());
        }
        if SystemClock.now().since(began) > SETTLE_MAX {
            return Err(Failure::failed(format!("{left} tasks have not ended a minute after the last slot")));
        }
        tokio::time::sleep(STEP).await;
        bar.tick();
    }
}
