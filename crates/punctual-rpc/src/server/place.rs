//! A call's place in its connection's table, held by whoever is to answer it.

use crate::scratch::with_scratch;
use crate::server::admission::Admitted;
use crate::server::connection::Connection;
use crate::telemetry::{CallOutcome, Watch};
use punctual_proto::codec::Codec;
use punctual_proto::frame::{Outcome, ResponseHead};
use punctual_proto::session::{Body, Finished, HandlerPoll, RunKey};
use punctual_proto::status::Status;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A status that is queued beside the queue's bound is cut to this.
pub(crate) const REFUSAL_BYTES_MAX: usize = 1_024;

/// The right and the duty to answer one call. Dropped without an answer, it answers with Internal.
pub(crate) struct Place {
    connection: Arc<Connection>,
    key: RunKey,
    held: bool,
    /// Where somebody looks on.
    watch: Option<Box<Watch>>,
    /// Given back with the place.
    admitted: Option<Box<Admitted>>,
}

impl Place {
    pub(crate) fn new(connection: Arc<Connection>, key: RunKey) -> Self {
        Place { connection, key, held: true, watch: None, admitted: None }
    }

    /// Keeps the permit of the admission control for as long as the place is held.
    pub(crate) fn admit(&mut self, admitted: Admitted) {
        self.admitted = Some(Box::new(admitted));
    }

    /// The same call, seen by these.
    pub(crate) fn watched(mut self, watch: Option<Box<Watch>>) -> Self {
        self.watch = watch;
        self
    }

    /// Runs a part of the call, inside of its span where it has one.
    pub(crate) fn around<R>(&mut self, part: impl FnOnce() -> R) -> R {
        match &mut self.watch {
            Some(watch) => watch.around(part),
            None => part(),
        }
    }

    /// Tells who looks on how the call ended. Told by nobody, it was abandoned.
    pub(crate) fn tell(&mut self, outcome: CallOutcome) {
        if let Some(watch) = self.watch.take() {
            watch.end(outcome);
        }
    }

    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    pub(crate) fn key(&self) -> RunKey {
        self.key
    }

    pub(crate) fn is_oneway(&self) -> bool {
        !self.key.call().is_pending()
    }

    /// Queues the answer and gives the place back. Pending where there is no room for the answer yet: this task is woken
    /// when that may have changed.
    pub(crate) fn poll_finish(
        &mut self,
        outcome: Outcome,
        codec: Codec,
        body: &mut Body<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        if self.finish(outcome, codec, body, &mut None) {
            return Poll::Ready(());
        }
        self.connection.set_congested();
        let mut waker = Some(cx.waker().clone());
        if self.finish(outcome, codec, body, &mut waker) { Poll::Ready(()) } else { Poll::Pending }
    }

    fn finish(&mut self, outcome: Outcome, codec: Codec, body: &mut Body<'_>, waker: &mut Option<Waker>) -> bool {
        let (metadata, plain) = (&[][..], body.plain());
        let head = ResponseHead { outcome, codec, metadata, streamed: false, total: None, plain, body: &[] };
        let finished = self.connection.session().finish(self.key, head, body, waker);
        self.settle(finished)
    }

    fn settle(&mut self, finished: Finished) -> bool {
        let Finished::Done { driver, stale } = finished else { return false };
        self.held = false;
        drop(stale);
        if let Some(driver) = driver {
            driver.wake();
        }
        true
    }

    /// The call was answered, and its place given back, by somebody else.
    pub(crate) fn forget(mut self) {
        self.held = false;
    }

    /// Gives the place of a call back that needs no answer.
    pub(crate) fn release(mut self) {
        self.held = false;
        self.connection.release(self.key);
    }

    /// Answers with a status. Where there is no room for a long one, it is cut.
    pub(crate) fn refuse(mut self, status: &Status) {
        self.try_refuse(status);
    }

    fn try_refuse(&mut self, status: &Status) {
        self.tell(CallOutcome::Status(status.code()));
        let max = usize::try_from(self.connection.limits().message_bytes_max).unwrap_or(usize::MAX);
        with_scratch(|buffer| {
            status.clone().fitted(max).encode(buffer);
            if !self.finish(Outcome::Status, Codec::Compact, &mut Body::copied(buffer), &mut None) {
                buffer.clear();
                status.clone().fitted(max.min(REFUSAL_BYTES_MAX)).encode(buffer);
                let finished = self.connection.session().refuse_run(self.key, buffer);
                self.settle(finished);
            }
        });
    }

    /// Ready where the call is over and its handler is to be dropped; else this task is woken when it is.
    pub(crate) fn poll_over(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut fresh = None;
        loop {
            let polled = self.connection.session().poll_handler(self.key, cx.waker(), &mut fresh);
            match polled {
                HandlerPoll::Wait => return Poll::Pending,
                HandlerPoll::NeedsWaker => fresh = Some(cx.waker().clone()),
                HandlerPoll::Over(_) => return Poll::Ready(()),
            }
        }
    }

    /// Waits for room in the queue.
    pub(crate) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.connection.poll_congested(self.key, cx)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.held {
            self.try_refuse(&Status::unmapped());
        }
    }
}
