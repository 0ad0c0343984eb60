//! One database, one clock, and the engines of a test.

use punctual_clock::{Clock, SeededEntropy, Timestamp};
use punctual_engine::{Engine, EngineBuilder, EngineConfig};
use punctual_task::{MemStore, Store, TaskDetail, TaskId, TaskState};
use punctual_testkit::{FaultyStore, TokioClock};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// When these tests begin: 2027-01-15T08:00:00Z, a Friday.
pub(crate) const START: Timestamp = Timestamp::from_secs(1_800_000_000);

/// A second.
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// One database and one clock. Only for tests under paused time.
pub(crate) struct World {
    pub(crate) clock: Arc<TokioClock>,
    /// What the engines of this test share, unless they have a connection of their own.
    pub(crate) store: Arc<FaultyStore>,
    mem: Arc<MemStore>,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(TokioClock::starting_at(START));
        let mem = Arc::new(MemStore::new(Arc::<TokioClock>::clone(&clock)));
        World { clock, store: Arc::new(FaultyStore::new(Arc::<MemStore>::clone(&mem))), mem }
    }

    /// A connection of its own to the same database, which can be cut alone.
    pub(crate) fn connection(&self) -> Arc<FaultyStore> {
        Arc::new(FaultyStore::new(Arc::<MemStore>::clone(&self.mem)))
    }

    /// An engine on this database.
    pub(crate) fn builder(&self) -> EngineBuilder {
        self.builder_with(|_| {})
    }

    /// The same with settings.
    pub(crate) fn builder_with(&self, change: impl FnOnce(&mut EngineConfig)) -> EngineBuilder {
        self.builder_on(&self.store, change)
    }

    /// The same on a connection.
    pub(crate) fn builder_on(&self, store: &Arc<FaultyStore>, change: impl FnOnce(&mut EngineConfig)) -> EngineBuilder {
        let mut config = EngineConfig::default();
        // Paused time belongs to one thread.
        config.lease_thread = false;
        change(&mut config);
        Engine::builder(Arc::<FaultyStore>::clone(store))
            .clock(Arc::<TokioClock>::clone(&self.clock))
            .entropy(Arc::new(SeededEntropy::new(7)))
            .name("test")
            .config(config)
    }

    /// Seconds since the test began, rounded down.
    pub(crate) fn seconds(&self) -> u64 {
        self.clock.timestamp().since(START).as_secs()
    }

    pub(crate) async fn detail(&self, id: TaskId) -> TaskDetail {
        self.store.task(id).await.unwrap().expect("the task exists")
    }

    pub(crate) async fn state(&self, id: TaskId) -> TaskState {
        self.detail(id).await.view.state
    }
}

/// Lets virtual time pass.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// What handlers did, in order: the ledger that the store's own records are compared with.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Vec<u64>>);

impl Ledger {
    pub(crate) fn add(&self, entry: u64) {
        self.0.lock().unwrap().push(entry);
    }

    pub(crate) fn entries(&self) -> Vec<u64> {
        self.0.lock().unwrap().clone()
    }

    /// How often each entry was made.
    pub(crate) fn counts(&self) -> BTreeMap<u64, usize> {
        let mut counts = BTreeMap::new();
        for entry in self.entries() {
            *counts.entry(entry).or_default() += 1;
        }
        counts
    }
}
