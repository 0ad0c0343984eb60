//! From a source to the connection: one stream on its way, item by item, as there is room.

use crate::compression::Shrink;
use crate::scratch::with_scratch;
use crate::streaming::read_status;
use crate::streaming::source::{END_BYTES_MAX, Produced, Source, failed};
use crate::telemetry::CallOutcome;
use bytes::Bytes;
use punctual_proto::codec::Codec;
use punctual_proto::frame::Outcome;
use punctual_proto::limits::Limits;
use punctual_proto::session::{Body, SendPoll};
use punctual_proto::status::Status;
use std::task::{Context, Poll, Waker, ready};

/// Items that a source gives in one turn. A source that always has one more would else keep its task for itself.
const ITEMS_PER_TURN: usize = 32;

/// Encoded items from this length on are linked: the copy under the lock would take longer than a new buffer.
const HAND_OVER_BYTES: usize = 16 * 1024;

/// Where a stream goes.
pub(crate) trait Sink {
    fn limits(&self) -> &Limits;
    /// Queues an item, or parks the waker.
    fn send(&self, codec: Codec, body: &mut Body<'_>, waker: &Waker, fresh: &mut Option<Waker>) -> SendPoll;
    /// Queues the end, or parks the waker.
    fn end(&self, end: &End<'_>, waker: &Waker, fresh: &mut Option<Waker>) -> SendPoll;
}

/// The end of a stream.
pub(crate) struct End<'a> {
    pub(crate) outcome: Outcome,
    pub(crate) codec: Codec,
    pub(crate) trailers: &'a [u8],
    pub(crate) body: &'a [u8],
}

/// One stream on its way.
pub(crate) struct Sending {
    /// What is dropped before the end is sent.
    source: Option<Box<dyn Source>>,
    codec: Codec,
    /// What its items go through, if anything.
    shrink: Option<Shrink>,
    /// What was produced and found no room.
    pending: Option<Pending>,
    /// The source gave something: it cannot be started again.
    taken: bool,
    /// How it ended, once its source has.
    ended: CallOutcome,
}

enum Pending {
    /// With the bytes that it had before it was compressed, where it is.
    Item(Codec, Bytes, Option<u32>),
    End {
        outcome: Outcome,
        codec: Codec,
        trailers: Bytes,
        body: Bytes,
    },
}

/// How one step went.
enum Step {
    Sent,
    Ended,
    Wait,
}

impl Sending {
    pub(crate) fn new(source: Box<dyn Source>, codec: Codec, shrink: Option<Shrink>) -> Self {
        Sending { source: Some(source), codec, shrink, pending: None, taken: false, ended: CallOutcome::Abandoned }
    }

    /// How it ended: abandoned where its source has not come to its end.
    pub(crate) fn ended(&self) -> CallOutcome {
        self.ended
    }

    /// Whether its end was not queued.
    pub(crate) fn is_under_way(&self) -> bool {
        self.source.is_some() || self.pending.is_some()
    }

    /// The source, if it gave nothing yet.
    pub(crate) fn into_source(self) -> Option<Box<dyn Source>> {
        self.source.filter(|_| !self.taken)
    }

    /// Sends what there is and has room. Ready when its end is queued, or nothing can be sent any more.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, sink: &impl Sink) -> Poll<()> {
        for _ in 0..ITEMS_PER_TURN {
            let step = match self.pending.take() {
                Some(pending) => self.retry(pending, cx, sink),
                None => ready!(self.produce(cx, sink)),
            };
            match step {
                Step::Sent => {}
                Step::Wait => return Poll::Pending,
                Step::Ended => {
                    self.source = None;
                    return Poll::Ready(());
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn produce(&mut self, cx: &mut Context<'_>, sink: &impl Sink) -> Poll<Step> {
        with_scratch(|buffer| {
            let Some(source) = self.source.as_mut() else { return Poll::Ready(Step::Ended) };
            let produced = ready!(source.poll_next(cx, self.codec, buffer));
            self.taken = true;
            let produced = check(produced, sink.limits(), buffer);
            let shrunk = self.shrink.as_ref().and_then(|shrink| match &produced {
                Produced::Raw(_, bytes) => shrink.shrink(bytes),
                Produced::Encoded(_) => shrink.shrink(buffer),
                Produced::End(..) => None,
            });
            let (codec, mut body) = match (produced, shrunk) {
                (Produced::Raw(codec, _) | Produced::Encoded(codec), Some(shrunk)) => {
                    (codec, Body::compressed(shrunk.bytes, shrunk.plain))
                }
                (Produced::Raw(codec, bytes), None) => (codec, Body::shared(bytes)),
                (Produced::Encoded(codec), None) if buffer.len() >= HAND_OVER_BYTES => {
                    (codec, Body::shared(Bytes::from(std::mem::take(buffer))))
                }
                (Produced::Encoded(codec), None) => (codec, Body::copied(buffer)),
                (Produced::End(outcome, codec, trailers), _) => {
                    // What produced goes before the call that it belonged to.
                    self.source = None;
                    self.ended = match outcome {
                        Outcome::Ok => CallOutcome::Ok,
                        Outcome::App => CallOutcome::Application,
                        Outcome::Status => CallOutcome::Status(read_status(buffer).code()),
                    };
                    let body = Bytes::copy_from_slice(buffer);
                    return Poll::Ready(self.retry(Pending::End { outcome, codec, trailers, body }, cx, sink));
                }
            };
            Poll::Ready(match attempt(cx, |waker, fresh| sink.send(codec, &mut body, waker, fresh)) {
                Step::Wait => {
                    let plain = body.plain();
                    self.pending = Some(Pending::Item(codec, body.into_bytes(), plain));
                    Step::Wait
                }
                step => step,
            })
        })
    }

    fn retry(&mut self, pending: Pending, cx: &mut Context<'_>, sink: &impl Sink) -> Step {
        let step = match &pending {
            Pending::Item(codec, bytes, plain) => {
                let mut body = match plain {
                    Some(plain) => Body::compressed(bytes.clone(), *plain),
                    None => Body::shared(bytes.clone()),
                };
                attempt(cx, |waker, fresh| sink.send(*codec, &mut body, waker, fresh))
            }
            Pending::End { outcome, codec, trailers, body } => {
                let end = End { outcome: *outcome, codec: *codec, trailers, body };
                match attempt(cx, |waker, fresh| sink.end(&end, waker, fresh)) {
                    Step::Sent => Step::Ended,
                    step => step,
                }
            }
        };
        if matches!(step, Step::Wait) {
            self.pending = Some(pending);
        }
        step
    }
}

fn attempt(cx: &Context<'_>, mut send: impl FnMut(&Waker, &mut Option<Waker>) -> SendPoll) -> Step {
    let mut fresh = None;
    loop {
        match send(cx.waker(), &mut fresh) {
            SendPoll::Sent(driver) => {
                if let Some(driver) = driver {
                    driver.wake();
                }
                return Step::Sent;
            }
            SendPoll::Wait => return Step::Wait,
            SendPoll::NeedsWaker => fresh = Some(cx.waker().clone()),
            SendPoll::Over => return Step::Ended,
        }
    }
}

/// What is longer than the connection takes ends the stream instead.
fn check(produced: Produced, limits: &Limits, buffer: &mut Vec<u8>) -> Produced {
    let over = |what: &str, bytes: usize, limit: &'static str, max: u64| {
        Status::resource_exhausted(format!("{what} of the stream has {bytes} bytes; {limit} is {max}"))
            .with_limit(limit, max)
    };
    let (message, metadata) = (u64::from(limits.message_bytes_max), u64::from(limits.metadata_bytes_max));
    let status = match &produced {
        Produced::Raw(_, bytes) if bytes.len() as u64 > message => {
            over("an item", bytes.len(), "message_bytes_max", message)
        }
        Produced::Encoded(_) if buffer.len() as u64 > message => {
            over("an item", buffer.len(), "message_bytes_max", message)
        }
        Produced::End(_, _, trailers) if trailers.len() as u64 > metadata => {
            over("the end", trailers.len(), "metadata_bytes_max", metadata)
        }
        Produced::End(..) if buffer.len() > END_BYTES_MAX => {
            over("the error", buffer.len(), "end_bytes_max", END_BYTES_MAX as u64)
        }
        _ => return produced,
    };
    failed(&status, buffer)
}
