//! The call object of a unary method, which is the future.

use crate::client::channel::Channel;
use crate::client::connection::Connection;
use crate::client::options::{CallOptions, call_options};
use crate::client::publish::{
    Callee, Published, Request, Unpublished, deadline_of, publish, publish_slowly, refusal_status,
};
use crate::client::reply::{LiveCall, name_method, read_result};
use crate::transport::BoxFuture;
use punctual_proto::codec::Args;
use punctual_proto::contract::{MethodDescriptor, ServiceDescriptor};
use punctual_proto::session::Refusal;
use punctual_proto::status::{CallError, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A unary call: nothing happens until it is awaited. Options come first, by value.
///
/// Its deadline is fixed at its first poll and covers everything from there to the reply. It is the smaller of its own
/// timeout (the option, else the method's, else the channel's default of 30 s) and the deadline of the handler that it
/// was made in.
///
/// # Errors
/// [`CallError::App`] with the handler's own error; [`CallError::Status`] for everything else.
///
/// # Cancel safety
/// Dropping it before its first poll sends nothing. Dropping it later cancels the call on the server, whose handler is
/// dropped at its next scheduling point; whether it had its effect by then is not known.
///
/// # Panics
/// When it is polled after it was done.
#[must_use = "a call is made when it is awaited"]
pub struct Unary<A, T, E> {
    channel: Channel,
    service: &'static ServiceDescriptor,
    method: &'static MethodDescriptor,
    options: CallOptions,
    state: State<A>,
    result: PhantomData<fn() -> (T, E)>,
}

enum State<A> {
    New(A),
    /// What is not plain waits in a box.
    Waiting(BoxFuture<'static, Result<(Arc<Connection>, Published), Status>>),
    Live(LiveCall),
    Done,
}

impl<A, T, E> Unary<A, T, E> {
    pub(crate) fn new(
        channel: Channel,
        service: &'static ServiceDescriptor,
        method: &'static MethodDescriptor,
        args: A,
        options: CallOptions,
    ) -> Self {
        Unary { channel, service, method, options, state: State::New(args), result: PhantomData }
    }

    call_options!();
}

// The arguments are moved out before they are used, never pinned.
impl<A, T, E> Unpin for Unary<A, T, E> {}

impl<A: Args + Serialize + Send + 'static, T, E> Unary<A, T, E> {
    fn first_poll(&mut self, args: A, cx: &mut Context<'_>) -> Result<State<A>, Status> {
        if let Some(status) = self.options.invalid() {
            return Err(status);
        }
        let callee = Callee::of(self.service, self.method);
        let deadline = deadline_of(&self.channel, &callee, &self.options)?;
        let mut refused = None;
        if let Some(connection) = self.channel.current() {
            let (clock, options) = (self.channel.clock(), &self.options);
            let request = Request { clock, callee: &callee, args: &args, options, deadline };
            match publish(&request, &connection, None, cx.waker()) {
                Ok(Published::Live(key)) => return Ok(State::Live(LiveCall::new(connection, key))),
                Ok(Published::Sent(_)) => return Err(Status::internal("a unary method with a one-way shape")),
                Err(Unpublished::Status(status)) => return Err(status),
                Err(Unpublished::Gate(refusal @ (Refusal::Elapsed | Refusal::Full { .. }))) => {
                    return Err(refusal_status(refusal));
                }
                Err(Unpublished::Gate(refusal)) => refused = Some((connection, refusal)),
            }
        }
        let options = std::mem::take(&mut self.options);
        let slow = publish_slowly(self.channel.clone(), callee, args, options, deadline, refused);
        Ok(State::Waiting(Box::pin(slow)))
    }
}

impl<A, T, E> Future for Unary<A, T, E>
where
    A: Args + Serialize + Send + 'static,
    T: DeserializeOwned + 'static,
    E: DeserializeOwned + 'static,
{
    type Output = Result<T, CallError<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            match &mut this.state {
                State::Live(live) => {
                    let result = ready!(live.poll(cx, read_result));
                    this.state = State::Done;
                    let method = this.method;
                    return Poll::Ready(result.map_err(|error| name_method(error, method.id, method.full_name)));
                }
                State::New(_) => {
                    let State::New(args) = std::mem::replace(&mut this.state, State::Done) else { continue };
                    match this.first_poll(args, cx) {
                        // The gate parked this task's waker with the request.
                        Ok(live @ State::Live(_)) => {
                            this.state = live;
                            return Poll::Pending;
                        }
                        Ok(waiting) => this.state = waiting,
                        Err(status) => return Poll::Ready(Err(CallError::Status(status))),
                    }
                }
                State::Waiting(waiting) => match ready!(waiting.as_mut().poll(cx)) {
                    Ok((connection, Published::Live(key))) => {
                        this.state = State::Live(LiveCall::new(connection, key));
                    }
                    Ok((_, Published::Sent(_))) => {
                        this.state = State::Done;
                        let status = Status::internal("a unary method with a one-way shape");
                        return Poll::Ready(Err(CallError::Status(status)));
                    }
                    Err(status) => {
                        this.state = State::Done;
                        return Poll::Ready(Err(CallError::Status(status)));
                    }
                },
                State::Done => panic!("a call was polled after it was done"),
            }
        }
    }
}

impl<A, T, E> fmt::Debug for Unary<A, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unary").field("method", &self.method.full_name).finish_non_exhaustive()
    }
}
