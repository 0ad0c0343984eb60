//! A call's result together with the metadata that its server sent along.

use bytes::Bytes;
use punctual_context::Metadata;
use punctual_proto::session::Reply;
use punctual_proto::status::Status;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

/// What a call gave, with the metadata that its server sent along. `R` is the call's result, which may well be an error:
/// metadata come with those, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response<R> {
    result: R,
    metadata: Metadata,
}

impl<R> Response<R> {
    /// The result.
    #[must_use]
    pub fn result(&self) -> &R {
        &self.result
    }

    /// What the server sent along with its last reply; empty where none came.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The result alone.
    #[must_use]
    pub fn into_result(self) -> R {
        self.result
    }

    /// Both.
    #[must_use]
    pub fn into_parts(self) -> (R, Metadata) {
        (self.result, self.metadata)
    }
}

/// A call whose response's metadata are wanted: the future of a [`Response`] of what the call itself gives. Made by
/// [`Unary::with_response`](crate::Unary::with_response) and its like.
#[must_use = "a call is made when it is awaited"]
pub struct WithResponse<F> {
    call: F,
    heard: Heard,
}

impl<F> WithResponse<F> {
    /// `call` puts what it hears into `heard`.
    pub(crate) fn new(call: F, heard: Heard) -> Self {
        WithResponse { call, heard }
    }
}

impl<F: Future + Unpin> Future for WithResponse<F> {
    type Output = Response<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(Pin::new(&mut self.call).poll(cx));
        Poll::Ready(Response { result, metadata: self.heard.take() })
    }
}

impl<F: fmt::Debug> fmt::Debug for WithResponse<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.call.fmt(f)
    }
}

/// Where the attempts of one call put the metadata of their replies.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Metadata>>);

impl Heard {
    /// Keeps what came with a reply, in place of what came with an earlier one.
    ///
    /// # Errors
    /// Where it cannot be read: that call fails alone.
    pub(crate) fn hear(&self, reply: &Reply, copied: &[u8]) -> Result<(), Status> {
        // Copied all the same where it is shared: whoever keeps metadata must not keep the block that they came in.
        let encoded = match reply {
            Reply::Copied(head) => copied.get(..head.metadata_bytes as usize).unwrap_or_default(),
            Reply::Shared(head, bytes) => bytes.get(..head.metadata_bytes as usize).unwrap_or_default(),
            Reply::Opened(metadata) => metadata,
            _ => &[],
        };
        let metadata = read_metadata(Bytes::copy_from_slice(encoded))?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = metadata;
        Ok(())
    }

    /// What was heard last.
    pub(crate) fn so_far(&self) -> Metadata {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn take(&self) -> Metadata {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The metadata of a response.
///
/// # Errors
/// Where they cannot be read: that call fails alone.
pub(crate) fn read_metadata(encoded: Bytes) -> Result<Metadata, Status> {
    Metadata::from_encoded(encoded)
        .map_err(|error| Status::data_loss(format!("the response's metadata cannot be read: {error}")))
}
