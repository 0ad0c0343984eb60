//! The call objects of methods with streams. Each is the future of its reply; what it sends is produced beside it.

use crate::client::channel::Channel;
use crate::client::connection::Connection;
use crate::client::options::{CallOptions, call_options};
use crate::client::publish::{Callee, Published, deadline_of, publish_slowly};
use crate::client::pump::Pump;
use crate::client::reply::{LiveCall, name_method, read_failure, read_result};
use crate::streaming::{Remote, Sending, Source, Streaming};
use crate::transport::BoxFuture;
use punctual_proto::codec::{Args, Codec};
use punctual_proto::contract::{MethodDescriptor, ServiceDescriptor};
use punctual_proto::frame::CancelCause;
use punctual_proto::session::{CallKey, Consumed, Effects, ItemsPoll, Reply, StreamItem};
use punctual_proto::status::{CallError, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

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

enum State<A, R> {
    New(Box<Parts<A>>, fn(Parts<A>, CallOptions) -> BoxFuture<'static, R>),
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
        run: fn(Parts<A>, CallOptions) -> BoxFuture<'static, R>,
    ) -> Self {
        let callee = Callee::of(service, method);
        let parts = Parts { channel: channel.clone(), callee, args, sources };
        StreamCall { method, options: CallOptions::new(), state: State::New(Box::new(parts), run) }
    }
}

// What it owns is moved out before it is used, never pinned.
impl<A, R> Unpin for StreamCall<A, R> {}

impl<A, R> Future for StreamCall<A, R> {
    type Output = R;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        let this = self.get_mut();
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
        T: DeserializeOwned + 'static,
        E: DeserializeOwned + 'static,
    {
        let method = crate::client::channel::method_of(service, method);
        StreamCall::new(self, service, method, args, streams.0, |parts, options| {
            Box::pin(async move {
                let (id, name) = (parts.callee.id, parts.callee.method.full_name);
                single(parts, options).await.map_err(|error| name_method(error, id, name))
            })
        })
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
        E: DeserializeOwned + 'static,
    {
        let method = crate::client::channel::method_of(service, method);
        StreamCall::new(self, service, method, args, streams.0, |parts, options| {
            Box::pin(async move {
                let (id, name) = (parts.callee.id, parts.callee.method.full_name);
                let remote =
                    returned(parts, options, read_failure).await.map_err(|error| name_method(error, id, name))?;
                Ok(Streaming::remote(remote))
            })
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
        StreamCall::new(self, service, method, args, streams.0, |parts, options| Box::pin(oneway(parts, options)))
    }
}

/// Publishes the call. Its producers wait in the pump.
async fn start<A: Args + Serialize>(parts: Parts<A>, options: CallOptions) -> Result<(Pump, LiveCall), Status> {
    let Parts { channel, callee, args, sources } = parts;
    if let Some(status) = options.invalid() {
        return Err(status);
    }
    let deadline = deadline_of(&channel, &callee, &options)?;
    let (connection, published) = publish_slowly(channel, callee, args, options, deadline, None).await?;
    let Published::Live(key) = published else {
        return Err(Status::internal("a call with streams with a one-way shape"));
    };
    let codec = callee.item_codec(&connection);
    let sending = sources.into_iter().map(|source| Sending::new(source, codec)).collect();
    Ok((Pump::new(Arc::clone(&connection), key, sending), LiveCall::new(connection, key)))
}

async fn single<A, T, E>(parts: Parts<A>, options: CallOptions) -> Result<T, CallError<E>>
where
    A: Args + Serialize,
    T: DeserializeOwned + 'static,
    E: DeserializeOwned + 'static,
{
    // Declared in this order, so that a call that is dropped is cancelled before its producers are.
    let (mut pump, mut live) = start(parts, options).await?;
    poll_fn(|cx| {
        if let Poll::Ready(result) = live.poll(cx, read_result) {
            return Poll::Ready(result);
        }
        // The reply ends the call, not the end of what it takes.
        let _ = pump.poll(cx);
        Poll::Pending
    })
    .await
}

/// Waits until the call is answered with a stream. Its producers start in their own task when the request was written.
pub(crate) async fn returned<A: Args + Serialize, E>(
    parts: Parts<A>,
    options: CallOptions,
    read: fn(Reply, &[u8]) -> CallError<E>,
) -> Result<Remote, CallError<E>> {
    let (pump, live) = start(parts, options).await?;
    let (mut pump, mut live) = (Some(pump).filter(Pump::is_under_way), live);
    let opened = poll_fn(|cx| {
        if let Some(waiting) = &mut pump
            && waiting.poll_start(cx).is_ready()
            && let Some(pump) = pump.take()
        {
            tokio::spawn(pump);
        }
        live.poll_opened(cx, read)
    })
    .await;
    match opened {
        Ok(_metadata) => match live.into_key() {
            Some((connection, key)) => Ok(Remote::of_call(StreamCallKey { connection, key, over: false })),
            None => Err(CallError::Status(Status::internal("a call was answered twice"))),
        },
        Err(error) => Err(error),
    }
}

pub(crate) async fn oneway<A: Args + Serialize>(parts: Parts<A>, options: CallOptions) -> Result<(), Status> {
    let (mut pump, mut live) = start(parts, options).await?;
    poll_fn(|cx| match live.poll(cx, ended_early) {
        Poll::Ready(result) => Poll::Ready(result),
        Poll::Pending => pump.poll_start(cx).map(Ok),
    })
    .await?;
    tokio::spawn(async move {
        let mut pump = pump;
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
fn ended_early(reply: Reply, _: &[u8]) -> Result<(), Status> {
    match reply {
        Reply::Failed(ending) => Err(ending.status()),
        _ => Ok(()),
    }
}

impl<A> Parts<A> {
    pub(crate) fn new(channel: Channel, callee: Callee, args: A, sources: Vec<Box<dyn Source>>) -> Self {
        Parts { channel, callee, args, sources }
    }
}

/// As `single` for tools, which take the result as it is.
pub(crate) async fn single_bytes<A: Args + Serialize>(
    parts: Parts<A>,
    options: CallOptions,
) -> Result<bytes::Bytes, CallError<bytes::Bytes>> {
    let (mut pump, mut live) = start(parts, options).await?;
    poll_fn(|cx| {
        if let Poll::Ready(result) = live.poll(cx, crate::client::reply::read_bytes) {
            return Poll::Ready(result);
        }
        let _ = pump.poll(cx);
        Poll::Pending
    })
    .await
}

/// A call whose returned stream is open. Dropping it cancels the call.
pub(crate) struct StreamCallKey {
    connection: Arc<Connection>,
    key: CallKey,
    over: bool,
}

impl StreamCallKey {
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
