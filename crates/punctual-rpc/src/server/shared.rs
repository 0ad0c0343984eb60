//! What all connections of a server share.

use crate::server::admission::Door;
use crate::server::config::ServerConfig;
use crate::server::connection::Connection;
use crate::server::draining::Draining;
use crate::server::handshakes::Handshakes;
use crate::server::intercept::Chain;
use crate::server::lifetime::Factory;
use crate::server::permits::Permits;
use crate::server::registry::Registry;
use crate::server::runs::Threads;
use crate::stats::ServerStats;
use punctual_proto::describe::HealthStatus;
use punctual_proto::handshake::Welcome;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use tokio::sync::Notify;

pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    pub(crate) registry: Registry,
    /// Of the services that have an instance a connection.
    pub(crate) factories: Vec<Factory>,
    pub(crate) welcome: Welcome,
    pub(crate) permits: Permits,
    /// What blocking handlers run on.
    pub(crate) threads: Threads,
    /// Where calls are held back, if any are.
    pub(crate) door: Option<Arc<Door>>,
    /// What handlers run inside of, if anything.
    pub(crate) interceptors: Option<Chain>,
    pub(crate) handshakes: Handshakes,
    /// Told when a connection ends, or comes further in a stop.
    pub(crate) changed: Notify,
    pub(crate) violations: AtomicU64,
    pub(crate) failed_handshakes: AtomicU64,
    panics: AtomicU64,
    opened: AtomicU64,
    draining: Draining,
    health: RwLock<BTreeMap<String, HealthStatus>>,
    connections: Mutex<Connections>,
}

#[derive(Default)]
struct Connections {
    open: BTreeMap<u64, Arc<Connection>>,
    /// Connections that are closed and whose handlers have not all ended.
    lingering: Vec<Weak<Connection>>,
    /// Places taken by handshakes that are about to succeed.
    reserved: usize,
    /// A stop said its last word to all that were open: who comes now is told it by whoever lets it in.
    sealed: bool,
    past: ServerStats,
}

impl Shared {
    pub(crate) fn new(config: ServerConfig, registry: Registry, factories: Vec<Factory>) -> Self {
        let welcome = Welcome::new(config.limits, registry.entries()).with_compression(config.compression.profiles());
        let door = Door::new(&config.admission, config.partition.as_ref(), &registry, &config.clock);
        Shared {
            door,
            interceptors: (!config.interceptors.is_empty()).then(|| config.interceptors.clone().into()),
            permits: Permits::new(
                config.server_limits.running_calls_max as usize,
                config.server_limits.connections_max as usize,
            ),
            threads: Threads::new(config.server_limits.blocking_calls_max),
            handshakes: Handshakes::new(config.server_limits.handshakes_max as usize),
            config,
            registry,
            factories,
            welcome,
            changed: Notify::new(),
            violations: AtomicU64::new(0),
            failed_handshakes: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            draining: Draining::not_yet(),
            health: RwLock::default(),
            connections: Mutex::default(),
        }
    }

    /// A handler of this method panicked. What it said is not passed on: it may hold what the peer must not see.
    pub(crate) fn panicked(&self, method: &str) {
        self.panics.fetch_add(1, Ordering::Relaxed);
        tracing::error!(method, "a handler panicked");
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.has_begun()
    }

    pub(crate) fn drain(&self) {
        self.draining.begin();
    }

    pub(crate) fn health(&self, service: &str) -> HealthStatus {
        if !service.is_empty() && !self.registry.has_service(service) {
            return HealthStatus::UnknownService;
        }
        if self.is_draining() {
            return HealthStatus::Draining;
        }
        let health = self.health.read().unwrap_or_else(PoisonError::into_inner);
        health.get(service).or(health.get("")).copied().unwrap_or(HealthStatus::Serving)
    }

    pub(crate) fn set_health(&self, service: &str, health: HealthStatus) {
        self.health.write().unwrap_or_else(PoisonError::into_inner).insert(service.to_owned(), health);
    }

    /// Takes one of the places for connections; false where none is left.
    pub(crate) fn reserve(&self) -> bool {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let free = connections.open.len() + connections.reserved < self.config.server_limits.connections_max as usize;
        connections.reserved += usize::from(free);
        free
    }

    pub(crate) fn unreserve(&self) {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).reserved -= 1;
    }

    /// Turns a reserved place into an open connection. The second value says that the server has stopped taking calls,
    /// and that the connection is to be closed.
    pub(crate) fn register(&self, connection: &Arc<Connection>) -> (u64, bool) {
        let id = self.opened.fetch_add(1, Ordering::Relaxed);
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.reserved -= 1;
        connections.open.insert(id, Arc::clone(connection));
        (id, connections.sealed)
    }

    /// All that are open, for a stop's last word. Who registers later learns that it was said.
    pub(crate) fn seal(&self) -> Vec<Arc<Connection>> {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.sealed = true;
        connections.open.values().cloned().collect()
    }

    pub(crate) fn unregister(&self, id: u64) {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = connections.open.remove(&id) {
            add_counters(&mut connections.past, &connection);
            connections.lingering.retain(|other| other.strong_count() > 0);
            if connection.session().running() > 0 {
                connections.lingering.push(Arc::downgrade(&connection));
            }
        }
        drop(connections);
        self.changed.notify_one();
    }

    /// Handlers of connections that are closed.
    pub(crate) fn lingering(&self) -> usize {
        let lingering: Vec<Arc<Connection>> = {
            let connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
            connections.lingering.iter().filter_map(Weak::upgrade).collect()
        };
        lingering.iter().map(|connection| connection.session().running()).sum()
    }

    /// Whether no connection is open and no handler runs.
    pub(crate) fn is_quiet(&self) -> bool {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).open.is_empty() && self.lingering() == 0
    }

    pub(crate) fn open(&self) -> Vec<Arc<Connection>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).open.values().cloned().collect()
    }

    pub(crate) fn stats(&self) -> ServerStats {
        let open = self.open();
        let mut stats = self.connections.lock().unwrap_or_else(PoisonError::into_inner).past;
        stats.running = self.lingering() as u64;
        for connection in &open {
            add_counters(&mut stats, connection);
            let session = connection.session();
            stats.running += session.running() as u64;
            stats.add_flow(&session.flow());
        }
        stats.open_connections = open.len() as u64;
        if let Some(door) = &self.door {
            (stats.admission_waiting, stats.admission_refused) = door.counts();
        }
        stats.blocking = self.threads.taken() as u64;
        stats.panics = self.panics.load(Ordering::Relaxed);
        stats.connections = self.opened.load(Ordering::Relaxed);
        stats.violations = self.violations.load(Ordering::Relaxed);
        stats.failed_handshakes = self.failed_handshakes.load(Ordering::Relaxed);
        stats
    }
}

/// What is counted for good; what is there now goes with the connection.
fn add_counters(stats: &mut ServerStats, connection: &Connection) {
    let counters = connection.session().counters();
    stats.accepted += counters.accepted;
    stats.refused += counters.refused;
    stats.late_results += counters.late_results;
    stats.cancelled += counters.cancelled;
    stats.expired += counters.expired;
    let (sent, received) = connection.bytes();
    stats.sent_bytes += sent;
    stats.received_bytes += received;
    stats.turns += connection.turns_taken();
}
