//! Metrics as Prometheus reads them: one text for each scrape.
//!
//! ```no_run
//! use punctual_rpc::telemetry::prometheus::Metrics;
//! use punctual_rpc::{Channel, Telemetry};
//! use std::sync::Arc;
//!
//! # async fn example() -> Result<(), punctual_rpc::Status> {
//! let metrics = Arc::new(Metrics::new());
//! let telemetry = Telemetry::new().observer(metrics.clone());
//! let channel = Channel::builder("tcp://127.0.0.1:7400").telemetry(telemetry).connect().await?;
//! metrics.channel("billing", &channel);
//! let text = metrics.render(); // what an HTTP handler answers
//! # Ok(())
//! # }
//! ```

use super::reading::{Reading, ReadingKind};
use super::{CallEnd, Observe, ObservedCall};
use crate::client::Channel;
use crate::server::ServerHandle;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The content type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The bounds of call durations in seconds, those that OpenTelemetry's conventions advise for calls.
const DURATION_BUCKETS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];

/// Which end, which method.
type Method = [(&'static str, &'static str); 2];

/// The same, and how the calls ended.
type Ended = [(&'static str, &'static str); 3];

/// Counts calls, reads channels and servers, and writes it all as text. Every name begins with `punctual_rpc_`.
///
/// Labels are the names of methods, outcomes, channels and servers, of which there are as many as the program has. Channels
/// and servers are not kept alive by being read.
#[derive(Debug)]
pub struct Metrics {
    started: Family<Method, Counter>,
    ended: Family<Ended, Counter>,
    active: Family<Method, Gauge>,
    duration: Family<Method, Histogram>,
    sources: Arc<Sources>,
    registry: Registry,
}

impl Metrics {
    /// Metrics of nothing yet.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("punctual_rpc");
        let (started, ended, active) = (Family::default(), Family::default(), Family::default());
        let duration = Family::new_with_constructor((|| Histogram::new(DURATION_BUCKETS)) as fn() -> Histogram);
        let sources = Arc::new(Sources::default());
        registry.register("calls_started", "Calls that began", started.clone());
        registry.register("calls_ended", "Calls that ended, by how", ended.clone());
        registry.register("calls_active", "Calls under way", active.clone());
        registry.register("call_duration_seconds", "From the first poll, or the arrival, to the end", duration.clone());
        registry.register_collector(Box::new(Arc::clone(&sources)));
        Metrics { started, ended, active, duration, sources, registry }
    }

    /// Also reads this channel, under this name, as long as it lives. One name for several adds them up.
    pub fn channel(&self, name: impl Into<String>, channel: &Channel) {
        let stats = channel.weak_stats();
        self.sources.add("client", name.into(), Box::new(move || stats().map(|stats| stats.readings())));
    }

    /// Also reads this server, under this name, as long as it lives. One name for several adds them up.
    pub fn server(&self, name: impl Into<String>, server: &ServerHandle) {
        let stats = server.weak_stats();
        self.sources.add("server", name.into(), Box::new(move || stats().map(|stats| stats.readings())));
    }

    /// Everything as text, in the OpenMetrics format ([`CONTENT_TYPE`]).
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = text::encode(&mut text, &self.registry);
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

fn method(call: &ObservedCall) -> Method {
    [("side", call.side.as_str()), ("method", call.method.full_name)]
}

impl Observe for Metrics {
    fn started(&self, call: &ObservedCall) {
        self.started.get_or_create(&method(call)).inc();
        self.active.get_or_create(&method(call)).inc();
    }

    fn ended(&self, call: &ObservedCall, end: &CallEnd) {
        let [side, name] = method(call);
        self.active.get_or_create(&[side, name]).dec();
        self.ended.get_or_create(&[side, name, ("outcome", end.outcome.as_str())]).inc();
        self.duration.get_or_create(&[side, name]).observe(end.latency.as_secs_f64());
    }
}

/// What is read at each scrape. One that is gone is forgotten at the next.
type Read = Box<dyn Fn() -> Option<Vec<Reading>> + Send + Sync>;

#[derive(Default)]
struct Sources(Mutex<Vec<(&'static str, String, Read)>>);

impl Sources {
    fn add(&self, side: &'static str, name: String, read: Read) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((side, name, read));
    }

    /// What there is now, sources of one name added up.
    fn read(&self) -> Vec<(&'static str, String, Vec<Reading>)> {
        let mut all: Vec<(&'static str, String, Vec<Reading>)> = Vec::new();
        let mut sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sources.retain(|(side, name, read)| {
            let Some(readings) = read() else { return false };
            match all.iter_mut().find(|(other, known, _)| other == side && known == name) {
                Some((_, _, sum)) => {
                    sum.iter_mut().zip(readings).for_each(|(sum, reading)| sum.value += reading.value);
                }
                None => all.push((side, name.clone(), readings)),
            }
            true
        });
        all
    }
}

impl Collector for Sources {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = self.read();
        for wanted in ["client", "server"] {
            let sources: Vec<_> = all.iter().filter(|(side, ..)| *side == wanted).collect();
            let Some((_, _, first)) = sources.first() else { continue };
            for (at, reading) in first.iter().enumerate() {
                let name = format!("{wanted}_{}", reading.name);
                let kind = match reading.kind {
                    ReadingKind::Counter => MetricType::Counter,
                    ReadingKind::Gauge => MetricType::Gauge,
                };
                let mut metric = encoder.encode_descriptor(&name, reading.help, None, kind)?;
                for (_, source, readings) in &sources {
                    let value = readings.get(at).map_or(0, |reading| reading.value);
                    let labels = [("name", source.as_str())];
                    let metric = metric.encode_family(&labels)?;
                    match reading.kind {
                        ReadingKind::Counter => ConstCounter::new(value).encode(metric)?,
                        ReadingKind::Gauge => {
                            ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(metric)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_list().entries(sources.iter().map(|(side, name, _)| (side, name))).finish()
    }
}
