//! Nothing that callers and handlers say to each other is in any span or event, at any level.

use super::capture::Capture;
use super::desk::desk;
use punctual::contract::MethodDescriptor;
use punctual::rpc::auth::{Authenticate, Authorize, FixedCredentials, Presented};
use punctual::rpc::transport::BoxFuture;
use punctual::rpc::{ChannelConfig, Observe, ServerConfig, Telemetry};
use punctual::{Bytes, CallOptions, Channel, Code, Identity, Metadata, Status, Streaming};
use std::sync::Arc;
use std::time::Duration;

/// In payloads, errors, panics, metadata and credentials.
const SECRET: &str = "s3cr3t-c4n4ry";

#[derive(Debug)]
struct Doorkeeper;

impl Authorize for Doorkeeper {
    fn authorize(&self, _: Option<&Identity>, method: &MethodDescriptor, _: &Metadata) -> Result<(), Status> {
        if method.name == "forbidden" { Err(Status::permission_denied(format!("not with {SECRET}"))) } else { Ok(()) }
    }
}

/// Lets in who knows the word, and tells the others what they said instead.
#[derive(Debug)]
struct Gate;

impl Authenticate for Gate {
    fn authenticate<'a>(&'a self, presented: Presented<'a>) -> BoxFuture<'a, Result<Identity, Status>> {
        Box::pin(async move {
            let said = String::from_utf8_lossy(presented.bytes);
            if said.starts_with("open") { Ok(Identity::new("caller")) } else { Err(Status::unauthenticated(said)) }
        })
    }
}

/// Looks on, which makes every path of telemetry run.
#[derive(Debug)]
struct Onlooker;

impl Observe for Onlooker {}

fn text() -> String {
    format!("text {SECRET}")
}

/// Results, errors, panics, refusals, streams, metadata, credentials, arguments that cannot be read: what was said in them is
/// in no span and no event of either side, down to TRACE.
#[tokio::test]
async fn what_is_said_is_not_logged() {
    let (capture, _guard) = Capture::start();
    let telemetry = || Telemetry::new().observer(Arc::new(Onlooker));
    let mut config = ServerConfig::default();
    config.authenticator = Some(Arc::new(Gate));
    config.authorizer = Some(Arc::new(Doorkeeper));
    let credentials = |word: &str| {
        let mut config = ChannelConfig::default();
        config.credentials = Some(Arc::new(FixedCredentials::new(format!("{word} {SECRET}"))));
        config
    };
    let listen = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}", listen.path().join("desk.sock").display());
    let (client, server) = desk(
        |server| server.config(config).telemetry(telemetry()).listen(&socket),
        |channel| channel.config(credentials("open")).telemetry(telemetry()),
    )
    .await;

    assert_eq!(client.echo(text()).metadata("token", SECRET).await.unwrap(), text());
    assert!(client.refuse(text()).await.is_err());
    assert!(client.fail(text()).await.unwrap_err().to_string().contains(SECRET), "the caller is told");
    assert!(client.panic(text()).await.is_err());
    assert!(client.forbidden().metadata("token", SECRET).await.is_err());
    assert!(client.heard().metadata("traceparent", SECRET).metadata("tracestate", text()).await.is_ok());
    assert!(client.lines(text(), true).await.unwrap().collect().await.is_err());
    assert!(client.join(Streaming::from_items([text()])).await.is_ok());
    // Arguments of the wrong type: the reader's error holds what it read.
    let wrong = || Bytes::from(format!("{{\"number\": \"{SECRET}\"}}"));
    let channel = client.channel();
    let error = channel.call_json("Desk/number", wrong(), CallOptions::new()).await.unwrap_err();
    assert!(format!("{error:?}").contains(SECRET), "the caller is told: {error:?}");
    channel.send_json("Desk/note", wrong(), CallOptions::new()).await.unwrap();
    let metadata = CallOptions::new().metadata("token", SECRET);
    assert!(channel.call_json("Desk/absent", wrong(), metadata).await.is_err());
    // Behind it on the same connection, so that the one-way call was refused by now.
    assert!(client.echo(text()).await.is_ok());

    // Credentials that are refused, with a text that repeats them.
    let refused = Channel::builder(&socket).config(credentials("closed")).connect().await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    assert!(refused.to_string().contains(SECRET), "who presents them is told");
    server.shutdown(Duration::from_secs(5)).await;

    let seen = capture.text();
    for known in
        ["Desk/panic", "a handler panicked", "a one-way call was refused", "a handshake failed", "cannot connect"]
    {
        assert!(seen.contains(known), "{known} was not seen, so this test sees too little: {seen}");
    }
    assert!(!seen.contains(SECRET), "{seen}");
}
