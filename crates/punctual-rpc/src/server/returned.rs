//! A returned stream on its way to the caller, inside of its handler's task.

use crate::server::connection::Connection;
use crate::server::lifetime::Instance;
use crate::streaming::{End, KeptSource, Sending, Sink, Source, Streaming, TypedSource};
use crate::telemetry::CallOutcome;
use punctual_proto::codec::Codec;
use punctual_proto::frame::ResponseHead;
use punctual_proto::limits::Limits;
use punctual_proto::session::{Body, Finished, ReturnOpened, RunKey, SendPoll};
use punctual_proto::status::Status;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Answers a call with its returned stream and sends that up to its end, with which the call's place is given back.
pub(crate) struct Returned {
    place: ReturnedPlace,
    sending: Sending,
    is_open: bool,
}

struct ReturnedPlace {
    connection: Arc<Connection>,
    key: RunKey,
}

impl Returned {
    pub(crate) fn new<T, E>(
        connection: Arc<Connection>,
        key: RunKey,
        method: u64,
        stream: Streaming<T, E>,
        codec: Codec,
        instance: Option<Instance>,
    ) -> Self
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Serialize + DeserializeOwned + From<Status> + Send + 'static,
    {
        let shrink = connection.compression().and_then(|agreed| agreed.of_call(method, None));
        let source = TypedSource(stream);
        let source: Box<dyn Source> = match instance {
            None => Box::new(source),
            Some(instance) => Box::new(KeptSource::new(source, instance)),
        };
        let sending = Sending::new(source, codec, shrink);
        Returned { place: ReturnedPlace { connection, key }, sending, is_open: false }
    }

    fn poll_open(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut waker = Some(cx.waker().clone());
        let opened = self.place.connection.session().open_returned(self.place.key, &mut waker);
        match opened {
            ReturnOpened::Done(driver) => {
                if let Some(driver) = driver {
                    driver.wake();
                }
                Poll::Ready(true)
            }
            ReturnOpened::NoRoom => Poll::Pending,
            ReturnOpened::Over => Poll::Ready(false),
        }
    }
}

impl Future for Returned {
    type Output = CallOutcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CallOutcome> {
        let this = self.get_mut();
        if !this.is_open {
            match this.poll_open(cx) {
                Poll::Ready(true) => this.is_open = true,
                // The call is over, and the handler's task is about to find that out.
                Poll::Ready(false) | Poll::Pending => return Poll::Pending,
            }
        }
        match this.sending.poll(cx, &this.place) {
            // It was queued, or the call is over and the handler's task is about to find that out.
            Poll::Ready(()) if this.place.is_over() => Poll::Pending,
            polled => polled.map(|()| this.sending.ended()),
        }
    }
}

impl ReturnedPlace {
    /// Whether the call ended otherwise than by the end of this stream, so that its place is still held.
    fn is_over(&self) -> bool {
        self.connection.session().cancel_reason(self.key.call()).is_some()
    }
}

impl Sink for ReturnedPlace {
    fn limits(&self) -> &Limits {
        self.connection.limits()
    }

    fn send(&self, codec: Codec, body: &mut Body<'_>, waker: &Waker, fresh: &mut Option<Waker>) -> SendPoll {
        self.connection.session().send_item(self.key, codec, body, waker, fresh)
    }

    fn end(&self, end: &End<'_>, waker: &Waker, fresh: &mut Option<Waker>) -> SendPoll {
        let _ = fresh;
        let End { outcome, codec, trailers, body } = *end;
        let head =
            ResponseHead { outcome, codec, metadata: trailers, streamed: false, total: None, plain: None, body: &[] };
        let mut parked = Some(waker.clone());
        let finished = self.connection.session().finish(self.key, head, &mut Body::copied(body), &mut parked);
        match finished {
            Finished::Done { driver, stale } => {
                drop(stale);
                SendPoll::Sent(driver)
            }
            Finished::NoRoom => SendPoll::Wait,
        }
    }
}
