//! Interceptors of a server: your own code around each handler.
//!
//! ```text
//!   call ─▶ first interceptor ─▶ second ─▶ ... ─▶ decode, handler
//!     ◀─────────────◀───────────────◀─────────────────◀──┘
//! ```
//! They run in the handler's task, behind the authorizer and the admission control and before anything of the arguments is
//! decoded. A server without interceptors pays nothing for them.

use crate::server::inbound::{Failure, Late};
use crate::transport::BoxFuture;
use punctual_clock::Instant;
use punctual_context::{Context, Identity, Metadata, MetadataError};
use punctual_proto::contract::MethodDescriptor;
use punctual_proto::status::Status;
use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The most interceptors of a server. Each is a box and a poll of every call.
pub const SERVER_INTERCEPTORS_MAX: usize = 32;

/// Your own code around each call of a server, of every shape.
///
/// What it awaits counts against the call's budget. Where the call is over, it is dropped at its next scheduling point with
/// everything that it called.
///
/// ```
/// use punctual_rpc::server::{Handled, ServerCall, ServerInterceptor, ServerNext};
/// use punctual_rpc::transport::BoxFuture;
/// use punctual_rpc::Status;
///
/// /// Lets in who names a tenant, and says which version answered.
/// #[derive(Debug)]
/// struct Tenants;
///
/// impl ServerInterceptor for Tenants {
///     fn intercept(&self, call: ServerCall, next: ServerNext) -> BoxFuture<'_, Result<Handled, Status>> {
///         Box::pin(async move {
///             if call.metadata().get("tenant").is_none() {
///                 return Err(Status::invalid_argument("name your tenant in the metadata"));
///             }
///             // A one-way call has no response to add to.
///             let _ = call.respond_with("version", "7");
///             next.run(call).await
///         })
///     }
/// }
///
/// let server = punctual_rpc::Server::builder().interceptor(Tenants);
/// # let _ = server;
/// ```
pub trait ServerInterceptor: fmt::Debug + Send + Sync + 'static {
    /// Runs the handler with `next`, or refuses the call with a status instead. It may look at how the handler ended, and put
    /// a status in the place of that; of a returned stream it hears at its end, when nothing can be changed any more.
    fn intercept(&self, call: ServerCall, next: ServerNext) -> BoxFuture<'_, Result<Handled, Status>>;
}

/// A call on its way to its handler.
#[derive(Debug)]
pub struct ServerCall {
    method: &'static MethodDescriptor,
    context: Context,
}

impl ServerCall {
    /// The method.
    #[must_use]
    pub fn method(&self) -> &'static MethodDescriptor {
        self.method
    }

    /// What its handler will have as its context.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The caller's metadata.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        self.context.metadata()
    }

    /// Who the caller is, where the server asks.
    #[must_use]
    pub fn identity(&self) -> Option<&Identity> {
        self.context.identity()
    }

    /// When its budget ends, on the server's clock; `None` for never.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.context.deadline()
    }

    /// Sends an entry along with the response, as [`Context::respond_with`] does.
    ///
    /// # Errors
    /// As there.
    pub fn respond_with(&self, name: &str, value: impl AsRef<[u8]>) -> Result<(), MetadataError> {
        self.context.respond_with(name, value)
    }
}

/// How a handler ended that did not fail with a status. Its result goes to the caller unless a status takes its place.
#[derive(Debug)]
pub struct Handled {
    application_error: bool,
}

impl Handled {
    /// Whether it ended with the application's own error.
    #[must_use]
    pub fn is_application_error(&self) -> bool {
        self.application_error
    }
}

pub(crate) type Chain = Arc<[Arc<dyn ServerInterceptor>]>;

/// The rest of the way to the handler. Dropped, the handler does not run.
#[must_use = "a handler runs when this does"]
pub struct ServerNext {
    chain: Chain,
    at: usize,
    handler: BoxFuture<'static, Result<Handled, Status>>,
}

impl ServerNext {
    /// Goes on to the next interceptor or, behind the last one, to the handler.
    ///
    /// # Errors
    /// The status that the call is to end with.
    ///
    /// # Cancel safety
    /// Dropping the future drops the handler.
    pub async fn run(self, call: ServerCall) -> Result<Handled, Status> {
        let ServerNext { chain, at, handler } = self;
        match chain.get(at).cloned() {
            Some(interceptor) => interceptor.intercept(call, ServerNext { chain, at: at + 1, handler }).await,
            None => handler.await,
        }
    }
}

#[cfg(feature = "tower")]
impl ServerNext {
    /// The way to the handler out of a service, which is called by reference. What stays behind leads nowhere.
    pub(crate) fn take(&mut self) -> ServerNext {
        let nowhere = ServerNext {
            chain: Arc::clone(&self.chain),
            at: self.chain.len(),
            handler: Box::pin(async {
                Err(Status::internal("a layer called a handler twice; a call has it run once"))
            }),
        };
        std::mem::replace(self, nowhere)
    }
}

impl fmt::Debug for ServerNext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerNext").field("at", &self.at).finish_non_exhaustive()
    }
}

/// Runs `handler` inside of the chain. Its typed result stays here while the chain hears how it ended.
pub(crate) async fn intercepted<T, E>(
    chain: Chain,
    method: &'static MethodDescriptor,
    handler: impl Future<Output = Late<T, E>> + Send + 'static,
) -> Late<T, E>
where
    T: Send + 'static,
    E: Send + 'static,
{
    let Some(context) = Context::current() else { return handler.await };
    let ended = Arc::new(Mutex::new(None));
    let kept = Arc::clone(&ended);
    let handler = Box::pin(async move {
        let Late(result) = handler.await;
        let handled = handled(&result);
        *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        handled
    });
    let next = ServerNext { chain, at: 0, handler };
    let outcome = next.run(ServerCall { method, context }).await;
    let result = ended.lock().unwrap_or_else(PoisonError::into_inner).take();
    Late(match (outcome, result) {
        (Ok(_), Some(result)) => result,
        // It was answered with a stream, which came to its end.
        (Err(_), Some(answered @ Err(Failure::Answered(_)))) => answered,
        (Err(status), _) => Err(Failure::Status(status)),
        // What says that a handler has ended comes from a handler that has.
        (Ok(_), None) => Err(Failure::Status(Status::unmapped())),
    })
}

fn handled<T, E: 'static>(result: &Result<T, Failure<E>>) -> Result<Handled, Status> {
    match result {
        Ok(_) | Err(Failure::Answered(_)) => Ok(Handled { application_error: false }),
        Err(Failure::Status(status)) => Err(status.clone()),
        Err(Failure::App(error)) => match (error as &dyn Any).downcast_ref::<Status>() {
            Some(status) => Err(status.clone()),
            None => Ok(Handled { application_error: true }),
        },
    }
}
