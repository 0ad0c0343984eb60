//! W3C trace context across calls.

use super::desk::desk;
use punctual::rpc::{Propagate, Telemetry};
use punctual::{Context, TraceContext};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn value<'a>(heard: &'a [(String, String)], name: &str) -> Vec<&'a str> {
    heard.iter().filter(|(entry, _)| entry == name).map(|(_, value)| value.as_str()).collect()
}

/// Without a tracing system, what a handler's caller sent is passed on by the calls that the handler makes: as it was, and
/// only where it keeps the grammar. Other metadata are not.
#[tokio::test]
async fn a_handler_passes_its_trace_on() {
    let (client, server) = desk(|server| server, |channel| channel).await;
    let heard = client
        .relay()
        .metadata("traceparent", PARENT)
        .metadata("tracestate", "vendor=1, other=2")
        .metadata("tenant", "a")
        .await
        .unwrap();
    assert_eq!(value(&heard, "traceparent"), [PARENT]);
    assert_eq!(value(&heard, "tracestate"), ["vendor=1,other=2"]);
    assert_eq!(value(&heard, "tenant"), [""; 0]);
    for wrong in ["", "nonsense", "00-0-0-0", "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"] {
        let heard = client.relay().metadata("traceparent", wrong).metadata("tracestate", "vendor=1").await.unwrap();
        assert_eq!(heard, [], "{wrong}");
    }
    let heard = client.relay().metadata("traceparent", PARENT).metadata("tracestate", "vendor").await.unwrap();
    assert_eq!(heard.len(), 1, "a bad state does not cost the trace: {heard:?}");
    assert_eq!(client.relay().await.unwrap(), [], "no trace is made up");
    server.shutdown(Duration::from_secs(5)).await;
}

/// A tracing system that has one trace.
#[derive(Debug)]
struct Fake {
    current: &'static str,
    parents: Mutex<Vec<String>>,
}

impl Propagate for Fake {
    fn current(&self) -> Option<TraceContext> {
        TraceContext::parse(self.current.as_bytes())
    }

    fn within(&self, parent: &TraceContext, make: &mut dyn FnMut()) {
        self.parents.lock().unwrap_or_else(PoisonError::into_inner).push(parent.traceparent());
        make();
    }
}

/// With a tracing system, its place in the trace is sent, and is the parent of the server's span. The caller's own word counts
/// before both.
#[tokio::test]
async fn a_tracing_system_ties_both_sides() {
    let (_capture, _guard) = super::capture::Capture::start();
    let fake = Arc::new(Fake { current: PARENT, parents: Mutex::default() });
    let telemetry = Telemetry::new().propagator(fake.clone());
    let (client, server) =
        desk(|server| server.telemetry(telemetry.clone()), |channel| channel.telemetry(telemetry.clone())).await;
    let heard = client.heard().metadata("tenant", "a").await.unwrap();
    assert_eq!(value(&heard, "traceparent"), [PARENT]);
    assert_eq!(value(&heard, "tenant"), ["a"]);
    assert_eq!(*fake.parents.lock().unwrap(), [PARENT]);

    let own = PARENT.replace("4736", "4737");
    let heard = client.heard().metadata("tenant", "a").metadata("traceparent", &own).await.unwrap();
    assert_eq!(value(&heard, "traceparent"), [own.as_str()]);
    assert_eq!(value(&heard, "tenant"), ["a"]);
    assert_eq!(fake.parents.lock().unwrap().last(), Some(&own));
    server.shutdown(Duration::from_secs(5)).await;
}

/// Outside of a handler there is no trace.
#[test]
fn no_handler_no_trace() {
    assert_eq!(Context::current_trace(), None);
}
