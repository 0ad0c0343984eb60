//! What callers do in the world of streams.

use super::{Caller, End, StreamWorld, check_item};
use crate::codec::Codec;
use crate::frame::{CallStreams, CancelCause, EndHead, Outcome, RequestHead};
use crate::session::tests::world::{MILLI, body_of};
use crate::session::{Body, Ending, ItemsPoll, Opening, PumpPoll, Reply, ReplyPoll, SendPoll, Session};
use punctual_clock::Instant;
use std::task::Waker;

impl StreamWorld {
    pub(in crate::session::tests) fn open(&mut self, arguments: u16, returned: bool, timeout: u64, len: usize) -> bool {
        let streams = CallStreams::new(arguments, returned);
        let deadline = match timeout {
            0 => Instant::FAR,
            millis => self.now.after(MILLI * u32::try_from(millis).unwrap()),
        };
        let left = deadline.since(self.now);
        let head = RequestHead {
            method: 1,
            budget_micros: if deadline == Instant::FAR { None } else { RequestHead::budget(left) },
            oneway: false,
            codec: Codec::Raw,
            metadata: &[],
            streams,
            total: None,
            plain: None,
            body: &[],
        };
        let mut body = Body::shared(body_of(len, 0));
        let mut waker = Some(Waker::noop().clone());
        let before = (self.client.load(), self.client.flow().open, self.client.outbox().queued_bytes());
        let opening = Opening { head, body: &mut body, deadline, now: self.now, ticket: None };
        let opened = if streams == CallStreams::NONE {
            self.client.open_call(opening, &mut waker)
        } else {
            self.client.open_streams(opening, &mut waker)
        };
        let Ok(opened) = opened else {
            let after = (self.client.load(), self.client.flow().open, self.client.outbox().queued_bytes());
            assert_eq!(before, after, "a refusal leaves nothing behind");
            return false;
        };
        self.published += 1;
        self.callers.push(Caller {
            key: opened.key,
            streams,
            arguments: (0..arguments).map(|_| End::default()).collect(),
            returned: End::default(),
            opened: false,
            deadline,
        });
        true
    }

    /// A producer of a caller sends an item, if it may. Tells whether it was sent.
    pub(in crate::session::tests) fn client_sends(&mut self, call: usize, stream: u16, len: usize) -> bool {
        if self.callers.is_empty() {
            return false;
        }
        let call = call % self.callers.len();
        let caller = &mut self.callers[call];
        if caller.arguments.is_empty() {
            return false;
        }
        let stream = stream % u16::try_from(caller.arguments.len()).unwrap();
        let end = &mut caller.arguments[usize::from(stream)];
        if end.ended {
            return false;
        }
        let noop = Waker::noop().clone();
        if self.client.poll_pump(caller.key, &noop, &mut Some(noop.clone())) != PumpPoll::Go {
            return false;
        }
        let mut body = Body::shared(body_of(len.max(8), end.items));
        let sent = self.client.send_item(caller.key, stream + 1, Codec::Raw, &mut body, &noop, &mut Some(noop.clone()));
        let sent = matches!(sent, SendPoll::Sent(_));
        end.items += u64::from(sent);
        sent
    }

    pub(in crate::session::tests) fn client_ends(&mut self, call: usize, stream: u16, failed: bool) {
        if self.callers.is_empty() {
            return;
        }
        let call = call % self.callers.len();
        let caller = &mut self.callers[call];
        if caller.arguments.is_empty() {
            return;
        }
        let stream = stream % u16::try_from(caller.arguments.len()).unwrap();
        let end = &mut caller.arguments[usize::from(stream)];
        let noop = Waker::noop().clone();
        if end.ended || self.client.poll_pump(caller.key, &noop, &mut Some(noop.clone())) != PumpPoll::Go {
            return;
        }
        let outcome = if failed { Outcome::App } else { Outcome::Ok };
        let body: &[u8] = if failed { b"sorry" } else { b"" };
        let head = EndHead { stream: stream + 1, outcome, codec: Codec::Raw, metadata: &[], body };
        let sent = self.client.end_stream(caller.key, &head, &noop, &mut Some(noop.clone()));
        if matches!(sent, SendPoll::Sent(_)) {
            end.ended = true;
            end.outcome = Some(outcome);
        }
    }

    /// A caller looks at its call: for its reply, or for up to `most` items of its returned stream.
    pub(in crate::session::tests) fn client_takes(&mut self, call: usize, most: usize) {
        if self.callers.is_empty() {
            return;
        }
        let call = call % self.callers.len();
        let noop = Waker::noop().clone();
        let caller = &mut self.callers[call];
        if !caller.opened {
            let mut buffer = Vec::new();
            let reply = match self.client.poll_reply(caller.key, &noop, &mut Some(noop.clone()), &mut buffer) {
                ReplyPoll::Ready(reply) => reply,
                _ => return,
            };
            match reply {
                Reply::Opened(_) => {
                    assert!(caller.streams.returned());
                    caller.opened = true;
                    return;
                }
                Reply::Copied(head) | Reply::Shared(head, _) => {
                    match head.outcome {
                        Outcome::Status => self.ends.statuses += 1,
                        _ => self.ends.replies += 1,
                    };
                }
                Reply::Failed(ending) => self.failed(call, &ending),
                other => panic!("{other:?}"),
            }
            self.callers.remove(call);
            return;
        }
        let returned = &mut caller.returned;
        for _ in 0..most {
            if let Some(item) = returned.buffer.pop_front() {
                check_item(&item, &mut returned.items);
                returned.consumed.add(&item);
                continue;
            }
            let consumed = std::mem::take(&mut returned.consumed);
            let (buffer, mut fresh) = (&mut returned.buffer, Some(noop.clone()));
            match self.client.poll_items(caller.key, consumed, buffer, &noop, &mut fresh, &mut self.effects) {
                ItemsPoll::Items => {}
                ItemsPoll::Pending => return,
                ItemsPoll::End(end) => {
                    assert!(!returned.ended, "one end");
                    self.ends.ends += 1;
                    returned.outcome = Some(end.outcome);
                    self.callers.remove(call);
                    return;
                }
                ItemsPoll::Failed(ending) => {
                    self.failed(call, &ending);
                    self.callers.remove(call);
                    return;
                }
                other => panic!("{other:?}"),
            }
        }
        let consumed = std::mem::take(&mut returned.consumed);
        self.client.consume(caller.key, consumed, &mut self.effects);
    }

    fn failed(&mut self, call: usize, ending: &Ending) {
        match ending {
            Ending::Deadline => assert!(self.now >= self.callers[call].deadline, "before its deadline"),
            Ending::Closed(_) => assert!(self.closed),
            Ending::NeverAccepted => assert!(self.drained),
        }
        self.ends.failures += 1;
    }

    pub(in crate::session::tests) fn drop_call(&mut self, call: usize) {
        if !self.callers.is_empty() {
            let caller = self.callers.remove(call % self.callers.len());
            self.client.abandon(caller.key, CancelCause::ConsumerGone, &mut self.effects);
            self.ends.dropped += 1;
        }
    }
}
