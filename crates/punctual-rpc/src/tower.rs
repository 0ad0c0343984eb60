//! `tower` layers around the calls of a channel, and around the handlers of a server.

use crate::client::{ClientInterceptor, Failure, Incoming, Next, Outgoing};
use crate::server::{Handled, ServerCall, ServerInterceptor, ServerNext};
use crate::transport::BoxFuture;
use punctual_proto::status::Status;
use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// What comes behind a layer is a service that is always ready: calls wait inside of it.
impl Service<Outgoing> for Next {
    type Response = Incoming;
    type Error = Failure;
    type Future = BoxFuture<'static, Result<Incoming, Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Outgoing) -> Self::Future {
        self.run(call)
    }
}

/// What comes behind a layer is a service that is always ready, and that runs the handler once: a second call to it fails.
impl Service<ServerCall> for ServerNext {
    type Response = Handled;
    type Error = Status;
    type Future = BoxFuture<'static, Result<Handled, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: ServerCall) -> Self::Future {
        Box::pin(self.take().run(call))
    }
}

/// A `tower` layer as an interceptor: of a client where it fits around a [`Next`], of a server where around a
/// [`ServerNext`], and of both where it does not mind what it is around.
///
/// The layer is asked for a service anew for each call, as what is behind it differs: what a service is to remember from
/// one call to the next, such as a limit of calls at once, must lie in the layer. Layers that send a request more than once
/// do not apply, since requests need not be cloneable: see [`RetryPolicy`](crate::RetryPolicy).
///
/// On a client an error of the layer's own becomes a status as [`Failure`] says. On a server a [`Status`] reaches the caller
/// as what it is, and every other error as Internal without its text, like an error that a handler did not expect: map it
/// to a status where the caller is to know.
pub struct TowerLayer<L>(L);

impl<L> TowerLayer<L> {
    /// This layer.
    pub fn new(layer: L) -> Self {
        TowerLayer(layer)
    }
}

impl<L, S> ClientInterceptor for TowerLayer<L>
where
    L: Layer<Next, Service = S> + Send + Sync + 'static,
    S: Service<Outgoing, Response = Incoming> + Send + 'static,
    S::Error: Into<Failure> + Send,
    S::Future: Send,
{
    fn intercept(&self, call: Outgoing, next: Next) -> BoxFuture<'_, Result<Incoming, Failure>> {
        let mut service = self.0.layer(next);
        Box::pin(async move {
            poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
            service.call(call).await.map_err(Into::into)
        })
    }
}

impl<L, S> ServerInterceptor for TowerLayer<L>
where
    L: Layer<ServerNext, Service = S> + Send + Sync + 'static,
    S: Service<ServerCall, Response = Handled> + Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>> + Send,
    S::Future: Send,
{
    fn intercept(&self, call: ServerCall, next: ServerNext) -> BoxFuture<'_, Result<Handled, Status>> {
        let mut service = self.0.layer(next);
        let method = call.method().full_name;
        Box::pin(async move {
            poll_fn(|cx| service.poll_ready(cx)).await.map_err(|error| told(method, error))?;
            service.call(call).await.map_err(|error| told(method, error))
        })
    }
}

/// What the caller is told of a layer's error.
fn told(method: &'static str, error: impl Into<Box<dyn Error + Send + Sync>>) -> Status {
    match error.into().downcast::<Status>() {
        Ok(status) => *status,
        Err(_) => {
            // Its text may hold what the caller sent.
            tracing::debug!(method, "a layer around the handler failed with an error that is no status");
            Status::unmapped()
        }
    }
}

impl<L> fmt::Debug for TowerLayer<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TowerLayer").finish_non_exhaustive()
    }
}
