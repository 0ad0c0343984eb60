//! What everything below one cluster shares: the channel's settings and clocks, and the bell that tells of changes.

use crate::client::cluster::Cluster;
use crate::client::lane::Lane;
use crate::client::roster::Roster;
use crate::client::settings::SharedConfig;
use punctual_clock::Clock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use tokio::sync::watch;

/// A number that no other cluster, endpoint or connector of this process has.
pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// What the parts of one cluster have in common.
pub(crate) struct Wiring {
    pub(crate) cluster: u64,
    pub(crate) owner: Weak<Cluster>,
    pub(crate) settings: SharedConfig,
    /// Those of the settings that stay for the channel's life.
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) driver_clock: Arc<dyn Clock>,
    pub(crate) lane: Arc<Lane>,
    pub(crate) roster: Arc<Roster>,
    bell: watch::Sender<u64>,
}

impl Wiring {
    pub(crate) fn new(
        cluster: u64,
        owner: Weak<Cluster>,
        settings: SharedConfig,
        lane: Arc<Lane>,
        roster: Arc<Roster>,
    ) -> Self {
        let config = settings.load();
        let clock = Arc::clone(&config.clock);
        let driver_clock = config.driver_clock.clone().unwrap_or_else(|| Arc::clone(&clock));
        Wiring { cluster, owner, settings, clock, driver_clock, lane, roster, bell: watch::Sender::new(0) }
    }

    /// Something changed that calls may wait for.
    pub(crate) fn ring(&self) {
        self.bell.send_modify(|rings| *rings += 1);
    }

    pub(crate) fn bell(&self) -> watch::Receiver<u64> {
        self.bell.subscribe()
    }
}
