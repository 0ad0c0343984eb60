//! What of a server can be set.

use crate::auth::{Authenticate, Authorize};
use crate::compression::Compression;
use crate::server::admission::Partition;
use crate::server::error::ServerError;
use crate::server::intercept::{SERVER_INTERCEPTORS_MAX, ServerInterceptor};
use crate::telemetry::Telemetry;
use punctual_clock::{Clock, SystemClock};
use punctual_proto::admission::AdmissionLimits;
use punctual_proto::limits::{Limits, ServerLimits};
use punctual_proto::session::BudgetPolicy;
use std::sync::Arc;
use std::time::Duration;

/// The settings of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerConfig {
    /// The limits of each connection.
    pub limits: Limits,
    /// The limits over all connections.
    pub server_limits: ServerLimits,
    /// Which calls are let in, which wait and which are refused, before anything of them is decoded. Everything is let in.
    pub admission: AdmissionLimits,
    /// Which calls share a partition, where [`ServerConfig::admission`] limits those. `None`: those of one tenant, as
    /// [`ByTenant`](crate::ByTenant) says.
    pub partition: Option<Arc<dyn Partition>>,
    /// Your own code around each handler, the first one outermost. Empty; up to [`SERVER_INTERCEPTORS_MAX`].
    pub interceptors: Vec<Arc<dyn ServerInterceptor>>,
    /// A budget below this is refused with DeadlineExceeded. Zero: none is.
    pub budget_min: Duration,
    /// A budget above this is cut to it. `None`.
    pub budget_max: Option<Duration>,
    /// The budget of a call that came without one. `None`: such a call has no end.
    pub budget_default: Option<Duration>,
    /// How long a reply may wait in the queue for others to share its write. Zero: it is written as soon as the connection
    /// has a turn.
    pub write_latency_max: Duration,
    /// How bodies are compressed where the client can do the same. Off.
    pub compression: Compression,
    /// How long a stop waits for the calls under way where no other time is given. 10 s.
    pub grace: Duration,
    /// How long a stop waits, behind its grace, for handlers that were cancelled; what is stuck then is reported and left.
    /// 5 s.
    pub stuck_after: Duration,
    /// How long a connection may live before its client is asked to open another one; up to a tenth is added by chance, so
    /// that they do not all come at once. At least 1 s. `None`: for ever.
    pub connection_age_max: Option<Duration>,
    /// The permissions of socket files, those of `shm:` addresses too. `0o600`: this user only.
    pub unix_mode: u32,
    /// What each of the two rings of a shared memory connection holds: a power of two from 64 KiB to 256 MiB. It is memory once
    /// it was used. 1 MiB.
    #[cfg(feature = "shm")]
    pub shm_ring_bytes: usize,
    /// Listen without encryption on addresses that other machines reach. `false`.
    pub allow_plaintext_off_loopback: bool,
    /// How clients are met at `tls://` addresses. `None`.
    #[cfg(feature = "_tls")]
    pub tls: Option<crate::tls::ServerTls>,
    /// Who may connect, and as whom. `None`: everybody, as nobody in particular.
    pub authenticator: Option<Arc<dyn Authenticate>>,
    /// Who may call what, asked before any argument is decoded. `None`: whoever is connected, everything.
    pub authorizer: Option<Arc<dyn Authorize>>,
    /// Who looks on. Nobody.
    pub telemetry: Telemetry,
    /// What budgets are measured with.
    pub clock: Arc<dyn Clock>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            limits: Limits::default(),
            server_limits: ServerLimits::default(),
            admission: AdmissionLimits::default(),
            partition: None,
            interceptors: Vec::new(),
            budget_min: Duration::ZERO,
            budget_max: None,
            budget_default: None,
            write_latency_max: Duration::ZERO,
            compression: Compression::default(),
            grace: Duration::from_secs(10),
            stuck_after: Duration::from_secs(5),
            connection_age_max: None,
            unix_mode: 0o600,
            #[cfg(feature = "shm")]
            shm_ring_bytes: punctual_shm::RING_BYTES_DEFAULT,
            allow_plaintext_off_loopback: false,
            #[cfg(feature = "_tls")]
            tls: None,
            authenticator: None,
            authorizer: None,
            telemetry: Telemetry::new(),
            clock: Arc::new(SystemClock),
        }
    }
}

impl ServerConfig {
    /// Refuses settings that make no sense.
    ///
    /// # Errors
    /// The first one, with what to set instead.
    pub fn validate(&self) -> Result<(), ServerError> {
        self.limits.validate().map_err(ServerError::limit)?;
        self.server_limits.validate().map_err(ServerError::limit)?;
        self.compression.validate().map_err(ServerError::config)?;
        self.admission.validate().map_err(ServerError::config)?;
        if self.interceptors.len() > SERVER_INTERCEPTORS_MAX {
            return Err(ServerError::config(format!(
                "there are {} interceptors; a server has up to {SERVER_INTERCEPTORS_MAX}",
                self.interceptors.len()
            )));
        }
        if self.budget_max.is_some_and(|max| max < self.budget_min) {
            return Err(ServerError::config(format!(
                "budget_max is {:?} and budget_min {:?}; set the first above the other",
                self.budget_max.unwrap_or_default(),
                self.budget_min
            )));
        }
        if self.connection_age_max.is_some_and(|max| max < Duration::from_secs(1)) {
            return Err(ServerError::config(format!(
                "connection_age_max is {:?}; set it to at least 1 s, or to none",
                self.connection_age_max.unwrap_or_default()
            )));
        }
        #[cfg(feature = "shm")]
        self.ring_bytes()?;
        Ok(())
    }

    /// The size of rings, checked.
    #[cfg(feature = "shm")]
    pub(crate) fn ring_bytes(&self) -> Result<punctual_shm::RingBytes, ServerError> {
        punctual_shm::RingBytes::new(self.shm_ring_bytes).ok_or_else(|| {
            ServerError::config(format!(
                "shm_ring_bytes is {}; set it to a power of two from {} to {}",
                self.shm_ring_bytes,
                punctual_shm::RING_BYTES_MIN,
                punctual_shm::RING_BYTES_MAX
            ))
        })
    }

    pub(crate) fn budgets(&self) -> BudgetPolicy {
        let mut policy = BudgetPolicy::default();
        policy.min = self.budget_min;
        policy.max = self.budget_max;
        policy.default = self.budget_default;
        policy
    }
}
