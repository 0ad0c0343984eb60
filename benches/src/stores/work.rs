//! The work of the arms, the same for every store.

use crate::stores::arm::{Measured, Outcomes};
use crate::stores::bed::{Ahead, Bed, Counted, Opened};
use anyhow::{Context as _, ensure};
use bytes::Bytes;
use punctual_clock::{Clock, Instant, SystemClock, Timestamp};
use punctual_task::schedule::Every;
use punctual_task::series::Overflow;
use punctual_task::{
    ClaimRequest, Declaration, Due, Finish, Missed, NewTask, Next, Outcome, Overlap, ScheduleSpec, SlotOutcome, Store,
    Sweep, TaskId, TaskOptions, TaskState, WorkerId, WorkerInfo,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Slots of a window, and tasks of a batch.
pub const WINDOW: u32 = 500;

/// Schedules that are materialised at once, by a caller or a connection each.
pub const LANES: u32 = 16;
const METHOD: &str = "Bench/run";
const STEP: Duration = Duration::from_millis(10);
const LEASE: Duration = Duration::from_secs(600);

/// Measures from its start to its end.
struct Watch<'a> {
    bed: &'a Bed,
    began: Instant,
    counted: Counted,
    logged: Option<u64>,
    tally: Tally,
}

/// What calls came to, on any number of lanes.
#[derive(Clone, Default)]
struct Tally(Arc<Mutex<(Duration, Option<Outcomes>)>>);

impl Tally {
    /// Adds a call that ends now.
    fn call(&self, began: Instant) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 += SystemClock.now().since(began);
    }

    /// Adds what became of slots; gives how many of them were decided by a task.
    fn outcomes<'a>(&self, slots: impl Iterator<Item = &'a SlotOutcome>) -> u32 {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = kept.1.get_or_insert_default();
        let mut decided = 0;
        for outcome in slots {
            match outcome {
                SlotOutcome::Created => all.created += 1,
                SlotOutcome::Exists => all.exists += 1,
                SlotOutcome::NotReached => all.not_reached += 1,
                _ => all.other += 1,
            }
            decided += u32::from(matches!(outcome, SlotOutcome::Created | SlotOutcome::Exists));
        }
        decided
    }
}

impl<'a> Watch<'a> {
    async fn start(bed: &'a Bed, opened: Option<&Opened>) -> anyhow::Result<Self> {
        let counted = opened.map(Opened::counted).unwrap_or_default();
        let logged = bed.logged_bytes().await?;
        Ok(Watch { bed, began: SystemClock.now(), counted, logged, tally: Tally::default() })
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    async fn end(self, opened: Option<&Opened>, count: u32) -> anyhow::Result<Measured> {
        let seconds = SystemClock.now().since(self.began).as_secs_f64();
        let each = |count_of: fn(&Counted) -> u64| {
            opened.map(|opened| (count_of(&opened.counted()) - count_of(&self.counted)) as f64 / f64::from(count))
        };
        let logged = self.bed.logged_bytes().await?.zip(self.logged);
        let (served, outcomes) = *self.tally.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Measured {
            count,
            seconds,
            served_seconds: (!served.is_zero()).then(|| served.as_secs_f64()),
            statements: each(|c| c.statements),
            commits: each(|c| c.commits),
            logged_bytes: logged.map(|(after, before)| after.saturating_sub(before) as f64 / f64::from(count)),
            outcomes,
        })
    }
}

/// A schedule that has more slots due than any arm takes.
fn spec(name: String, payload: usize, max_pending: u32, overlap: Overlap) -> ScheduleSpec {
    let args = if payload == 0 { "{}".to_owned() } else { format!("{{\"text\":\"{}\"}}", noise(payload)) };
    ScheduleSpec {
        missed: Missed::All { max_count: 1, max_age: Duration::from_secs(1 << 30), overflow: Overflow::SkipOldest },
        overlap,
        max_pending,
        late_after: ScheduleSpec::LATE_AFTER_MAX,
        ..ScheduleSpec::new(name, Every::new(STEP).into(), METHOD, Bytes::from(args))
    }
}

/// Text that does not compress well.
fn noise(len: usize) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'a' + u8::try_from(state % 26).unwrap_or(0))
    };
    (0..len).map(|_| next()).collect()
}

async fn scheduled(bed: &Bed, count: u32, payload: usize, pending: Option<u32>) -> anyhow::Result<Opened> {
    let ahead = Arc::new(Ahead::default());
    let opened = bed.open(Some(Arc::clone(&ahead))).await?;
    let overlap = if pending.is_some() { Overlap::Wait } else { Overlap::Allow };
    let max_pending = pending.unwrap_or(ScheduleSpec::MAX_PENDING_MAX);
    for number in 0..count {
        let spec = spec(format!("s{number}"), payload, max_pending, overlap);
        opened.store.declare(Declaration { spec, revision: 0 }).await?;
    }
    ahead.advance_secs(80_000);
    Ok(opened)
}

/// One sweep; gives how many slots it decided by a task.
async fn sweep(store: &dyn Store, tally: &Tally, schedules_max: u32, window_max: u32) -> anyhow::Result<u32> {
    let began = SystemClock.now();
    let report = store.materialise(Sweep { schedules_max, window_max }).await?;
    tally.call(began);
    Ok(tally.outcomes(report.schedules.iter().flat_map(|done| &done.slots).map(|(_, outcome)| outcome)))
}

async fn sweep_until(
    store: &dyn Store,
    tally: &Tally,
    schedules_max: u32,
    window_max: u32,
    count: u32,
) -> anyhow::Result<u32> {
    let mut done = 0;
    while done < count {
        let decided = sweep(store, tally, schedules_max, window_max).await?;
        ensure!(decided > 0, "a sweep decided nothing");
        done += decided;
    }
    Ok(done)
}

pub async fn windows(bed: &Bed, window: u32, count: u32, payload: usize) -> anyhow::Result<Measured> {
    let opened = scheduled(bed, 1, payload, None).await?;
    let watch = Watch::start(bed, Some(&opened)).await?;
    let done = sweep_until(&*opened.store, &watch.tally, 1, window, count).await?;
    watch.end(Some(&opened), done).await
}

/// Windows in which so many of a hundred slots are there already.
pub async fn taken(bed: &Bed, count: u32, percent: i64) -> anyhow::Result<Measured> {
    let opened = scheduled(bed, 1, 0, None).await?;
    let view = opened.store.schedule("s0".to_owned()).await?.context("the schedule")?;
    let first = view.position.cursor.context("a cursor")?.key.as_raw();
    let step = 2 * i64::try_from(STEP.as_micros())?;
    let slots: Vec<i64> = (0..i64::from(count) * 2).filter(|n| n % 100 < percent).map(|n| first + n * step).collect();
    let mut raw = bed.beside().await?;
    for slots in slots.chunks(1_000) {
        raw.take_slots(view.position.id.0, slots).await?;
    }
    drop(raw);
    let watch = Watch::start(bed, Some(&opened)).await?;
    let done = sweep_until(&*opened.store, &watch.tally, 1, WINDOW, count).await?;
    watch.end(Some(&opened), done).await
}

pub async fn lanes(bed: &Bed, count: u32, payload: usize) -> anyhow::Result<Measured> {
    let opened = scheduled(bed, LANES, payload, None).await?;
    let watch = Watch::start(bed, Some(&opened)).await?;
    let mut lanes = tokio::task::JoinSet::new();
    for _ in 0..LANES {
        let (store, tally) = (Arc::clone(&opened.store), watch.tally.clone());
        lanes.spawn(async move { sweep_until(&*store, &tally, 1, WINDOW, count.div_ceil(LANES)).await });
    }
    let mut done = 0;
    while let Some(lane) = lanes.join_next().await {
        done += lane??;
    }
    watch.end(Some(&opened), done).await
}

pub async fn sweeps(bed: &Bed, schedules_max: u32, window: u32, count: u32) -> anyhow::Result<Measured> {
    let opened = scheduled(bed, 1_000, 0, None).await?;
    let watch = Watch::start(bed, Some(&opened)).await?;
    let done = sweep_until(&*opened.store, &watch.tally, schedules_max, window, count).await?;
    watch.end(Some(&opened), done).await
}

/// A schedule that may have a window pending: its occurrences are run in batches, and it is refilled.
pub async fn steady(bed: &Bed, window: u32, count: u32) -> anyhow::Result<Measured> {
    let opened = scheduled(bed, 1, 0, Some(WINDOW)).await?;
    let store = &*opened.store;
    let worker = register(store).await?;
    let watch = Watch::start(bed, Some(&opened)).await?;
    let mut done = 0;
    while done < count {
        let refilled = sweep_until(store, &watch.tally, 1, window, WINDOW.min(count - done)).await?;
        let mut left = refilled;
        while left > 0 {
            left -= run_batch(store, worker).await?;
        }
        done += refilled;
    }
    watch.end(Some(&opened), done).await
}

async fn register(store: &dyn Store) -> anyhow::Result<WorkerId> {
    Ok(store.register(WorkerInfo { name: "bench".to_owned(), slots: WINDOW }, LEASE).await?)
}

fn request() -> ClaimRequest {
    ClaimRequest { queue: None, methods: vec![METHOD.to_owned()], limit: WINDOW, suspects: false }
}

async fn run_batch(store: &dyn Store, worker: WorkerId) -> anyhow::Result<u32> {
    let batch = store.claim(worker, request()).await?;
    ensure!(!batch.tasks.is_empty(), "nothing was claimed");
    let now = SystemClock.timestamp();
    let finishes = batch.tasks.iter().map(|task| success(task.task, task.n, now)).collect();
    store.finish(worker, finishes).await?;
    Ok(u32::try_from(batch.tasks.len())?)
}

fn success(task: TaskId, n: u32, now: Timestamp) -> Finish {
    Finish {
        task,
        n,
        started: now,
        ended: now,
        outcome: Outcome::Succeeded,
        out: Bytes::from_static(b"null"),
        next: Next::Final(TaskState::Succeeded),
    }
}

fn task(id: TaskId) -> NewTask {
    NewTask {
        id,
        method: METHOD.to_owned(),
        queue: "Bench".to_owned(),
        level: 1,
        due: Due::Now,
        args: Bytes::from_static(b"{\"n\":12345}"),
        schema: 7,
        options: TaskOptions::default(),
        key: None,
    }
}

async fn fill(store: &dyn Store, count: u32) -> anyhow::Result<()> {
    let mut left = count;
    while left > 0 {
        let batch = left.min(5_000);
        let mut ids = store.draw_ids(batch).await?;
        store.enqueue(std::iter::from_fn(|| ids.take()).map(task).collect()).await?;
        left -= batch;
    }
    Ok(())
}

/// As an engine does: the next claim goes on beside the last finish.
pub async fn drain(bed: &Bed, count: u32) -> anyhow::Result<Measured> {
    let opened = bed.open(None).await?;
    let store = &*opened.store;
    fill(store, count).await?;
    let worker = register(store).await?;
    let watch = Watch::start(bed, Some(&opened)).await?;
    let mut done = 0;
    let mut batch = store.claim(worker, request()).await?;
    while !batch.tasks.is_empty() {
        done += u32::try_from(batch.tasks.len())?;
        let now = SystemClock.timestamp();
        let finishes = batch.tasks.iter().map(|task| success(task.task, task.n, now)).collect();
        let (finished, next) = tokio::join!(store.finish(worker, finishes), store.claim(worker, request()));
        finished?;
        batch = next?;
    }
    ensure!(done == count, "{done} of {count} tasks were run");
    watch.end(Some(&opened), done).await
}

pub async fn enqueue(bed: &Bed, callers: u32, count: u32) -> anyhow::Result<Measured> {
    let opened = bed.open(None).await?;
    let mut ids = opened.store.draw_ids(count).await?;
    let watch = Watch::start(bed, Some(&opened)).await?;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..callers {
        let mine: Vec<TaskId> = std::iter::from_fn(|| ids.take()).take(usize::try_from(count / callers)?).collect();
        let store = Arc::clone(&opened.store);
        tasks.spawn(async move {
            for id in mine {
                store.enqueue(vec![task(id)]).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(caller) = tasks.join_next().await {
        caller??;
    }
    watch.end(Some(&opened), count / callers * callers).await
}

pub async fn enqueue_bulk(bed: &Bed, count: u32) -> anyhow::Result<Measured> {
    let opened = bed.open(None).await?;
    let watch = Watch::start(bed, Some(&opened)).await?;
    fill(&*opened.store, count).await?;
    watch.end(Some(&opened), count).await
}

pub async fn raw_singles(bed: &Bed, window: u32, count: u32) -> anyhow::Result<Measured> {
    let mut raw = bed.raw().await?;
    let watch = Watch::start(bed, None).await?;
    let mut done = 0;
    while done < count {
        let began = SystemClock.now();
        raw.singles(1, i64::from(done) + 1, window).await?;
        watch.tally.call(began);
        done += window;
    }
    watch.end(None, done).await
}

pub async fn raw_windows(bed: &Bed, count: u32) -> anyhow::Result<Measured> {
    let mut raw = bed.raw().await?;
    let watch = Watch::start(bed, None).await?;
    let mut done = 0;
    while done < count {
        let began = SystemClock.now();
        raw.window(i64::from(done) + 1, WINDOW).await?;
        watch.tally.call(began);
        done += WINDOW;
    }
    watch.end(None, done).await
}

/// A schedule and a connection for each lane.
pub async fn raw_lanes(bed: &Bed, count: u32) -> anyhow::Result<Measured> {
    let mut connections = vec![bed.raw().await?];
    for _ in 1..LANES {
        connections.push(bed.beside().await?);
    }
    let watch = Watch::start(bed, None).await?;
    let mut lanes = tokio::task::JoinSet::new();
    for (lane, mut raw) in (1..).zip(connections) {
        let tally = watch.tally.clone();
        lanes.spawn(async move {
            for at in 1..=i64::from(count) {
                let began = SystemClock.now();
                raw.singles(lane, lane * 10_000_000 + at, 1).await?;
                tally.call(began);
            }
            anyhow::Ok(())
        });
    }
    while let Some(lane) = lanes.join_next().await {
        lane??;
    }
    watch.end(None, count * LANES).await
}

pub async fn raw_drain(bed: &Bed, count: u32) -> anyhow::Result<Measured> {
    let mut raw = bed.raw().await?;
    raw.fill_jobs(count).await?;
    let watch = Watch::start(bed, None).await?;
    let mut done = 0;
    while done < count {
        let drained = raw.drain_jobs(WINDOW).await?;
        ensure!(drained > 0, "no job was found");
        done += drained;
    }
    watch.end(None, done).await
}

pub async fn raw_enqueue(bed: &Bed, count: u32) -> anyhow::Result<Measured> {
    let mut raw = bed.raw().await?;
    let watch = Watch::start(bed, None).await?;
    for id in 1..=i64::from(count) {
        raw.enqueue(id).await?;
    }
    watch.end(None, count).await
}
