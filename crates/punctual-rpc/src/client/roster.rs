//! The connections of a channel that are not gone yet, and what was counted of those that are.

use crate::client::connection::{Connection, Life};
use crate::stats::ChannelStats;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Every open connection of a channel, whichever cluster and connector it belongs to.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    open: Mutex<Vec<Entry>>,
    past: Mutex<ChannelStats>,
    connections: AtomicU64,
    failed: AtomicU64,
    bad_snapshots: AtomicU64,
}

#[derive(Debug)]
struct Entry {
    cluster: u64,
    connector: u64,
    connection: Arc<Connection>,
}

impl Roster {
    pub(crate) fn enter(&self, cluster: u64, connector: u64, connection: &Arc<Connection>) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        let connection = Arc::clone(connection);
        self.open.lock().unwrap_or_else(PoisonError::into_inner).push(Entry { cluster, connector, connection });
    }

    pub(crate) fn leave(&self, connection: &Arc<Connection>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = open.iter().position(|entry| Arc::ptr_eq(&entry.connection, connection)) {
            open.swap_remove(at);
            connection.add_to(&mut self.past.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// The connections of a connector take no more calls.
    pub(crate) fn drain_connector(&self, connector: u64) {
        // Outside of the lock: draining wakes callers.
        self.of_connector(connector).iter().for_each(|connection| connection.drain());
    }

    /// The open connections of a cluster, or of all.
    pub(crate) fn of_cluster(&self, cluster: Option<u64>) -> Vec<Arc<Connection>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = |entry: &&Entry| cluster.is_none_or(|cluster| cluster == entry.cluster);
        open.iter().filter(wanted).map(|entry| Arc::clone(&entry.connection)).collect()
    }

    /// The open connections of a connector.
    pub(crate) fn of_connector(&self, connector: u64) -> Vec<Arc<Connection>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.iter().filter(|entry| entry.connector == connector).map(|entry| Arc::clone(&entry.connection)).collect()
    }

    pub(crate) fn count_failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_bad_snapshot(&self) {
        self.bad_snapshots.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self) -> ChannelStats {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stats = *self.past.lock().unwrap_or_else(PoisonError::into_inner);
        for Entry { connection, .. } in open.iter() {
            connection.add_to(&mut stats);
            let (pending, queued, flow) = connection.load();
            stats.add_flow(&flow);
            stats.pending += pending as u64;
            stats.queued_bytes += queued as u64;
        }
        stats.open_connections = open.len() as u64;
        stats.connections = self.connections.load(Ordering::Relaxed);
        stats.failed_connects = self.failed.load(Ordering::Relaxed);
        stats.bad_snapshots = self.bad_snapshots.load(Ordering::Relaxed);
        stats
    }
}

/// Returns once the connection has ended.
pub(crate) async fn ended(connection: &Arc<Connection>) {
    let mut life = connection.life();
    // An error would mean that it is gone altogether.
    let _ = life.wait_for(|life| matches!(life, Life::Ended(_))).await;
}
