//! The channel: a client's handle.

use crate::client::cluster::{Cluster, Patience, Ready};
use crate::client::config::{ChannelBuilder, ChannelConfig};
use crate::client::connection::Connection;
use crate::client::counters::Counters;
use crate::client::endpoints::{Endpoints, Source};
use crate::client::lane::Lane;
use crate::client::named::NamedMethods;
use crate::client::oneway::OneWay;
use crate::client::options::CallOptions;
use crate::client::retry::Tokens;
use crate::client::roster::{Roster, ended};
use crate::client::settings::Settings;
use crate::client::tried::Past;
use crate::client::unary::Unary;
use crate::client::wiring::next_id;
use crate::stats::ChannelStats;
use arc_swap::ArcSwap;
use punctual_clock::{Clock, Instant};
use punctual_proto::codec::Args;
use punctual_proto::contract::{MethodDescriptor, ServiceDescriptor};
use punctual_proto::status::Status;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A client's handle over one server, or over several that serve the same. Cloning is cheap: clones share the connections,
/// and the last one to be dropped closes them behind the calls that are under way.
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
    named: NamedMethods,
    /// The connection that calls go through, while there is one and no other to choose.
    lane: Arc<Lane>,
    cluster: ArcSwap<Cluster>,
    roster: Arc<Roster>,
    /// One exchange of endpoints at a time.
    replacing: tokio::sync::Mutex<()>,
    /// The channel was closed. Held while its cluster is exchanged.
    ended: Mutex<bool>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end("the channel was dropped");
    }
}

impl Inner {
    /// Nothing connects and nobody calls any more. What is under way goes on.
    fn end(&self, why: &str) -> Arc<Cluster> {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        *ended = true;
        let cluster = self.cluster.load_full();
        drop(ended);
        cluster.close(why);
        cluster
    }
}

/// A cluster that is not in use yet. Given up, it closes.
struct Attempted(Option<Arc<Cluster>>);

impl Attempted {
    fn take(mut self) -> Option<Arc<Cluster>> {
        self.0.take()
    }
}

impl Drop for Attempted {
    fn drop(&mut self) {
        if let Some(cluster) = self.0.take() {
            cluster.close("the endpoints were given up");
        }
    }
}

/// What the end of endpoints cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Calls that were not over when the grace was, and so were cut.
    pub cut: usize,
}

impl Channel {
    /// Connects to `tcp://host:port`, `tls://host:port`, `unix:/path`, `unix:@name`, `shm:/path` or `inproc:name`, to several of them
    /// with commas between, or to each address of a name with `dns+tcp://host:port`; and waits until a connection is up.
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
        ChannelBuilder::new(address.parse())
    }

    /// A channel over these endpoints, settings first.
    pub fn over(endpoints: Endpoints) -> ChannelBuilder {
        ChannelBuilder::new(Ok(endpoints))
    }

    pub(crate) fn with(endpoints: Endpoints, config: ChannelConfig) -> Self {
        let clock = Arc::clone(&config.clock);
        let tokens = Tokens::full(&config.retry_budget);
        let settings = Settings::new(config);
        let (id, roster) = (next_id(), Arc::new(Roster::default()));
        let lane = Arc::new(Lane::of(id));
        let cluster = Cluster::with_id(id, endpoints, settings.shared(), Arc::clone(&lane), Arc::clone(&roster));
        let (counters, named, cluster) = (Counters::default(), NamedMethods::default(), ArcSwap::from(cluster));
        let (replacing, ended) = (tokio::sync::Mutex::new(()), Mutex::new(false));
        let inner = Inner { clock, settings, tokens, counters, named, lane, cluster, roster, replacing, ended };
        Channel { inner: Arc::new(inner) }
    }

    pub(crate) async fn first_connection(&self) -> Result<(), Status> {
        let cluster = self.inner.cluster.load_full();
        self.ready_once(&cluster).await
    }

    /// Waits for the first connection of a cluster, for one try of each endpoint.
    async fn ready_once(&self, cluster: &Arc<Cluster>) -> Result<(), Status> {
        let settings = self.settings();
        // A try ends by itself; a resolver need not.
        let within = settings.connect_timeout.saturating_mul(2) + settings.limits.handshake_timeout;
        let deadline = match cluster.source() {
            Source::Fixed(_) => Instant::FAR,
            Source::Resolved(_) => self.clock().now().after(within),
        };
        cluster.ready(Patience::OneTry, false, deadline, Past::default()).await.map(drop)
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
        self.inner.cluster.load().to_string()
    }

    /// The addresses of the endpoints that calls may go to now, in the order of their list.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        self.inner.cluster.load().addresses()
    }

    /// What was counted so far.
    #[must_use]
    pub fn stats(&self) -> ChannelStats {
        let mut stats = self.inner.roster.stats();
        self.inner.counters.add_to(&mut stats);
        stats.open_breakers = self.inner.cluster.load().open_breakers() as u64;
        stats
    }

    /// The settings of this moment.
    #[must_use]
    pub fn config(&self) -> ChannelConfig {
        (*self.settings()).clone()
    }

    /// Changes settings while calls go on, all at once; gives the number of their generation, from 2. Calls that have begun
    /// keep those that they began with. `connect_timeout`, `limits`, `tls` and `credentials` hold for
    /// connections that are opened from here on ([`Channel::replace`] opens them anew); everything else for the next call.
    ///
    /// # Errors
    /// Where a setting is wrong, or is a clock, which stays for the channel's life. Nothing is then changed.
    pub fn reconfigure(&self, change: impl FnOnce(&mut ChannelConfig)) -> Result<u64, Status> {
        let generation = self.inner.settings.change(change)?;
        self.inner.cluster.load().resize();
        let latency = self.settings().write_latency_max;
        for connection in self.inner.roster.of_cluster(None) {
            connection.set_write_latency(latency);
        }
        Ok(generation)
    }

    /// Exchanges the endpoints while calls go on. One of the new ones is connected before the first call goes there; calls
    /// under way on the old ones may end within the `drain_grace` of the settings, and are cut then. Without any, nothing
    /// waits. Changes are made one after the other.
    ///
    /// # Errors
    /// Why no new endpoint is connected, or Cancelled where the channel was closed. The old ones stay.
    ///
    /// # Cancel safety
    /// Dropped before the exchange, nothing changes; after it, the old endpoints end all the same.
    pub async fn replace(&self, endpoints: Endpoints) -> Result<Drained, Status> {
        let inner = &self.inner;
        let turn = inner.replacing.lock().await;
        let (lane, roster) = (Arc::clone(&inner.lane), Arc::clone(&inner.roster));
        let candidate = Attempted(Some(Cluster::new(endpoints, inner.settings.shared(), lane, roster)));
        if let Some(cluster) = &candidate.0 {
            self.ready_once(cluster).await?;
        }
        let old = {
            let ended = inner.ended.lock().unwrap_or_else(PoisonError::into_inner);
            if *ended {
                return Err(Status::cancelled("the channel was closed"));
            }
            let Some(next) = candidate.take() else {
                return Err(Status::internal("a cluster was exchanged twice"));
            };
            // From here on no connection of the old one comes into the lane.
            inner.lane.hand_over(next.id());
            let old = inner.cluster.swap(Arc::clone(&next));
            next.settle_lane();
            inner.named.forget();
            old
        };
        drop(turn);
        old.close("the endpoints were replaced");
        let grace = self.settings().drain_grace;
        let end = tokio::spawn(async move { old.closed(grace).await });
        Ok(Drained { cut: end.await.unwrap_or(0) })
    }

    /// Closes the channel for all its clones, behind the calls that are under way, those that take longer than `grace`
    /// being cut. Later calls fail with Cancelled.
    ///
    /// # Cancel safety
    /// The channel closes also if the future is dropped, calls cut after the grace.
    pub async fn close_within(self, grace: Duration) -> Drained {
        self.end("the channel was closed".to_owned(), grace).await
    }

    pub(crate) async fn end(self, why: String, grace: Duration) -> Drained {
        let cluster = self.inner.end(&why);
        let end = tokio::spawn(async move { cluster.closed(grace).await });
        Drained { cut: end.await.unwrap_or(0) }
    }

    /// The same for whoever must not keep the channel alive.
    #[cfg(any(feature = "otel", feature = "prometheus"))]
    pub(crate) fn weak_stats(&self) -> impl Fn() -> Option<ChannelStats> + Send + Sync + 'static {
        let inner = Arc::downgrade(&self.inner);
        move || inner.upgrade().map(|inner| Channel { inner }.stats())
    }

    /// Closes the channel for all its clones, behind the calls that are under way. Later calls fail with Cancelled.
    ///
    /// # Cancel safety
    /// The channel closes also if the future is dropped.
    pub async fn close(self) {
        let inner = &self.inner;
        inner.end("the channel was closed");
        for connection in inner.roster.of_cluster(None) {
            ended(&connection).await;
            inner.roster.leave(&connection);
        }
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

    pub(crate) fn clock_handle(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// Whether anybody looks on at calls, or ties them into traces.
    pub(crate) fn is_observed(&self) -> bool {
        self.inner.settings.is_observed()
    }

    pub(crate) fn tokens(&self) -> &Tokens {
        &self.inner.tokens
    }

    /// The methods that are called by their names.
    pub(crate) fn named(&self) -> &NamedMethods {
        &self.inner.named
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.inner.counters
    }

    /// The connection that a call goes through, if there is one now.
    pub(crate) fn current(&self) -> Option<Arc<Connection>> {
        self.inner.lane.current().or_else(|| self.inner.cluster.load().pick(Past::default()))
    }

    /// Waits for a connection for a call.
    pub(crate) async fn ready(&self, wait_for_ready: bool, deadline: Instant, past: Past<'_>) -> Result<Ready, Status> {
        self.ready_for(true, wait_for_ready, deadline, past).await
    }

    /// The same for what asks about the server itself, whatever breakers say.
    pub(crate) async fn reach(
        &self,
        deadline: Instant,
        after: Option<&Arc<Connection>>,
    ) -> Result<Arc<Connection>, Status> {
        self.ready_for(false, false, deadline, Past::this(after)).await.map(|ready| ready.connection)
    }

    async fn ready_for(
        &self,
        is_guarded: bool,
        wait_for_ready: bool,
        deadline: Instant,
        past: Past<'_>,
    ) -> Result<Ready, Status> {
        let patience = if wait_for_ready { Patience::Ready } else { Patience::NoBackoff };
        loop {
            let cluster = self.inner.cluster.load_full();
            let ready = cluster.ready(patience, is_guarded, deadline, past).await;
            // A call that waited on a cluster which was replaced goes on with the one in its place.
            if ready.is_ok() || !cluster.is_closed() || cluster.id() == self.inner.cluster.load().id() {
                return ready;
            }
        }
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
