//! One call that somebody looks at. Calls that nobody looks at have none.

use super::{CallEnd, CallOutcome, Observe, ObservedCall, Side, Telemetry, span};
use crate::client::{CallOptions, Channel};
use punctual_clock::{Clock, Instant};
use punctual_context::{Metadata, TraceContext};
use punctual_proto::contract::MethodDescriptor;
use punctual_proto::status::{CallError, Status};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use tracing::Span;

/// What is told of a call: its span, and to whom its start and end matter.
pub(crate) struct Watch {
    call: ObservedCall,
    span: Span,
    observers: Vec<Arc<dyn Observe>>,
    clock: Arc<dyn Clock>,
    /// `None` before the first poll of the call, and behind its end.
    started: Option<Instant>,
}

impl Watch {
    /// For a call that is made now. Its place in a trace goes with the options.
    pub(crate) fn client(
        channel: &Channel,
        method: &'static MethodDescriptor,
        options: &mut CallOptions,
    ) -> Option<Box<Watch>> {
        let are_spans_wanted = span::are_wanted();
        if !are_spans_wanted && !channel.is_observed() {
            return None;
        }
        let settings = channel.settings();
        let telemetry = &settings.telemetry;
        let span = if are_spans_wanted { span::client(method, &channel.address()) } else { Span::none() };
        if let Some(propagator) = &telemetry.propagator
            && let Some(trace) = span.in_scope(|| propagator.current())
        {
            options.carry(&trace);
        }
        Watch::of(Side::Client, method, span, telemetry, channel.clock_handle())
    }

    /// For a call that has arrived.
    pub(crate) fn server(
        telemetry: &Telemetry,
        clock: &Arc<dyn Clock>,
        method: &'static MethodDescriptor,
        metadata: Option<&Metadata>,
        peer: &str,
    ) -> Option<Box<Watch>> {
        let mut span = Span::none();
        if span::are_wanted() {
            let parent = telemetry.propagator.as_ref().zip(metadata.and_then(TraceContext::from_metadata));
            match parent {
                Some((propagator, parent)) => propagator.within(&parent, &mut || span = span::server(method, peer)),
                None => span = span::server(method, peer),
            }
        }
        let mut watch = Watch::of(Side::Server, method, span, telemetry, clock)?;
        watch.start();
        Some(watch)
    }

    fn of(
        side: Side,
        method: &'static MethodDescriptor,
        span: Span,
        telemetry: &Telemetry,
        clock: &Arc<dyn Clock>,
    ) -> Option<Box<Watch>> {
        if span.is_disabled() && telemetry.observers.is_empty() {
            return None;
        }
        let call = ObservedCall { side, method };
        let (observers, clock) = (telemetry.observers.clone(), Arc::clone(clock));
        Some(Box::new(Watch { call, span, observers, clock, started: None }))
    }

    /// Runs a part of the call inside of its span.
    pub(crate) fn around<R>(&mut self, part: impl FnOnce() -> R) -> R {
        if self.started.is_none() {
            self.start();
        }
        self.span.in_scope(part)
    }

    fn start(&mut self) {
        // Whoever only wants spans pays for no clock.
        self.started = Some(if self.observers.is_empty() { Instant::from_nanos(0) } else { self.now() });
        for observer in &self.observers {
            guarded(|| observer.started(&self.call));
        }
    }

    /// A clock that panics costs the latency of one call, and not the call.
    fn now(&self) -> Instant {
        catch_unwind(AssertUnwindSafe(|| self.clock.now())).unwrap_or(Instant::from_nanos(0))
    }

    /// The call ended.
    pub(crate) fn end(mut self, outcome: CallOutcome) {
        self.finish(outcome);
    }

    fn finish(&mut self, outcome: CallOutcome) {
        let Some(started) = self.started.take() else { return };
        let is_error = match self.call.side {
            Side::Client => !matches!(outcome, CallOutcome::Ok | CallOutcome::Abandoned),
            Side::Server => span::is_servers_fault(outcome),
        };
        span::end(&self.span, outcome, is_error);
        if self.observers.is_empty() {
            return;
        }
        let latency = self.now().since(started);
        for observer in &self.observers {
            guarded(|| observer.ended(&self.call, &CallEnd { outcome, latency }));
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.finish(CallOutcome::Abandoned);
    }
}

/// Makes a call that somebody may look on at. `judge` tells how it ended, or leaves that to the stream that it gave.
pub(crate) async fn watched<R>(
    watch: Option<Box<Watch>>,
    call: impl Future<Output = R>,
    judge: impl FnOnce(&mut R, Box<Watch>),
) -> R {
    let Some(mut watch) = watch else { return call.await };
    let mut call = pin!(call);
    let mut result = poll_fn(|cx| watch.around(|| call.as_mut().poll(cx))).await;
    judge(&mut result, watch);
    result
}

/// A panic of who looks on is not the call's.
fn guarded(tell: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(tell)).is_err() {
        tracing::error!("an observer of calls panicked");
    }
}

/// How a call ended by what it gave.
pub(crate) fn outcome_of<T, E>(result: &Result<T, CallError<E>>) -> CallOutcome {
    match result {
        Ok(_) => CallOutcome::Ok,
        Err(CallError::App(_)) => CallOutcome::Application,
        Err(CallError::Status(status)) => CallOutcome::Status(status.code()),
    }
}

/// How a one-way call ended: whether it was sent.
pub(crate) fn sent_outcome(result: &Result<(), Status>) -> CallOutcome {
    result.as_ref().map_or_else(|status| CallOutcome::Status(status.code()), |()| CallOutcome::Ok)
}
