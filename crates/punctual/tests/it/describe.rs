//! What a server tells of its contracts.

use crate::shop::{Served, shop};
use punctual::contract::{FieldsDescription, ServiceDescription, TypeDescription};
use punctual::{Bytes, CallError, CallOptions};

/// The description that crosses the wire is the contract's, with its doc comments and attributes.
#[tokio::test]
async fn a_server_describes_itself() {
    let served = Served::everywhere().await;
    let described = served.client().await.channel().describe().await.unwrap();
    assert_eq!(described, [ServiceDescription::from(&shop::DESCRIPTOR)]);

    let service = &described[0];
    assert_eq!((service.name.as_str(), service.docs.as_str()), ("Shop", "Sells things."));
    let quote = service.method("quote").unwrap();
    assert_eq!((quote.docs.as_str(), quote.idempotent), ("The price of an order,\nin cents.", true));
    assert_eq!(quote.timeout_ms, Some(2_000));
    let durable = service.method("charge").unwrap().durable.as_ref().unwrap();
    assert_eq!((durable.queue.as_deref(), durable.attempts), (Some("payments"), Some(3)));
    assert!(service.method("echo").unwrap().raw_args);

    let TypeDescription::Struct { fields: FieldsDescription::Named(fields), .. } =
        &service.method("charge").unwrap().args
    else {
        panic!("arguments are a structure");
    };
    assert_eq!((fields[0].docs.as_str(), fields[0].optional, fields[1].optional), ("Which one.", false, true));
    served.stop().await;
}

/// What `punctual describe` prints of it reads like the trait.
#[test]
fn a_description_reads_like_the_trait() {
    let text = ServiceDescription::from(&shop::DESCRIPTOR).to_string();
    for line in [
        "/// Sells things.",
        "    #[rpc(idempotent, timeout = \"2s\")]",
        "    quote(order: u64) -> Result<u64, ShopError>",
        "    #[rpc(durable, queue = \"payments\", attempts = 3, backoff = \"fixed(1ms)\")]",
        "    charge(order: u64, cents: u64 = default) -> Result<Receipt, ShopError>",
        "    #[rpc(oneway)]",
        "    seen(page: String)",
        "    echo(data: Bytes) -> Result<Bytes, Status>",
        "struct Receipt {",
        "    /// Whose order.",
        "    UnknownOrder {",
    ] {
        assert!(text.lines().any(|printed| printed == line), "{line}\n is not in\n{text}");
    }
}

/// Tools call by name, in JSON, and get the application's error as JSON too.
#[tokio::test]
async fn tools_call_in_json() {
    let served = Served::everywhere().await;
    let client = served.client().await;
    let call = |arguments: &'static str| {
        let arguments = Bytes::from_static(arguments.as_bytes());
        client.channel().call_json("Shop/charge", arguments, CallOptions::new())
    };
    let receipt = call(r#"{"order":42}"#).await.unwrap();
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&receipt).unwrap(),
        serde_json::json!({"order":42,"cents":995})
    );
    let Err(CallError::App(error)) = call(r#"{"order":7,"cents":1}"#).await else {
        panic!("not the application's error")
    };
    let error: serde_json::Value = serde_json::from_slice(&error).unwrap();
    assert_eq!(error, serde_json::json!({"UnknownOrder":{"order":7}}));
    served.stop().await;
}
