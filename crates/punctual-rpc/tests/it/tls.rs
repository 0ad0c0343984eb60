//! TLS: who is believed, what is refused with which words, and certificates that change while connections live.

use crate::support::Site;
use crate::support::authority::{AUTHORITY, Authority};
use crate::support::site::Kind;
use punctual_rpc::tls::{ClientCertificates, ClientTls, ServerTls, TlsIdentity, TrustedRoots};
use punctual_rpc::{Channel, ChannelConfig, Code, Server, ServerConfig, Status};

fn server(tls: ServerTls) -> ServerConfig {
    let mut config = ServerConfig::default();
    config.tls = Some(tls);
    config
}

fn client(tls: ClientTls) -> ChannelConfig {
    let mut config = ChannelConfig::default();
    config.tls = Some(tls);
    config
}

async fn connect(site: &Site, tls: ClientTls) -> Result<Channel, Status> {
    Channel::builder(&site.address).config(client(tls)).connect().await
}

/// The reason of a try that must fail.
async fn refused(site: &Site, tls: ClientTls) -> String {
    let error = connect(site, tls).await.expect_err("that client is nobody to be served");
    assert_eq!(error.code(), Code::Unauthenticated, "{error}");
    error.to_string()
}

/// A server whose certificate comes from nobody who is trusted, or is another host's, is not spoken to.
#[tokio::test]
async fn strange_servers_are_refused() {
    let site = Site::start(Kind::Tls).await;
    let error = refused(&site, Authority::new().client()).await;
    assert!(error.contains("UnknownIssuer"), "{error}");
    let elsewhere = AUTHORITY.client().server_name("db.example").unwrap();
    let error = refused(&site, elsewhere).await;
    assert!(error.contains("not valid for name"), "{error}");
}

/// A name given for the certificate stands for the address's.
#[tokio::test]
async fn a_name_of_its_own_is_checked() {
    let tls = ServerTls::new(&AUTHORITY.identity("db.example"), &ClientCertificates::Ignored).unwrap();
    let site = Site::start_with(Kind::Tls, server(tls)).await;
    assert!(connect(&site, AUTHORITY.client()).await.is_err());
    connect(&site, AUTHORITY.client().server_name("db.example").unwrap()).await.unwrap();
    let error = AUTHORITY.client().server_name("not a name").unwrap_err().to_string();
    assert!(error.contains("neither a DNS name nor an IP address"), "{error}");
}

/// With mutual TLS a client without a certificate of the authority is turned away, and one with it is served.
#[tokio::test]
async fn clients_must_prove_themselves() {
    let required = ClientCertificates::Required(AUTHORITY.roots());
    let tls = ServerTls::new(&AUTHORITY.identity("127.0.0.1"), &required).unwrap();
    let site = Site::start_with(Kind::Tls, server(tls)).await;
    let with = |identity: &TlsIdentity| ClientTls::new(&AUTHORITY.roots(), Some(identity)).unwrap();
    let error = refused(&site, AUTHORITY.client()).await;
    assert!(error.contains("CertificateRequired"), "{error}");
    let error = refused(&site, with(&Authority::new().identity("worker"))).await;
    assert!(error.contains("alert"), "{error}");
    let channel = connect(&site, with(&AUTHORITY.identity("worker"))).await.unwrap();
    assert_eq!(channel.describe().await.unwrap().len(), 1);
}

/// A certificate that is changed serves the next connection; the ones that are open live on.
#[tokio::test]
async fn certificates_change_under_open_connections() {
    let (old, new) = (Authority::new(), Authority::new());
    let tls = old.server();
    let site = Site::start_with(Kind::Tls, server(tls.clone())).await;
    let first = connect(&site, old.client()).await.unwrap();
    tls.reload(&new.identity("127.0.0.1"), &ClientCertificates::Ignored).unwrap();
    first.describe().await.unwrap();
    assert!(connect(&site, old.client()).await.is_err(), "the old certificate is still shown");
    let client = old.client();
    client.reload(&new.roots(), None).unwrap();
    connect(&site, client).await.unwrap().describe().await.unwrap();
    first.describe().await.unwrap();
    // What cannot be used changes nothing.
    let (chain, _) = new.issue("127.0.0.1");
    let (_, key) = new.issue("127.0.0.1");
    let mixed = TlsIdentity::from_pem(chain.as_bytes(), key.as_bytes()).unwrap();
    assert!(tls.reload(&mixed, &ClientCertificates::Ignored).is_err());
    connect(&site, new.client()).await.unwrap();
}

/// Two protocols on the wrong ports find out at once, and the server goes on.
#[tokio::test]
async fn plain_text_and_tls_do_not_meet() {
    let site = Site::start(Kind::Tls).await;
    let plain = site.address.replace("tls://", "tcp://");
    let error = Channel::connect(&plain).await.expect_err("a TLS server took plain text").to_string();
    assert!(error.contains("cannot connect to tcp://"), "{error}");
    let other = Site::start(Kind::Tcp).await;
    let tls = other.address.replace("tcp://", "tls://");
    let error =
        Channel::builder(&tls).config(client(AUTHORITY.client())).connect().await.expect_err("plain is not TLS");
    assert!(error.message().contains("cannot connect to tls://"), "{error}");
    connect(&site, AUTHORITY.client()).await.unwrap().describe().await.unwrap();
    drop(other);
}

/// A peer that connects and says nothing of TLS holds up nobody else.
#[tokio::test]
async fn a_silent_peer_holds_up_nobody() {
    let site = Site::start(Kind::Tls).await;
    let silent = tokio::net::TcpStream::connect(site.address.trim_start_matches("tls://")).await.unwrap();
    connect(&site, AUTHORITY.client()).await.unwrap().describe().await.unwrap();
    drop(silent);
}

/// Without a certificate there is no TLS server, without trust no TLS client; each is told what to set.
#[tokio::test]
async fn what_is_missing_is_named() {
    let error = Server::builder().listen("tls://127.0.0.1:0").bind().await.err().unwrap().to_string();
    assert!(error.contains("needs a certificate; set ServerConfig::tls"), "{error}");
    let site = Site::start(Kind::Tls).await;
    let error = Channel::connect(&site.address).await.unwrap_err();
    assert!(error.message().contains("set ChannelConfig::tls"), "{error}");
}

/// PEM texts and files that hold something else are refused by name.
#[test]
fn pem_is_read_or_refused() {
    let (chain, key) = AUTHORITY.issue("a");
    let refused =
        |chain: &str, key: &str| TlsIdentity::from_pem(chain.as_bytes(), key.as_bytes()).unwrap_err().to_string();
    assert!(refused("", &key).contains("no certificate in it"));
    assert!(refused(&key, &key).contains("no certificate in it"));
    assert!(refused(&chain, &chain).contains("no private key in it"));
    assert!(refused("-----BEGIN CERTIFICATE-----\n!", &key).contains("not a PEM text"));
    assert!(TrustedRoots::from_pem(b"").unwrap_err().to_string().contains("no certificate in it"));
    let error = TrustedRoots::from_file("/does/not/exist.pem").unwrap_err().to_string();
    assert!(error.contains("cannot read /does/not/exist.pem"), "{error}");
    let identity = format!("{:?}", TlsIdentity::from_pem(chain.as_bytes(), key.as_bytes()).unwrap());
    assert_eq!(identity, "TlsIdentity { certificates: 1, .. }");
}
