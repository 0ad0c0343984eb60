//! A call on its way to its handler.

use crate::compression::Agreed;
use crate::server::admission::Admitted;
use crate::server::answer::Answer;
use crate::server::intercept::intercepted;
use crate::server::lifetime::{Instance, Instances};
use crate::server::place::Place;
use crate::server::returned::Returned;
use crate::server::runs::{self, Runs};
use crate::server::stream_place::StreamPlace;
use crate::streaming::{Origin, Remote, Streaming};
use crate::telemetry::CallOutcome;
use bytes::Bytes;
use punctual_clock::Instant;
use punctual_context::{Context, Host, Metadata, Peer};
use punctual_proto::codec::{self, Args, Codec, CodecError};
use punctual_proto::contract::MethodDescriptor;
use punctual_proto::session::Block;
use punctual_proto::status::Status;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;

/// Bodies from this length on are decoded in the handler's task, so that they delay no other call of the connection.
const DECODE_HERE_BYTES_MAX: usize = 1_024;

/// A call that a [`Service`](crate::Service) is to start. Dropped without being started, it is answered with Internal.
#[must_use = "a call that is dropped is answered with an internal error"]
pub struct Inbound<'a> {
    place: Place,
    method: &'static MethodDescriptor,
    codec: Codec,
    deadline: Instant,
    metadata: Metadata,
    body: Payload<'a>,
    /// Where the body is compressed, the bytes that it had before.
    plain: Option<u32>,
    /// Argument streams that were taken.
    streams_taken: u16,
    /// What lives as long as the call.
    instance: Option<Instance>,
    runs: Runs,
}

/// The body, where it lies.
pub(crate) enum Payload<'a> {
    In(Block<'a>, Range<usize>),
    Own(Bytes),
}

impl Payload<'_> {
    fn len(&self) -> usize {
        match self {
            Payload::In(_, range) => range.len(),
            Payload::Own(bytes) => bytes.len(),
        }
    }
}

/// Arguments, or the bytes that they are still to be decoded from.
enum Arguments<A> {
    Decoded(A),
    Encoded(Encoded),
}

/// A call's parts when it is about to run.
type Opened<A> = (Place, &'static MethodDescriptor, Codec, Context, Arguments<A>, Runs);

/// Arguments that their handler's task decodes.
struct Encoded {
    codec: Codec,
    bytes: Bytes,
    /// Where they are compressed: how, and the bytes that they had before.
    compressed: Option<(Agreed, u32)>,
}

impl Encoded {
    fn decode<A: Args + DeserializeOwned>(self) -> Result<A, Status> {
        let bytes = match self.compressed {
            Some((agreed, plain)) => {
                agreed.inflate(&self.bytes, plain).map_err(|corrupt| Status::invalid_argument(corrupt.to_string()))?
            }
            None => self.bytes,
        };
        decode(self.codec, &bytes)
    }
}

impl<'a> Inbound<'a> {
    pub(crate) fn new(
        place: Place,
        method: &'static MethodDescriptor,
        codec: Codec,
        deadline: Instant,
        metadata: Metadata,
        body: Payload<'a>,
    ) -> Self {
        Inbound {
            place,
            method,
            codec,
            deadline,
            metadata,
            body,
            plain: None,
            streams_taken: 0,
            instance: None,
            runs: Runs::Task,
        }
    }

    /// The same with a body that had so many bytes before it was compressed.
    pub(crate) fn compressed(mut self, plain: Option<u32>) -> Self {
        self.plain = plain;
        self
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> &'static MethodDescriptor {
        self.method
    }

    /// The caller's metadata.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Who calls.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        self.place.connection().peer()
    }

    /// The services that its connection has to itself.
    pub(crate) fn instances(&self) -> &Instances {
        self.place.connection().instances()
    }

    /// Keeps this up to the end of the call.
    pub(crate) fn keep(&mut self, instance: Instance) {
        self.instance = Some(instance);
    }

    /// When the call's budget ends, on the server's clock; [`Instant::FAR`] for never.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Bytes that are held of the call while it waits.
    pub(crate) fn held_bytes(&self) -> usize {
        self.body.len() + self.metadata.as_encoded().len()
    }

    /// Keeps the permit of the admission control with the call's place.
    pub(crate) fn admit(&mut self, admitted: Admitted) {
        self.place.admit(admitted);
    }

    /// The same without what it came in.
    pub(crate) fn into_owned(self) -> Inbound<'static> {
        let Inbound { place, method, codec, deadline, metadata, body, plain, streams_taken, instance, runs } = self;
        let body = Payload::Own(match body {
            // Copied: a block is many calls, and this one may wait for long.
            Payload::In(block, range) => Bytes::copy_from_slice(block.get(&range)),
            Payload::Own(bytes) => bytes,
        });
        Inbound { place, method, codec, deadline, metadata, body, plain, streams_taken, instance, runs }
    }

    /// Ready when the call is over, also while nobody runs it.
    pub(crate) fn poll_over(&self, cx: &mut std::task::Context<'_>) -> Poll<()> {
        self.place.poll_over(cx)
    }

    /// The call is over: its place goes back without an answer.
    pub(crate) fn forget(self) {
        self.place.release();
    }

    /// Polls the handler once where the call is dispatched, in the connection's own task, and encodes the result there where
    /// that poll gives it; a handler that waits then goes on in a task of its own. For handlers that neither block nor take
    /// long: until the poll returns, the connection does nothing else.
    ///
    /// Arguments of more than 1 KiB, and compressed ones, have their handler run in a task of its own all the same: decoding
    /// them takes a while.
    pub fn inline(mut self) -> Self {
        self.runs = Runs::Inline;
        self
    }

    /// Runs the handler on a thread that it may block, one of the runtime's blocking pool, with what of its stream it
    /// returns. Up to [`blocking_calls_max`](punctual_proto::limits::ServerLimits::blocking_calls_max) of a server have one at
    /// once; further calls wait for theirs in order, and one that is over before that never runs.
    ///
    /// Nothing stops a thread in the middle: where the call is over, by a cancel, its budget or a stop, the caller waits no
    /// longer, and the handler is dropped at its next `.await` that is not ready. Until then it counts among the running
    /// calls. One that blocks for long asks [`Context::cancel_reason`] now and then. A runtime that ends waits for it.
    pub fn blocking(mut self) -> Self {
        self.runs = Runs::Blocking;
        self
    }

    /// The next of the arguments that are streams, in the order of the method: as many as that has. One that is not taken
    /// before the handler starts is never read, and its producer stands still at the window.
    #[must_use]
    pub fn take_stream<T, E>(&mut self) -> Streaming<T, E> {
        self.streams_taken = self.streams_taken.saturating_add(1);
        let window = self.place.connection().own_windows().stream_bytes;
        let place = StreamPlace::new(Arc::clone(self.place.connection()), self.place.key(), self.streams_taken);
        Streaming::remote(Remote::new(Origin::Argument(place), window))
    }

    /// Runs `handler` with the decoded arguments in a task of its own, answers with the stream that it gives, and sends what
    /// that produces, in the same task. What it does before it makes its future is done as in [`Inbound::unary`].
    pub fn returned_stream<A, T, S, E, F, Fut>(mut self, handler: F)
    where
        A: Args + DeserializeOwned + Send + 'static,
        T: Serialize + DeserializeOwned + Send + 'static,
        S: Serialize + DeserializeOwned + From<Status> + Send + 'static,
        E: Serialize + Send + 'static,
        F: FnOnce(A) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Streaming<T, S>, E>> + Send + 'static,
    {
        let (connection, key) = (Arc::clone(self.place.connection()), self.place.key());
        let instance = self.instance.take();
        let Some((place, method, codec, context, arguments, runs)) = self.open::<A>() else { return };
        let item_codec = match codec {
            Codec::Raw => Codec::Named,
            Codec::Compact if method.reply_self_describing => Codec::Named,
            codec => codec,
        };
        let future = async move {
            let args = match arguments {
                Arguments::Decoded(args) => args,
                Arguments::Encoded(encoded) => match encoded.decode() {
                    Ok(args) => args,
                    Err(status) => return Late(Err(Failure::Status(status))),
                },
            };
            match handler(args).await {
                Ok(stream) => {
                    let ended = Returned::new(connection, key, method.id, stream, item_codec, instance).await;
                    Late::<(), E>(Err(Failure::Answered(ended)))
                }
                Err(error) => Late(Err(Failure::App(error))),
            }
        };
        run(place, method, codec, context, runs, future);
    }

    /// Runs `handler` with the decoded arguments in a task of its own and answers with its result. An error of the type
    /// [`Status`] is sent as one; any other type crosses the wire as the application's own.
    ///
    /// Where the arguments are short they are decoded at once, and `handler` is called at once to make its future: what it
    /// does before that, it does in the connection's own task.
    pub fn unary<A, T, E, F, Fut>(self, handler: F)
    where
        A: Args + DeserializeOwned + Send + 'static,
        T: Serialize + Send + 'static,
        E: Serialize + Send + 'static,
        F: FnOnce(A) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
    {
        if self.place.is_oneway() {
            self.reject(&Status::invalid_argument("this method has a reply; call it as unary"));
            return;
        }
        let Some((place, method, codec, context, arguments, runs)) = self.open::<A>() else { return };
        match arguments {
            Arguments::Decoded(args) => {
                runs::start(runs, Answer::new(place, method, codec, context.scope(handler(args))));
            }
            Arguments::Encoded(encoded) => {
                let future = async move {
                    match encoded.decode() {
                        Ok(args) => Late(handler(args).await.map_err(Failure::App)),
                        Err(status) => Late(Err(Failure::Status(status))),
                    }
                };
                run(place, method, codec, context, runs, future);
            }
        }
    }

    /// Runs `handler` with the decoded arguments in a task of its own. Nobody is told how it ends. As
    /// [`Inbound::unary`] it calls `handler` itself at once where the arguments are short.
    pub fn oneway<A, F, Fut>(self, handler: F)
    where
        A: Args + DeserializeOwned + Send + 'static,
        F: FnOnce(A) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let Some((place, method, codec, context, arguments, runs)) = self.open::<A>() else { return };
        match arguments {
            Arguments::Decoded(args) => {
                runs::start(runs, Answer::new(place, method, codec, context.scope(handler(args))));
            }
            Arguments::Encoded(encoded) => {
                let future = async move {
                    match encoded.decode() {
                        Ok(args) => {
                            handler(args).await;
                            Late(Ok(()))
                        }
                        Err(status) => Late(Err(Failure::<()>::Status(status))),
                    }
                };
                run(place, method, codec, context, runs, future);
            }
        }
    }

    /// Answers that the method is not implemented.
    pub fn unimplemented(self) {
        let text = format!("{} is not implemented by this server", self.method.full_name);
        self.reject(&Status::unimplemented(text));
    }

    /// Answers with a status instead of running a handler.
    pub fn reject(self, status: &Status) {
        if self.place.is_oneway() {
            // Its text may hold what the caller sent.
            tracing::debug!(method = self.method.full_name, code = %status.code(), "a one-way call was refused");
            let mut place = self.place;
            place.tell(CallOutcome::Status(status.code()));
            place.release();
        } else {
            self.place.refuse(status);
        }
    }

    fn open<A: Args + DeserializeOwned>(self) -> Option<Opened<A>> {
        let is_short = self.body.len() <= DECODE_HERE_BYTES_MAX && self.plain.is_none();
        let Inbound { place, method, codec, deadline, metadata, body, plain, runs, .. } = self;
        let runs = if runs == Runs::Inline && !is_short { Runs::Task } else { runs };
        let compressed = plain.and_then(|plain| Some((place.connection().compression()?.clone(), plain)));
        // What runs before the handler runs before its decoder, too.
        let is_intercepted = place.connection().shared().interceptors.is_some();
        let arguments = match body {
            Payload::In(block, range)
                if range.len() <= DECODE_HERE_BYTES_MAX && compressed.is_none() && !is_intercepted =>
            {
                match decode_slice(codec, block.get(&range)) {
                    Ok(args) => Arguments::Decoded(args),
                    Err(error) => {
                        let status = error.into_request_status();
                        let body = Payload::Own(Bytes::new());
                        Inbound::new(place, method, codec, deadline, metadata, body).reject(&status);
                        return None;
                    }
                }
            }
            Payload::In(block, range) => {
                let bytes = block.keep(block.get(&range));
                Arguments::Encoded(Encoded { codec, bytes, compressed })
            }
            Payload::Own(bytes) => Arguments::Encoded(Encoded { codec, bytes, compressed }),
        };
        let host: Arc<dyn Host> = Arc::clone(place.connection()) as _;
        let mut context = Context::new(host, place.key().call().as_u64(), deadline);
        if !metadata.is_empty() {
            context = context.with_metadata(metadata);
        }
        Some((place, method, codec, context, arguments, runs))
    }
}

/// Runs what decodes and handles a call, inside of the server's interceptors where it has some.
fn run<T, E>(
    place: Place,
    method: &'static MethodDescriptor,
    codec: Codec,
    context: Context,
    runs: Runs,
    handler: impl Future<Output = Late<T, E>> + Send + 'static,
) where
    T: Serialize + Send + 'static,
    E: Serialize + Send + 'static,
{
    match place.connection().shared().interceptors.clone() {
        None => runs::start(runs, Answer::new(place, method, codec, context.scope(handler))),
        Some(chain) => {
            let handler = intercepted(chain, method, handler);
            runs::start(runs, Answer::new(place, method, codec, context.scope(handler)));
        }
    }
}

/// How a handler failed.
pub(crate) enum Failure<E> {
    App(E),
    Status(Status),
    /// The call was answered with a stream, which came to this end.
    Answered(CallOutcome),
}

/// What a handler that was given its arguments in its own task ended with.
pub(crate) struct Late<T, E>(pub(super) Result<T, Failure<E>>);

/// What the future of a handler may end with.
pub(crate) trait Ended {
    type Ok;
    type Err;
    fn ended(self) -> Result<Self::Ok, Failure<Self::Err>>;
}

impl<T, E> Ended for Result<T, E> {
    type Ok = T;
    type Err = E;

    #[inline]
    fn ended(self) -> Result<T, Failure<E>> {
        self.map_err(Failure::App)
    }
}

impl<T, E> Ended for Late<T, E> {
    type Ok = T;
    type Err = E;

    fn ended(self) -> Result<T, Failure<E>> {
        self.0
    }
}

/// A one-way handler.
impl Ended for () {
    type Ok = ();
    type Err = ();

    fn ended(self) -> Result<(), Failure<()>> {
        Ok(())
    }
}

fn decode<A: Args + DeserializeOwned>(codec: Codec, bytes: &Bytes) -> Result<A, Status> {
    if codec == Codec::Raw
        && let Some(args) = A::from_raw(bytes.clone())
    {
        return Ok(args);
    }
    codec::decode(codec, bytes).map_err(CodecError::into_request_status)
}

fn decode_slice<A: Args + DeserializeOwned>(codec: Codec, body: &[u8]) -> Result<A, CodecError> {
    if codec == Codec::Raw
        && let Some(args) = A::from_raw(Bytes::copy_from_slice(body))
    {
        return Ok(args);
    }
    codec::decode(codec, body)
}

impl fmt::Debug for Inbound<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbound").field("method", &self.method.full_name).finish_non_exhaustive()
    }
}
