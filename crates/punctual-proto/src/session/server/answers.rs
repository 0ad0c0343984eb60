//! Answers beside the handlers' results: refusals, replies to queries, the ends of calls that others decided.

use crate::codec::Codec;
use crate::frame::{CallId, DescribeHead, EndHead, HealthFrame, Outcome, ResponseHead};
use crate::session::message::Body;
use crate::session::outbox::message_size;
use crate::session::server::{Finished, RunKey, ServerSession, State};
use crate::status::Status;
use std::task::Waker;

impl ServerSession {
    /// Answers a call with a short status beside the queue's bound, and frees its place: a call that is not run must not
    /// go unanswered because others fill the queue.
    pub fn refuse_run(&mut self, key: RunKey, status: &[u8]) -> Finished {
        let live = self.runs.get(key.at as usize).is_some_and(|run| run.call == key.call && run.state == State::Live);
        if live && self.closed.is_none() {
            self.answer_run(key.at as usize, status);
        }
        let stale = self.release(key);
        let driver = self.out.take_driver().or_else(|| self.driver_after_release());
        Finished::Done { driver, stale }
    }

    /// Answers a call that never got a place.
    pub fn answer_refused(&mut self, call: CallId, status: &Status) -> Option<Waker> {
        if self.closed.is_some() {
            return None;
        }
        let mut bytes = Vec::with_capacity(status.encoded_len());
        status.encode(&mut bytes);
        self.answer(call, &bytes);
        self.out.take_driver()
    }

    /// Answers a describe query; `false` where there is no room yet.
    pub fn answer_describe(&mut self, call: CallId, failed: bool, body: &mut Body<'_>) -> bool {
        if self.closed.is_some() {
            return true;
        }
        let head = DescribeHead::Reply { failed, total: None, body: &[] };
        let fits = self.out.fits(message_size(&head, body), 0) && self.out.bulk_fits(body.len());
        if fits {
            self.out.push_message(call, head, body, None);
        }
        fits
    }

    /// Answers a describe query with a short status, beside the queue's bound.
    pub fn refuse_describe(&mut self, call: CallId, status: &[u8]) {
        if self.closed.is_none() {
            let head = DescribeHead::Reply { failed: true, total: None, body: &[] };
            self.out.push_message(call, head, &mut Body::copied(status), None);
        }
    }

    /// Answers a health query; `false` where the peer asks without reading.
    pub fn answer_health(&mut self, call: CallId, health: HealthFrame<'_>) -> bool {
        self.closed.is_some() || self.out.push_health(call, health)
    }

    /// Queues a status as the answer of a call beside the queue's bound: there is at most one for each place.
    pub(super) fn answer(&mut self, call: CallId, status: &[u8]) {
        if call.is_pending() {
            let head = ResponseHead {
                outcome: Outcome::Status,
                codec: Codec::Compact,
                metadata: &[],
                streamed: false,
                total: None,
                plain: None,
                body: &[],
            };
            self.out.push_message(call, head, &mut Body::copied(status), None);
        }
    }

    /// The same for a call that has a place: where its returned stream is open, that is what ends.
    pub(super) fn answer_run(&mut self, at: usize, status: &[u8]) {
        let Some(run) = self.runs.get(at) else { return };
        if run.streams.as_deref().is_some_and(|streams| streams.is_open()) {
            let end =
                EndHead { stream: 0, outcome: Outcome::Status, codec: Codec::Compact, metadata: &[], body: status };
            self.out.push_end(run.call, &end);
        } else {
            self.answer(run.call, status);
        }
    }
}
