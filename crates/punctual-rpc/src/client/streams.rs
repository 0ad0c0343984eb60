//! The call objects of methods with streams. Each is the future of its reply; what it sends is produced beside it.

use crate::client::attempts::{Resendable, Resends, never_accepted};
use crate::client::channel::Channel;
use crate::client::connection::Connection;
use crate::client::intercept::around;
use crate::client::kept::Kept;
use crate::client::oneway::status_of;
use crate::client::options::{CallOptions, call_options};
use crate::client::publish::{Callee, Published, Sent, deadline_of, publish_slowly};
use crate::client::pump::Pump;
use crate::client::reply::{Answer, LiveCall, name_method, read_answer, read_bytes_answer, read_failure};
use crate::client::response::{WithResponse, read_metadata};
use crate::client::trial::Trial;
use crate::compression::Agreed;
use crate::streaming::{Remote, Sending, Source, Streaming};
use crate::telemetry::{Watch, outcome_of, sent_outcome};
use crate::transport::BoxFuture;
use punctual_proto::codec::{Args, Codec};
use punctual_proto::contract::{MethodDescriptor, ServiceDescriptor};
use punctual_proto::frame::CancelCause;
use punctual_proto::session::{CallKey, Consumed, Effects, Ending, ItemsPoll, Refusal, Reply, StreamItem};
use punctual_proto::status::{CallError, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::task::JoinHandle;

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

/// What a call begins with.
pub(crate) struct Parts<A> {
    channel: Channel,
    callee: Callee,
    args: A,
    sources: Vec<Box<dyn Source>>,
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
type Make<A, T, E> = fn(Parts<A>, CallOptions) -> BoxFuture<'static, Result<T, CallError<E>>>;

/// Makes the call inside of the channel's interceptors, if it has any.
async fn intercepted<A, T, E>(parts: Parts<A>, options: CallOptions, make: Make<A, T, E>) -> Result<T, CallError<E>>
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

/// A call with streams that can be sent again as long as nothing was taken from them.
struct Restartable<A> {
    call: Resendable<A>,
    sources: Vec<Box<dyn Source>>,
    resends: Resends,
    refused: Option<(Arc<Connection>, Refusal)>,
}

impl<A: Args + Serialize + Send> Restartable<A> {
    fn new(parts: Parts<A>, options: CallOptions) -> Result<Self, Status> {
        let Parts { channel, callee, args, sources } = parts;
        if let Some(status) = options.invalid() {
            return Err(status);
        }
        let deadline = deadline_of(&channel, &callee, &options)?;
        let settings = channel.settings();
        let call = Resendable { channel, settings, callee, args: Kept::new(args), options, deadline };
        Ok(Restartable { call, sources, resends: Resends::default(), refused: None })
    }

    /// Publishes the call. Its producers wait in the pump.
    async fn start(&mut self) -> Result<(Pump, LiveCall, Option<Trial>), Status> {
        let Sent { connection, published, trial } = publish_slowly(&self.call, self.refused.take()).await?;
        let Published::Live(key) = published else {
            return Err(Status::internal("a call with streams with a one-way shape"));
        };
        let codec = self.call.callee.item_codec(&connection);
        let method = self.call.callee.id;
        let shrink = connection.compression().and_then(|agreed| agreed.of_call(method, self.call.options.compress));
        let sending = std::mem::take(&mut self.sources)
            .into_iter()
            .map(|source| Sending::new(source, codec, shrink.clone()))
            .collect();
        let live = LiveCall::of(Arc::clone(&connection), key, &self.call.options);
        Ok((Pump::new(connection, key, sending), live, trial))
    }

    /// The server went away before it took the call: it can be started elsewhere if its sources gave nothing yet.
    fn take_back(&mut self, live: LiveCall, sources: Option<Vec<Box<dyn Source>>>) -> Result<(), Status> {
        self.sources = sources.ok_or_else(never_accepted)?;
        self.refused = Some(self.resends.again(&self.call.channel, live.into_connection())?);
        Ok(())
    }
}

async fn single<A, T, E>(
    parts: Parts<A>,
    options: CallOptions,
    read: fn(Reply, &[u8]) -> Answer<T, E>,
) -> Result<T, CallError<E>>
where
    A: Args + Serialize + Send,
{
    let mut call = Restartable::new(parts, options)?;
    loop {
        // Declared in this order, so that a call that is dropped is cancelled before its producers are.
        let (mut pump, mut live, trial) = call.start().await?;
        let answer = poll_fn(|cx| {
            if let Poll::Ready(answer) = live.poll(cx, read) {
                return Poll::Ready(answer);
            }
            // The reply ends the call, not the end of what it takes.
            let _ = pump.poll(cx);
            Poll::Pending
        })
        .await;
        match answer {
            Answer::Result(result) => {
                tell(trial, result.as_ref().err().and_then(CallError::status));
                return result;
            }
            Answer::NeverAccepted => call.take_back(live, pump.into_sources())?,
        }
    }
}

/// Waits until the call is answered with a stream. Its producers start in their own task when the request was written.
pub(crate) async fn returned<A: Args + Serialize + Send, E>(
    parts: Parts<A>,
    options: CallOptions,
    read: fn(Reply, &[u8]) -> CallError<E>,
) -> Result<Remote, CallError<E>> {
    let mut call = Restartable::new(parts, options)?;
    loop {
        let (pump, mut live, trial) = call.start().await?;
        let mut producers = Producers::of(pump);
        let opened = poll_fn(|cx| {
            producers.poll_start(cx);
            live.poll_opened(cx, |reply, copied| match reply {
                Reply::Failed(Ending::NeverAccepted) => None,
                reply => Some(read(reply, copied)),
            })
        })
        .await;
        match opened {
            Ok(metadata) => {
                // The answer may come before it was seen that the request was written: the producers have all of the call
                // before them.
                producers.start();
                tell(trial, None);
                let open = live.into_key().map(|(connection, key)| StreamCallKey { connection, key, over: false });
                let metadata = read_metadata(metadata).map_err(CallError::Status)?;
                return match open {
                    Some(open) => Ok(Remote::of_call(open, metadata)),
                    None => Err(CallError::Status(Status::internal("a call was answered twice"))),
                };
            }
            Err(Some(error)) => {
                tell(trial, error.status());
                return Err(error);
            }
            Err(None) => call.take_back(live, producers.into_sources().await)?,
        }
    }
}

/// Tells the breaker of the call's endpoint, if there is one.
fn tell(trial: Option<Trial>, status: Option<&Status>) {
    if let Some(trial) = trial {
        trial.end(status);
    }
}

/// The producers of a call that gives a stream, before and after they have a task of their own.
enum Producers {
    None,
    Waiting(Pump),
    Running(JoinHandle<Option<Vec<Box<dyn Source>>>>),
}

impl Producers {
    fn of(pump: Pump) -> Self {
        if pump.is_under_way() { Producers::Waiting(pump) } else { Producers::None }
    }

    /// Gives them their task when the request was written.
    fn poll_start(&mut self, cx: &mut Context<'_>) {
        if let Producers::Waiting(waiting) = self
            && waiting.poll_start(cx).is_ready()
        {
            self.start();
        }
    }

    fn start(&mut self) {
        *self = match std::mem::replace(self, Producers::None) {
            Producers::Waiting(mut pump) => Producers::Running(tokio::spawn(async move {
                (&mut pump).await;
                pump.into_sources()
            })),
            other => other,
        };
    }

    /// Takes the sources back, where the call is over and they gave nothing yet.
    async fn into_sources(self) -> Option<Vec<Box<dyn Source>>> {
        match self {
            Producers::None => Some(Vec::new()),
            Producers::Waiting(pump) => pump.into_sources(),
            // It ends with the call. One that panicked has nothing to give.
            Producers::Running(task) => task.await.ok().flatten(),
        }
    }
}

pub(crate) async fn oneway<A: Args + Serialize + Send>(parts: Parts<A>, options: CallOptions) -> Result<(), Status> {
    let mut call = Restartable::new(parts, options)?;
    let (pump, live) = loop {
        let (mut pump, mut live, trial) = call.start().await?;
        let written = poll_fn(|cx| match live.poll(cx, ended_early) {
            Poll::Ready(ended) => Poll::Ready(ended),
            Poll::Pending => pump.poll_start(cx).map(Ok),
        });
        match written.await {
            Ok(()) => {
                tell(trial, None);
                break (pump, live);
            }
            Err(Ending::NeverAccepted) => call.take_back(live, pump.into_sources())?,
            Err(ending) => {
                let status = ending.status();
                tell(trial, Some(&status));
                return Err(status);
            }
        }
    };
    tokio::spawn(async move {
        let (mut pump, mut live) = (pump, live);
        poll_fn(|cx| {
            let over = live.poll(cx, ended_early);
            let _ = pump.poll(cx);
            over
        })
        .await
    });
    Ok(())
}

/// What became of a one-way call before it was written. What its handler ended with is nobody's business.
fn ended_early(reply: Reply, _: &[u8]) -> Result<(), Ending> {
    match reply {
        Reply::Failed(ending) => Err(ending),
        _ => Ok(()),
    }
}

impl<A> Parts<A> {
    pub(crate) fn new(channel: Channel, callee: Callee, args: A, sources: Vec<Box<dyn Source>>) -> Self {
        Parts { channel, callee, args, sources }
    }
}

/// A call with one result for tools, which take it as it is.
pub(crate) async fn single_bytes<A: Args + Serialize + Send>(
    parts: Parts<A>,
    options: CallOptions,
) -> Result<bytes::Bytes, CallError<bytes::Bytes>> {
    single(parts, options, read_bytes_answer).await
}

/// A call whose returned stream is open. Dropping it cancels the call.
pub(crate) struct StreamCallKey {
    connection: Arc<Connection>,
    key: CallKey,
    over: bool,
}

impl StreamCallKey {
    /// How items are compressed, where both sides can.
    pub(crate) fn compression(&self) -> Option<&Agreed> {
        self.connection.compression()
    }

    pub(crate) fn window_bytes(&self) -> u32 {
        self.connection.own_windows().stream_bytes
    }

    pub(crate) fn poll_items(
        &mut self,
        consumed: Consumed,
        buffer: &mut VecDeque<StreamItem>,
        waker: &Waker,
        fresh: &mut Option<Waker>,
        effects: &mut Effects,
    ) -> ItemsPoll {
        let polled = self.connection.session().poll_items(self.key, consumed, buffer, waker, fresh, effects);
        self.over = matches!(polled, ItemsPoll::End(_) | ItemsPoll::Failed(_));
        polled
    }

    pub(crate) fn consume(&self, consumed: Consumed, effects: &mut Effects) {
        self.connection.session().consume(self.key, consumed, effects);
    }
}

impl Drop for StreamCallKey {
    fn drop(&mut self) {
        if !self.over {
            let mut effects = Effects::default();
            self.connection.session().abandon(self.key, CancelCause::ConsumerGone, &mut effects);
            effects.run();
        }
    }
}

impl Callee {
    /// How items of this call's streams are encoded on a connection, where they are not raw bytes.
    fn item_codec(&self, connection: &Connection) -> Codec {
        let self_describing =
            self.method.streams.iter().any(|one| one.item.is_self_describing() || one.err.is_self_describing());
        match self.service {
            _ if self.json => Codec::Json,
            Some(service) => match connection.contract_codec(service) {
                Codec::Compact if self_describing => Codec::Named,
                codec => codec,
            },
            None => Codec::Named,
        }
    }
}
