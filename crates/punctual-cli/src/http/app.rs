//! What all routes share, and the way of a request through them.

use super::answer::Refusal;
use super::events::{self, Buffer, Streams, Watch};
use super::guard::{self, Guard};
use super::metrics::{self, Requests};
use super::role::Role;
use super::route::{Access, Action, Route, Verb, routes};
use super::{body, gateway, health, openapi, rest};
use axum::Router;
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use punctual::clock::{Clock, SystemClock, Timestamp};
use punctual::contract::ServiceDescription;
use punctual::engine::Engine;
use punctual::rpc::ServerHandle;
use punctual::rpc::telemetry::prometheus::Metrics as CallMetrics;
use punctual::{Channel, Code, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// What all routes share.
#[derive(Debug)]
pub(super) struct App {
    pub(super) guard: Guard,
    pub(super) engine: Engine,
    pub(super) server: ServerHandle,
    /// To the daemon's own server.
    pub(super) channel: Channel,
    /// What that serves.
    pub(super) services: Vec<ServiceDescription>,
    pub(super) calls: Arc<CallMetrics>,
    pub(super) requests: Requests,
    pub(super) events: Arc<Buffer>,
    pub(super) streams: Streams,
    pub(super) watch: Arc<Watch>,
    pub(super) started: Timestamp,
    /// How long the head of a stream's answer waits for its first item.
    pub(super) first_wait: Duration,
    draining: AtomicBool,
    stop: watch::Sender<bool>,
}

impl App {
    /// Connects to the daemon's own server.
    ///
    /// # Errors
    /// Where it does not answer.
    pub(super) async fn new(
        guard: Guard,
        engine: Engine,
        server: ServerHandle,
        door: &str,
        calls: Arc<CallMetrics>,
        events: Arc<Buffer>,
    ) -> Result<Self, Status> {
        let channel = Channel::builder(door).connect().await?;
        let services = channel.describe().await?;
        Ok(App {
            guard,
            engine,
            server,
            channel,
            services,
            calls,
            requests: Requests::default(),
            events,
            streams: Streams::default(),
            watch: Arc::default(),
            started: SystemClock.timestamp(),
            first_wait: gateway::FIRST_WAIT_MAX,
            draining: AtomicBool::new(false),
            stop: watch::Sender::new(false),
        })
    }

    /// The daemon is about to stop.
    pub(super) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Everything else has stopped: what goes on for ever ends now.
    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Tells when that is.
    pub(super) fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }
}

/// Waits until the daemon has stopped everything else, or is gone.
pub(super) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error says that nobody is left to say so.
    let _ = stopping.wait_for(|stop| *stop).await;
}

/// Everything that is answered: the routes of the table, and for the rest that there is none.
pub(super) fn router(app: &Arc<App>) -> Router {
    let mut router = Router::new();
    for route in routes() {
        let app = Arc::clone(app);
        let filter = match route.verb {
            Verb::Get => MethodFilter::GET,
            Verb::Post => MethodFilter::POST,
            Verb::Patch => MethodFilter::PATCH,
        };
        router = router.route(route.path, on(filter, move |request| answer(app, route, request)));
    }
    router
        .fallback(async || {
            let text = "there is nothing here; docs/http.md names what there is";
            sealed(Refusal::new(Code::NotFound, text).answer())
        })
        .method_not_allowed_fallback(async || {
            let text = "this is not asked for in this way; docs/http.md names what there is";
            let status = StatusCode::METHOD_NOT_ALLOWED;
            sealed(Refusal::with_status(status, Code::Unimplemented, text).answer())
        })
}

/// One request, from the check of who asks to the headers that every answer has.
async fn answer(app: Arc<App>, route: &'static Route, request: Request) -> Response {
    let answered = admitted(&app, route, request).await;
    let answer = answered.unwrap_or_else(Refusal::answer);
    app.requests.count(route, answer.status());
    sealed(answer)
}

async fn admitted(app: &Arc<App>, route: &'static Route, request: Request) -> Result<Response, Refusal> {
    let (mut parts, body) = request.into_parts();
    guard::write(&parts)?;
    let caller = match route.access {
        Access::Open => None,
        Access::Role(_) | Access::OfMethod => Some(app.guard.caller(&parts.headers)?),
    };
    if let (Access::Role(needed), Some(caller)) = (route.access, &caller) {
        guard::role(caller, needed)?;
    }
    let path = path(&mut parts).await?;
    match route.action {
        Action::Health => Ok(health::alive()),
        Action::Ready => Ok(health::ready(app).await),
        Action::Metrics => Ok(metrics::answer(app).await),
        Action::OpenApi => Ok(openapi::answer()),
        Action::Events => events::answer(app, &parts),
        Action::Admin(call) => {
            let sent = body::read(body).await?;
            let answered = rest::answer(app, call, &parts, &path, &sent).await;
            if let (Ok(_), Some(caller), true) = (&answered, &caller, route.verb != Verb::Get) {
                app.watch.now();
                // Who did it, and what to; not with which arguments, which may hold secrets.
                tracing::info!(caller = caller.name, role = %caller.role, method = call.method, path = parts.uri.path(), "asked over HTTP");
            }
            answered
        }
        Action::Gateway => {
            // Who is nobody does not learn what there is.
            let caller = caller.ok_or_else(|| Refusal::new(Code::Unauthenticated, "this needs a token"))?;
            guard::role(&caller, Role::View)?;
            let method = gateway::method(app, &path)?;
            let needed = gateway::role_of(method);
            guard::role(&caller, needed)?;
            let sent = body::read(body).await?;
            if needed > Role::View {
                tracing::info!(caller = caller.name, role = %caller.role, method = method.full_name, "called over HTTP");
            }
            let answered = gateway::answer(app, method, &parts, sent).await;
            if needed > Role::View {
                app.watch.now();
            }
            answered
        }
    }
}

/// The parts of the path that have names, decoded.
async fn path(parts: &mut Parts) -> Result<Vec<(String, String)>, Refusal> {
    let named = RawPathParams::from_request_parts(parts, &()).await;
    let named = named.map_err(|_| Refusal::new(Code::InvalidArgument, "the path is not UTF-8"))?;
    Ok(named.iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect())
}

/// No answer is kept, taken for another type, or shown inside of another site's page.
pub(super) fn sealed(mut answer: Response) -> Response {
    let headers: &mut HeaderMap = answer.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    answer
}
