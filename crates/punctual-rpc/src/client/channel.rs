//! The channel: a client's handle.

use crate::client::config::{ChannelBuilder, ChannelConfig};
use crate::client::connection::Connection;
use crate::client::connector::{Connector, Patience};
use crate::client::counters::Counters;
use crate::client::oneway::OneWay;
use crate::client::options::CallOptions;
use crate::client::retry::Tokens;
use crate::client::settings::Settings;
use crate::client::target::Target;
use crate::client::unary::Unary;
use crate::stats::ChannelStats;
use arc_swap::ArcSwapOption;
use punctual_clock::{Clock, Instant};
use punctual_proto::codec::Args;
use punctual_proto::contract::{MethodDescriptor, ServiceDescriptor};
use punctual_proto::status::Status;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A client's handle over one server. Cloning is cheap: clones share the connection, and the last one to be dropped
/// closes it behind the calls that are under way.
#[derive(Clone)]
pub struct Channel {
    inner: Arc<Inner>,
}

struct Inner {
    /// What calls measure with; it stays for the channel's life.
    clock: Arc<dyn Clock>,
    settings: Settings,
    tokens: Tokens,
    counters: Counters,
    /// The connection that calls go through, while there is one.
    current: Arc<ArcSwapOption<Connection>>,
    connector: Connector,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.connector.close();
    }
}

impl Channel {
    /// Connects to `tcp://host:port`, `unix:/path`, `unix:@name` or `inproc:name`, and waits until the connection is up.
    ///
    /// # Errors
    /// Where the address means nothing, nobody answers there, or what answers speaks another protocol.
    pub async fn connect(address: &str) -> Result<Self, Status> {
        Self::builder(address).connect().await
    }

    /// A channel that connects at its first call.
    ///
    /// # Errors
    /// Where the address means nothing.
    pub fn lazy(address: &str) -> Result<Self, Status> {
        Self::builder(address).lazy()
    }

    /// Settings first. An address that means nothing is told by [`ChannelBuilder::connect`] and
    /// [`ChannelBuilder::lazy`].
    pub fn builder(address: &str) -> ChannelBuilder {
        let target = address.parse().map(Target::Address);
        ChannelBuilder::new(target.map_err(|error: crate::AddressError| Status::invalid_argument(error.to_string())))
    }

    pub(crate) fn with(target: Target, config: ChannelConfig) -> Self {
        let current = Arc::new(ArcSwapOption::empty());
        let clock = Arc::clone(&config.clock);
        let tokens = Tokens::full(&config.retry_budget);
        let settings = Settings::new(config);
        let connector = Connector::new(target, settings.shared(), Arc::clone(&current));
        let counters = Counters::default();
        Channel { inner: Arc::new(Inner { clock, settings, tokens, counters, current, connector }) }
    }

    pub(crate) async fn first_connection(&self) -> Result<(), Status> {
        self.inner.connector.ready(Patience::OneTry, Instant::FAR, None).await.map(drop)
    }

    /// Calls the method at `method` in the descriptor, which a generated client knows.
    pub fn unary<A, T, E>(&self, service: &'static ServiceDescriptor, method: usize, args: A) -> Unary<A, T, E>
    where
        A: Args + Serialize + Send + 'static,
        T: DeserializeOwned + Send + 'static,
        E: DeserializeOwned + Send + 'static,
    {
        Unary::new(self.clone(), service, method_of(service, method), args, CallOptions::new())
    }

    /// Calls the one-way method at `method` in the descriptor, which a generated client knows.
    pub fn oneway<A>(&self, service: &'static ServiceDescriptor, method: usize, args: A) -> OneWay<A>
    where
        A: Args + Serialize + Send + 'static,
    {
        OneWay::new(self.clone(), service, method_of(service, method), args, CallOptions::new())
    }

    /// The address, as it is written in messages.
    #[must_use]
    pub fn address(&self) -> String {
        self.inner.connector.address()
    }

    /// What was counted so far.
    #[must_use]
    pub fn stats(&self) -> ChannelStats {
        let mut stats = self.inner.connector.stats();
        self.inner.counters.add_to(&mut stats);
        stats
    }

    /// Closes the channel for all its clones, behind the calls that are under way. Later calls fail with Cancelled.
    ///
    /// # Cancel safety
    /// The channel closes also if the future is dropped.
    pub async fn close(self) {
        self.inner.connector.close();
        self.inner.connector.closed().await;
    }

    /// The settings of this moment. A call that needs them keeps those that it began with.
    pub(crate) fn settings(&self) -> Arc<ChannelConfig> {
        self.inner.settings.load()
    }

    pub(crate) fn default_timeout(&self) -> Option<Duration> {
        self.inner.settings.default_timeout()
    }

    /// Whether calls may have policies, which is why they are not plain.
    pub(crate) fn has_policies(&self) -> bool {
        self.inner.settings.has_policies()
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.inner.clock
    }

    pub(crate) fn tokens(&self) -> &Tokens {
        &self.inner.tokens
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.inner.counters
    }

    /// The connection that calls go through, if there is one now.
    pub(crate) fn current(&self) -> Option<Arc<Connection>> {
        self.inner.current.load_full()
    }

    /// Waits for a connection other than `after`.
    pub(crate) async fn ready(
        &self,
        wait_for_ready: bool,
        deadline: Instant,
        after: Option<&Arc<Connection>>,
    ) -> Result<Arc<Connection>, Status> {
        let patience = if wait_for_ready { Patience::Ready } else { Patience::NoBackoff };
        self.inner.connector.ready(patience, deadline, after).await
    }
}

/// A generated index is always inside; a wrong one calls a method that no server has.
pub(super) fn method_of(service: &'static ServiceDescriptor, method: usize) -> &'static MethodDescriptor {
    static NOWHERE: MethodDescriptor = MethodDescriptor::unary(
        "/",
        &punctual_proto::schema::Type::Unit,
        &punctual_proto::schema::Type::Unit,
        &punctual_proto::schema::Type::Unit,
    );
    debug_assert!(service.methods.get(method).is_some());
    service.methods.get(method).unwrap_or(&NOWHERE)
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").field("address", &self.address()).finish_non_exhaustive()
    }
}
