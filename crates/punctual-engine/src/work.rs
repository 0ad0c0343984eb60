//! What this worker holds and has not finished: a short queue of claimed tasks, and the lanes that run them.
//!
//! ```text
//!  claimer ──deliver──▶ queue ──┐
//!                               ├─next─▶ lane (busy) ──end──▶ completer
//!                    suspects ──┘
//! ```
//! One lock guards all of it. A lane takes it once a task, in the call that ends the last and asks for the next; wakers
//! run after it is released.
//!
//! Suspects never wait behind others: the claimer asks for one only while a slot is reserved for it (or idle), and it is
//! taken before the queue. While the gate is paused (the lease is in doubt) lanes start nothing; once it is closed
//! (shutdown) they end.

use crate::job::Job;
use crate::lane::Lane;
use punctual_clock::Clock;
use punctual_task::{TaskId, WorkerId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{self, Poll, Waker};
use std::time::Duration;
use tokio::sync::Notify;

/// So much work may wait in memory, by the speed of late: what will start within this time anyway.
const PREFETCH_HORIZON: Duration = Duration::from_millis(100);

/// Whether lanes start attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    Paused,
    Closed,
}

/// The queue and the lanes.
#[derive(Debug)]
pub(crate) struct Work {
    slots: usize,
    prefetch_max: usize,
    state: Mutex<State>,
    /// Wakes the claimer: there is room again.
    pub(crate) room: Notify,
    /// Told when the last running attempt ends.
    quiet: Notify,
}

#[derive(Debug)]
struct State {
    gate: Gate,
    queue: VecDeque<Arc<Job>>,
    suspects: VecDeque<Arc<Job>>,
    lanes: BTreeMap<u64, Arc<Lane>>,
    lanes_made: u64,
    /// Lanes that wait for a job. The one that parked last is woken first: its memory is warm.
    idle: BTreeMap<u64, Waker>,
    busy: usize,
    suspects_busy: usize,
    /// A slot is kept free for a suspect that is being asked for.
    reserved: bool,
    /// How many jobs may wait in the queue.
    prefetch: usize,
    /// The claimer waits for room and is to be told, once.
    claimer_waits: bool,
    /// The last claim did not ask for suspects, or gave one: there may be others.
    suspects_owed: bool,
    /// The claimer was told that it can ask for them now.
    owed_told: bool,
    /// Attempts ended since the start.
    ended: u64,
}

/// What the claimer may ask the store for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) limit: u32,
    pub(crate) suspects: bool,
}

impl Work {
    pub(crate) fn new(slots: u32, prefetch_max: u32) -> Self {
        let slots = usize::try_from(slots).unwrap_or(usize::MAX);
        let prefetch_max = usize::try_from(prefetch_max).unwrap_or(usize::MAX);
        let state = State {
            gate: Gate::Open,
            queue: VecDeque::new(),
            suspects: VecDeque::new(),
            lanes: BTreeMap::new(),
            lanes_made: 0,
            idle: BTreeMap::new(),
            busy: 0,
            suspects_busy: 0,
            reserved: false,
            prefetch: 0,
            claimer_waits: false,
            suspects_owed: false,
            owed_told: false,
            ended: 0,
        };
        Work { slots, prefetch_max, state: Mutex::new(state), room: Notify::new(), quiet: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What may be claimed now, or `None`: then [`Work::room`] tells when that changes. `suspects_due` says that
    /// suspects have not been asked for in a while, so that a busy worker keeps its next free slot for one.
    pub(crate) fn ask(&self, suspects_due: bool) -> Option<Ask> {
        let mut state = self.lock();
        if state.gate != Gate::Open {
            return None;
        }
        let idle = self.slots.saturating_sub(state.busy);
        let may = state.suspects.is_empty() && state.suspects_busy == 0;
        let suspects = may && idle > 0 && (state.reserved || state.queue.len() < idle);
        // With a slot idle that waits for nothing there is nothing to keep: the claim would only run one task less.
        state.reserved = may && (suspects || (suspects_due && idle == 0));
        let held = state.queue.len() + state.suspects.len() + state.busy;
        let room = (self.slots + state.prefetch).saturating_sub(held);
        // Refill at half: small claims would cost a commit each.
        let limit = if state.queue.len() > state.prefetch / 2 { 0 } else { room };
        if limit == 0 && !suspects {
            state.claimer_waits = true;
            return None;
        }
        state.suspects_owed = !suspects;
        state.owed_told = false;
        Some(Ask { limit: u32::try_from(limit.max(1)).unwrap_or(u32::MAX), suspects })
    }

    /// Takes what the claim that `asked` gave, also nothing. Gives the new lanes that somebody must run.
    pub(crate) fn deliver(&self, jobs: Vec<Arc<Job>>, asked: Ask, clock: &Arc<dyn Clock>) -> Vec<Arc<Lane>> {
        let mut state = self.lock();
        if asked.suspects {
            state.reserved = false;
        }
        for job in jobs {
            if job.is_suspect() {
                state.suspects_owed = true;
                state.suspects.push_back(job);
            } else {
                state.queue.push_back(job);
            }
        }
        let waiting = state.queue.len() + state.suspects.len();
        let wakers = state.wake_idle(waiting);
        let missing = waiting.saturating_sub(wakers.len()).min(self.slots.saturating_sub(state.lanes.len()));
        let lanes = (0..missing).map(|_| state.new_lane(clock)).collect();
        drop(state);
        wake_all(wakers);
        lanes
    }

    /// The next job of a lane, or `None` when it is to end. What the lane held until now has ended. `woke` is set if the
    /// claimer was woken.
    pub(crate) fn poll_next(&self, lane: &Lane, woke: &mut bool, cx: &mut task::Context<'_>) -> Poll<Option<Arc<Job>>> {
        let mut state = self.lock();
        if let Some(done) = lane.release() {
            state.end(done.is_suspect());
            if state.busy == 0 {
                self.quiet.notify_waiters();
            }
        }
        let job = match state.gate {
            Gate::Closed => {
                state.lanes.remove(&lane.number);
                return Poll::Ready(None);
            }
            Gate::Paused => None,
            Gate::Open => state.take(self.slots),
        };
        let tell = state.tell_claimer(self.slots);
        match &job {
            Some(job) => {
                // A poll that nobody asked for comes while the lane still waits: its waker is needed no more, and would
                // be spent in place of one of a lane that has nothing to do.
                state.idle.remove(&lane.number);
                lane.assign(Arc::clone(job));
            }
            None => {
                state.idle.insert(lane.number, cx.waker().clone());
            }
        }
        drop(state);
        if tell {
            *woke = true;
            self.room.notify_one();
        }
        job.map_or(Poll::Pending, |job| Poll::Ready(Some(job)))
    }

    /// Takes a lane's job back, since it must not start now, and pauses: the lease is in doubt.
    pub(crate) fn put_back(&self, lane: &Lane) {
        let mut state = self.lock();
        let Some(job) = lane.release() else { return };
        state.busy = state.busy.saturating_sub(1);
        if job.is_suspect() {
            state.suspects_busy = state.suspects_busy.saturating_sub(1);
            state.suspects.push_front(job);
        } else {
            state.queue.push_front(job);
        }
        if state.gate == Gate::Open {
            state.gate = Gate::Paused;
        }
        if state.busy == 0 {
            self.quiet.notify_waiters();
        }
    }

    /// Replaces a lane whose thread a handler blocks for ever. Gives the lane that somebody must run.
    pub(crate) fn replace(&self, lane: &Lane, suspect: bool, clock: &Arc<dyn Clock>) -> Option<Arc<Lane>> {
        let mut state = self.lock();
        state.lanes.remove(&lane.number)?;
        state.end(suspect);
        if state.busy == 0 {
            self.quiet.notify_waiters();
        }
        (state.gate != Gate::Closed).then(|| state.new_lane(clock))
    }

    /// Lanes start nothing until [`Work::resume`].
    pub(crate) fn pause(&self) {
        let mut state = self.lock();
        if state.gate == Gate::Open {
            state.gate = Gate::Paused;
        }
    }

    /// Lanes start again.
    pub(crate) fn resume(&self) {
        let mut state = self.lock();
        if state.gate != Gate::Paused {
            return;
        }
        state.gate = Gate::Open;
        let waiting = state.queue.len() + state.suspects.len();
        let wakers = state.wake_idle(waiting);
        drop(state);
        wake_all(wakers);
        self.room.notify_one();
    }

    /// Lanes end as soon as they have nothing to run. Gives what waited for one.
    pub(crate) fn close(&self) -> Vec<Arc<Job>> {
        let mut state = self.lock();
        state.gate = Gate::Closed;
        let jobs = state.take_waiting(|_| true);
        let wakers = state.wake_idle(usize::MAX);
        drop(state);
        wake_all(wakers);
        self.room.notify_one();
        jobs
    }

    /// Takes jobs that wait for a lane.
    pub(crate) fn take_waiting(&self, which: impl Fn(&Job) -> bool) -> Vec<Arc<Job>> {
        self.lock().take_waiting(which)
    }

    /// Takes what waits beyond what will start soon, from the back: slow tasks came behind fast ones, and other workers
    /// may be free.
    pub(crate) fn take_surplus(&self) -> Vec<Arc<Job>> {
        let mut state = self.lock();
        if state.queue.len() <= state.prefetch * 2 {
            return Vec::new();
        }
        let keep = state.prefetch;
        state.queue.split_off(keep).into()
    }

    /// The lanes that there are now.
    pub(crate) fn lanes(&self) -> Vec<Arc<Lane>> {
        self.lock().lanes.values().cloned().collect()
    }

    /// What is held, waiting or running: task, attempt, fence.
    pub(crate) fn held(&self) -> Vec<(TaskId, u32, WorkerId)> {
        let (mut held, lanes) = {
            let state = self.lock();
            let waiting: Vec<_> = state.queue.iter().chain(&state.suspects).map(|job| key(job)).collect();
            (waiting, state.lanes.values().cloned().collect::<Vec<_>>())
        };
        held.extend(lanes.into_iter().filter_map(|lane| lane.job().map(|job| key(&job))));
        held
    }

    /// Resolves once no attempt runs.
    pub(crate) async fn quiet(&self) {
        loop {
            let told = self.quiet.notified();
            tokio::pin!(told);
            // Registered before the look, so that an end between look and wait is not missed.
            told.as_mut().enable();
            if self.lock().busy == 0 {
                return;
            }
            told.await;
        }
    }

    /// Attempts ended since the start.
    pub(crate) fn ended(&self) -> u64 {
        self.lock().ended
    }

    /// Whether there may be suspects that could be asked for now, and were not.
    pub(crate) fn owes_suspects(&self) -> bool {
        self.lock().can_ask_for_owed(self.slots)
    }

    /// Lets as many jobs wait as will start within 100 ms, at the speed of `ended` attempts in `elapsed`.
    pub(crate) fn set_speed(&self, ended: u64, elapsed: Duration) {
        let prefetch = prefetch(ended, elapsed, self.prefetch_max);
        self.lock().prefetch = prefetch;
    }
}

fn key(job: &Job) -> (TaskId, u32, WorkerId) {
    (job.claimed.task, job.claimed.n, job.worker)
}

/// How many jobs may wait at the speed of `ended` attempts in `elapsed`.
fn prefetch(ended: u64, elapsed: Duration, max: usize) -> usize {
    let elapsed = elapsed.max(Duration::from_micros(1)).as_nanos();
    let soon = u128::from(ended) * PREFETCH_HORIZON.as_nanos() / elapsed;
    usize::try_from(soon).unwrap_or(usize::MAX).min(max)
}

impl State {
    fn take(&mut self, slots: usize) -> Option<Arc<Job>> {
        let suspect = if self.suspects_busy == 0 && self.busy < slots { self.suspects.pop_front() } else { None };
        let job = match suspect {
            Some(job) => {
                self.suspects_busy += 1;
                Some(job)
            }
            None if self.busy + usize::from(self.reserved) < slots => self.queue.pop_front(),
            None => None,
        };
        self.busy += usize::from(job.is_some());
        job
    }

    fn end(&mut self, suspect: bool) {
        self.busy = self.busy.saturating_sub(1);
        self.ended += 1;
        if suspect {
            self.suspects_busy = self.suspects_busy.saturating_sub(1);
        }
    }

    /// Whether the claimer is to be told that there is something to ask for; once each time it waits.
    fn tell_claimer(&mut self, slots: usize) -> bool {
        let room = self.queue.len() + self.suspects.len() + self.busy < slots + self.prefetch;
        let refill = room && self.queue.len() <= self.prefetch / 2;
        let waited = self.claimer_waits && (refill || (self.reserved && self.busy < slots));
        let owed = !self.owed_told && self.can_ask_for_owed(slots);
        self.claimer_waits &= !waited;
        self.owed_told |= owed;
        waited || owed
    }

    fn can_ask_for_owed(&self, slots: usize) -> bool {
        let idle = slots.saturating_sub(self.busy);
        self.suspects_owed && self.suspects_busy == 0 && self.suspects.is_empty() && self.queue.len() < idle
    }

    fn wake_idle(&mut self, count: usize) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while wakers.len() < count
            && let Some((_, waker)) = self.idle.pop_last()
        {
            wakers.push(waker);
        }
        wakers
    }

    fn new_lane(&mut self, clock: &Arc<dyn Clock>) -> Arc<Lane> {
        self.lanes_made += 1;
        let lane = Arc::new(Lane::new(self.lanes_made, Arc::clone(clock)));
        self.lanes.insert(lane.number, Arc::clone(&lane));
        lane
    }

    fn take_waiting(&mut self, which: impl Fn(&Job) -> bool) -> Vec<Arc<Job>> {
        let mut taken = Vec::new();
        for jobs in [&mut self.queue, &mut self.suspects] {
            let (take, keep): (VecDeque<_>, VecDeque<_>) = std::mem::take(jobs).into_iter().partition(|job| which(job));
            *jobs = keep;
            taken.extend(take);
        }
        taken
    }
}

fn wake_all(wakers: Vec<Waker>) {
    for waker in wakers {
        waker.wake();
    }
}

#[cfg(test)]
mod tests;
