//! `tower` layers around the calls of a channel.

use crate::client::intercept::{ClientInterceptor, Failure, Incoming, Next, Outgoing};
use crate::transport::BoxFuture;
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

/// A `tower` layer as an interceptor.
///
/// The layer is asked for a service anew for each call, as what is behind it differs: what a service is to remember from
/// one call to the next, such as a limit of calls at once, must lie in the layer. An error of the layer's own becomes a
/// status as [`Failure`] says. Layers that send a request more than once do not apply, since requests need not be
/// cloneable: see [`RetryPolicy`](crate::RetryPolicy).
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

impl<L> fmt::Debug for TowerLayer<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TowerLayer").finish_non_exhaustive()
    }
}
