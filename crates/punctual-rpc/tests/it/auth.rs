//! Who calls, and what they may: credentials in the handshake, identities in handlers, decisions before decoding.

use crate::support::Site;
use crate::support::authority::AUTHORITY;
use crate::support::clock::tokio_clock;
use crate::support::probe::panic_on_purpose;
use crate::support::site::Kind;
use punctual_clock::Clock;
use punctual_context::{Identity, Metadata};
use punctual_proto::contract::MethodDescriptor;
use punctual_rpc::auth::{Authenticate, Authorize, Credentials, FixedCredentials, Presented};
use punctual_rpc::tls::{ClientCertificates, ClientTls, ServerTls};
use punctual_rpc::transport::BoxFuture;
use punctual_rpc::{Channel, ChannelConfig, Code, ServerConfig, Status};
use punctual_testkit::TokioClock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Knows a token `NAME:SCOPE`, and clients by their certificate.
#[derive(Debug, Default)]
struct Desk {
    lifetime: Option<(Arc<TokioClock>, Duration)>,
}

impl Authenticate for Desk {
    fn authenticate<'a>(&'a self, presented: Presented<'a>) -> BoxFuture<'a, Result<Identity, Status>> {
        Box::pin(async move {
            if presented.certificates.len() == 1 {
                return Ok(Identity::new("by certificate").with_scope("add"));
            }
            let text = std::str::from_utf8(presented.bytes).unwrap_or_default();
            let Some((name, scope)) = text.split_once(':') else {
                return Err(Status::unauthenticated("a token is needed"));
            };
            let mut identity = Identity::new(name).with_scope(scope).with_tenant("t");
            identity.expires = self.lifetime.as_ref().map(|(clock, lifetime)| clock.timestamp().after(*lifetime));
            Ok(identity)
        })
    }
}

/// Lets those call `Probe/add` that have the scope `add`, and everybody the rest.
#[derive(Debug)]
struct Guard;

impl Authorize for Guard {
    fn authorize(&self, identity: Option<&Identity>, method: &MethodDescriptor, _: &Metadata) -> Result<(), Status> {
        if method.full_name == "Probe/budget" {
            panic_on_purpose();
        }
        if method.full_name == "Probe/add" && !identity.is_some_and(|identity| identity.has_scope("add")) {
            return Err(Status::permission_denied("add is not for you"));
        }
        Ok(())
    }
}

/// Gives another token each time.
#[derive(Debug, Default)]
struct Tokens(AtomicU64);

impl Credentials for Tokens {
    fn fetch(&self) -> BoxFuture<'_, Result<Vec<u8>, Status>> {
        let number = self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Ok(format!("token-{number}:add").into_bytes())))
    }
}

#[derive(Debug)]
struct NoTokens;

impl Credentials for NoTokens {
    fn fetch(&self) -> BoxFuture<'_, Result<Vec<u8>, Status>> {
        Box::pin(std::future::ready(Err(Status::unavailable("the token service is away"))))
    }
}

fn guarded(desk: Desk) -> ServerConfig {
    let mut config = ServerConfig::default();
    config.authenticator = Some(Arc::new(desk));
    config.authorizer = Some(Arc::new(Guard));
    config
}

fn under(clock: Arc<TokioClock>, desk: Desk) -> ServerConfig {
    let mut config = guarded(desk);
    config.clock = clock;
    config
}

fn with(credentials: impl Credentials) -> ChannelConfig {
    let mut config = ChannelConfig::default();
    config.credentials = Some(Arc::new(credentials));
    config
}

/// Without credentials that the server knows there is no connection, and the reason is the server's.
#[tokio::test]
async fn strangers_are_turned_away() {
    let site = Site::start_with(Kind::Unix, guarded(Desk::default())).await;
    let error = Channel::connect(&site.address).await.unwrap_err();
    assert_eq!(error.code(), Code::Unauthenticated, "{error}");
    assert!(error.message().contains("a token is needed"), "{error}");
    let error = Channel::builder(&site.address).config(with(NoTokens)).connect().await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    assert!(error.message().contains("the token service is away"), "{error}");
    assert_eq!(site.server.stats().connections, 0, "a stranger took a place");
}

/// Handlers see who calls; what a caller may not is refused before its arguments are looked at.
#[tokio::test]
async fn callers_are_known_and_held_to_their_scopes() {
    let site = Site::start_with(Kind::Unix, guarded(Desk::default())).await;
    let anna = site.client_with(with(FixedCredentials::new(&b"anna:add"[..]))).await;
    let bert = site.client_with(with(FixedCredentials::new(&b"bert:read"[..]))).await;
    assert_eq!(anna.add(1, 2).await, Ok(3));
    assert_eq!(anna.text("who").await.unwrap(), "anna of t, may add");
    assert_eq!(bert.text("who").await.unwrap_err().status().unwrap().code(), Code::PermissionDenied);
    let denied = bert.add(1, 2).await.unwrap_err();
    assert_eq!(denied.status().unwrap().message(), "add is not for you");
    // Whoever decides and panics lets nobody through, and harms no other call.
    let error = anna.budget().await.unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::Internal, "{error}");
    assert_eq!((site.server.stats().panics, anna.channel.stats().connections), (1, 1));
    assert_eq!(anna.add(3, 4).await, Ok(7));
    // The denied call's arguments were never decoded: not even ones that are none are complained of.
    let bad = bert.channel.call_json("Probe/add", "nonsense".into(), Default::default()).await.unwrap_err();
    assert_eq!(bad.status().unwrap().code(), Code::PermissionDenied);
}

/// A client's certificate can be all that it shows.
#[tokio::test]
async fn a_certificate_is_a_credential() {
    let required = ClientCertificates::Required(AUTHORITY.roots());
    let mut config = guarded(Desk::default());
    config.tls = Some(ServerTls::new(&AUTHORITY.identity("127.0.0.1"), &required).unwrap());
    let site = Site::start_with(Kind::Tls, config).await;
    let mut config = ChannelConfig::default();
    config.tls = Some(ClientTls::new(&AUTHORITY.roots(), Some(&AUTHORITY.identity("worker"))).unwrap());
    let client = site.client_with(config).await;
    assert_eq!(client.add(1, 2).await, Ok(3));
}

/// An identity that has ended is worth nothing: not in the handshake, and not to a call on a connection that is still open.
#[tokio::test(start_paused = true)]
async fn expired_identities_are_worth_nothing() {
    let clock = tokio_clock();
    let desk = Desk { lifetime: Some((clock.clone(), Duration::ZERO)) };
    let site = Site::start_with(Kind::Inproc, under(clock.clone(), desk)).await;
    let token = || with(FixedCredentials::new(&b"anna:add"[..]));
    let error = Channel::builder(&site.address).config(token()).connect().await.unwrap_err();
    assert_eq!(error.code(), Code::Unauthenticated, "{error}");
    assert!(error.message().contains("has expired"), "{error}");

    let desk = Desk { lifetime: Some((clock.clone(), Duration::from_secs(3_600))) };
    let site = Site::start_with(Kind::Inproc, under(clock.clone(), desk)).await;
    let client = site.client_with(token()).await;
    assert_eq!(client.add(1, 2).await, Ok(3));
    // The wall clock jumps, and no timer knows.
    clock.step_wall(3_601_000_000);
    let error = client.add(1, 2).await.unwrap_err();
    assert_eq!(error.status().unwrap().code(), Code::Unauthenticated, "{error:?}");
}

/// The connection of an identity that ends makes way for one with fresh credentials.
#[tokio::test(start_paused = true)]
async fn expired_identities_are_renewed_by_reconnecting() {
    let clock = tokio_clock();
    let desk = Desk { lifetime: Some((clock.clone(), Duration::from_secs(3_600))) };
    let site = Site::start_with(Kind::Inproc, under(clock, desk)).await;
    let client = site.client_with(with(Tokens::default())).await;
    assert_eq!(client.text("who").await.unwrap(), "token-0 of t, may add");
    tokio::time::sleep(Duration::from_secs(3_700)).await;
    assert_eq!(client.text("who").wait_for_ready().await.unwrap(), "token-1 of t, may add");
}

/// A connection that reached its greatest age makes way; calls under way end on it.
#[tokio::test(start_paused = true)]
async fn old_connections_make_way() {
    let mut config = ServerConfig::default();
    config.connection_age_max = Some(Duration::from_secs(60));
    let site = Site::start_with(Kind::Inproc, config).await;
    let client = site.client().await;
    let slow = tokio::spawn(client.wait(1).timeout(Duration::from_secs(1_000)));
    site.ledger.until(|ledger| *ledger.waiting.borrow() == 1).await;
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(client.add(1, 2).wait_for_ready().await, Ok(3));
    assert_eq!(client.channel.stats().connections, 2);
    site.ledger.gate.send_replace(true);
    assert!(slow.await.unwrap().is_ok());
}
