//! The spans of calls, by OpenTelemetry's names.

use super::capture::{Capture, Seen};
use super::desk::desk;
use std::time::Duration;

#[track_caller]
fn has(span: &Seen, fields: &[(&str, &str)]) {
    for (name, value) in fields {
        assert_eq!(span.fields.get(*name).map(String::as_str), Some(*value), "{name} of {span:?}");
    }
}

/// A call has a span on either side, with who, what and how it ended.
#[tokio::test]
async fn both_sides_have_a_span() {
    let (capture, _guard) = Capture::start();
    let (client, server) = desk(|server| server, |channel| channel).await;
    assert!(client.echo("x".to_owned()).await.is_ok());
    assert!(client.refuse("x".to_owned()).await.is_err());
    assert!(client.fail("x".to_owned()).await.is_err());
    let (calls, handled) = (capture.spans("call"), capture.spans("handle"));
    assert_eq!((calls.len(), handled.len()), (3, 3));
    for (span, kind) in [(&calls[0], "client"), (&handled[0], "server")] {
        has(span, &[("otel.kind", kind), ("otel.name", "Desk/echo"), ("rpc.system.name", "punctual")]);
        has(span, &[("rpc.method", "Desk/echo"), ("rpc.response.status_code", "ok"), ("network.transport", "pipe")]);
        assert!(!span.fields.contains_key("error.type") && !span.fields.contains_key("otel.status_code"), "{span:?}");
    }
    assert!(calls[0].fields["server.address"].starts_with("desk-"), "{calls:?}");
    assert!(handled[0].fields.contains_key("network.peer.address"), "{handled:?}");
    // An error of the application's own is the caller's to judge.
    has(&calls[1], &[("rpc.response.status_code", "application"), ("otel.status_code", "error")]);
    has(&handled[1], &[("rpc.response.status_code", "application"), ("error.type", "application")]);
    assert!(!handled[1].fields.contains_key("otel.status_code"), "{handled:?}");
    for span in [&calls[2], &handled[2]] {
        has(
            span,
            &[("rpc.response.status_code", "internal"), ("error.type", "internal"), ("otel.status_code", "error")],
        );
    }
    server.shutdown(Duration::from_secs(5)).await;
}
