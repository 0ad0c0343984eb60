//! Keeps the registration: renews the lease, stops handlers in time when that fails, registers again after being fenced.
//!
//! ```text
//!            renewed                     refused
//!  ┌──────┐ ◀───────── ┌──────────┐ ──────────────▶ ┌──────┐
//!  │ good │            │ doubtful │                 │ lost │ registers again ─▶ good, with a new fence
//!  └──────┘ ─────────▶ └──────────┘                 └──────┘
//!           10 s after    handlers stopped,           queue dropped,
//!           the last      nothing starts              handlers stopped
//!           good sending
//! ```
//! It runs on a thread of its own where the configuration allows, since a handler that blocks the runtime must not cost
//! the lease.

use crate::pacing::{Pace, jittered};
use crate::shared::{Phase, Shared};
use crate::{Error, ErrorKind, OnDoubt};
use punctual_clock::Instant;
use punctual_context::CancelReason;
use punctual_task::{Renewal, StoreError, StoreErrorKind, WorkerId, WorkerInfo};
use std::sync::Arc;
use std::time::Duration;

/// Every so many renewals, memory is compared with the store and its clock is measured anew.
const COMPARE_EVERY: u64 = 10;
/// After a failed renewal the next is tried this soon: the lease allows few tries.
const RETRY: Duration = Duration::from_millis(500);

/// Registers for the first time.
pub(crate) async fn register(shared: &Shared) -> Result<WorkerId, StoreError> {
    let sent = shared.clock.now();
    let info = WorkerInfo { name: shared.name.clone(), slots: shared.config.slots };
    let worker = shared.store.register(info, shared.config.lease).await?;
    shared.lease.registered(worker, sent);
    Ok(worker)
}

/// Begins the keeper, on its own thread or on the runtime.
pub(crate) fn spawn(shared: &Arc<Shared>) -> Result<(), Error> {
    if !shared.config.lease_thread {
        shared.spawn_loop("keeper", |shared| async move { run(&shared).await });
        return Ok(());
    }
    let refuse = |error: std::io::Error| {
        Error::new(
            ErrorKind::Config,
            format!("the lease needs a thread of its own, which cannot be had: {error}; set lease_thread to false"),
        )
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(refuse)?;
    let kept = Arc::clone(shared);
    let body = move || runtime.block_on(kept.run_loop("keeper", |shared| async move { run(&shared).await }));
    std::thread::Builder::new().name("punctual-lease".to_owned()).spawn(body).map_err(refuse)?;
    Ok(())
}

/// Runs until the engine stops.
async fn run(shared: &Arc<Shared>) {
    let mut beats: u64 = 0;
    let mut next = shared.clock.now().after(shared.config.renewal);
    loop {
        if !wait_until(shared, next).await {
            return;
        }
        let Some(worker) = shared.lease.worker() else {
            if !register_again(shared).await {
                return;
            }
            next = shared.clock.now().after(shared.config.renewal);
            continue;
        };
        let sent = shared.clock.now();
        let wait = match renew(shared, worker).await {
            Some(Ok(renewal)) => {
                renewed(shared, worker, sent, &renewal);
                beats += 1;
                if beats.is_multiple_of(COMPARE_EVERY) {
                    compare(shared).await;
                }
                shared.config.renewal
            }
            Some(Err(error)) if error.kind() == StoreErrorKind::Fenced => {
                fenced(shared, worker);
                Duration::ZERO
            }
            Some(Err(error)) => {
                shared.store_failed("renewing the lease", &error);
                shared.lease.renewal_failed();
                jittered(RETRY.min(shared.config.renewal), &*shared.entropy)
            }
            None => {
                tracing::warn!("a renewal of the lease got no answer in time");
                shared.lease.renewal_failed();
                Duration::ZERO
            }
        };
        shared.abandon_blocked();
        next = sent.after(wait).max(shared.clock.now());
    }
}

/// Sleeps until `next`, stopping handlers on the way if the lease comes into doubt. Ends early when somebody saw the
/// fence refused. Gives whether the engine still runs.
async fn wait_until(shared: &Arc<Shared>, next: Instant) -> bool {
    loop {
        let now = shared.clock.now();
        if shared.lease.doubt(now) {
            doubt(shared);
        }
        if shared.lease.is_refused() {
            if let Some(worker) = shared.lease.worker() {
                fenced(shared, worker);
            }
            return true;
        }
        if now >= next {
            return shared.phase() < Phase::Stopped;
        }
        let until = shared.lease.doubt_at().map_or(next, |at| at.min(next));
        tokio::select! {
            biased;
            () = shared.reached(Phase::Stopped) => return false,
            () = shared.lease.lost.notified() => {}
            () = tokio::time::sleep(until.since(now)) => {}
        }
    }
}

/// Renews, and stops handlers if the lease comes into doubt meanwhile. `None` if no answer came within one renewal's
/// time: a connection that is dead without saying so must not hold up the next try.
async fn renew(shared: &Arc<Shared>, worker: WorkerId) -> Option<Result<Renewal, StoreError>> {
    let mut reply = shared.store.renew(worker, shared.config.lease);
    let give_up = shared.clock.now().after(shared.config.renewal);
    loop {
        let now = shared.clock.now();
        if shared.lease.doubt(now) {
            doubt(shared);
        }
        if now >= give_up {
            return None;
        }
        let until = shared.lease.doubt_at().map_or(give_up, |at| at.min(give_up));
        tokio::select! {
            biased;
            result = &mut reply => return Some(result),
            () = shared.reached(Phase::Stopped) => return None,
            () = tokio::time::sleep(until.since(now)) => {}
        }
    }
}

fn renewed(shared: &Shared, worker: WorkerId, sent: Instant, renewal: &Renewal) {
    shared.stats.renewals.add(1);
    if shared.lease.renewed(worker, sent) {
        tracing::info!("the lease holds again");
        shared.claims.reconcile();
    }
    shared.work.resume();
    shared.cancel_held(&renewal.cancel);
}

async fn compare(shared: &Shared) {
    shared.claims.reconcile();
    let limit = tokio::time::sleep(shared.config.renewal);
    tokio::select! {
        biased;
        result = shared.measure_skew() => {
            if let Err(error) = result {
                shared.store_failed("asking for the store's time", &error);
            }
        }
        () = limit => {}
    }
}

/// The last good renewal is too long ago: the lease may end before the next one.
fn doubt(shared: &Shared) {
    tracing::warn!("the lease could not be renewed in time; nothing starts until it is");
    shared.stats.doubts.add(1);
    shared.work.pause();
    if shared.config.on_doubt == OnDoubt::Stop {
        shared.stop_running(|_| true, CancelReason::Disconnected, shared.config.stop_grace);
    }
}

/// The registration is over: what it held belongs to others.
fn fenced(shared: &Shared, worker: WorkerId) {
    if !shared.lease.forget(worker) {
        return;
    }
    tracing::warn!(worker = worker.0, "this worker was declared dead; its tasks are stopped and it registers again");
    shared.stats.leases_lost.add(1);
    shared.work.pause();
    drop(shared.work.take_waiting(|job| job.worker == worker));
    shared.stop_running(|job| job.worker == worker, CancelReason::Disconnected, shared.config.stop_grace);
}

/// Registers until it succeeds. Gives whether the engine still runs.
async fn register_again(shared: &Shared) -> bool {
    let mut pace = Pace::default();
    loop {
        if shared.phase() >= Phase::Draining {
            // Nothing will be claimed any more: a new registration would only have to be retired.
            shared.reached(Phase::Stopped).await;
            return false;
        }
        match register(shared).await {
            Ok(_) => {
                shared.work.resume();
                shared.claims.due_now();
                return true;
            }
            Err(error) => {
                shared.store_failed("registering the worker", &error);
                if !shared.sleep(pace.failed(&*shared.entropy), Phase::Stopped).await {
                    return false;
                }
            }
        }
    }
}
