//! OpenTelemetry: spans of both sides in one trace, and metrics.
//!
//! The spans reach OpenTelemetry through the layer of `tracing-opentelemetry`, which the program installs with its
//! subscriber; [`Traces`] ties them together across connections. [`Metrics`] makes the metrics of the conventions for calls.
//! `examples/tracing` is a whole program.

use super::reading::ReadingKind;
use super::{CallEnd, CallOutcome, Observe, ObservedCall, Propagate, Side};
use crate::client::Channel;
use crate::server::ServerHandle;
use crate::telemetry::Reading;
use opentelemetry::metrics::{Histogram, Meter, UpDownCounter};
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use opentelemetry::{Context, KeyValue};
use punctual_context::TraceContext;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Ties the spans of both sides into the traces of OpenTelemetry.
#[derive(Debug, Clone, Copy, Default)]
pub struct Traces;

impl Propagate for Traces {
    fn current(&self) -> Option<TraceContext> {
        let context = tracing::Span::current().context();
        let span = context.span();
        let span = span.span_context();
        let trace =
            TraceContext::new(span.trace_id().to_bytes(), span.span_id().to_bytes(), span.trace_flags().is_sampled())?;
        Some(trace.with_state(span.trace_state().header().as_bytes()))
    }

    fn within(&self, parent: &TraceContext, make: &mut dyn FnMut()) {
        let flags = if parent.is_sampled() { TraceFlags::SAMPLED } else { TraceFlags::default() };
        // Its grammar was checked; what OpenTelemetry does not take all the same is left out.
        let state = TraceState::from_str(parent.tracestate()).unwrap_or_default();
        let (trace, span) = (TraceId::from_bytes(parent.trace_id()), SpanId::from_bytes(parent.parent_id()));
        let remote = SpanContext::new(trace, span, flags, true, state);
        let _attached = Context::new().with_remote_span_context(remote).attach();
        make();
    }
}

/// The bounds of call durations in seconds, as the conventions advise them.
const DURATION_BUCKETS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];

/// The metrics of calls: `rpc.client.call.duration` and `rpc.server.call.duration` in seconds by method and status, as the
/// conventions name them, and `punctual.rpc.client.active` and `punctual.rpc.server.active`, the calls under way.
pub struct Metrics {
    meter: Meter,
    client: Instruments,
    server: Instruments,
}

struct Instruments {
    duration: Histogram<f64>,
    active: UpDownCounter<i64>,
}

impl Instruments {
    fn new(meter: &Meter, side: Side) -> Self {
        let side = side.as_str();
        Instruments {
            duration: meter
                .f64_histogram(format!("rpc.{side}.call.duration"))
                .with_unit("s")
                .with_description("From the first poll, or the arrival, to the end of a call.")
                .with_boundaries(DURATION_BUCKETS.to_vec())
                .build(),
            active: meter
                .i64_up_down_counter(format!("punctual.rpc.{side}.active"))
                .with_unit("{call}")
                .with_description("Calls under way.")
                .build(),
        }
    }
}

impl Metrics {
    /// Metrics on this meter.
    #[must_use]
    pub fn new(meter: Meter) -> Self {
        let (client, server) = (Instruments::new(&meter, Side::Client), Instruments::new(&meter, Side::Server));
        Metrics { meter, client, server }
    }

    /// Also reads this channel at each export, as `punctual.rpc.client.*` with this name, as long as it lives.
    pub fn channel(&self, name: &'static str, channel: &Channel) {
        let stats = channel.weak_stats();
        self.read(Side::Client, name, Arc::new(move || stats().map(|stats| stats.readings())));
    }

    /// Also reads this server at each export, as `punctual.rpc.server.*` with this name, as long as it lives.
    pub fn server(&self, name: &'static str, server: &ServerHandle) {
        let stats = server.weak_stats();
        self.read(Side::Server, name, Arc::new(move || stats().map(|stats| stats.readings())));
    }

    fn read(&self, side: Side, name: &'static str, read: Arc<dyn Fn() -> Option<Vec<Reading>> + Send + Sync>) {
        for (at, reading) in read().unwrap_or_default().into_iter().enumerate() {
            let read = Arc::clone(&read);
            let value = move || Some(read()?.get(at)?.value);
            let instrument = format!("punctual.rpc.{}.{}", side.as_str(), reading.name);
            let attributes = [KeyValue::new("punctual.name", name)];
            // The meter keeps what it calls back; the instruments themselves are for nobody.
            match reading.kind {
                ReadingKind::Counter => {
                    let builder = self.meter.u64_observable_counter(instrument).with_description(reading.help);
                    let builder = builder.with_callback(move |out| {
                        if let Some(value) = value() {
                            out.observe(value, &attributes);
                        }
                    });
                    let _ = builder.build();
                }
                ReadingKind::Gauge => {
                    let builder = self.meter.u64_observable_gauge(instrument).with_description(reading.help);
                    let builder = builder.with_callback(move |out| {
                        if let Some(value) = value() {
                            out.observe(value, &attributes);
                        }
                    });
                    let _ = builder.build();
                }
            }
        }
    }

    fn instruments(&self, side: Side) -> &Instruments {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }
}

fn method(call: &ObservedCall) -> [KeyValue; 2] {
    [KeyValue::new("rpc.system.name", "punctual"), KeyValue::new("rpc.method", call.method.full_name)]
}

impl Observe for Metrics {
    fn started(&self, call: &ObservedCall) {
        self.instruments(call.side).active.add(1, &method(call));
    }

    fn ended(&self, call: &ObservedCall, end: &CallEnd) {
        let instruments = self.instruments(call.side);
        instruments.active.add(-1, &method(call));
        let [system, name] = method(call);
        let status = KeyValue::new("rpc.response.status_code", end.outcome.as_str());
        let seconds = end.latency.as_secs_f64();
        if end.outcome == CallOutcome::Ok {
            instruments.duration.record(seconds, &[system, name, status]);
        } else {
            let error = KeyValue::new("error.type", end.outcome.as_str());
            instruments.duration.record(seconds, &[system, name, status, error]);
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
