//! The receiving end of a stream that the peer sends.

use crate::client::StreamCallKey;
use crate::server::StreamPlace;
use punctual_context::Metadata;
use punctual_proto::codec::CodecError;
use punctual_proto::session::{Consumed, Effects, ItemsPoll, StreamEnd, StreamItem};
use punctual_proto::status::Status;
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

/// How a stream that was received ended.
pub(crate) enum RemoteEnd {
    /// As its sender says.
    End(StreamEnd),
    /// Its call was over before.
    Failed(Status),
}

/// Where a stream comes from.
pub(crate) enum Origin {
    /// It was returned by a call, which it cancels when it is dropped.
    Call(StreamCallKey),
    /// It is an argument of a call that a handler runs.
    Argument(StreamPlace),
}

/// A stream that the peer sends. Everything that came is fetched under one lock and then taken without.
pub(crate) struct Remote {
    origin: Origin,
    buffer: VecDeque<StreamItem>,
    consumed: Consumed,
    /// What is consumed is told when it comes to so much, also while there is more in the buffer.
    batch_bytes: u64,
    /// What came with its opening.
    metadata: Metadata,
}

impl Remote {
    pub(crate) fn new(origin: Origin, window_bytes: u32) -> Self {
        let batch_bytes = u64::from(window_bytes) / 2;
        let (buffer, consumed) = (VecDeque::new(), Consumed::default());
        Remote { origin, buffer, consumed, batch_bytes, metadata: Metadata::new() }
    }

    pub(crate) fn of_call(call: StreamCallKey, metadata: Metadata) -> Self {
        let window = call.window_bytes();
        Remote { metadata, ..Self::new(Origin::Call(call), window) }
    }

    /// What came with its opening, for who keeps it from here on.
    pub(crate) fn take_metadata(&mut self) -> Metadata {
        std::mem::take(&mut self.metadata)
    }

    /// What an item that cannot be read means: the fault of the server, or of the caller.
    pub(crate) fn unreadable(&self) -> fn(CodecError) -> Status {
        match self.origin {
            Origin::Call(_) => CodecError::into_reply_status,
            Origin::Argument(_) => CodecError::into_request_status,
        }
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<StreamItem, RemoteEnd>> {
        loop {
            if let Some(item) = self.buffer.pop_front() {
                self.consumed.add(&item);
                if self.consumed.bytes() >= self.batch_bytes {
                    let mut effects = Effects::default();
                    self.origin.consume(std::mem::take(&mut self.consumed), &mut effects);
                    effects.run();
                }
                return Poll::Ready(Ok(item));
            }
            match self.poll_origin(cx.waker()) {
                ItemsPoll::Items => {}
                ItemsPoll::Pending | ItemsPoll::NeedsWaker => return Poll::Pending,
                ItemsPoll::End(end) => return Poll::Ready(Err(RemoteEnd::End(end))),
                ItemsPoll::Failed(ending) => return Poll::Ready(Err(RemoteEnd::Failed(ending.status()))),
                ItemsPoll::Over(reason) => {
                    let text = format!("the stream's call ended before the stream: {reason}");
                    return Poll::Ready(Err(RemoteEnd::Failed(Status::cancelled(text))));
                }
            }
        }
    }

    fn poll_origin(&mut self, waker: &Waker) -> ItemsPoll {
        let (mut fresh, mut effects) = (None, Effects::default());
        loop {
            let consumed = std::mem::take(&mut self.consumed);
            let polled = self.origin.poll(consumed, &mut self.buffer, waker, &mut fresh, &mut effects);
            if !effects.is_empty() {
                effects.run();
            }
            match polled {
                ItemsPoll::NeedsWaker => fresh = Some(waker.clone()),
                polled => return polled,
            }
        }
    }
}

impl Origin {
    fn poll(
        &mut self,
        consumed: Consumed,
        buffer: &mut VecDeque<StreamItem>,
        waker: &Waker,
        fresh: &mut Option<Waker>,
        effects: &mut Effects,
    ) -> ItemsPoll {
        match self {
            Origin::Call(call) => call.poll_items(consumed, buffer, waker, fresh, effects),
            Origin::Argument(place) => place.poll_items(consumed, buffer, waker, fresh, effects),
        }
    }

    fn consume(&mut self, consumed: Consumed, effects: &mut Effects) {
        match self {
            Origin::Call(call) => call.consume(consumed, effects),
            Origin::Argument(place) => place.consume(consumed, effects),
        }
    }
}
