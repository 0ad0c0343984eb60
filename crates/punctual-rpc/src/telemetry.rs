//! What can be seen of calls from outside: spans, trace context, and what metrics are made of.
//!
//! Each call has a `tracing` span on either side (target `punctual::rpc`, level INFO) with the attributes of OpenTelemetry's
//! stable conventions for RPC: `rpc.system.name`, `rpc.method`, `rpc.response.status_code`, `error.type`, `server.address`,
//! `network.peer.address` and their like. Where no subscriber wants it, it costs a load.
//!
//! A [`Telemetry`] in the settings of a channel or a server adds two things of our own: whoever [`Observe`]s is told of each
//! call's start and end, and a [`Propagate`] ties the spans of both sides into one trace of a tracing system. Without one, the
//! trace context that a handler's caller sent (W3C `traceparent` and `tracestate`) is passed on by the calls that the handler
//! makes. What counts up or is in use at a moment is in [`ChannelStats`](crate::ChannelStats) and
//! [`ServerStats`](crate::ServerStats).
//!
//! No payload, metadata value, error text, token or certificate is in any span or event.

mod reading;
mod span;
mod watch;

#[cfg(feature = "otel")]
pub mod otel;
#[cfg(feature = "prometheus")]
pub mod prometheus;

pub use punctual_context::Propagate;
pub use reading::{Reading, ReadingKind};
pub(crate) use watch::{Watch, outcome_of, sent_outcome, watched};

use punctual_proto::contract::MethodDescriptor;
use punctual_proto::status::Code;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Which end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// Who calls.
    Client,
    /// Who answers.
    Server,
}

impl Side {
    /// `client` or `server`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Side::Client => "client",
            Side::Server => "server",
        }
    }
}

/// A call as observers know it. There are as many different ones as there are methods: it is fit for labels.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ObservedCall {
    /// Which end is told.
    pub side: Side,
    /// What is called. Its `full_name` is `Service/method`.
    pub method: &'static MethodDescriptor,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallOutcome {
    /// With its result; a returned stream with its clean end.
    Ok,
    /// With an error of the application's own type.
    Application,
    /// With a status.
    Status(Code),
    /// Nobody saw its end: its future or returned stream was dropped, or on the server its handler, because the call was
    /// cancelled, its time was up, or its connection was lost.
    Abandoned,
}

impl CallOutcome {
    /// One word: `ok`, `application`, `abandoned`, or the name of the code.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            CallOutcome::Ok => "ok",
            CallOutcome::Application => "application",
            CallOutcome::Status(code) => code.name(),
            CallOutcome::Abandoned => "abandoned",
        }
    }
}

impl fmt::Display for CallOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallEnd {
    /// How.
    pub outcome: CallOutcome,
    /// The time from the first poll of the call, or from its arrival at the server, by the clock of the channel or server.
    pub latency: Duration,
}

/// Who is told of calls. It is called in the task of the call, never under a lock; it should take no longer than counting
/// does, and must not wait. What it panics with is caught, and the call goes on.
pub trait Observe: fmt::Debug + Send + Sync + 'static {
    /// A call began. Each one that did has its [`Observe::ended`].
    fn started(&self, call: &ObservedCall) {
        let _ = call;
    }

    /// A call ended.
    fn ended(&self, call: &ObservedCall, end: &CallEnd) {
        let _ = (call, end);
    }
}

/// Who observes a channel or a server. Empty by default, and then free.
#[derive(Debug, Clone, Default)]
pub struct Telemetry {
    observers: Vec<Arc<dyn Observe>>,
    propagator: Option<Arc<dyn Propagate>>,
}

impl Telemetry {
    /// Nobody.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether it is nobody.
    pub(crate) fn is_empty(&self) -> bool {
        self.observers.is_empty() && self.propagator.is_none()
    }

    /// Also tells this one.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observe>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Ties spans into traces by this, in place of any before.
    #[must_use]
    pub fn propagator(mut self, propagator: Arc<dyn Propagate>) -> Self {
        self.propagator = Some(propagator);
        self
    }
}
