//! What moves the producers of one call.

use crate::client::connection::Connection;
use crate::streaming::{End, Sending, Sink, Source};
use punctual_proto::codec::Codec;
use punctual_proto::frame::{CancelCause, EndHead, Outcome};
use punctual_proto::limits::Limits;
use punctual_proto::session::{Body, CallKey, Effects, PumpPoll, SendPoll};
use punctual_proto::status::Status;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

/// The producers of one call. As a future it is done when all have come to their end, or the call has.
pub(crate) struct Pump {
    connection: Arc<Connection>,
    key: CallKey,
    sending: Vec<Sending>,
}

/// One stream of a call.
struct Argument<'a> {
    connection: &'a Connection,
    key: CallKey,
    stream: u16,
}

impl Sink for Argument<'_> {
    fn limits(&self) -> &Limits {
        self.connection.limits()
    }

    fn send(&self, codec: Codec, body: &mut Body<'_>, waker: &Waker, fresh: &mut Option<Waker>) -> SendPoll {
        self.connection.session().send_item(self.key, self.stream, codec, body, waker, fresh)
    }

    fn end(&self, end: &End<'_>, waker: &Waker, fresh: &mut Option<Waker>) -> SendPoll {
        let End { outcome, codec, trailers, body } = *end;
        let head = EndHead { stream: self.stream, outcome, codec, metadata: trailers, body };
        self.connection.session().end_stream(self.key, &head, waker, fresh)
    }
}

impl Pump {
    pub(crate) fn new(connection: Arc<Connection>, key: CallKey, sending: Vec<Sending>) -> Self {
        Pump { connection, key, sending }
    }

    /// The sources of a call that is over, if none of them gave anything yet.
    pub(crate) fn into_sources(mut self) -> Option<Vec<Box<dyn Source>>> {
        std::mem::take(&mut self.sending).into_iter().map(Sending::into_source).collect()
    }

    /// Whether there is something to send.
    pub(crate) fn is_under_way(&self) -> bool {
        self.sending.iter().any(Sending::is_under_way)
    }

    /// Ready when the request was written, or the call is over.
    pub(crate) fn poll_start(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.ask(cx) {
            PumpPoll::Go | PumpPoll::Over => Poll::Ready(()),
            PumpPoll::Wait | PumpPoll::NeedsWaker => Poll::Pending,
        }
    }

    fn ask(&self, cx: &mut Context<'_>) -> PumpPoll {
        let mut fresh = None;
        loop {
            let polled = self.connection.session().poll_pump(self.key, cx.waker(), &mut fresh);
            match polled {
                PumpPoll::NeedsWaker => fresh = Some(cx.waker().clone()),
                polled => return polled,
            }
        }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_under_way() {
            return Poll::Ready(());
        }
        match self.ask(cx) {
            PumpPoll::Go => {}
            PumpPoll::Over => return Poll::Ready(()),
            PumpPoll::Wait | PumpPoll::NeedsWaker => return Poll::Pending,
        }
        let mut done = Poll::Ready(());
        for (index, sending) in self.sending.iter_mut().enumerate() {
            let stream = u16::try_from(index + 1).unwrap_or(u16::MAX);
            let sink = Argument { connection: &self.connection, key: self.key, stream };
            if sending.is_under_way() && sending.poll(cx, &sink).is_pending() {
                done = Poll::Pending;
            }
        }
        done
    }
}

impl Future for Pump {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.get_mut().poll(cx));
        Poll::Ready(())
    }
}

impl Drop for Pump {
    /// A producer that panicked, or whose task was dropped with its runtime, does not leave the server waiting. Where the
    /// call is over, none of this does anything.
    fn drop(&mut self) {
        if !self.is_under_way() {
            return;
        }
        let mut body = Vec::new();
        Status::internal("the stream's producer was dropped before its end").encode(&mut body);
        let mut waits = false;
        for (index, sending) in self.sending.iter().enumerate() {
            if sending.is_under_way() {
                let stream = u16::try_from(index + 1).unwrap_or(u16::MAX);
                let end = End { outcome: Outcome::Status, codec: Codec::Compact, trailers: &[], body: &body };
                let sink = Argument { connection: &self.connection, key: self.key, stream };
                let noop = Waker::noop();
                match sink.end(&end, noop, &mut Some(noop.clone())) {
                    SendPoll::Sent(Some(driver)) => driver.wake(),
                    SendPoll::Wait => waits = true,
                    _ => {}
                }
            }
        }
        if waits {
            // A piece of an item is on its way and will never be whole.
            let mut effects = Effects::default();
            self.connection.session().abandon(self.key, CancelCause::User, &mut effects);
            effects.run();
        }
    }
}
