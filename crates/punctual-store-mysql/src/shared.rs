//! What all connections of a store share: the address, what is remembered of the database, and who waits for what.
//!
//! ```text
//! caller ──▶ a task on the store's own thread ──▶ a lane: waits for one of its connections ──▶ the operation, again and
//!                                                 again while other transactions are in its way
//! ```
//! The store's connections live on threads of their own: a program whose runtime is busy or stopped for a while does not
//! stop a commit that is under way, and the renewal of leases has a thread and a connection to itself.

use crate::address::Address;
use crate::config::MysqlConfig;
use crate::connection::Session;
use crate::counters::Counters;
use crate::definitions::Definitions;
use crate::errors::{Done, Fault};
use crate::ids::Ids;
use crate::moment::TimeSource;
use crate::names::Names;
use punctual_clock::{Clock, Entropy, SystemClock, SystemEntropy};
use punctual_task::rows::{ClaimRows, Floors};
use punctual_task::{StoreError, StoreErrorKind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// An operation's answer, on its way.
pub(crate) type Running<'a, T> = Pin<Box<dyn Future<Output = Done<T>> + Send + 'a>>;

/// After so many attempts an operation gives up whatever its wait allows.
const ATTEMPTS_MAX: u32 = 50;
/// The longest wait between two attempts.
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// What all connections of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) address: Address,
    pub(crate) config: MysqlConfig,
    pub(crate) counters: Counters,
    pub(crate) time: TimeSource,
    pub(crate) ids: Ids,
    names: Mutex<Names>,
    floors: Mutex<Floors>,
    sweep_floors: Mutex<Floors>,
    claim_rows: Mutex<ClaimRows>,
    definitions: Mutex<Definitions>,
    version: OnceLock<String>,
}

impl Shared {
    pub(crate) fn new(address: Address, config: MysqlConfig) -> Self {
        Shared {
            address,
            time: TimeSource(config.clock.clone()),
            floors: Mutex::new(Floors::new(config.clock.is_some())),
            sweep_floors: Mutex::new(Floors::new(config.clock.is_some())),
            claim_rows: Mutex::default(),
            config,
            counters: Counters::default(),
            ids: Ids::default(),
            names: Mutex::default(),
            definitions: Mutex::default(),
            version: OnceLock::new(),
        }
    }

    /// The names known so far. A panic under the lock leaves them whole: they are only added to.
    pub(crate) fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where claims begin to read.
    pub(crate) fn floors(&self) -> MutexGuard<'_, Floors> {
        self.floors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where sweeps begin to read.
    pub(crate) fn sweep_floors(&self) -> MutexGuard<'_, Floors> {
        self.sweep_floors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where what this process has claimed lies.
    pub(crate) fn claim_rows(&self) -> MutexGuard<'_, ClaimRows> {
        self.claim_rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The definitions known so far.
    pub(crate) fn definitions(&self) -> MutexGuard<'_, Definitions> {
        self.definitions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn learn_version(&self, version: &str) {
        self.version.get_or_init(|| version.to_owned());
    }

    /// The server's version as it was when the store was opened.
    pub(crate) fn version(&self) -> &str {
        self.version.get().map_or("", String::as_str)
    }
}

/// A set of connections for one kind of work.
#[derive(Debug)]
pub(crate) struct Lanes {
    permits: Semaphore,
    idle: Mutex<Vec<Session>>,
    waiting: AtomicUsize,
    answer: Duration,
}

impl Lanes {
    pub(crate) fn new(connections: usize, answer: Duration) -> Self {
        Lanes { permits: Semaphore::new(connections), idle: Mutex::default(), waiting: AtomicUsize::new(0), answer }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn session(&self, shared: &Arc<Shared>) -> Done<Session> {
        let known = self.idle().pop();
        match known {
            Some(session) => Ok(session),
            None => Session::connect(Arc::clone(shared), self.answer).await,
        }
    }

    /// Waits for what is under way and closes the connections.
    pub(crate) async fn close(&self) {
        let all = u32::try_from(self.permits.available_permits()).unwrap_or(u32::MAX);
        let _all = self.permits.acquire_many(all).await;
        self.permits.close();
        let sessions: Vec<Session> = self.idle().drain(..).collect();
        for session in sessions {
            session.disconnect().await;
        }
    }

    /// Runs an operation, again while other transactions are in its way, until it is done or its wait is over.
    ///
    /// Before an operation sends its commit it leaves there what it would answer. Where the commit's answer is lost it is
    /// run once more with that: it has to find out, under the same locks, whether the first commit arrived.
    pub(crate) async fn run<T, U, F>(&self, shared: &Arc<Shared>, mut work: F) -> Result<T, StoreError>
    where
        F: for<'a> FnMut(&'a mut Session, &'a mut Option<U>) -> Running<'a, T> + Send,
        U: Send,
    {
        shared.counters.operations.add(1);
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        let permit = if waiting >= shared.config.queue_max { None } else { self.permits.acquire().await.ok() };
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let Some(_permit) = permit else {
            return Err(StoreError::new(
                StoreErrorKind::Busy,
                format!(
                    "{}: {waiting} operations wait for a connection already, which is the limit, or the store is closed; \
                     ask for less at once",
                    shared.address
                ),
            ));
        };
        let begun = SystemClock.now();
        let mut unsure = None;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let fault = match self.attempt(shared, &mut work, &mut unsure).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => fault,
            };
            let again = if unsure.is_some() {
                fault.is_broken() || fault.is_contention()
            } else {
                // A connection that was found closed says nothing of the server: a second one tells.
                fault.is_contention() || (fault.is_broken() && attempts == 1)
            };
            let waited = SystemClock.now().since(begun);
            if !again || attempts >= ATTEMPTS_MAX || waited >= shared.config.wait {
                let lost = unsure.is_some() && (fault.is_broken() || fault.is_contention());
                return Err(if lost { unknown(shared, fault) } else { fault.named(&shared.address) });
            }
            shared.counters.retries.add(1);
            tracing::debug!(database = %shared.address, ?fault, attempts, "an operation is tried again");
            tokio::time::sleep(pause(attempts)).await;
        }
    }

    async fn attempt<T, U, F>(&self, shared: &Arc<Shared>, work: &mut F, unsure: &mut Option<U>) -> Done<T>
    where
        F: for<'a> FnMut(&'a mut Session, &'a mut Option<U>) -> Running<'a, T> + Send,
        U: Send,
    {
        let mut session = self.session(shared).await?;
        let outcome = work(&mut session, unsure).await;
        match &outcome {
            Ok(_) => {
                *unsure = None;
                // An operation that found its own rows there leaves a transaction behind, which nobody may inherit.
                if session.roll_back().await {
                    self.idle().push(session);
                }
            }
            Err(fault) => {
                let broken = fault.is_broken();
                if session.is_committing() && broken {
                    shared.counters.unknown_commits.add(1);
                    tracing::warn!(database = %shared.address, ?fault, "the answer to a commit was lost");
                }
                if session.is_committing() && !broken {
                    // The server refused the commit or what came before it: nothing is written.
                    *unsure = None;
                }
                if broken {
                    // The connections beside it are of the same age and mostly of the same fate.
                    self.idle().clear();
                } else if session.roll_back().await {
                    self.idle().push(session);
                }
            }
        }
        outcome
    }
}

fn unknown(shared: &Shared, fault: Fault) -> StoreError {
    let said = fault.named(&shared.address);
    StoreError::new(
        StoreErrorKind::Unavailable,
        format!("whether a commit arrived is not known, read again what was being written: {said}"),
    )
}

/// Longer with each attempt, and different for those who met.
fn pause(attempts: u32) -> Duration {
    let most = Duration::from_millis(2).saturating_mul(1 << attempts.min(8)).min(PAUSE_MAX);
    Duration::from_micros(1 + SystemEntropy.below(u64::try_from(most.as_micros()).unwrap_or(1)))
}
