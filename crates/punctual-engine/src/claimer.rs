//! Claims due tasks for the lanes, as many as they and a small queue can take; gives back what cannot be run here; and
//! compares memory with the store. One loop does all three, so that none of them sees another half done.

mod reconcile;

use crate::job::Job;
use crate::pacing::{Pace, jittered};
use crate::shared::{Phase, Shared};
use crate::span;
use crate::work::Ask;
use punctual_clock::{Instant, Timestamp};
use punctual_task::{ClaimBatch, ClaimRequest, StoreError, StoreErrorKind, WorkerId};
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

/// A worker whose slots are all busy keeps one for a suspect this often.
const SUSPECTS_EVERY: Duration = Duration::from_secs(1);
/// The speed of a worker that claims nothing is looked at this often.
const SPEED_EVERY: Duration = Duration::from_secs(1);
/// The first wait after a claim that found nothing although something should be due: the clocks differ a little.
const EARLY_FIRST: Duration = Duration::from_millis(2);

/// Runs until the engine stops. While it drains, nothing is claimed, but what comes back is still given back.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut claimer = Claimer::new(&shared);
    loop {
        let wait = claimer.turn(&shared).await;
        let draining = shared.phase() >= Phase::Draining;
        let next_phase = if draining { Phase::Stopped } else { Phase::Draining };
        tokio::select! {
            biased;
            () = shared.reached(next_phase) => if draining { return },
            () = shared.claims.wake.notified() => {}
            () = shared.work.room.notified() => {}
            () = shared.completions.caught_up.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

#[derive(Debug)]
struct Claimer {
    methods: Vec<String>,
    /// Which of the configured queues is asked next.
    queue_next: usize,
    pace: Pace,
    /// No claim before this, after an error.
    not_before: Option<Instant>,
    /// When the store is asked again although nothing says that it has work. `None` while it is known to have some.
    look_at: Option<Instant>,
    early: Duration,
    suspects_asked: Instant,
    measured_at: Instant,
    measured_ended: u64,
}

impl Claimer {
    fn new(shared: &Shared) -> Self {
        let now = shared.clock.now();
        Claimer {
            methods: shared.methods.names(),
            queue_next: 0,
            pace: Pace::default(),
            not_before: None,
            look_at: None,
            early: EARLY_FIRST,
            suspects_asked: now,
            measured_at: now,
            measured_ended: 0,
        }
    }

    /// Does what there is to do, and gives how long to wait for more.
    async fn turn(&mut self, shared: &Arc<Shared>) -> Duration {
        loop {
            let now = shared.clock.now();
            if let Some(at) = self.not_before {
                if now < at {
                    return at.since(now);
                }
                self.not_before = None;
            }
            let Some(worker) = shared.lease.worker() else { return shared.config.renewal };
            if let Err(error) = self.settle(shared, worker).await {
                return self.failed(shared, worker, "giving back tasks", &error);
            }
            if shared.phase() >= Phase::Draining || shared.lease.claimable(now).is_none() {
                return shared.config.poll;
            }
            self.give_back_surplus(shared, now);
            if !self.should_look(shared, now) {
                return self.look_at.map_or(shared.config.poll, |at| at.since(now));
            }
            if shared.completions.is_behind() {
                return shared.config.poll;
            }
            self.measure(shared, now);
            let Some(ask) = shared.work.ask(now.since(self.suspects_asked) >= SUSPECTS_EVERY) else {
                return SUSPECTS_EVERY;
            };
            match self.claim(shared, worker, ask).await {
                Ok(batch) => self.claimed(shared, worker, ask, batch),
                Err(error) => {
                    let lanes = shared.work.deliver(Vec::new(), ask, &shared.clock);
                    shared.spawn_lanes(lanes);
                    // Whether the claim was written is not known.
                    shared.claims.reconcile();
                    return self.failed(shared, worker, "claiming tasks", &error);
                }
            }
        }
    }

    fn failed(&mut self, shared: &Shared, worker: WorkerId, doing: &'static str, error: &StoreError) -> Duration {
        shared.store_failed(doing, error);
        if error.kind() == StoreErrorKind::Fenced {
            shared.lease.refused(worker);
        }
        let wait = self.pace.failed(&*shared.entropy);
        self.not_before = Some(shared.clock.now().after(wait));
        wait
    }

    /// Whether the store may have work: it was left with some, somebody said so, or it is time to poll.
    fn should_look(&mut self, shared: &Shared, now: Instant) -> bool {
        if shared.claims.take_look() || shared.work.owes_suspects() {
            self.look_at = None;
        }
        if let Some(due) = shared.claims.take_due() {
            let at = now.after(due.since(shared.store_now()));
            self.look_at = self.look_at.map(|look| look.min(at));
        }
        self.look_at.is_none_or(|at| now >= at)
    }

    /// Sizes the queue in memory by the speed since the last look.
    fn measure(&mut self, shared: &Shared, now: Instant) {
        let ended = shared.work.ended();
        if ended == self.measured_ended && now.since(self.measured_at) < SPEED_EVERY {
            return;
        }
        shared.work.set_speed(ended - self.measured_ended, now.since(self.measured_at));
        self.measured_ended = ended;
        self.measured_at = now;
    }

    /// Gives back what will not start soon after all.
    fn give_back_surplus(&mut self, shared: &Shared, now: Instant) {
        if now.since(self.measured_at) < SPEED_EVERY {
            return;
        }
        self.measure(shared, now);
        for job in shared.work.take_surplus() {
            shared.claims.give_back(&job);
        }
    }

    async fn claim(&mut self, shared: &Shared, worker: WorkerId, ask: Ask) -> Result<ClaimBatch, StoreError> {
        if ask.suspects {
            self.suspects_asked = shared.clock.now();
        }
        let request =
            |queue| ClaimRequest { queue, methods: self.methods.clone(), limit: ask.limit, suspects: ask.suspects };
        let queues = &shared.config.queues;
        if queues.is_empty() {
            shared.stats.claims.add(1);
            return claim(shared, worker, request(None)).await;
        }
        // One after another, beginning with another each time, until one has something.
        let mut found = ClaimBatch::default();
        for step in 0..queues.len() {
            let at = (self.queue_next + step) % queues.len();
            shared.stats.claims.add(1);
            let batch = claim(shared, worker, request(queues.get(at).cloned())).await?;
            found.next_due = earlier(found.next_due, batch.next_due);
            if !batch.tasks.is_empty() {
                found.tasks = batch.tasks;
                // The queues behind this one were not asked: they may have work too.
                found.next_due = Some(Timestamp::MIN);
                self.queue_next = at + 1;
                break;
            }
        }
        Ok(found)
    }

    /// Hands the tasks to the lanes and decides when to ask again.
    fn claimed(&mut self, shared: &Arc<Shared>, worker: WorkerId, ask: Ask, batch: ClaimBatch) {
        self.pace.succeeded();
        let count = batch.tasks.len();
        shared.stats.claimed.add(count);
        let jobs = batch.tasks.into_iter().map(|claimed| Arc::new(Job { claimed, worker })).collect();
        let lanes = shared.work.deliver(jobs, ask, &shared.clock);
        shared.spawn_lanes(lanes);

        let now = shared.clock.now();
        let until_due = batch.next_due.map(|due| due.since(shared.store_now()));
        self.look_at = match until_due {
            Some(Duration::ZERO) if count > 0 => {
                self.early = EARLY_FIRST;
                None
            }
            // It should be due and was not given: our idea of the store's time is ahead, or another worker was faster.
            Some(Duration::ZERO) => {
                let wait = self.early;
                self.early = (self.early * 2).min(shared.config.poll_busy);
                Some(now.after(wait))
            }
            until_due => {
                self.early = EARLY_FIRST;
                let poll = if count > 0 { shared.config.poll_busy } else { shared.config.poll };
                let poll = jittered(poll, &*shared.entropy);
                // Timers fire by the millisecond: one more is on the safe side of the due instant.
                let due = until_due.map_or(poll, |due| due + Duration::from_millis(1));
                Some(now.after(due.min(poll)))
            }
        };
    }
}

async fn claim(shared: &Shared, worker: WorkerId, request: ClaimRequest) -> Result<ClaimBatch, StoreError> {
    let span = span::claim();
    let batch = shared.store.claim(worker, request).instrument(span.clone()).await?;
    span::claimed(&span, batch.tasks.len());
    Ok(batch)
}

fn earlier(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
