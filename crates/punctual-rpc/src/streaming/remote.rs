//! The receiving end of a stream that the peer sends.

use crate::client::StreamCallKey;
use crate::server::StreamPlace;
use crate::streaming::read_status;
use crate::telemetry::{CallOutcome, Watch};
use punctual_context::Metadata;
use punctual_proto::codec::CodecError;
use punctual_proto::frame::Outcome;
use punctual_proto::session::{Consumed, Effects, ItemsPoll, StreamEnd, StreamItem};
use punctual_proto::status::Status;
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker, ready};

/// How a stream that was received ended.
pub(crate) enum RemoteEnd {
    /// As its sender says.
    End(StreamEnd),
    /// Its call was over before.
    Failed(Status),
}

impl RemoteEnd {
    fn outcome(&self) -> CallOutcome {
        match self {
            RemoteEnd::Failed(status) => CallOutcome::Status(status.code()),
            RemoteEnd::End(end) => match end.outcome {
                Outcome::Ok => CallOutcome::Ok,
                Outcome::App => CallOutcome::Application,
                Outcome::Status => CallOutcome::Status(read_status(&end.body).code()),
            },
        }
    }
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
    /// Where somebody looks on at the call that it is the end of.
    watch: Option<Box<Watch>>,
}

impl Remote {
    pub(crate) fn new(origin: Origin, window_bytes: u32) -> Self {
        let batch_bytes = u64::from(window_bytes) / 2;
        let (buffer, consumed) = (VecDeque::new(), Consumed::default());
        Remote { origin, buffer, consumed, batch_bytes, metadata: Metadata::new(), watch: None }
    }

    pub(crate) fn of_call(call: StreamCallKey, metadata: Metadata) -> Self {
        let window = call.window_bytes();
        Remote { metadata, ..Self::new(Origin::Call(call), window) }
    }

    /// Whoever looks on is told of its end.
    pub(crate) fn watched(&mut self, watch: Box<Watch>) {
        self.watch = Some(watch);
    }

    /// It ended like this.
    pub(crate) fn tell(&mut self, outcome: CallOutcome) {
        if let Some(watch) = self.watch.take() {
            watch.end(outcome);
        }
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
        let next = ready!(self.poll_item(cx));
        if let (Err(end), true) = (&next, self.watch.is_some()) {
            self.tell(end.outcome());
        }
        Poll::Ready(next)
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Result<StreamItem, RemoteEnd>> {
        loop {
            if let Some(item) = self.buffer.pop_front() {
                self.consumed.add(&item);
                if self.consumed.bytes() >= self.batch_bytes {
                    let mut effects = Effects::default();
                    self.origin.consume(std::mem::take(&mut self.consumed), &mut effects);
                    effects.run();
                }
                return Poll::Ready(self.origin.inflated(item).map_err(RemoteEnd::Failed));
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
    /// The item as it was before it was compressed.
    fn inflated(&self, mut item: StreamItem) -> Result<StreamItem, Status> {
        let Some(plain) = item.plain else { return Ok(item) };
        let agreed = match self {
            Origin::Call(call) => call.compression(),
            Origin::Argument(place) => place.compression(),
        };
        // A peer compresses only what was agreed on.
        let Some(agreed) = agreed else { return Ok(item) };
        match (agreed.inflate(&item.bytes, plain), self) {
            (Ok(bytes), _) => {
                item.bytes = bytes;
                item.plain = None;
                Ok(item)
            }
            (Err(corrupt), Origin::Call(_)) => Err(Status::data_loss(corrupt.to_string())),
            (Err(corrupt), Origin::Argument(_)) => Err(Status::invalid_argument(corrupt.to_string())),
        }
    }

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
