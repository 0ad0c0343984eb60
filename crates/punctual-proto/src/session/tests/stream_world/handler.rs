//! What handlers do in the world of streams.

use super::{StreamWorld, check_item};
use crate::codec::Codec;
use crate::frame::{Outcome, ResponseHead};
use crate::session::tests::world::body_of;
use crate::session::{Body, Finished, HandlerPoll, ItemsPoll, ReturnOpened, SendPoll};
use crate::status::Status;
use std::task::Waker;

impl StreamWorld {
    /// A handler takes up to `most` items of one of its streams.
    pub(in crate::session::tests) fn server_takes(&mut self, handler: usize, stream: u16, most: usize) {
        if self.handlers.is_empty() {
            return;
        }
        let handler = handler % self.handlers.len();
        let handler = &mut self.handlers[handler];
        if handler.arguments.is_empty() {
            return;
        }
        let stream = stream % u16::try_from(handler.arguments.len()).unwrap();
        let end = &mut handler.arguments[usize::from(stream)];
        if end.ended || handler.dropped[usize::from(stream)] {
            return;
        }
        let noop = Waker::noop().clone();
        for _ in 0..most {
            if let Some(item) = end.buffer.pop_front() {
                check_item(&item, &mut end.items);
                end.consumed.add(&item);
                continue;
            }
            let consumed = std::mem::take(&mut end.consumed);
            let (buffer, mut fresh) = (&mut end.buffer, Some(noop.clone()));
            let effects = &mut self.effects;
            match self.server.poll_items(handler.key, stream + 1, consumed, buffer, &noop, &mut fresh, effects) {
                ItemsPoll::Items => {}
                ItemsPoll::Pending | ItemsPoll::Over(_) => return,
                ItemsPoll::End(got) => {
                    end.ended = true;
                    end.outcome = Some(got.outcome);
                    return;
                }
                other => panic!("{other:?}"),
            }
        }
        let consumed = std::mem::take(&mut end.consumed);
        self.server.consume(handler.key, stream + 1, consumed, &mut self.effects);
    }

    pub(in crate::session::tests) fn server_drops_stream(&mut self, handler: usize, stream: u16) {
        if self.handlers.is_empty() {
            return;
        }
        let handler = handler % self.handlers.len();
        let handler = &mut self.handlers[handler];
        if handler.arguments.is_empty() {
            return;
        }
        let stream = stream % u16::try_from(handler.arguments.len()).unwrap();
        handler.dropped[usize::from(stream)] = true;
        self.server.abandon_stream(handler.key, stream + 1, &mut self.effects);
    }

    /// A handler opens its returned stream, or sends the next item of it.
    pub(in crate::session::tests) fn server_sends(&mut self, handler: usize, len: usize) -> bool {
        if self.handlers.is_empty() {
            return false;
        }
        let handler = handler % self.handlers.len();
        let handler = &mut self.handlers[handler];
        if !handler.streams.returned() {
            return false;
        }
        if !handler.opened {
            handler.opened = matches!(self.server.open_returned(handler.key, &mut None), ReturnOpened::Done(_));
            return handler.opened;
        }
        let noop = Waker::noop().clone();
        let mut body = Body::shared(body_of(len.max(8), handler.returned.items));
        let sent = self.server.send_item(handler.key, Codec::Raw, &mut body, &noop, &mut Some(noop.clone()));
        let sent = matches!(sent, SendPoll::Sent(_));
        handler.returned.items += u64::from(sent);
        sent
    }

    /// A handler ends: with a reply, or with the end of its returned stream.
    pub(in crate::session::tests) fn server_finishes(&mut self, handler: usize, outcome: Outcome) {
        if self.handlers.is_empty() {
            return;
        }
        let handler = handler % self.handlers.len();
        let run = &self.handlers[handler];
        if outcome == Outcome::Ok && run.streams.returned() && !run.opened {
            return;
        }
        let codec = if outcome == Outcome::Status { Codec::Compact } else { Codec::Raw };
        let mut bytes = Vec::new();
        Status::internal("over").encode(&mut bytes);
        let head = ResponseHead { outcome, codec, metadata: &[], streamed: false, total: None, plain: None, body: &[] };
        match self.server.finish(run.key, head, &mut Body::copied(&bytes), &mut None) {
            Finished::Done { .. } => {
                self.handlers.remove(handler);
            }
            Finished::NoRoom => {}
        }
    }

    /// A handler looks whether its call is over.
    pub(in crate::session::tests) fn server_looks(&mut self, handler: usize) {
        if self.handlers.is_empty() {
            return;
        }
        let handler = handler % self.handlers.len();
        let key = self.handlers[handler].key;
        let noop = Waker::noop().clone();
        if matches!(self.server.poll_handler(key, &noop, &mut Some(noop.clone())), HandlerPoll::Over(_)) {
            drop(self.server.release(key));
            self.handlers.remove(handler);
        }
    }
}
