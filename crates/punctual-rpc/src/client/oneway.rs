//! The call object of a one-way method, which is the future.

use crate::client::attempts::{Resendable, Resends};
use crate::client::channel::Channel;
use crate::client::connection::Connection;
use crate::client::intercept::around;
use crate::client::options::{CallOptions, call_options};
use crate::client::publish::{
    Callee, Published, Request, Sent, Unpublished, deadline_of, publish, publish_slowly, refusal_status,
};
use crate::client::reply::{Answer, LiveCall, read_emission};
use crate::telemetry::{Watch, sent_outcome};
use crate::transport::BoxFuture;
use punctual_clock::Instant;
use punctual_proto::codec::Args;
use punctual_proto::contract::{MethodDescriptor, ServiceDescriptor};
use punctual_proto::session::Refusal;
use punctual_proto::status::{CallError, Status};
use serde::Serialize;
use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
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
    /// Where somebody looks on.
    watch: Option<Box<Watch>>,
    state: State<A>,
}

enum State<A> {
    New(A),
    /// Its arguments are kept as those of a unary call are.
    Live(LiveCall, A, Instant),
    /// What is not plain runs in a box.
    Boxed(BoxFuture<'static, Result<(), Status>>),
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
        mut options: CallOptions,
    ) -> Self {
        let watch = Watch::client(&channel, method, &mut options);
        let callee = Callee { oneway: true, ..Callee::of(service, method) };
        OneWay { channel, callee, options, watch, state: State::New(args) }
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
        if !self.channel.has_policies()
            && let Some(connection) = self.channel.current()
        {
            let (clock, callee, options) = (self.channel.clock(), &self.callee, &self.options);
            let request = Request { clock, callee, args: &args, options, deadline };
            match publish(&request, &connection, None, cx.waker()) {
                Ok(Published::Live(key)) => return Ok(State::Live(LiveCall::new(connection, key), args, deadline)),
                Ok(Published::Sent(true)) => return Ok(State::Yielded),
                Ok(Published::Sent(false)) => return Ok(State::Done),
                Err(Unpublished::Status(status)) => return Err(status),
                Err(Unpublished::Gate(refusal @ (Refusal::Elapsed | Refusal::Full { .. }))) => {
                    return Err(refusal_status(refusal));
                }
                Err(Unpublished::Gate(refusal)) => refused = Some((connection, refusal)),
            }
        }
        Ok(self.boxed(args, deadline, refused))
    }

    fn boxed(&mut self, args: A, deadline: Instant, refused: Option<(Arc<Connection>, Refusal)>) -> State<A> {
        let (channel, callee) = (self.channel.clone(), self.callee);
        let (options, settings) = (std::mem::take(&mut self.options), channel.settings());
        if refused.is_none() && !settings.interceptors.is_empty() {
            let generation = Arc::clone(&settings);
            let last = move |args, options: CallOptions| -> BoxFuture<'static, Result<(), CallError<Infallible>>> {
                let (channel, settings, deadline) = (channel.clone(), Arc::clone(&generation), options.deadline);
                let call = Resendable::new(channel, settings, callee, args, options, deadline);
                Box::pin(async move { send(call, None).await.map_err(CallError::Status) })
            };
            let call = around(settings, callee, args, options, deadline, last);
            return State::Boxed(Box::pin(async move { call.await.map_err(status_of) }));
        }
        let call = Resendable::new(channel, settings, callee, args, options, deadline);
        State::Boxed(Box::pin(send(call, refused)))
    }
}

/// Sends the call, again where a server went away before it took it and nobody was told that it was written.
pub(crate) async fn send<A: Args + Serialize + Send>(
    call: Resendable<A>,
    mut refused: Option<(Arc<Connection>, Refusal)>,
) -> Result<(), Status> {
    let mut resends = Resends::default();
    loop {
        let Sent { connection, published, trial } = publish_slowly(&call, refused).await?;
        let key = match published {
            Published::Live(key) => key,
            Published::Sent(give_way) => {
                if give_way {
                    tokio::task::yield_now().await;
                }
                return Ok(());
            }
        };
        let mut live = LiveCall::new(Arc::clone(&connection), key);
        match poll_fn(|cx| live.poll(cx, read_emission)).await {
            Answer::Result(result) => {
                let result = result.map_err(status_of);
                if let Some(trial) = trial {
                    trial.end(result.as_ref().err());
                }
                return result;
            }
            Answer::NeverAccepted => refused = Some(resends.again(&call.channel, connection)?),
        }
    }
}

/// What a call failed with that has no error of the application's.
pub(crate) fn status_of(error: CallError<Infallible>) -> Status {
    match error {
        CallError::Status(status) => status,
        CallError::App(never) => match never {},
    }
}

impl<A: Args + Serialize + Send + 'static> Future for OneWay<A> {
    type Output = Result<(), Status>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let this = self.get_mut();
        let Some(mut watch) = this.watch.take() else { return this.poll_call(cx) };
        let polled = watch.around(|| this.poll_call(cx));
        match &polled {
            Poll::Ready(result) => watch.end(sent_outcome(result)),
            Poll::Pending => this.watch = Some(watch),
        }
        polled
    }
}

impl<A: Args + Serialize + Send + 'static> OneWay<A> {
    fn poll_call(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let this = self;
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
                        State::Live(..) => return Poll::Pending,
                        State::New(_) | State::Boxed(_) => {}
                    }
                }
                State::Boxed(boxed) => {
                    let result = ready!(boxed.as_mut().poll(cx));
                    this.state = State::Done;
                    return Poll::Ready(result);
                }
                State::Live(live, ..) => {
                    let answer = ready!(live.poll(cx, read_emission));
                    let State::Live(live, args, deadline) = std::mem::replace(&mut this.state, State::Done) else {
                        continue;
                    };
                    match answer {
                        Answer::Result(result) => return Poll::Ready(result.map_err(status_of)),
                        Answer::NeverAccepted => {
                            this.channel.counters().count_resend();
                            let refused = Some((live.into_connection(), Refusal::GoingAway));
                            this.state = this.boxed(args, deadline, refused);
                        }
                    }
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
