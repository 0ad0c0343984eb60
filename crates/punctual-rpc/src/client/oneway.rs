//! The call object of a one-way method, which is the future.

use crate::client::channel::Channel;
use crate::client::connection::Connection;
use crate::client::options::{CallOptions, call_options};
use crate::client::publish::{
    Callee, Published, Request, Unpublished, deadline_of, publish, publish_slowly, refusal_status,
};
use crate::client::reply::LiveCall;
use crate::transport::BoxFuture;
use punctual_proto::codec::Args;
use punctual_proto::contract::{MethodDescriptor, ServiceDescriptor};
use punctual_proto::session::{Refusal, Reply};
use punctual_proto::status::Status;
use serde::Serialize;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A one-way call: nothing happens until it is awaited. Options come first, by value.
///
/// Without a deadline it is done when the local send queue took it; in a loop it gives way once above 256 KiB queued.
/// With one it is done when its last byte was written to the transport. Neither says that the server received it.
///
/// # Errors
/// Why it was not sent; DeadlineExceeded also where it was sent, but not before its deadline, and so was cancelled.
///
/// # Cancel safety
/// Dropping it before its first poll sends nothing; dropping it while it waits to be written cancels it.
///
/// # Panics
/// When it is polled after it was done.
#[must_use = "a call is made when it is awaited"]
pub struct OneWay<A> {
    channel: Channel,
    callee: Callee,
    options: CallOptions,
    state: State<A>,
}

enum State<A> {
    New(A),
    Waiting(BoxFuture<'static, Result<(Arc<Connection>, Published), Status>>),
    Live(LiveCall),
    /// It is queued, and gave way.
    Yielded,
    Done,
}

impl<A> OneWay<A> {
    pub(crate) fn new(
        channel: Channel,
        service: &'static ServiceDescriptor,
        method: &'static MethodDescriptor,
        args: A,
        options: CallOptions,
    ) -> Self {
        let callee = Callee { oneway: true, ..Callee::of(service, method) };
        OneWay { channel, callee, options, state: State::New(args) }
    }

    call_options!();
}

// The arguments are moved out before they are used, never pinned.
impl<A> Unpin for OneWay<A> {}

impl<A: Args + Serialize + Send + 'static> OneWay<A> {
    fn first_poll(&mut self, args: A, cx: &mut Context<'_>) -> Result<State<A>, Status> {
        if let Some(status) = self.options.invalid() {
            return Err(status);
        }
        let deadline = deadline_of(&self.channel, &self.callee, &self.options)?;
        let mut refused = None;
        if let Some(connection) = self.channel.current() {
            let (clock, callee, options) = (self.channel.clock(), &self.callee, &self.options);
            let request = Request { clock, callee, args: &args, options, deadline };
            match publish(&request, &connection, None, cx.waker()) {
                Ok(published) => return Ok(State::after(connection, published)),
                Err(Unpublished::Status(status)) => return Err(status),
                Err(Unpublished::Gate(refusal @ (Refusal::Elapsed | Refusal::Full { .. }))) => {
                    return Err(refusal_status(refusal));
                }
                Err(Unpublished::Gate(refusal)) => refused = Some((connection, refusal)),
            }
        }
        let options = std::mem::take(&mut self.options);
        let slow = publish_slowly(self.channel.clone(), self.callee, args, options, deadline, refused);
        Ok(State::Waiting(Box::pin(slow)))
    }
}

impl<A> State<A> {
    fn after(connection: Arc<Connection>, published: Published) -> Self {
        match published {
            Published::Live(key) => State::Live(LiveCall::new(connection, key)),
            Published::Sent(true) => State::Yielded,
            Published::Sent(false) => State::Done,
        }
    }
}

impl<A: Args + Serialize + Send + 'static> Future for OneWay<A> {
    type Output = Result<(), Status>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let this = self.get_mut();
        loop {
            match &mut this.state {
                State::New(_) => {
                    let State::New(args) = std::mem::replace(&mut this.state, State::Done) else { continue };
                    this.state = match this.first_poll(args, cx) {
                        Ok(state) => state,
                        Err(status) => return Poll::Ready(Err(status)),
                    };
                    match this.state {
                        State::Done => return Poll::Ready(Ok(())),
                        State::Yielded => {
                            cx.waker().wake_by_ref();
                            return Poll::Pending;
                        }
                        // The gate parked this task's waker with the request.
                        State::Live(_) => return Poll::Pending,
                        State::New(_) | State::Waiting(_) => {}
                    }
                }
                State::Waiting(waiting) => match ready!(waiting.as_mut().poll(cx)) {
                    Ok((connection, published)) => {
                        this.state = State::after(connection, published);
                        if matches!(this.state, State::Done) {
                            return Poll::Ready(Ok(()));
                        }
                    }
                    Err(status) => {
                        this.state = State::Done;
                        return Poll::Ready(Err(status));
                    }
                },
                State::Live(live) => {
                    let result = ready!(live.poll(cx, |reply, _| match reply {
                        Reply::Emitted => Ok(()),
                        Reply::Failed(ending) => Err(ending.status()),
                        _ => Err(Status::internal("a reply to a one-way call")),
                    }));
                    this.state = State::Done;
                    return Poll::Ready(result);
                }
                State::Yielded => {
                    this.state = State::Done;
                    return Poll::Ready(Ok(()));
                }
                State::Done => panic!("a call was polled after it was done"),
            }
        }
    }
}

impl<A> fmt::Debug for OneWay<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneWay").field("method", &self.callee.method.full_name).finish_non_exhaustive()
    }
}
