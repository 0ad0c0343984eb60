//! A call's place in its connection's table, held by whoever is to answer it.

use crate::scratch::with_scratch;
use crate::server::connection::Connection;
use punctual_proto::codec::Codec;
use punctual_proto::frame::{Outcome, ResponseHead};
use punctual_proto::session::{Body, Finished, HandlerPoll, RunKey};
use punctual_proto::status::Status;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The right and the duty to answer one call. Dropped without an answer, it answers with Internal.
pub(crate) struct Place {
    connection: Arc<Connection>,
    key: RunKey,
    held: bool,
}

impl Place {
    pub(crate) fn new(connection: Arc<Connection>, key: RunKey) -> Self {
        Place { connection, key, held: true }
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

    /// Queues the answer and gives the place back; false where there is no room for the answer yet.
    pub(crate) fn finish(&mut self, outcome: Outcome, codec: Codec, body: &mut Body<'_>) -> bool {
        let head = ResponseHead { outcome, codec, metadata: &[], total: None, body: &[] };
        let finished = self.connection.session().finish(self.key, head, body);
        match finished {
            Finished::Done { driver, stale } => {
                self.held = false;
                drop(stale);
                if let Some(driver) = driver {
                    driver.wake();
                }
                true
            }
            Finished::NoRoom => {
                self.connection.set_congested();
                false
            }
        }
    }

    /// Gives the place of a call back that needs no answer.
    pub(crate) fn release(mut self) {
        self.held = false;
        self.connection.release(self.key);
    }

    /// Answers with a status. Where there is no room even for that, the call goes unanswered until its deadline.
    pub(crate) fn refuse(mut self, status: &Status) {
        self.try_refuse(status);
    }

    fn try_refuse(&mut self, status: &Status) {
        let max = usize::try_from(self.connection.limits().message_bytes_max).unwrap_or(usize::MAX);
        let done = with_scratch(|buffer| {
            status.clone().fitted(max).encode(buffer);
            self.finish(Outcome::Status, Codec::Compact, &mut Body::copied(buffer))
        });
        if !done {
            self.held = false;
            self.connection.release(self.key);
        }
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
        self.connection.poll_congested(cx)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.held {
            self.try_refuse(&Status::unmapped());
        }
    }
}
