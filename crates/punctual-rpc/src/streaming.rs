//! A stream of items, as contracts name it: made here and sent, or received and taken one by one.

mod remote;
mod sending;
mod source;

pub(crate) use remote::{Origin, Remote, RemoteEnd};
pub(crate) use sending::{End, Sending, Sink};
pub(crate) use source::{JsonSource, KeptSource, Source, TypedSource};

use crate::telemetry::{CallOutcome, Watch};
use futures_core::Stream;
use punctual_context::Metadata;
use punctual_proto::codec::{self, CodecError};
use punctual_proto::frame::Outcome;
use punctual_proto::session::{StreamEnd, StreamItem};
use punctual_proto::status::Status;
use serde::de::DeserializeOwned;
use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A stream of `T` that may fail with `E`: an argument of a method, or what a method returns.
///
/// Whoever sends makes it from any [`Stream`] ([`Streaming::new`]) or from items ([`Streaming::from_items`]); whoever
/// receives takes the items with [`Streaming::next`], or as a [`Stream`]. An error is the last item. A stream that was cut,
/// by a lost connection or by the end of its call, ends with an error and never with `None`.
///
/// The receiver bounds what is under way: a producer whose items nobody takes is not polled.
///
/// Dropping a stream that was returned by a call cancels the call; dropping one that a handler was given tells the caller
/// nothing, and stops its producer at the window.
pub struct Streaming<T, E = Status> {
    inner: Inner<T, E>,
    /// What came with its opening.
    metadata: Metadata,
    /// What came with its end, or goes with it.
    trailers: Trailers,
    /// Its last item was given out.
    ended: bool,
}

type BoxStream<T, E> = Pin<Box<dyn Stream<Item = Result<T, E>> + Send>>;

enum Inner<T, E> {
    Local(BoxStream<T, E>),
    Remote(Box<Remote>),
    Over,
}

enum Trailers {
    Known(Metadata),
    /// Asked for when the stream came to its end.
    Made(Box<dyn FnOnce() -> Metadata + Send>),
}

impl<T, E> Streaming<T, E> {
    /// Sends what `stream` gives, up to its end or its first error. It is polled only while there is room for its items.
    pub fn new(stream: impl Stream<Item = Result<T, E>> + Send + 'static) -> Self {
        Self::from_inner(Inner::Local(Box::pin(stream)))
    }

    /// Sends these items.
    pub fn from_items<I>(items: I) -> Self
    where
        I: IntoIterator<Item = T>,
        I::IntoIter: Send + 'static,
        T: 'static,
        E: 'static,
    {
        Self::new(Items { items: items.into_iter(), error: PhantomData })
    }

    /// Nothing but its end.
    #[must_use]
    pub fn empty() -> Self
    where
        T: Send + 'static,
        E: 'static,
    {
        Self::from_items(std::iter::empty())
    }

    /// Sends `trailers` along with a clean end. It is called when the stream has come to it.
    #[must_use]
    pub fn with_trailers(mut self, trailers: impl FnOnce() -> Metadata + Send + 'static) -> Self {
        self.trailers = Trailers::Made(Box::new(trailers));
        self
    }

    /// What came with the end of a stream that was received; empty before it has come.
    #[must_use]
    pub fn trailers(&self) -> Metadata {
        match &self.trailers {
            Trailers::Known(trailers) => trailers.clone(),
            Trailers::Made(_) => Metadata::new(),
        }
    }

    /// What the server sent along when it opened this stream; empty for one that a handler was given, or made.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    pub(crate) fn remote(mut remote: Remote) -> Self {
        let metadata = remote.take_metadata();
        Streaming { metadata, ..Self::from_inner(Inner::Remote(Box::new(remote))) }
    }

    /// Whoever looks on is told of its end.
    pub(crate) fn watched(&mut self, watch: Box<Watch>) {
        if let Inner::Remote(remote) = &mut self.inner {
            remote.watched(watch);
        }
    }

    fn from_inner(inner: Inner<T, E>) -> Self {
        Streaming { inner, metadata: Metadata::new(), trailers: Trailers::Known(Metadata::new()), ended: false }
    }

    /// The trailers of a stream that has come to its clean end.
    fn take_trailers(&mut self) -> Metadata {
        match std::mem::replace(&mut self.trailers, Trailers::Known(Metadata::new())) {
            Trailers::Known(trailers) => trailers,
            Trailers::Made(make) => make(),
        }
    }

    /// Gives up what produces or receives: the last item was given out.
    fn finish(&mut self) {
        self.ended = true;
        self.inner = Inner::Over;
    }
}

impl<T, E> Streaming<T, E>
where
    T: DeserializeOwned + 'static,
    E: DeserializeOwned + From<Status> + 'static,
{
    /// The next item, an error as the last one, or `None` at the clean end.
    ///
    /// # Errors
    /// What the stream failed with; a status where its call ended before it, turned into `E`.
    ///
    /// # Cancel safety
    /// Dropping the future takes no item.
    pub async fn next(&mut self) -> Option<Result<T, E>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Takes everything up to the end.
    ///
    /// # Errors
    /// What the stream failed with. The items before that are lost.
    pub async fn collect(mut self) -> Result<Vec<T>, E> {
        let mut all = Vec::new();
        while let Some(item) = self.next().await {
            all.push(item?);
        }
        Ok(all)
    }

    fn end(&mut self, end: RemoteEnd, unreadable: fn(CodecError) -> Status) -> Option<Result<T, E>> {
        self.finish();
        let end = match end {
            RemoteEnd::End(end) => end,
            RemoteEnd::Failed(status) => return Some(Err(E::from(status))),
        };
        let StreamEnd { outcome, codec, metadata, body, .. } = end;
        match outcome {
            Outcome::Ok => match Metadata::from_encoded(metadata) {
                Ok(trailers) => {
                    self.trailers = Trailers::Known(trailers);
                    None
                }
                Err(error) => {
                    Some(Err(E::from(Status::data_loss(format!("the stream's trailers cannot be read: {error}")))))
                }
            },
            Outcome::App => Some(Err(codec::decode(codec, &body).unwrap_or_else(|error| E::from(unreadable(error))))),
            Outcome::Status => Some(Err(E::from(read_status(&body)))),
        }
    }
}

/// The status that a stream ended with.
pub(crate) fn read_status(body: &[u8]) -> Status {
    Status::decode(body)
        .unwrap_or_else(|error| Status::data_loss(format!("the stream's status cannot be read: {error}")))
}

impl<T, E> Stream for Streaming<T, E>
where
    T: DeserializeOwned + 'static,
    E: DeserializeOwned + From<Status> + 'static,
{
    type Item = Result<T, E>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        match &mut this.inner {
            Inner::Over => Poll::Ready(None),
            Inner::Local(stream) => {
                let item = ready!(stream.as_mut().poll_next(cx));
                if !matches!(item, Some(Ok(_))) {
                    this.finish();
                }
                Poll::Ready(item)
            }
            Inner::Remote(remote) => {
                let unreadable = remote.unreadable();
                match ready!(remote.poll_next(cx)) {
                    Ok(StreamItem { bytes, codec, .. }) => match codec::decode_shared(codec, bytes) {
                        Ok(item) => Poll::Ready(Some(Ok(item))),
                        Err(error) => {
                            let status = unreadable(error);
                            remote.tell(CallOutcome::Status(status.code()));
                            this.finish();
                            Poll::Ready(Some(Err(E::from(status))))
                        }
                    },
                    Err(end) => Poll::Ready(this.end(end, unreadable)),
                }
            }
        }
    }
}

// What produces is boxed, and what receives is never pinned.
impl<T, E> Unpin for Streaming<T, E> {}

impl<T, E> fmt::Debug for Streaming<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match &self.inner {
            Inner::Local(_) => "local",
            Inner::Remote(_) => "remote",
            Inner::Over => "over",
        };
        f.debug_struct("Streaming").field("side", &side).field("ended", &self.ended).finish_non_exhaustive()
    }
}

/// Items that are there already.
struct Items<I, E> {
    items: I,
    error: PhantomData<fn() -> E>,
}

// An iterator is only called, never pinned.
impl<I, E> Unpin for Items<I, E> {}

impl<I: Iterator, E> Stream for Items<I, E> {
    type Item = Result<I::Item, E>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.get_mut().items.next().map(Ok))
    }
}
