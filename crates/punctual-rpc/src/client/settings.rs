//! The settings of a channel as calls and connections read them.

use crate::client::config::ChannelConfig;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{ArcSwap, Mutex};
use punctual_proto::status::Status;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// The settings of this moment, shared with what reads them now and then.
pub(crate) type SharedConfig = Arc<ArcSwap<ChannelConfig>>;

/// No default timeout, in nanoseconds.
const NONE: u64 = u64::MAX;

/// A channel's settings. The three that a plain call needs lie beside the rest, where reading them costs a load.
pub(crate) struct Settings {
    config: SharedConfig,
    default_timeout: AtomicU64,
    has_policies: AtomicBool,
    is_observed: AtomicBool,
    generation: AtomicU64,
    /// Held while they change, so that no change is lost.
    changing: Mutex<()>,
}

impl Settings {
    pub(crate) fn new(config: ChannelConfig) -> Self {
        Settings {
            default_timeout: AtomicU64::new(nanos(config.default_timeout)),
            has_policies: AtomicBool::new(config.has_policies()),
            is_observed: AtomicBool::new(config.is_observed()),
            generation: AtomicU64::new(1),
            changing: Mutex::new(()),
            config: Arc::new(ArcSwap::from_pointee(config)),
        }
    }

    /// Exchanges them all, or nothing where the change makes no sense. Gives the number of the new generation.
    pub(crate) fn change(&self, change: impl FnOnce(&mut ChannelConfig)) -> Result<u64, Status> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.config.load_full();
        let mut config = (*old).clone();
        change(&mut config);
        config.validate()?;
        config.check_fixed(&old)?;
        let (timeout, has_policies) = (nanos(config.default_timeout), config.has_policies());
        let is_observed = config.is_observed();
        self.config.store(Arc::new(config));
        self.default_timeout.store(timeout, Ordering::Relaxed);
        self.has_policies.store(has_policies, Ordering::Relaxed);
        self.is_observed.store(is_observed, Ordering::Relaxed);
        Ok(self.generation.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(crate) fn shared(&self) -> SharedConfig {
        Arc::clone(&self.config)
    }

    pub(crate) fn load(&self) -> Arc<ChannelConfig> {
        self.config.load_full()
    }

    pub(crate) fn default_timeout(&self) -> Option<Duration> {
        match self.default_timeout.load(Ordering::Relaxed) {
            NONE => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    pub(crate) fn is_observed(&self) -> bool {
        self.is_observed.load(Ordering::Relaxed)
    }

    pub(crate) fn has_policies(&self) -> bool {
        self.has_policies.load(Ordering::Relaxed)
    }
}

/// Five centuries count as none.
fn nanos(timeout: Option<Duration>) -> u64 {
    timeout.and_then(|timeout| u64::try_from(timeout.as_nanos()).ok()).unwrap_or(NONE)
}
