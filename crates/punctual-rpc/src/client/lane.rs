//! Where a plain channel's connection lies, so that a call finds it with one load.

use crate::client::connection::Connection;
use crate::client::connector::Connector;
use crate::sync::{ArcSwapOption, Mutex};
use std::sync::{Arc, PoisonError};

/// The connection of a channel that has nothing to choose: one endpoint with one connection. Everything else leaves it
/// empty, and calls ask the cluster.
pub(crate) struct Lane {
    current: ArcSwapOption<Connection>,
    owner: Mutex<Owner>,
}

/// Who may say what the connection is. A cluster that was replaced, and a connector that has company, may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    cluster: u64,
    connector: Option<u64>,
}

impl Lane {
    /// A lane of this cluster's.
    pub(crate) fn of(cluster: u64) -> Self {
        Lane { current: ArcSwapOption::empty(), owner: Mutex::new(Owner { cluster, connector: None }) }
    }

    pub(crate) fn current(&self) -> Option<Arc<Connection>> {
        self.current.load_full()
    }

    /// Another cluster takes the channel over. Nothing is plain until it says so.
    pub(crate) fn hand_over(&self, cluster: u64) {
        let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        *owner = Owner { cluster, connector: None };
        self.current.store(None);
    }

    /// The cluster has this connector alone, or none or several.
    pub(crate) fn assign(&self, cluster: u64, only: Option<&Connector>) {
        let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        if owner.cluster == cluster {
            owner.connector = only.map(Connector::id);
            // A connector sets its own connection before it comes here: whoever is second finds it.
            self.current.store(only.and_then(Connector::current));
        }
    }

    /// The connector has another connection, or none: `own` is where it keeps it.
    pub(crate) fn publish(
        &self,
        cluster: u64,
        connector: u64,
        own: &ArcSwapOption<Connection>,
        connection: Option<&Arc<Connection>>,
    ) {
        // In this order: see `assign`.
        own.store(connection.cloned());
        let owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        if *owner == (Owner { cluster, connector: Some(connector) }) {
            self.current.store(connection.cloned());
        }
    }
}
