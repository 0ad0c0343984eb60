//! What of a channel can be set.

use crate::auth::Credentials;
use crate::client::Channel;
use crate::client::balance::Balance;
use crate::client::breaker::BreakerPolicy;
use crate::client::endpoints::Endpoints;
use crate::client::hedge::HedgePolicy;
use crate::client::intercept::{ClientInterceptor, INTERCEPTORS_MAX};
use crate::client::retry::{RetryBudget, RetryPolicy};
use crate::compression::Compression;
use crate::telemetry::Telemetry;
use crate::transport::Dial;
use punctual_clock::{Clock, Entropy, SeededEntropy, SystemClock};
use punctual_proto::limits::Limits;
use punctual_proto::status::Status;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The most connections to one endpoint: more than any machine has cores to move them with.
pub const POOL_MAX: u32 = 64;

/// The policies of one method or one service, in the place of the channel's: what is `None` here is off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MethodPolicy {
    /// How its calls are made again, where it is idempotent.
    pub retry: Option<RetryPolicy>,
    /// How they are made once more while they take long, in place of a retry policy.
    pub hedge: Option<HedgePolicy>,
}

impl MethodPolicy {
    /// No policies.
    pub(crate) const NONE: MethodPolicy = MethodPolicy { retry: None, hedge: None };

    /// With this retry policy.
    #[must_use]
    pub fn retry(mut self, policy: impl Into<Option<RetryPolicy>>) -> Self {
        self.retry = policy.into();
        self
    }

    /// With this hedging policy.
    #[must_use]
    pub fn hedge(mut self, policy: impl Into<Option<HedgePolicy>>) -> Self {
        self.hedge = policy.into();
        self
    }

    fn validate(&self) -> Result<(), Status> {
        if self.retry.is_some() && self.hedge.is_some() {
            return Err(Status::invalid_argument(
                "there is a retry policy and a hedging policy; set one of the two: a hedged call is retried as it is",
            ));
        }
        self.retry.as_ref().map_or(Ok(()), RetryPolicy::validate)?;
        self.hedge.as_ref().map_or(Ok(()), HedgePolicy::validate)
    }
}

/// The settings of a channel.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ChannelConfig {
    /// The timeout of a unary call that has none of its own and whose method has none. 30 s; `None` for no end.
    pub default_timeout: Option<Duration>,
    /// How long one try to connect may take until the link is there; the handshake has its own time in the limits. 5 s.
    pub connect_timeout: Duration,
    /// The wait after the first failed try to connect. 100 ms; at least 1 ms. Each further one doubles it.
    pub backoff_first: Duration,
    /// The longest wait between tries. 5 s.
    pub backoff_max: Duration,
    /// The most connections to one endpoint. 1; 1 to 64. There is one while the server keeps up: another is opened when
    /// calls wait because it runs as many of a connection's calls as it announced, or streams find no room.
    pub pool_max: u32,
    /// How long nothing may go through a connection beyond the first before it is closed. 30 s; 100 ms to a day.
    pub pool_idle: Duration,
    /// How a call's endpoint is chosen, where there are several. [`Balance::PowerOfTwo`].
    pub balance: Balance,
    /// The time between two lookups of a name ([`Endpoints::dns`]). 30 s; 100 ms to a day.
    pub resolve_interval: Duration,
    /// How long calls under way may take where their endpoint or their cluster is taken away. 8 s; up to a day. Without
    /// such calls nothing waits.
    pub drain_grace: Duration,
    /// How long a request may wait in the queue for others to share its write. Zero: it is written as soon as the
    /// connection has a turn. Timed requests wait like any other.
    pub write_latency_max: Duration,
    /// How calls to idempotent unary methods are made again. `None`: they are not.
    pub retry: Option<RetryPolicy>,
    /// How calls to idempotent unary methods are made once more while they take long, in place of a retry policy. `None`:
    /// they are not.
    pub hedge: Option<HedgePolicy>,
    /// When an endpoint whose calls fail is left alone for a while. `None`: never.
    pub breaker: Option<BreakerPolicy>,
    /// What all those further attempts together may cost.
    pub retry_budget: RetryBudget,
    /// What holds for some methods in the place of the channel's own policies, by `Service/method` or by `Service`. The
    /// longer name counts. Empty.
    pub methods: BTreeMap<String, MethodPolicy>,
    /// Your own code around each call, the first one outermost. Empty; up to [`INTERCEPTORS_MAX`].
    pub interceptors: Vec<Arc<dyn ClientInterceptor>>,
    /// How bodies are compressed where the server can do the same. Off.
    pub compression: Compression,
    /// The limits of this side.
    pub limits: Limits,
    /// How servers are met at `tls://` addresses. `None`.
    #[cfg(feature = "_tls")]
    pub tls: Option<crate::tls::ClientTls>,
    /// What the server's authentication reads from the handshake, asked for with each try to connect. `None`: nothing.
    pub credentials: Option<Arc<dyn Credentials>>,
    /// Who looks on. Nobody.
    pub telemetry: Telemetry,
    /// What budgets are measured with.
    pub clock: Arc<dyn Clock>,
    /// What the connections' drivers read, apart from the calls' clock so that the two can be counted apart. `None` is
    /// [`ChannelConfig::clock`].
    pub driver_clock: Option<Arc<dyn Clock>>,
    /// What the jitter of reconnecting is drawn from.
    pub entropy: Arc<dyn Entropy>,
}

impl Default for ChannelConfig {
    fn default() -> Self {
        ChannelConfig {
            default_timeout: Some(Duration::from_secs(30)),
            connect_timeout: Duration::from_secs(5),
            backoff_first: Duration::from_millis(100),
            backoff_max: Duration::from_secs(5),
            pool_max: 1,
            pool_idle: Duration::from_secs(30),
            balance: Balance::default(),
            resolve_interval: Duration::from_secs(30),
            drain_grace: Duration::from_secs(8),
            write_latency_max: Duration::ZERO,
            retry: None,
            hedge: None,
            breaker: None,
            retry_budget: RetryBudget::default(),
            methods: BTreeMap::new(),
            interceptors: Vec::new(),
            compression: Compression::default(),
            limits: Limits::default(),
            #[cfg(feature = "_tls")]
            tls: None,
            credentials: None,
            telemetry: Telemetry::new(),
            clock: Arc::new(SystemClock),
            driver_clock: None,
            entropy: Arc::new(SeededEntropy::from_system()),
        }
    }
}

impl ChannelConfig {
    /// Refuses settings that make no sense.
    ///
    /// # Errors
    /// The first one, with what to set instead.
    pub fn validate(&self) -> Result<(), Status> {
        self.limits.validate().map_err(|error| Status::invalid_argument(error.to_string()))?;
        if self.backoff_first < Duration::from_millis(1) || self.backoff_max < self.backoff_first {
            return Err(Status::invalid_argument(format!(
                "backoff_first is {:?} and backoff_max {:?}; set the first to at least 1 ms and the other not below it",
                self.backoff_first, self.backoff_max
            )));
        }
        if !(1..=POOL_MAX).contains(&self.pool_max) {
            return Err(Status::invalid_argument(format!(
                "pool_max is {}; set 1 to {POOL_MAX} connections an endpoint",
                self.pool_max
            )));
        }
        let day = Duration::from_secs(86_400);
        for (name, value, min) in [
            ("pool_idle", self.pool_idle, Duration::from_millis(100)),
            ("resolve_interval", self.resolve_interval, Duration::from_millis(100)),
            ("drain_grace", self.drain_grace, Duration::ZERO),
        ] {
            if value < min || value > day {
                return Err(Status::invalid_argument(format!("{name} is {value:?}; set {min:?} to {day:?}")));
            }
        }
        if self.interceptors.len() > INTERCEPTORS_MAX {
            return Err(Status::invalid_argument(format!(
                "there are {} interceptors; a channel has up to {INTERCEPTORS_MAX}",
                self.interceptors.len()
            )));
        }
        self.compression.validate().map_err(Status::invalid_argument)?;
        self.retry_budget.validate()?;
        self.breaker.as_ref().map_or(Ok(()), BreakerPolicy::validate)?;
        self.own_policy().validate()?;
        self.methods.values().try_for_each(MethodPolicy::validate)
    }

    /// Refuses what cannot be changed while there are calls that were measured with it.
    pub(crate) fn check_fixed(&self, old: &ChannelConfig) -> Result<(), Status> {
        let same_driver = match (&self.driver_clock, &old.driver_clock) {
            (Some(new), Some(old)) => Arc::ptr_eq(new, old),
            (None, None) => true,
            _ => false,
        };
        if same_driver && Arc::ptr_eq(&self.clock, &old.clock) {
            return Ok(());
        }
        Err(Status::invalid_argument(
            "the clocks of a channel stay for its life; make another channel for another clock",
        ))
    }

    fn own_policy(&self) -> MethodPolicy {
        MethodPolicy { retry: self.retry.clone(), hedge: self.hedge.clone() }
    }

    /// Whether anybody looks on at calls, or ties them into traces.
    pub(crate) fn is_observed(&self) -> bool {
        !self.telemetry.is_empty()
    }

    /// Whether any call may have a policy or an interceptor from here.
    pub(crate) fn has_policies(&self) -> bool {
        self.own_policy() != MethodPolicy::NONE
            || !self.methods.is_empty()
            || self.breaker.is_some()
            || !self.interceptors.is_empty()
    }

    /// The policies of a method.
    pub(crate) fn policy_of(&self, full_name: &str) -> MethodPolicy {
        if self.methods.is_empty() {
            return self.own_policy();
        }
        let service = full_name.rsplit_once('/').map_or(full_name, |(service, _)| service);
        let named = self.methods.get(full_name).or_else(|| self.methods.get(service));
        named.cloned().unwrap_or_else(|| self.own_policy())
    }
}

/// A channel in the making.
#[derive(Debug, Clone)]
#[must_use = "a builder makes a channel only when it is told to connect"]
pub struct ChannelBuilder {
    config: ChannelConfig,
    endpoints: Result<Endpoints, Status>,
}

impl ChannelBuilder {
    pub(crate) fn new(endpoints: Result<Endpoints, Status>) -> Self {
        ChannelBuilder { config: ChannelConfig::default(), endpoints }
    }

    /// A channel over a transport of your own.
    pub fn dial(dial: impl Dial) -> Self {
        Self::new(Endpoints::dial([dial]))
    }

    /// With these settings.
    pub fn config(mut self, config: ChannelConfig) -> Self {
        self.config = config;
        self
    }

    /// With this default timeout of unary calls, or none.
    pub fn default_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.config.default_timeout = timeout.into();
        self
    }

    /// With this clock.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.config.clock = clock;
        self
    }

    /// With this retry policy, or none.
    pub fn retry(mut self, policy: impl Into<Option<RetryPolicy>>) -> Self {
        self.config.retry = policy.into();
        self
    }

    /// With this interceptor inside of those before it.
    pub fn interceptor(mut self, interceptor: impl ClientInterceptor) -> Self {
        self.config.interceptors.push(Arc::new(interceptor));
        self
    }

    /// Seen by these.
    pub fn telemetry(mut self, telemetry: Telemetry) -> Self {
        self.config.telemetry = telemetry;
        self
    }

    /// With these limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.config.limits = limits;
        self
    }

    /// Connects, and waits until the connection is up.
    ///
    /// # Errors
    /// Where the address or a setting is wrong, nobody answers, or what answers speaks another protocol.
    pub async fn connect(self) -> Result<Channel, Status> {
        let channel = self.lazy()?;
        channel.first_connection().await?;
        Ok(channel)
    }

    /// A channel that connects at its first call.
    ///
    /// # Errors
    /// Where the address or a setting is wrong.
    pub fn lazy(self) -> Result<Channel, Status> {
        self.config.validate()?;
        Ok(Channel::with(self.endpoints?, self.config))
    }
}
