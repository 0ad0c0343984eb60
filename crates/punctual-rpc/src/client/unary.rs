//! The call object of a unary method, which is the future.

use crate::client::attempts::{self, Resendable};
use crate::client::channel::Channel;
use crate::client::connection::Connection;
use crate::client::hedge::HedgePolicy;
use crate::client::intercept::around;
use crate::client::options::{CallOptions, call_options};
use crate::client::publish::{Callee, Published, Request, Unpublished, deadline_of, publish, refusal_status};
use crate::client::reply::{Answer, LiveCall, name_method, read_answer};
use crate::client::response::WithResponse;
use crate::client::retry::RetryPolicy;
use crate::telemetry::{Watch, outcome_of};
use crate::transport::BoxFuture;
use punctual_clock::Instant;
use punctual_proto::codec::Args;
use punctual_proto::contract::{MethodDescriptor, ServiceDescriptor};
use punctual_proto::session::Refusal;
use punctual_proto::status::{CallError, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::future::Future;
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
    /// Where somebody looks on.
    watch: Option<Box<Watch>>,
    state: State<A, T, E>,
}

enum State<A, T, E> {
    New(A),
    /// Its arguments are kept: a server that goes away before it takes the call leaves it to be sent elsewhere.
    Live(LiveCall, A, Instant),
    /// What is not plain runs in a box.
    Boxed(BoxFuture<'static, Result<T, CallError<E>>>),
    Done,
}

impl<A, T, E> Unary<A, T, E> {
    pub(crate) fn new(
        channel: Channel,
        service: &'static ServiceDescriptor,
        method: &'static MethodDescriptor,
        args: A,
        mut options: CallOptions,
    ) -> Self {
        let watch = Watch::client(&channel, method, &mut options);
        Unary { channel, service, method, options, watch, state: State::New(args) }
    }

    call_options!();

    /// Makes the call again by this policy, or with `None` never, whatever the channel's settings say. It fails with
    /// InvalidArgument where its method is not idempotent.
    pub fn retry(mut self, policy: impl Into<Option<RetryPolicy>>) -> Self {
        self.options = self.options.retry(policy);
        self
    }

    /// Makes the call once more while it takes long, by this policy, or with `None` never, whatever the channel's settings
    /// say. It fails with InvalidArgument where its method is not idempotent. Of this and [`Unary::retry`] the last counts.
    pub fn hedge(mut self, policy: impl Into<Option<HedgePolicy>>) -> Self {
        self.options = self.options.hedge(policy);
        self
    }

    /// The same call, for the metadata that the server sends along with the result or the error.
    pub fn with_response(mut self) -> WithResponse<Self> {
        let heard = self.options.hear();
        WithResponse::new(self, heard)
    }
}

// The arguments are moved out before they are used, never pinned.
impl<A, T, E> Unpin for Unary<A, T, E> {}

impl<A, T, E> Unary<A, T, E>
where
    A: Args + Serialize + Send + 'static,
    T: DeserializeOwned + Send + 'static,
    E: DeserializeOwned + Send + 'static,
{
    fn first_poll(&mut self, args: A, cx: &mut Context<'_>) -> Result<State<A, T, E>, Status> {
        if let Some(status) = self.options.invalid() {
            return Err(status);
        }
        let callee = Callee::of(self.service, self.method);
        let deadline = deadline_of(&self.channel, &callee, &self.options)?;
        let mut refused = None;
        if !self.channel.has_policies()
            && self.options.repeat().is_none()
            && let Some(connection) = self.channel.current()
        {
            let (clock, options) = (self.channel.clock(), &self.options);
            let request = Request { clock, callee: &callee, args: &args, options, deadline };
            match publish(&request, &connection, None, cx.waker()) {
                Ok(Published::Live(key)) => {
                    return Ok(State::Live(LiveCall::of(connection, key, options), args, deadline));
                }
                Ok(Published::Sent(_)) => return Err(Status::internal("a unary method with a one-way shape")),
                Err(Unpublished::Status(status)) => return Err(status),
                Err(Unpublished::Gate(refusal @ (Refusal::Elapsed | Refusal::Full { .. }))) => {
                    return Err(refusal_status(refusal));
                }
                Err(Unpublished::Gate(refusal)) => refused = Some((connection, refusal)),
            }
        }
        Ok(self.boxed(args, deadline, refused))
    }

    /// The call with everything that may happen to it.
    fn boxed(&mut self, args: A, deadline: Instant, refused: Option<(Arc<Connection>, Refusal)>) -> State<A, T, E> {
        let (channel, callee) = (self.channel.clone(), Callee::of(self.service, self.method));
        let (options, settings) = (std::mem::take(&mut self.options), channel.settings());
        // A call that was refused or never accepted began before there were any.
        if refused.is_none() && !settings.interceptors.is_empty() {
            let generation = Arc::clone(&settings);
            let last = move |args, options: CallOptions| -> BoxFuture<'static, Result<T, CallError<E>>> {
                let (channel, settings, deadline) = (channel.clone(), Arc::clone(&generation), options.deadline);
                let call = Resendable::new(channel, settings, callee, args, options, deadline);
                Box::pin(attempts::call(call, None, read_answer))
            };
            return State::Boxed(Box::pin(around(settings, callee, args, options, deadline, last)));
        }
        let call = Resendable::new(channel, settings, callee, args, options, deadline);
        State::Boxed(Box::pin(attempts::call(call, refused, read_answer)))
    }

    /// The server went away before it took the call.
    fn resend(&mut self, connection: Arc<Connection>, args: A, deadline: Instant) -> State<A, T, E> {
        self.channel.counters().count_resend();
        self.boxed(args, deadline, Some((connection, Refusal::GoingAway)))
    }
}

impl<A, T, E> Future for Unary<A, T, E>
where
    A: Args + Serialize + Send + 'static,
    T: DeserializeOwned + Send + 'static,
    E: DeserializeOwned + Send + 'static,
{
    type Output = Result<T, CallError<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let Some(mut watch) = this.watch.take() else { return this.poll_call(cx) };
        let polled = watch.around(|| this.poll_call(cx));
        match &polled {
            Poll::Ready(result) => watch.end(outcome_of(result)),
            Poll::Pending => this.watch = Some(watch),
        }
        polled
    }
}

impl<A, T, E> Unary<A, T, E>
where
    A: Args + Serialize + Send + 'static,
    T: DeserializeOwned + Send + 'static,
    E: DeserializeOwned + Send + 'static,
{
    fn poll_call(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, CallError<E>>> {
        let this = self;
        loop {
            match &mut this.state {
                State::Live(live, ..) => {
                    let answer = ready!(live.poll(cx, read_answer));
                    let State::Live(live, args, deadline) = std::mem::replace(&mut this.state, State::Done) else {
                        continue;
                    };
                    match answer {
                        Answer::Result(result) => return Poll::Ready(this.named(result)),
                        Answer::NeverAccepted => this.state = this.resend(live.into_connection(), args, deadline),
                    }
                }
                State::New(_) => {
                    let State::New(args) = std::mem::replace(&mut this.state, State::Done) else { continue };
                    match this.first_poll(args, cx) {
                        // The gate parked this task's waker with the request.
                        Ok(live @ State::Live(..)) => {
                            this.state = live;
                            return Poll::Pending;
                        }
                        Ok(boxed) => this.state = boxed,
                        Err(status) => return Poll::Ready(Err(CallError::Status(status))),
                    }
                }
                State::Boxed(boxed) => {
                    let result = ready!(boxed.as_mut().poll(cx));
                    this.state = State::Done;
                    return Poll::Ready(this.named(result));
                }
                State::Done => panic!("a call was polled after it was done"),
            }
        }
    }
}

impl<A, T, E> Unary<A, T, E> {
    fn named(&self, result: Result<T, CallError<E>>) -> Result<T, CallError<E>> {
        result.map_err(|error| name_method(error, self.method.id, self.method.full_name))
    }
}

impl<A, T, E> fmt::Debug for Unary<A, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unary").field("method", &self.method.full_name).finish_non_exhaustive()
    }
}
