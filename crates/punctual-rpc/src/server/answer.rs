//! The task of one call: the handler, then its answer.

use crate::compression::Agreed;
use crate::scratch::with_scratch;
use crate::server::inbound::{Ended, Failure};
use crate::server::place::Place;
use crate::server::shared::Shared;
use crate::telemetry::CallOutcome;
use bytes::Bytes;
use pin_project_lite::pin_project;
use punctual_proto::codec::{self, Codec, CodecError};
use punctual_proto::contract::MethodDescriptor;
use punctual_proto::frame::{Outcome, ResponseHead};
use punctual_proto::session::Body;
use punctual_proto::status::Status;
use serde::Serialize;
use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Encoded results from this length on are linked.
const HAND_OVER_BYTES: usize = 16 * 1_024;

pin_project! {
    /// Runs a handler to its end, or until its call is over, and queues its answer.
    ///
    /// A cancelled handler is polled once more, so that `Context::cancelled()` can resolve in it, and dropped where it
    /// still waits after that.
    #[must_use = "futures do nothing unless polled"]
    pub(crate) struct Answer<Fut, T, E> {
        #[pin]
        handler: Option<Fut>,
        place: Option<Place>,
        method: &'static MethodDescriptor,
        codec: Codec,
        result: Option<Result<T, Failure<E>>>,
        // What was encoded and found no room.
        encoded: Option<Encoded>,
    }
}

impl<Fut, T, E> Answer<Fut, T, E> {
    pub(crate) fn new(place: Place, method: &'static MethodDescriptor, codec: Codec, handler: Fut) -> Self {
        Answer { handler: Some(handler), place: Some(place), method, codec, result: None, encoded: None }
    }

    /// What all connections share.
    pub(crate) fn shared(&self) -> Option<&Shared> {
        self.place.as_ref().map(|place| place.connection().shared())
    }

    /// Ready where the call is over before its handler began, and the handler need not run then.
    pub(crate) fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &self.place {
            Some(place) if !self.method.detached => place.poll_over(cx),
            _ => Poll::Pending,
        }
    }

    /// The call is over: its handler goes without having run, and then its place.
    pub(crate) fn abandon(mut self) {
        self.handler = None;
        if let Some(place) = self.place.take() {
            place.release();
        }
    }
}

impl<Fut, T, E> Future for Answer<Fut, T, E>
where
    Fut: Future<Output: Ended<Ok = T, Err = E>>,
    T: Serialize + 'static,
    E: Serialize + 'static,
{
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        if let Some(handler) = this.handler.as_mut().as_pin_mut() {
            let place = this.place.as_mut();
            let polled = catch_unwind(AssertUnwindSafe(|| match place {
                Some(place) => place.around(|| handler.poll(cx)),
                None => handler.poll(cx),
            }));
            let result = match polled {
                Ok(Poll::Ready(output)) => output.ended(),
                // It runs to its end, whatever becomes of its call.
                Ok(Poll::Pending) if this.method.detached => return Poll::Pending,
                Ok(Poll::Pending) => {
                    if let Some(place) = this.place.as_ref() {
                        ready!(place.poll_over(cx));
                    }
                    // The handler goes before its place does: it counts until it has ended.
                    this.handler.set(None);
                    if let Some(place) = this.place.take() {
                        place.release();
                    }
                    return Poll::Ready(());
                }
                Err(_) => {
                    if let Some(place) = this.place.as_ref() {
                        place.connection().shared().panicked(this.method.full_name);
                    }
                    Err(Failure::Status(Status::unmapped()))
                }
            };
            this.handler.set(None);
            if let Err(Failure::Answered(ended)) = result {
                if let Some(mut place) = this.place.take() {
                    place.tell(ended);
                    place.forget();
                }
                return Poll::Ready(());
            }
            *this.result = Some(result);
        }
        let Some(place) = this.place.as_mut() else { return Poll::Ready(()) };
        if place.is_oneway() {
            if let Some(Err(Failure::Status(status))) = this.result.take() {
                // Its text may hold what the caller sent.
                tracing::debug!(method = this.method.full_name, code = %status.code(), "a one-way call failed");
                place.tell(CallOutcome::Status(status.code()));
            } else {
                place.tell(CallOutcome::Ok);
            }
            if let Some(place) = this.place.take() {
                place.release();
            }
            return Poll::Ready(());
        }
        let finished = match this.encoded.as_ref() {
            Some(encoded) => place.poll_finish(encoded.outcome, encoded.codec, &mut encoded.body(), cx),
            None if place.poll_room(cx).is_pending() => Poll::Pending,
            None => {
                let Some(result) = this.result.take() else { return Poll::Ready(()) };
                with_scratch(|buffer| {
                    let max = usize::try_from(place.connection().limits().message_bytes_max).unwrap_or(usize::MAX);
                    let agreed = place.connection().compression();
                    let (outcome, codec, mut body, ended) =
                        encode(result, *this.codec, this.method, max, agreed, buffer);
                    place.tell(ended);
                    let finished = place.poll_finish(outcome, codec, &mut body, cx);
                    if finished.is_pending() {
                        let plain = body.plain();
                        *this.encoded = Some(Encoded { outcome, codec, plain, bytes: body.into_bytes() });
                    }
                    finished
                })
            }
        };
        if finished.is_pending() {
            // While it waits for room the call can still end.
            ready!(place.poll_over(cx));
            *this.result = None;
            *this.encoded = None;
            if let Some(place) = this.place.take() {
                place.release();
            }
            return Poll::Ready(());
        }
        *this.place = None;
        Poll::Ready(())
    }
}

/// What was encoded and found no room.
struct Encoded {
    outcome: Outcome,
    codec: Codec,
    /// Where it is compressed, the bytes that it had before.
    plain: Option<u32>,
    bytes: Bytes,
}

impl Encoded {
    fn body(&self) -> Body<'static> {
        match self.plain {
            Some(plain) => Body::compressed(self.bytes.clone(), plain),
            None => Body::shared(self.bytes.clone()),
        }
    }
}

/// Encodes a result as a frame, or as a body where it is linked. What cannot be encoded, or is too long, becomes a status:
/// that call fails alone.
fn encode<'b, T: Serialize + 'static, E: Serialize + 'static>(
    result: Result<T, Failure<E>>,
    request: Codec,
    method: &MethodDescriptor,
    bytes_max: usize,
    agreed: Option<&Agreed>,
    buffer: &'b mut Vec<u8>,
) -> (Outcome, Codec, Body<'b>, CallOutcome) {
    // The reply is spoken as the request was. Raw bytes do not say which contract the caller has, so the answer to them
    // names its fields; and what the compact codec cannot say, the named one can.
    let codec = match request {
        Codec::Raw => Codec::Named,
        Codec::Compact if method.reply_self_describing => Codec::Named,
        other => other,
    };
    let too_long = |len: usize| {
        let text = format!(
            "the reply of {} has {len} bytes; message_bytes_max of this connection is {bytes_max}",
            method.full_name
        );
        Status::resource_exhausted(text).with_limit("message_bytes_max", bytes_max as u64)
    };
    let encoded = match result {
        Ok(value) => {
            let mut value = Some(value);
            let raw = (&mut value as &mut dyn Any).downcast_mut::<Option<Bytes>>().filter(|_| codec != Codec::Json);
            match (raw.and_then(Option::take), &value) {
                (Some(bytes), _) if bytes.len() > bytes_max => Err(too_long(bytes.len())),
                (Some(bytes), _) => {
                    let shrunk = agreed.and_then(|agreed| agreed.shrink(method.id, None, &bytes));
                    let body = match shrunk {
                        Some(shrunk) => Body::compressed(shrunk.bytes, shrunk.plain),
                        None => Body::shared(bytes),
                    };
                    return (Outcome::Ok, Codec::Raw, body, CallOutcome::Ok);
                }
                (None, Some(value)) => put(Outcome::Ok, codec, value, buffer),
                (None, None) => Err(Status::unmapped()),
            }
        }
        Err(Failure::App(error)) => match (&error as &dyn Any).downcast_ref::<Status>() {
            Some(status) => Err(status.clone()),
            None => put(Outcome::App, codec, &error, buffer),
        },
        Err(Failure::Status(status)) => Err(status),
        Err(Failure::Answered(_)) => Err(Status::unmapped()),
    };
    let ended = |outcome| if outcome == Outcome::Ok { CallOutcome::Ok } else { CallOutcome::Application };
    let status = match encoded {
        Ok((_, body_at)) if buffer.len() - body_at > bytes_max => too_long(buffer.len() - body_at),
        Ok((outcome, body_at)) => {
            let plain = buffer.get(body_at..).unwrap_or_default();
            if let Some(shrunk) = agreed.and_then(|agreed| agreed.shrink(method.id, None, plain)) {
                return (outcome, codec, Body::compressed(shrunk.bytes, shrunk.plain), ended(outcome));
            }
            if buffer.len() >= HAND_OVER_BYTES {
                let body = Body::shared(Bytes::from(std::mem::take(buffer)).split_off(body_at));
                return (outcome, codec, body, ended(outcome));
            }
            ResponseHead::close_frame(buffer, 0);
            return (outcome, codec, Body::framed(buffer, body_at, &[], Bytes::new()), ended(outcome));
        }
        Err(status) => status,
    };
    let ended = CallOutcome::Status(status.code());
    buffer.clear();
    status.fitted(bytes_max).encode(buffer);
    (Outcome::Status, Codec::Compact, Body::copied(buffer), ended)
}

fn put<T: Serialize>(
    outcome: Outcome,
    codec: Codec,
    value: &T,
    buffer: &mut Vec<u8>,
) -> Result<(Outcome, usize), Status> {
    buffer.clear();
    let head = ResponseHead { outcome, codec, metadata: &[], streamed: false, total: None, plain: None, body: &[] };
    let body_at = head.open_frame(buffer);
    codec::encode(codec, value, buffer).map_err(CodecError::into_encode_status)?;
    Ok((outcome, body_at))
}
