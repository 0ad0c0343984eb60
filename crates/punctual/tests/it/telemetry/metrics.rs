//! What Prometheus is told.

use super::desk::desk;
use punctual::rpc::Telemetry;
use punctual::rpc::telemetry::prometheus::Metrics;
use std::sync::Arc;
use std::time::Duration;

/// Calls by side, method and end, and what channels and servers count, are in the text; what is gone is not.
#[tokio::test]
async fn calls_and_connections_are_told() {
    let metrics = Arc::new(Metrics::new());
    let telemetry = || Telemetry::new().observer(metrics.clone());
    let (client, server) = desk(|server| server.telemetry(telemetry()), |channel| channel.telemetry(telemetry())).await;
    metrics.channel("desk \"1\"", client.channel());
    metrics.server("desk", &server);
    assert!(client.echo("x".to_owned()).await.is_ok());
    assert!(client.fail("x".to_owned()).await.is_err());
    assert!(client.fail("x".to_owned()).await.is_err());
    let text = metrics.render();
    for line in [
        "punctual_rpc_calls_started_total{side=\"client\",method=\"Desk/echo\"} 1",
        "punctual_rpc_calls_ended_total{side=\"client\",method=\"Desk/fail\",outcome=\"internal\"} 2",
        "punctual_rpc_calls_ended_total{side=\"server\",method=\"Desk/echo\",outcome=\"ok\"} 1",
        "punctual_rpc_calls_active{side=\"server\",method=\"Desk/echo\"} 0",
        "punctual_rpc_call_duration_seconds_count{side=\"client\",method=\"Desk/fail\"} 2",
        "# TYPE punctual_rpc_client_published counter",
        "punctual_rpc_client_published_total{name=\"desk \\\"1\\\"\"} 3",
        "punctual_rpc_client_pending{name=\"desk \\\"1\\\"\"} 0",
        "punctual_rpc_server_accepted_total{name=\"desk\"} 3",
        "punctual_rpc_server_open_connections{name=\"desk\"} 1",
        "# EOF",
    ] {
        assert!(text.lines().any(|told| told == line), "{line}\nis not in\n{text}");
    }
    let bytes = |name: &str| -> u64 {
        let line = text.lines().find(|line| line.starts_with(name)).expect("a line of this name");
        line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
    };
    assert!(bytes("punctual_rpc_client_sent_bytes_total") > 0);
    assert_eq!(bytes("punctual_rpc_client_received_bytes_total"), bytes("punctual_rpc_server_sent_bytes_total"));

    server.shutdown(Duration::from_secs(5)).await;
    drop((client, server));
    let text = metrics.render();
    assert!(!text.contains("punctual_rpc_client_pending{"), "a channel that is gone is not kept: {text}");
}
