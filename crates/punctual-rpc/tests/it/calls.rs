//! Plain calls over every transport.

use crate::support::probe::Declined;
use crate::support::site::Kind;
use crate::support::{Site, over_every_transport};
use bytes::Bytes;
use punctual_rpc::{CallError, CallOptions, Code, HealthStatus};

over_every_transport! {
    /// A call's result and its typed error come back, whatever the codec.
    a_call_returns_its_result_or_its_error;
    /// Bodies of every size around the borders of copying, linking and cutting come back as they were.
    bodies_of_every_size_come_back;
    /// Describe and health answer, and JSON calls reach the same handlers.
    tools_can_ask;
    /// One-way calls arrive in order.
    oneways_arrive_in_order;
}

async fn a_call_returns_its_result_or_its_error(kind: Kind) {
    let site = Site::start(kind).await;
    let client = site.client().await;
    assert_eq!(client.add(2, 3).await, Ok(5));
    assert_eq!(client.add(i32::MAX, 1).await, Err(CallError::App(Declined::Overflow)));
    assert_eq!(client.text("hello").metadata("tenant", "a").await.unwrap(), "HELLO");
    let error = client.text("fail:not now").await.unwrap_err();
    let status = error.status().unwrap();
    assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, "not now"));
    let error = client.unserved().await.unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::Unimplemented);
}

async fn bodies_of_every_size_come_back(kind: Kind) {
    let site = Site::start(kind).await;
    let client = site.client().await;
    for len in [0, 1, 63, 1_023, 1_024, 1_025, 65_500, 65_536, 65_537, 200_000, 1_000_000, 4 * 1024 * 1024] {
        let data = Bytes::from((0..len).map(|at| u8::try_from(at % 251).unwrap()).collect::<Vec<_>>());
        assert_eq!(client.echo(data.clone()).await.unwrap(), data, "{len} bytes");
        let text = "x".repeat(len.min(2_000_000));
        assert_eq!(client.text(&text).await.unwrap().len(), text.len());
    }
}

async fn tools_can_ask(kind: Kind) {
    let site = Site::start(kind).await;
    let client = site.client().await;
    let channel = &client.channel;
    let services = channel.describe().await.unwrap();
    assert_eq!(services.len(), 1);
    assert_eq!(services[0].name, "Probe");
    assert_eq!(channel.health("").await.unwrap(), HealthStatus::Serving);
    assert_eq!(channel.health("Probe").await.unwrap(), HealthStatus::Serving);
    assert_eq!(channel.health("Other").await.unwrap(), HealthStatus::UnknownService);
    site.server.set_health("Probe", HealthStatus::NotServing);
    assert_eq!(channel.health("Probe").await.unwrap(), HealthStatus::NotServing);
    let json = |text: &'static str| Bytes::from_static(text.as_bytes());
    let sum = channel.call_json("Probe/add", json(r#"{"a":20,"b":22}"#), CallOptions::new()).await;
    assert_eq!(sum, Ok(json("42")));
    let declined = channel.call_json("Probe/add", json(r#"{"a":2147483647,"b":1}"#), CallOptions::new()).await;
    assert_eq!(declined, Err(CallError::App(json(r#""Overflow""#))));
    let error = channel.call_json("Probe/add", json(r#"{"a":2"#), CallOptions::new()).await.unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::InvalidArgument);
    let error = channel.call_json("No/such", json("{}"), CallOptions::new()).await.unwrap_err();
    let status = error.status().unwrap();
    assert_eq!(status.code(), Code::Unimplemented);
    assert!(status.message().contains("serves Probe"), "{status}");
}

async fn oneways_arrive_in_order(kind: Kind) {
    let site = Site::start(kind).await;
    let client = site.client().await;
    for at in 0..100 {
        client.note(&at.to_string()).await.unwrap();
    }
    site.ledger.until(|ledger| ledger.notes().len() == 100).await;
    assert_eq!(site.ledger.notes(), (0..100).map(|at: u32| at.to_string()).collect::<Vec<_>>());
}

/// A method that no service has is named by its name, beside what is served.
#[tokio::test]
async fn a_method_that_is_not_served_is_named() {
    let site = Site::start(Kind::Unix).await;
    let client = site.client().await;
    let called = client.channel.call_json("Probe/nothing", "{}".into(), CallOptions::new());
    let error = called.await.unwrap_err();
    let text = "no method Probe/nothing; this server serves Probe";
    assert_eq!(error.status().unwrap().message(), text);
}
