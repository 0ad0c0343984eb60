//! What all parts of one engine share.

use crate::breaker::Failing;
use crate::completions::{Completions, Entry};
use crate::ids::Ids;
use crate::job::Job;
use crate::lane::Lane;
use crate::lease::Lease;
use crate::methods::Methods;
use crate::observe::{ObserveAttempts, Seen};
use crate::reports::Reports;
use crate::signals::{ClaimSignals, SweepSignals};
use crate::stats::Counters;
use crate::waiters::Waiters;
use crate::work::Work;
use crate::zones::Zones;
use crate::{EngineConfig, runner};
use punctual_clock::{Clock, Entropy, Timestamp};
use punctual_context::Propagate;
use punctual_task::decide::Terms;
use punctual_task::{Claimed, Finish, FollowOn, FollowUp, NewTask, Next, Policy, Store, StoreError, TaskState};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// How far an engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    /// No new work; what runs may end.
    Draining,
    /// Everything ends now.
    Stopped,
}

/// The parts of one engine meet here.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) config: EngineConfig,
    pub(crate) name: String,
    pub(crate) methods: Methods,
    pub(crate) runtime: Handle,
    pub(crate) ids: Ids,
    pub(crate) stats: Counters,
    pub(crate) work: Work,
    pub(crate) lease: Lease,
    pub(crate) completions: Completions,
    pub(crate) claims: ClaimSignals,
    pub(crate) sweeps: SweepSignals,
    pub(crate) waiters: Waiters,
    pub(crate) reports: Reports,
    pub(crate) zones: Zones,
    pub(crate) failing: Failing,
    /// What ties spans into traces, if anything.
    pub(crate) propagator: Option<Arc<dyn Propagate>>,
    /// Who is told of recorded attempts, if anyone.
    pub(crate) observer: Option<Arc<dyn ObserveAttempts>>,
    phase: watch::Sender<Phase>,
    /// The store's clock less ours, in microseconds, as last measured.
    skew: AtomicI64,
    /// The loops and lanes, to be ended with the engine. Lanes are bounded by slots and abandoned handlers.
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Shared {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        config: EngineConfig,
        name: String,
        methods: Methods,
        runtime: Handle,
    ) -> Self {
        // A store that is slow to take finishes holds back claims after two full prefetches.
        let behind = usize::try_from(config.slots.saturating_add(config.prefetch_max.saturating_mul(2)));
        Shared {
            work: Work::new(config.slots, config.prefetch_max),
            lease: Lease::new(config.stop_after),
            completions: Completions::new(behind.unwrap_or(usize::MAX)),
            ids: Ids::default(),
            stats: Counters::default(),
            claims: ClaimSignals::default(),
            sweeps: SweepSignals::default(),
            waiters: Waiters::default(),
            reports: Reports::default(),
            zones: Zones::default(),
            failing: Failing::default(),
            propagator: None,
            observer: None,
            phase: watch::Sender::new(Phase::Running),
            skew: AtomicI64::new(0),
            tasks: Mutex::default(),
            store,
            clock,
            entropy,
            config,
            name,
            methods,
            runtime,
        }
    }

    /// The store's time, as far as it is known without asking.
    pub(crate) fn store_now(&self) -> Timestamp {
        self.store_time(self.clock.timestamp())
    }

    /// The store's time at `ours`.
    pub(crate) fn store_time(&self, ours: Timestamp) -> Timestamp {
        Timestamp::from_micros(ours.as_micros().saturating_add(self.skew.load(Ordering::Relaxed)))
    }

    /// Asks the store for its time, so that due times written here are right by its clock.
    pub(crate) async fn measure_skew(&self) -> Result<(), StoreError> {
        let before = self.clock.timestamp().as_micros();
        let theirs = self.store.now().await?.as_micros();
        let after = self.clock.timestamp().as_micros();
        let ours = before.saturating_add(after.saturating_sub(before) / 2);
        self.skew.store(theirs.saturating_sub(ours), Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Moves on to `phase`; never back.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.send_if_modified(|now| {
            let forward = phase > *now;
            if forward {
                *now = phase;
            }
            forward
        });
    }

    /// Resolves once the engine has reached `phase`.
    pub(crate) async fn reached(&self, phase: Phase) {
        let mut phases = self.phase.subscribe();
        // The sender lives in `self`: waiting cannot fail.
        let _ = phases.wait_for(|now| *now >= phase).await;
    }

    /// Sleeps, unless the engine reaches `phase` first. Gives whether it slept.
    pub(crate) async fn sleep(&self, wait: Duration, phase: Phase) -> bool {
        tokio::select! {
            biased;
            () = self.reached(phase) => false,
            () = tokio::time::sleep(wait) => true,
        }
    }

    /// Spawns [`Shared::run_loop`].
    pub(crate) fn spawn_loop<F, Fut>(self: &Arc<Self>, name: &'static str, make: F)
    where
        F: Fn(Arc<Shared>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send,
    {
        let shared = Arc::clone(self);
        let task = self.runtime.spawn(async move { shared.run_loop(name, make).await });
        self.keep(task.abort_handle());
    }

    /// Runs a part of the engine that must not end: one that panics, of itself or in a waker of the user's, is reported and
    /// begun again. The state lives here, so nothing is lost with it.
    pub(crate) async fn run_loop<F, Fut>(self: &Arc<Self>, name: &'static str, make: F)
    where
        F: Fn(Arc<Shared>) -> Fut,
        Fut: Future<Output = ()>,
    {
        loop {
            let mut part = pin!(make(Arc::clone(self)));
            let ended = poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| part.as_mut().poll(cx))) {
                Ok(poll) => poll.map(Ok),
                Err(_) => std::task::Poll::Ready(Err(())),
            })
            .await;
            if ended.is_ok() {
                return;
            }
            tracing::error!(part = name, "a part of the engine panicked, which is a bug; it begins again");
            if !self.sleep(Duration::from_secs(1), Phase::Stopped).await {
                return;
            }
        }
    }

    /// Runs lanes.
    pub(crate) fn spawn_lanes(self: &Arc<Self>, lanes: Vec<Arc<Lane>>) {
        for lane in lanes {
            lane.belongs_to(self);
            let task = self.runtime.spawn(runner::run_lane(Arc::clone(self), lane));
            self.keep(task.abort_handle());
        }
    }

    fn keep(&self, task: AbortHandle) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if self.phase() == Phase::Stopped {
            task.abort();
            return;
        }
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
    }

    /// Ends everything at once. What was claimed and not finished is left to its lease.
    pub(crate) fn stop_abruptly(&self) {
        self.enter(Phase::Stopped);
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
    }

    /// The terms of a claimed task. A method that is not served is never claimed; should a store give one, the defaults
    /// hold until it is given back.
    pub(crate) fn terms<'a>(&'a self, claimed: &'a Claimed) -> Terms<'a> {
        let policy = self.methods.get(&claimed.method).map_or(&Policy::DEFAULT, |served| &served.method.policy);
        Terms { policy, options: &claimed.options }
    }

    /// Hands a finish to the completer. Gives whether that woke it.
    pub(crate) fn complete(&self, job: &Job, finish: Finish) -> bool {
        self.complete_with(job, finish, Vec::new())
    }

    /// The same, with what its handler wants to follow.
    pub(crate) fn complete_with(&self, job: &Job, finish: Finish, follow_ups: Vec<(FollowOn, NewTask)>) -> bool {
        let (task, n) = (finish.task, finish.n);
        let follow_ups = follow_ups.into_iter().filter(|(on, _)| on.follows(finish.next));
        let follow_ups = follow_ups.map(|(on, then)| FollowUp { task, n, on, then }).collect();
        let occurrence = job.claimed.occurrence.as_ref();
        let schedule = occurrence.map(|occurrence| occurrence.schedule);
        let backfilled = occurrence.is_some_and(|occurrence| occurrence.pass > 0);
        let failed = matches!(finish.next, Next::Final(TaskState::Failed));
        let failed_of = occurrence.filter(|_| failed).map(|occurrence| occurrence.name.clone());
        let worker = job.worker;
        let seen = self.observer.is_some().then(|| {
            let claimed = &job.claimed;
            let schedule = occurrence.map(|occurrence| occurrence.name.clone());
            Box::new(Seen { method: claimed.method.clone(), queue: claimed.queue.clone(), schedule })
        });
        self.completions.push(Entry {
            finish,
            follow_ups,
            worker,
            schedule,
            failed_of,
            backfilled,
            replaced: false,
            seen,
        })
    }

    /// Counts and reports a call that the store failed.
    pub(crate) fn store_failed(&self, doing: &'static str, error: &StoreError) {
        self.stats.store_errors.add(1);
        tracing::warn!(doing, kind = ?error.kind(), %error, "the store failed");
    }
}
