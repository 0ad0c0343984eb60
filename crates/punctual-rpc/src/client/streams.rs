//! The call objects of methods with streams. Each is the future of its reply; what it sends is produced beside it.

mod exchange;

pub(crate) use exchange::{Parts, StreamCallKey, oneway, returned, single, single_bytes};

use crate::client::channel::Channel;
use crate::client::intercept::around;
use crate::client::oneway::status_of;
use crate::client::options::{CallOptions, call_options};
use crate::client::publish::{Callee, deadline_of};
use crate::client::reply::{name_method, read_answer, read_failure};
use crate::client::response::WithResponse;
use crate::streaming::{Source, Streaming};
use crate::telemetry::{Watch, outcome_of, sent_outcome};
use crate::transport::BoxFuture;
use punctual_proto::codec::Args;
use punctual_proto::contract::{MethodDescriptor, ServiceDescriptor};
use punctual_proto::status::{CallError, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

/// A call with streams: nothing happens until it is awaited. Options come first, by value.
///
/// Its deadline is fixed at its first poll. It covers the call up to its end, that of a returned stream included. There is
/// none unless the call, its method or the handler that it is made in has one: the channel's default is for unary calls
/// alone. A producer is polled when the request's last byte was written, and not before.
///
/// What it gives is in [`ClientStream`], [`ServerStream`], [`Duplex`] and [`OneWayStream`].
///
/// # Cancel safety
/// Dropping it before its first poll sends nothing, and drops its streams. Dropping it later cancels the call on the
/// server.
///
/// # Panics
/// When it is polled after it was done.
#[must_use = "a call is made when it is awaited"]
pub struct StreamCall<A, R> {
    method: &'static MethodDescriptor,
    options: CallOptions,
    /// Where somebody looks on, and what becomes of that with the result.
    watch: Option<(Box<Watch>, Judge<R>)>,
    state: State<A, R>,
}

/// A call that takes streams and gives one result. Its producers run inside of it: they make progress while it is polled.
///
/// # Errors
/// As [`Unary`](crate::Unary). The server may answer before the streams have come to their end; what is left of them is
/// then dropped.
pub type ClientStream<A, T, E> = StreamCall<A, Result<T, CallError<E>>>;

/// A call that gives a stream. It is done when the stream is open; dropping the stream cancels the call.
///
/// # Errors
/// As [`Unary`](crate::Unary), up to the stream's opening.
pub type ServerStream<A, T, S, E> = StreamCall<A, Result<Streaming<T, S>, CallError<E>>>;

/// A call that takes streams and gives one. Its producers run in a task of their own, which ends with the call.
///
/// # Errors
/// As [`ServerStream`].
pub type Duplex<A, T, S, E> = StreamCall<A, Result<Streaming<T, S>, CallError<E>>>;

/// A one-way call that takes streams. It is done when its request was written; its producers then run on in a task of
/// their own, up to their ends, the call's deadline or the end of the handler.
///
/// # Errors
/// Why it was not sent, or not before its deadline.
pub type OneWayStream<A> = StreamCall<A, Result<(), Status>>;

/// What makes the call.
type Run<A, R> = fn(Parts<A>, CallOptions) -> BoxFuture<'static, R>;

/// What tells who looks on how it ended, or leaves that to the stream that it gave.
type Judge<R> = fn(&mut R, Box<Watch>);

enum State<A, R> {
    New(Box<Parts<A>>, Run<A, R>),
    Running(BoxFuture<'static, R>),
    Done,
}

impl<A, R> StreamCall<A, R> {
    call_options!();

    fn new(
        channel: &Channel,
        service: &'static ServiceDescriptor,
        method: &'static MethodDescriptor,
        args: A,
        sources: Vec<Box<dyn Source>>,
        run: Run<A, R>,
        judge: Judge<R>,
    ) -> Self {
        let mut options = CallOptions::new();
        let watch = Watch::client(channel, method, &mut options).map(|watch| (watch, judge));
        let callee = Callee::of(service, method);
        let parts = Parts { channel: channel.clone(), callee, args, sources };
        StreamCall { method, options, watch, state: State::New(Box::new(parts), run) }
    }
}

impl<A, T, E> StreamCall<A, Result<T, CallError<E>>> {
    /// The same call, for the metadata that the server sends along with the result or the error. Those of a returned
    /// stream are with that, too.
    pub fn with_response(mut self) -> WithResponse<Self> {
        let heard = self.options.hear();
        WithResponse::new(self, heard)
    }
}

// What it owns is moved out before it is used, never pinned.
impl<A, R> Unpin for StreamCall<A, R> {}

impl<A, R> Future for StreamCall<A, R> {
    type Output = R;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        let this = self.get_mut();
        let Some((mut watch, judge)) = this.watch.take() else { return this.poll_call(cx) };
        let mut polled = watch.around(|| this.poll_call(cx));
        match &mut polled {
            Poll::Ready(result) => judge(result, watch),
            Poll::Pending => this.watch = Some((watch, judge)),
        }
        polled
    }
}

impl<A, R> StreamCall<A, R> {
    fn poll_call(&mut self, cx: &mut Context<'_>) -> Poll<R> {
        let this = self;
        loop {
            match std::mem::replace(&mut this.state, State::Done) {
                State::New(parts, run) => {
                    this.state = State::Running(run(*parts, std::mem::take(&mut this.options)));
                }
                State::Running(mut running) => {
                    let polled = running.as_mut().poll(cx);
                    if polled.is_pending() {
                        this.state = State::Running(running);
                    }
                    return polled;
                }
                State::Done => panic!("a call was polled after it was done"),
            }
        }
    }
}

impl<A, R> fmt::Debug for StreamCall<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamCall").field("method", &self.method.full_name).finish_non_exhaustive()
    }
}

/// The producers of a call's arguments that are streams, in the order of the method.
#[derive(Default)]
pub struct Streams(Vec<Box<dyn Source>>);

impl Streams {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Streams::default()
    }

    /// The same with this one behind the others.
    #[must_use]
    pub fn with<T, E>(mut self, stream: Streaming<T, E>) -> Self
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Serialize + DeserializeOwned + From<Status> + Send + 'static,
    {
        self.0.push(Box::new(crate::streaming::TypedSource(stream)));
        self
    }
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Streams").field(&self.0.len()).finish()
    }
}

impl Channel {
    /// Calls the method at `method` in the descriptor, which takes streams and gives one result.
    pub fn client_stream<A, T, E>(
        &self,
        service: &'static ServiceDescriptor,
        method: usize,
        args: A,
        streams: Streams,
    ) -> ClientStream<A, T, E>
    where
        A: Args + Serialize + Send + 'static,
        T: DeserializeOwned + Send + 'static,
        E: DeserializeOwned + Send + 'static,
    {
        let method = crate::client::channel::method_of(service, method);
        let run: Run<A, Result<T, CallError<E>>> = |parts, options| {
            Box::pin(async move {
                let (id, name) = (parts.callee.id, parts.callee.method.full_name);
                let result = if parts.channel.has_policies() {
                    intercepted(parts, options, |parts, options| Box::pin(single(parts, options, read_answer))).await
                } else {
                    single(parts, options, read_answer).await
                };
                result.map_err(|error| name_method(error, id, name))
            })
        };
        StreamCall::new(self, service, method, args, streams.0, run, |result, watch| watch.end(outcome_of(result)))
    }

    /// Calls the method at `method` in the descriptor, which gives a stream, and may take some.
    pub fn returned_stream<A, T, S, E>(
        &self,
        service: &'static ServiceDescriptor,
        method: usize,
        args: A,
        streams: Streams,
    ) -> ServerStream<A, T, S, E>
    where
        A: Args + Serialize + Send + 'static,
        T: Send + 'static,
        S: Send + 'static,
        E: DeserializeOwned + Send + 'static,
    {
        let method = crate::client::channel::method_of(service, method);
        let run: Run<A, Result<Streaming<T, S>, CallError<E>>> = |parts, options| {
            Box::pin(async move {
                let (id, name) = (parts.callee.id, parts.callee.method.full_name);
                let result = if parts.channel.has_policies() {
                    intercepted(parts, options, |parts, options| {
                        Box::pin(async move { returned(parts, options, read_failure).await.map(Streaming::remote) })
                    })
                    .await
                } else {
                    returned(parts, options, read_failure).await.map(Streaming::remote)
                };
                result.map_err(|error| name_method(error, id, name))
            })
        };
        // The call is over when its stream is.
        StreamCall::new(self, service, method, args, streams.0, run, |result, watch| match result {
            Ok(stream) => stream.watched(watch),
            Err(_) => watch.end(outcome_of(result)),
        })
    }

    /// Calls the one-way method at `method` in the descriptor, which takes streams.
    pub fn oneway_stream<A>(
        &self,
        service: &'static ServiceDescriptor,
        method: usize,
        args: A,
        streams: Streams,
    ) -> OneWayStream<A>
    where
        A: Args + Serialize + Send + 'static,
    {
        let method = crate::client::channel::method_of(service, method);
        let run: Run<A, Result<(), Status>> = |parts, options| {
            Box::pin(async move {
                if !parts.channel.has_policies() {
                    return oneway(parts, options).await;
                }
                let result = intercepted(parts, options, |parts, options| {
                    Box::pin(async move { oneway(parts, options).await.map_err(CallError::<Infallible>::Status) })
                });
                result.await.map_err(status_of)
            })
        };
        StreamCall::new(self, service, method, args, streams.0, run, |result, watch| watch.end(sent_outcome(result)))
    }
}

/// Makes a call with streams.
pub(crate) type Make<A, T, E> = fn(Parts<A>, CallOptions) -> BoxFuture<'static, Result<T, CallError<E>>>;

/// Makes the call inside of the channel's interceptors, if it has any.
pub(crate) async fn intercepted<A, T, E>(
    parts: Parts<A>,
    options: CallOptions,
    make: Make<A, T, E>,
) -> Result<T, CallError<E>>
where
    A: Args + Serialize + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    let settings = parts.channel.settings();
    if settings.interceptors.is_empty() {
        return make(parts, options).await;
    }
    if let Some(status) = options.invalid() {
        return Err(status.into());
    }
    let Parts { channel, callee, args, sources } = parts;
    let deadline = deadline_of(&channel, &callee, &options)?;
    let sources = Mutex::new(Some(sources));
    let last = move |args, options| -> BoxFuture<'static, Result<T, CallError<E>>> {
        match sources.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(sources) => make(Parts { channel: channel.clone(), callee, args, sources }, options),
            None => Box::pin(async {
                Err(Status::failed_precondition("an interceptor made a call with streams twice; they can be sent once")
                    .into())
            }),
        }
    };
    around(settings, callee, args, options, deadline, last).await
}
