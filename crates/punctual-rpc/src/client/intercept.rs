//! Interceptors of a client: your own code around each call, with its typed request and result.
//!
//! ```text
//!   call ─▶ first interceptor ─▶ second ─▶ ... ─▶ the call itself, with its retries
//!     ◀─────────────◀───────────────◀─────────────────◀──┘
//! ```
//! A channel without interceptors pays nothing for them: its calls never come here.

use crate::client::config::ChannelConfig;
use crate::client::options::CallOptions;
use crate::client::publish::Callee;
use crate::client::timer::sleep_until;
use crate::transport::BoxFuture;
use punctual_clock::Instant;
use punctual_context::Metadata;
use punctual_proto::contract::MethodDescriptor;
use punctual_proto::status::{CallError, Status};
use std::any::Any;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The most interceptors of a channel. Each is a box and a poll of every call.
pub const INTERCEPTORS_MAX: usize = 32;

/// Your own code around each call of a channel.
///
/// It sees every call of every shape that is made through a generated client, by its descriptor, or by its name
/// ([`Channel::call_json`](crate::Channel::call_json), where request and result are `Bytes` of JSON); descriptions and health it
/// does not. What it awaits counts against
/// the call's deadline, which it cannot pass: the call ends there whatever it does. Dropping the call drops it.
///
/// ```
/// use punctual_rpc::client::{ClientInterceptor, Failure, Incoming, Next, Outgoing};
/// use punctual_rpc::transport::BoxFuture;
///
/// /// Sends a tenant along with each call.
/// #[derive(Debug)]
/// struct Tenant(&'static str);
///
/// impl ClientInterceptor for Tenant {
///     fn intercept(&self, mut call: Outgoing, next: Next) -> BoxFuture<'_, Result<Incoming, Failure>> {
///         Box::pin(async move {
///             call.add_metadata("tenant", self.0)?;
///             next.run(call).await
///         })
///     }
/// }
///
/// let channel = punctual_rpc::Channel::builder("tcp://127.0.0.1:7400").interceptor(Tenant("a")).lazy();
/// assert!(channel.is_ok());
/// ```
pub trait ClientInterceptor: fmt::Debug + Send + Sync + 'static {
    /// Makes the call with `next`, once or, where nothing is to be sent, not at all. It may change the request and the
    /// metadata before, and the result after.
    fn intercept(&self, call: Outgoing, next: Next) -> BoxFuture<'_, Result<Incoming, Failure>>;
}

/// A call on its way out.
#[derive(Debug)]
pub struct Outgoing {
    method: &'static MethodDescriptor,
    deadline: Instant,
    options: CallOptions,
    request: Erased,
}

impl Outgoing {
    /// The method that is called.
    #[must_use]
    pub fn method(&self) -> &'static MethodDescriptor {
        self.method
    }

    /// When the call ends at the latest, on the channel's clock; `None` for never.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        (self.deadline != Instant::FAR).then_some(self.deadline)
    }

    /// Lets the call end at this instant, where that is sooner.
    pub fn limit_deadline(&mut self, deadline: Instant) {
        self.deadline = self.deadline.min(deadline);
    }

    /// What is sent along.
    #[must_use]
    pub fn metadata(&self) -> Metadata {
        self.options.metadata_so_far()
    }

    /// Sends this entry along.
    ///
    /// # Errors
    /// InvalidArgument where the name or the value is none that can be sent.
    pub fn add_metadata(&mut self, name: &str, value: impl AsRef<[u8]>) -> Result<(), Status> {
        let mut metadata = self.metadata();
        metadata.append(name, value).map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.options.replace_metadata(metadata);
        Ok(())
    }

    /// The request, if it is of this type: one of the structures in the module of its service (`billing::Charge`). The
    /// streams of a call are not part of it.
    #[must_use]
    pub fn request<R: Any>(&self) -> Option<&R> {
        self.request.0.downcast_ref()
    }

    /// The same to be changed.
    #[must_use]
    pub fn request_mut<R: Any>(&mut self) -> Option<&mut R> {
        self.request.0.downcast_mut()
    }
}

/// What a call gave.
#[derive(Debug)]
pub struct Incoming {
    value: Erased,
    metadata: Metadata,
}

impl Incoming {
    /// A result that no server gave, with which an interceptor answers the call itself. Its type must be the method's:
    /// else the call fails with Internal.
    pub fn new<T: Any + Send>(value: T) -> Self {
        Incoming { value: Erased(Box::new(value)), metadata: Metadata::new() }
    }

    /// The result, if it is of this type: what the method returns, `()` for a one-way call, and the
    /// [`Streaming`](crate::Streaming) for one that gives a stream.
    #[must_use]
    pub fn value<T: Any>(&self) -> Option<&T> {
        self.value.0.downcast_ref()
    }

    /// The same to be changed.
    #[must_use]
    pub fn value_mut<T: Any>(&mut self) -> Option<&mut T> {
        self.value.0.downcast_mut()
    }

    /// What the server sent along.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// Why a call failed, as interceptors see it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The application's error.
    App(AppError),
    /// Anything else.
    Status(Status),
}

impl Failure {
    /// The status, where it was one.
    #[must_use]
    pub fn status(&self) -> Option<&Status> {
        match self {
            Failure::App(_) => None,
            Failure::Status(status) => Some(status),
        }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Failure::Status(status)
    }
}

/// What a layer of somebody else's failed with: a failure or a status that it passed on is what it was, anything else
/// Unknown with its text.
impl From<Box<dyn Error + Send + Sync>> for Failure {
    fn from(error: Box<dyn Error + Send + Sync>) -> Self {
        let error = match error.downcast::<Failure>() {
            Ok(failure) => return *failure,
            Err(error) => error,
        };
        match error.downcast::<Status>() {
            Ok(status) => Failure::Status(*status),
            Err(error) => Failure::Status(Status::unknown(error.to_string())),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::App(_) => f.write_str("the application's error"),
            Failure::Status(status) => status.fmt(f),
        }
    }
}

impl Error for Failure {}

/// The application's error of a call.
///
/// It can be shared between threads although its type need not be, as errors of `tower` are: hence it is reached through an
/// exclusive reference only.
#[derive(Debug)]
pub struct AppError(Mutex<Erased>);

impl AppError {
    /// An error that no handler gave. Its type must be the method's: else the call fails with Internal.
    pub fn new<E: Any + Send>(error: E) -> Self {
        AppError(Mutex::new(Erased(Box::new(error))))
    }

    /// The error, if it is of this type.
    #[must_use]
    pub fn get_mut<E: Any>(&mut self) -> Option<&mut E> {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).0.downcast_mut()
    }

    fn into_inner(self) -> Box<dyn Any + Send> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner).0
    }
}

/// A value whose type only those know who ask for it.
struct Erased(Box<dyn Any + Send>);

impl fmt::Debug for Erased {
    /// Nothing of the value: it is the application's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

/// Makes the call itself.
type Last = dyn Fn(Outgoing) -> BoxFuture<'static, Result<Incoming, Failure>> + Send + Sync;

/// What comes behind an interceptor: the next one, and at the end the call itself.
#[derive(Clone)]
pub struct Next {
    /// Those that the call began with, interceptors and all.
    settings: Arc<ChannelConfig>,
    at: usize,
    last: Arc<Last>,
}

impl Next {
    /// Makes the call.
    ///
    /// # Errors
    /// Why it failed.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call.
    pub fn run(&self, call: Outgoing) -> BoxFuture<'static, Result<Incoming, Failure>> {
        match self.settings.interceptors.get(self.at).cloned() {
            Some(interceptor) => {
                let next = Next { at: self.at + 1, ..self.clone() };
                Box::pin(async move { interceptor.intercept(call, next).await })
            }
            None => (self.last)(call),
        }
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("left", &self.settings.interceptors.len().saturating_sub(self.at)).finish()
    }
}

/// Runs a call inside of its interceptors. `last` makes the call itself, with options whose deadline is fixed.
pub(crate) async fn around<A, T, E>(
    settings: Arc<ChannelConfig>,
    callee: Callee,
    args: A,
    mut options: CallOptions,
    deadline: Instant,
    last: impl Fn(A, CallOptions) -> BoxFuture<'static, Result<T, CallError<E>>> + Send + Sync + 'static,
) -> Result<T, CallError<E>>
where
    A: Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    let heard = options.hear();
    let last = move |call: Outgoing| -> BoxFuture<'static, Result<Incoming, Failure>> {
        let Outgoing { deadline, options, request, .. } = call;
        let Ok(args) = request.0.downcast::<A>() else { return Box::pin(async { Err(exchanged("request").into()) }) };
        let (running, heard) = (last(*args, options.fixed(deadline)), heard.clone());
        Box::pin(async move {
            match running.await {
                Ok(value) => Ok(Incoming { value: Erased(Box::new(value)), metadata: heard.so_far() }),
                Err(CallError::App(error)) => Err(Failure::App(AppError::new(error))),
                Err(CallError::Status(status)) => Err(Failure::Status(status)),
            }
        })
    };
    let clock = Arc::clone(&settings.clock);
    let next = Next { settings, at: 0, last: Arc::new(last) };
    let call = Outgoing { method: callee.method, deadline, options, request: Erased(Box::new(args)) };
    let result = tokio::select! {
        biased;
        result = next.run(call) => result,
        () = sleep_until(&*clock, deadline) => return Err(Status::deadline_exceeded(
            "the deadline passed while the call was with the channel's interceptors",
        ).into()),
    };
    match result {
        Ok(incoming) => match incoming.value.0.downcast::<T>() {
            Ok(value) => Ok(*value),
            Err(_) => Err(exchanged("result").into()),
        },
        Err(Failure::App(error)) => match error.into_inner().downcast::<E>() {
            Ok(error) => Err(CallError::App(*error)),
            Err(_) => Err(exchanged("error").into()),
        },
        Err(Failure::Status(status)) => Err(CallError::Status(status)),
    }
}

fn exchanged(what: &str) -> Status {
    Status::internal(format!("an interceptor exchanged the {what} for one of another type"))
}
