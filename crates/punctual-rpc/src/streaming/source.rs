//! The producing end of a stream: items as they go on the wire.

use crate::streaming::{Inner, Streaming};
use bytes::Bytes;
use futures_core::Stream;
use punctual_proto::codec::{self, Codec, CodecError};
use punctual_proto::frame::Outcome;
use punctual_proto::status::Status;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// What a source gives.
pub(crate) enum Produced {
    /// An item, encoded into the buffer.
    Encoded(Codec),
    /// An item that goes as it is.
    Raw(Codec, Bytes),
    /// The end. An error is encoded into the buffer; trailers go with a clean end.
    End(Outcome, Codec, Bytes),
}

/// A producer whose items have lost their type.
pub(crate) trait Source: Send {
    /// The next item or the end, for a connection on which typed values go in `codec`. The buffer is empty.
    fn poll_next(&mut self, cx: &mut Context<'_>, codec: Codec, buffer: &mut Vec<u8>) -> Poll<Produced>;
}

/// What a contract's type says.
pub(crate) struct TypedSource<T, E>(pub(crate) Streaming<T, E>);

impl<T, E> Source for TypedSource<T, E>
where
    T: Serialize + DeserializeOwned + Send + 'static,
    E: Serialize + DeserializeOwned + From<Status> + Send + 'static,
{
    fn poll_next(&mut self, cx: &mut Context<'_>, codec: Codec, buffer: &mut Vec<u8>) -> Poll<Produced> {
        let produced = match ready!(Pin::new(&mut self.0).poll_next(cx)) {
            None => Produced::End(Outcome::Ok, Codec::Compact, self.0.take_trailers().as_encoded().clone()),
            Some(Err(error)) => encode_error(&error, codec, buffer),
            Some(Ok(item)) => {
                let mut item = Some(item);
                let raw = (&mut item as &mut dyn Any).downcast_mut::<Option<Bytes>>();
                match (raw.filter(|_| codec != Codec::Json).and_then(Option::take), &item) {
                    (Some(bytes), _) => Produced::Raw(Codec::Raw, bytes),
                    (None, Some(item)) => match codec::encode(codec, item, buffer) {
                        Ok(()) => Produced::Encoded(codec),
                        Err(error) => failed(&error.into_encode_status(), buffer),
                    },
                    (None, None) => failed(&Status::unmapped(), buffer),
                }
            }
        };
        if matches!(produced, Produced::End(..)) {
            self.0.inner = Inner::Over;
        }
        Poll::Ready(produced)
    }
}

/// A source and what lives as long as it does, for which it need not know of it. The source goes first.
pub(crate) struct KeptSource<S> {
    source: S,
    _kept: Arc<dyn Any + Send + Sync>,
}

impl<S> KeptSource<S> {
    pub(crate) fn new(source: S, kept: Arc<dyn Any + Send + Sync>) -> Self {
        KeptSource { source, _kept: kept }
    }
}

impl<S: Source> Source for KeptSource<S> {
    fn poll_next(&mut self, cx: &mut Context<'_>, codec: Codec, buffer: &mut Vec<u8>) -> Poll<Produced> {
        self.source.poll_next(cx, codec, buffer)
    }
}

fn encode_error<E: Serialize + 'static>(error: &E, codec: Codec, buffer: &mut Vec<u8>) -> Produced {
    if let Some(status) = (error as &dyn Any).downcast_ref::<Status>() {
        return failed(status, buffer);
    }
    match codec::encode(codec, error, buffer).map_err(CodecError::into_encode_status) {
        Ok(()) => Produced::End(Outcome::App, codec, Bytes::new()),
        Err(status) => failed(&status, buffer),
    }
}

/// The end of a stream with a status.
pub(crate) fn failed(status: &Status, buffer: &mut Vec<u8>) -> Produced {
    buffer.clear();
    // It must fit one frame, trailers and all.
    status.clone().fitted(END_BYTES_MAX).encode(buffer);
    Produced::End(Outcome::Status, Codec::Compact, Bytes::new())
}

/// What an error may have beside the rest of its one frame.
pub(crate) const END_BYTES_MAX: usize = 48 * 1024;

/// Items that are JSON already.
pub(crate) struct JsonSource(pub(crate) Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>);

impl Source for JsonSource {
    fn poll_next(&mut self, cx: &mut Context<'_>, _: Codec, buffer: &mut Vec<u8>) -> Poll<Produced> {
        Poll::Ready(match ready!(self.0.as_mut().poll_next(cx)) {
            None => Produced::End(Outcome::Ok, Codec::Compact, Bytes::new()),
            Some(Ok(json)) => Produced::Raw(Codec::Json, json),
            Some(Err(status)) => failed(&status, buffer),
        })
    }
}
