//! A server in the making, and one that is bound.

use crate::address::Address;
use crate::server::accept::accept_all;
use crate::server::config::ServerConfig;
use crate::server::error::ServerError;
use crate::server::inbound::Inbound;
use crate::server::intercept::ServerInterceptor;
use crate::server::lifetime::{Contract, Factory, PerCall, PerConnection};
use crate::server::listener::Listener;
use crate::server::registry::Registry;
use crate::server::service::Service;
use crate::server::shared::Shared;
use crate::server::stop::{Phase, ServerHandle, Serving, Stopped, stop};
use crate::telemetry::Telemetry;
use crate::transport::Listen;
use punctual_context::Peer;
use punctual_proto::handshake::{Reply, Welcome};
use punctual_proto::status::Status;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A server in the making.
#[must_use = "a builder makes a server only when it is told to bind"]
pub struct ServerBuilder {
    services: Vec<Arc<dyn Service>>,
    factories: Vec<Factory>,
    addresses: Vec<String>,
    custom: Vec<Box<dyn Listen>>,
    config: ServerConfig,
}

impl ServerBuilder {
    /// Serves this, too: one instance for all connections and calls.
    pub fn service(mut self, service: impl Service) -> Self {
        self.services.push(Arc::new(service));
        self
    }

    /// Serves a service, too, of which every connection has an instance of its own, which all its calls share.
    ///
    /// `make` runs in the handshake, once the peer has proved who it is, and must not block. Its status turns the peer away,
    /// as a panic does. The instance is dropped when the connection has ended, and the last of its calls with it.
    pub fn service_per_connection<S: Contract>(
        mut self,
        make: impl Fn(&Peer) -> Result<S, Status> + Send + Sync + 'static,
    ) -> Self {
        self.services.push(Arc::new(PerConnection { place: self.factories.len(), contract: S::contract() }));
        self.factories.push(Factory::new(make));
        self
    }

    /// Serves a service, too, of which every call has an instance of its own.
    ///
    /// `make` runs when the call was let in and before its arguments are decoded, in the connection's own task: it must not
    /// block. Its status is the call's answer; a panic refuses that call alone. The instance is dropped with the call's
    /// handler, before the call is answered, or with the stream that the handler returned, before its end is sent.
    pub fn service_per_call<S: Contract>(
        mut self,
        make: impl Fn(&Inbound<'_>) -> Result<S, Status> + Send + Sync + 'static,
    ) -> Self {
        self.services.push(Arc::new(PerCall::<S, _>::new(make)));
        self
    }

    /// With these settings.
    pub fn config(mut self, config: ServerConfig) -> Self {
        self.config = config;
        self
    }

    /// Seen by these.
    pub fn telemetry(mut self, telemetry: Telemetry) -> Self {
        self.config.telemetry = telemetry;
        self
    }

    /// Runs each handler inside of this, too; the first one is outermost.
    pub fn interceptor(mut self, interceptor: impl ServerInterceptor) -> Self {
        self.config.interceptors.push(Arc::new(interceptor));
        self
    }

    /// Listens here, too: `tcp://host:port` (port 0 for a free one), `unix:/path`, `unix:@name`,
    /// `shm:/path` or `inproc:name`.
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.addresses.push(address.into());
        self
    }

    /// Listens on a transport of your own, too.
    pub fn listen_on(mut self, listener: impl Listen) -> Self {
        self.custom.push(Box::new(listener));
        self
    }

    /// Allows listening without encryption on addresses that other machines reach.
    pub fn allow_plaintext_off_loopback(mut self, allow: bool) -> Self {
        self.config.allow_plaintext_off_loopback = allow;
        self
    }

    /// Binds every address. Peers may connect from here on; they are served by [`Server::serve`].
    ///
    /// # Errors
    /// The first setting, service or address that does not do.
    pub async fn bind(self) -> Result<Server, ServerError> {
        self.config.validate()?;
        let registry = Registry::new(self.services)?;
        if let Some(name) = registry.unknown(&self.config.admission) {
            let text =
                format!("the admission control names {name:?}, which is not served here; serve it, or drop its limits");
            return Err(ServerError::config(text));
        }
        // Else every client would be told so, one by one.
        Reply::Welcome(Welcome::new(self.config.limits, registry.entries()))
            .put(&mut Vec::new())
            .map_err(|error| ServerError::config(format!("the handshake cannot name the services: {error}")))?;
        let mut listeners = Vec::new();
        for text in &self.addresses {
            let address = Address::parse(text).map_err(|error| ServerError::config(error.to_string()))?;
            listeners.push(Listener::bind(&address, &self.config).await?);
        }
        listeners.extend(self.custom.into_iter().map(Listener::Custom));
        if listeners.is_empty() {
            return Err(ServerError::config("a server needs an address to listen on"));
        }
        let addresses = listeners.iter().map(Listener::address).collect();
        let shared = Arc::new(Shared::new(self.config, registry, self.factories));
        let handle = ServerHandle { shared, phase: watch::Sender::new(Phase::Bound), addresses };
        Ok(Server { listeners, serving: Serving(handle.phase.clone()), handle })
    }

    /// Binds, and serves until `shutdown` is ready; then stops with the configured grace.
    ///
    /// # Errors
    /// As [`ServerBuilder::bind`].
    pub async fn serve_with_shutdown(self, shutdown: impl Future<Output = ()>) -> Result<Stopped, ServerError> {
        Ok(self.bind().await?.serve_with_shutdown(shutdown).await)
    }
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// A server whose addresses are bound.
#[must_use = "a bound server serves nobody until it is told to"]
pub struct Server {
    listeners: Vec<Listener>,
    serving: Serving,
    handle: ServerHandle,
}

impl Server {
    /// A server without services and addresses.
    pub fn builder() -> ServerBuilder {
        ServerBuilder {
            services: Vec::new(),
            factories: Vec::new(),
            addresses: Vec::new(),
            custom: Vec::new(),
            config: ServerConfig::default(),
        }
    }

    /// Where it listens; ports that the system chose are filled in.
    #[must_use]
    pub fn local_addrs(&self) -> &[String] {
        &self.handle.addresses
    }

    /// A handle to stop it and to look into it.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        self.handle.clone()
    }

    /// Serves until the handle says to stop.
    ///
    /// # Cancel safety
    /// Dropping the future stops accepting and leaves open connections to their tasks, until the handle shuts them down.
    pub async fn serve(self) -> Stopped {
        self.serve_with_shutdown(std::future::pending()).await
    }

    /// Serves until `shutdown` is ready or the handle says to stop; then stops.
    ///
    /// # Cancel safety
    /// As [`Server::serve`].
    pub async fn serve_with_shutdown(self, shutdown: impl Future<Output = ()>) -> Stopped {
        let Server { listeners, serving, handle } = self;
        handle.phase.send_if_modified(|phase| {
            let starts = *phase == Phase::Bound;
            if starts {
                *phase = Phase::Serving;
            }
            starts
        });
        let mut accepting = JoinSet::new();
        for listener in listeners {
            tracing::info!(address = %listener.address(), "listening");
            accepting.spawn(accept_all(listener, Arc::clone(&handle.shared)));
        }
        let grace = wait_for_stop(&handle, shutdown).await;
        handle.shared.drain();
        handle.phase.send_if_modified(|phase| {
            let begins = *phase == Phase::Serving;
            if begins {
                *phase = Phase::Stopping(grace);
            }
            begins
        });
        accepting.shutdown().await;
        let stopped = stop(&handle.shared, grace).await;
        serving.0.send_replace(Phase::Stopped(stopped));
        stopped
    }

    /// Serves in a task of its own.
    #[must_use]
    pub fn spawn(self) -> ServerHandle {
        let handle = self.handle();
        tokio::spawn(self.serve());
        handle
    }
}

async fn wait_for_stop(handle: &ServerHandle, shutdown: impl Future<Output = ()>) -> Duration {
    let mut phases = handle.phase.subscribe();
    tokio::select! {
        biased;
        stopping = phases.wait_for(|phase| *phase != Phase::Serving) => match stopping.as_deref() {
            Ok(Phase::Stopping(grace)) => *grace,
            _ => handle.shared.config.grace,
        },
        () = shutdown => handle.shared.config.grace,
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.handle.addresses).finish_non_exhaustive()
    }
}
