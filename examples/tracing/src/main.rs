//! Spans of two services in one trace, and metrics, with OpenTelemetry. A request reaches `Front`, which calls `Back`: both
//! sides of both calls are spans of one trace, carried as W3C trace context in the metadata of the calls.
//!
//! The exporters here keep everything in memory, and the program prints it at its end. Another program takes those of
//! `opentelemetry-otlp` at the two places that are marked.
//!
//! `cargo run -p tracing-example`

use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};

use punctual::prelude::*;
use punctual::rpc::Telemetry;
use punctual::rpc::telemetry::otel;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;
use tracing_subscriber::layer::SubscriberExt;

/// What users reach.
#[service]
pub trait Front {
    /// Greets, with the day's price.
    async fn greet(&self, name: String) -> Result<String, Status>;
}

/// What the front needs.
#[service]
pub trait Back {
    /// Today's.
    async fn price(&self) -> Result<u64, Status>;
    /// Nobody may.
    async fn refuse(&self) -> Result<(), Status>;
}

struct Greeter(BackClient);

impl Front for Greeter {
    async fn greet(&self, name: String) -> Result<String, Status> {
        tracing::info!("an event inside of the handler belongs to its span");
        let price = self.0.price().await.map_err(|error| Status::unavailable(error.to_string()))?;
        // A failure is seen in its spans; this one is of no matter.
        let _ = self.0.refuse().await;
        Ok(format!("Hello {name}, tea is {price} cents"))
    }
}

struct Prices;

impl Back for Prices {
    async fn price(&self) -> Result<u64, Status> {
        Ok(250)
    }

    async fn refuse(&self) -> Result<(), Status> {
        Err(Status::unavailable("sold out"))
    }
}

/// What was exported.
struct Exported {
    spans: Vec<SpanData>,
    metrics: Vec<(String, u64)>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let exported = run().await?;
    for span in &exported.spans {
        let kind = format!("{:?}", span.span_kind);
        println!("{} {kind:<8} {:<12} parent {}", span.span_context.trace_id(), span.name, span.parent_span_id);
    }
    for (name, count) in &exported.metrics {
        println!("{name}: {count}");
    }
    Ok(())
}

async fn run() -> anyhow::Result<Exported> {
    // Traces: the layer turns the spans of `tracing` into OpenTelemetry's.
    let spans = InMemorySpanExporter::default(); // another program's exporter stands here
    let traces = SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(traces.tracer("example"));
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))?;

    // Metrics: observers count, and what channels and servers count is read at each export.
    let metrics = InMemoryMetricExporter::default(); // and here
    let reader = PeriodicReader::builder(metrics.clone()).with_interval(Duration::from_secs(60)).build();
    let meters = SdkMeterProvider::builder().with_reader(reader).build();
    let calls = Arc::new(otel::Metrics::new(meters.meter("example")));

    // Both sides of both services are told of both.
    let telemetry = || Telemetry::new().propagator(Arc::new(otel::Traces)).observer(calls.clone());

    let back = Server::builder().service(BackServer::new(Prices)).telemetry(telemetry()).listen("tcp://127.0.0.1:0");
    let back = back.bind().await?.spawn();
    let to_back = Channel::builder(&back.local_addrs()[0]).telemetry(telemetry()).connect().await?;
    calls.channel("back", &to_back);

    let greeter = Greeter(BackClient::new(to_back));
    let front = Server::builder().service(FrontServer::new(greeter)).telemetry(telemetry()).listen("tcp://127.0.0.1:0");
    let front = front.bind().await?.spawn();
    let to_front = Channel::builder(&front.local_addrs()[0]).telemetry(telemetry()).connect().await?;
    calls.server("front", &front);

    // A span of the program's own is the root of the trace. The parent of a call's span is the span in which the method is
    // called, so the call is made inside of it.
    let client = FrontClient::new(to_front);
    let request = async { client.greet("Ada".to_owned()).await };
    let greeting = request.instrument(tracing::info_span!("request")).await?;
    println!("{greeting}");

    front.shutdown(Duration::from_secs(5)).await;
    back.shutdown(Duration::from_secs(5)).await;
    traces.force_flush()?;
    meters.force_flush()?;
    Ok(Exported { spans: spans.get_finished_spans()?, metrics: counted(&metrics)? })
}

/// How often each histogram was told something, and what each counter has.
fn counted(exporter: &InMemoryMetricExporter) -> anyhow::Result<Vec<(String, u64)>> {
    let mut counted = Vec::new();
    for resource in exporter.get_finished_metrics()? {
        for metric in resource.scope_metrics().flat_map(|scope| scope.metrics()) {
            let count = match metric.data() {
                AggregatedMetrics::F64(MetricData::Histogram(durations)) => {
                    durations.data_points().map(|point| point.count()).sum()
                }
                AggregatedMetrics::U64(MetricData::Sum(sum)) => sum.data_points().map(|point| point.value()).sum(),
                _ => continue,
            };
            counted.push((metric.name().to_owned(), count));
        }
    }
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::trace::{SpanKind, Status as SpanStatus};
    use std::collections::BTreeSet;

    /// The kinds and names of the spans of a trace.
    fn told(spans: &[SpanData]) -> BTreeSet<(String, String)> {
        spans.iter().map(|span| (format!("{:?}", span.span_kind), span.name.to_string())).collect()
    }

    /// Every span of the request, on both sides of both calls, is in one trace, and each server's span is the child of the
    /// call's span that it answers; the metrics counted the same calls.
    #[tokio::test]
    async fn it_runs() {
        let exported = run().await.expect("the example runs");
        let spans = &exported.spans;
        let expected = [
            ("Client", "Back/price"),
            ("Client", "Back/refuse"),
            ("Client", "Front/greet"),
            ("Internal", "request"),
            ("Server", "Back/price"),
            ("Server", "Back/refuse"),
            ("Server", "Front/greet"),
        ];
        assert_eq!(told(spans), expected.map(|(kind, name)| (kind.to_owned(), name.to_owned())).into());
        assert_eq!(spans.len(), expected.len());
        let traces: BTreeSet<String> = spans.iter().map(|span| span.span_context.trace_id().to_string()).collect();
        assert_eq!(traces.len(), 1, "{traces:?}");

        let span = |kind: SpanKind, name: &str| {
            spans.iter().find(|span| span.span_kind == kind && span.name == name).expect("it is one of them")
        };
        let root = span(SpanKind::Internal, "request");
        let call = span(SpanKind::Client, "Front/greet");
        let handled = span(SpanKind::Server, "Front/greet");
        assert_eq!(call.parent_span_id, root.span_context.span_id());
        assert_eq!(handled.parent_span_id, call.span_context.span_id());
        for name in ["Back/price", "Back/refuse"] {
            let (inner, answered) = (span(SpanKind::Client, name), span(SpanKind::Server, name));
            assert_eq!(inner.parent_span_id, handled.span_context.span_id(), "{name}");
            assert_eq!(answered.parent_span_id, inner.span_context.span_id(), "{name}");
        }
        assert!(matches!(span(SpanKind::Client, "Back/refuse").status, SpanStatus::Error { .. }));
        assert_eq!(span(SpanKind::Client, "Back/price").status, SpanStatus::Unset);

        let metric = |name: &str| exported.metrics.iter().find(|(known, _)| known == name).map(|(_, count)| *count);
        assert_eq!(metric("rpc.client.call.duration"), Some(3), "{:?}", exported.metrics);
        assert_eq!(metric("rpc.server.call.duration"), Some(3));
        assert_eq!(metric("punctual.rpc.client.published"), Some(2));
        assert_eq!(metric("punctual.rpc.server.accepted"), Some(1));
    }
}
