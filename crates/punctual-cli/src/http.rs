//! HTTP on the daemon: health, metrics, the admin contract as an API, events, and a gateway to every service.
//!
//! ```text
//!  listener ─▶ guard (host) ─▶ router ─▶ guard (token, role, origin) ─▶ action
//! ```
//! [`route`] is the one table of what there is, each row with who may ask for it: the router is made of it, so that there is no
//! route without a rule. Off unless the settings name an address.

mod answer;
mod app;
mod body;
mod events;
mod gateway;
mod guard;
mod health;
mod listener;
mod metrics;
mod openapi;
mod options;
mod pipe;
mod rest;
mod role;
mod route;
mod tokens;

pub(crate) use role::Role;
pub(crate) use tokens::{Tokens, check_name, make as make_token, role_of};

use crate::config::HttpSettings;
use crate::exit::Failure;
use app::App;
use events::{Buffer, Watch};
use guard::Guard;
use listener::Listening;
use punctual::clock::{Clock, SystemClock};
use punctual::engine::{Engine, ObserveAttempts};
use punctual::rpc::telemetry::prometheus::Metrics as CallMetrics;
use punctual::rpc::{ServerHandle, Telemetry};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// Where the daemon's own server is asked, inside of the process. What comes in here came over HTTP: whoever decides by where a call
/// is from knows it by this.
pub(crate) const DOOR: &str = "inproc:punctual-http";

/// An address that is bound: clients may connect, and wait.
pub(crate) struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    guard: Guard,
    tokens: Option<Arc<Tokens>>,
    calls: Arc<CallMetrics>,
    events: Arc<Buffer>,
}

/// A server that answers.
pub(crate) struct Running {
    address: SocketAddr,
    app: Arc<App>,
    tokens: Option<Arc<Tokens>>,
    listening: Listening,
}

impl Bound {
    /// Reads the tokens and binds the address; nothing without one.
    ///
    /// # Errors
    /// Names the file or the address that does not do.
    pub(crate) async fn bind(settings: &HttpSettings) -> Result<Option<Self>, Failure> {
        let Some(address) = settings.listen else { return Ok(None) };
        let tokens = settings.tokens.as_deref().map(Tokens::read).transpose().map_err(Failure::usage)?.map(Arc::new);
        let listener = TcpListener::bind(address).await.map_err(|error| {
            Failure::failed(format!("cannot listen on http://{address}: {error}; choose another address by --http"))
        })?;
        let address = listener.local_addr().map_err(|error| Failure::failed(format!("http://{address}: {error}")))?;
        let guard = Guard::new(settings, address, tokens.clone());
        // Numbers of events begin anew with each start, which this tells apart.
        let events = Arc::new(Buffer::new(format!("{:x}", SystemClock.timestamp().as_micros())));
        Ok(Some(Bound { listener, address, guard, tokens, calls: Arc::new(CallMetrics::new()), events }))
    }

    /// What the server of calls is to tell of them.
    pub(crate) fn telemetry(&self) -> Telemetry {
        Telemetry::new().observer(Arc::clone(&self.calls) as Arc<_>)
    }

    /// What the engine is to tell of attempts.
    pub(crate) fn observer(&self) -> Arc<dyn ObserveAttempts> {
        Arc::clone(&self.events) as Arc<_>
    }

    /// Answers from now on. The server listens at [`DOOR`].
    ///
    /// # Errors
    /// Where the server does not answer there.
    pub(crate) async fn start(self, engine: Engine, server: ServerHandle) -> Result<Running, Failure> {
        let Bound { listener, address, guard, tokens, calls, events } = self;
        calls.server("daemon", &server);
        let app =
            App::new(guard, engine.clone(), server, DOOR, calls, Arc::clone(&events)).await.map_err(|status| {
                Failure::from(status).map_message(|text| format!("HTTP cannot ask the daemon's own server: {text}"))
            })?;
        let app = Arc::new(app);
        let begun = Watch::begin(&engine).await;
        tokio::spawn(Watch::run(Arc::clone(&app.watch), engine, events, begun, app.stopping()));
        let listening = Listening::start(listener, &app);
        Ok(Running { address, app, tokens, listening })
    }
}

impl Running {
    /// `http://127.0.0.1:8080`.
    pub(crate) fn address(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Takes up a file of tokens that may have changed.
    pub(crate) fn reload(&self) {
        match self.tokens.as_ref().map(|tokens| tokens.reload()) {
            None => {}
            Some(Ok(())) => tracing::info!("tokens were read again"),
            Some(Err(error)) => tracing::error!(%error, "tokens could not be read again; the old ones stay"),
        }
    }

    /// Says that the daemon stops: it is not ready any more.
    pub(crate) fn drain(&self) {
        self.app.drain();
    }

    /// Ends what is under way, within a bound.
    pub(crate) async fn stop(self) {
        self.app.stop();
        self.listening.ended().await;
        self.app.channel.clone().close().await;
    }
}
