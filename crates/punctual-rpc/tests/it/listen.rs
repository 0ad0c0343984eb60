//! Binding addresses, and what is in the way.

use crate::support::probe::{Probe, ProbeClient};
use punctual_rpc::{Channel, Server, ServerBuilder, ServerConfig};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

fn builder() -> ServerBuilder {
    Server::builder().service(Probe::default())
}

async fn answers(address: &str) {
    let client = ProbeClient::new(Channel::connect(address).await.unwrap());
    assert_eq!(client.add(1, 2).await, Ok(3));
}

/// A socket file that a dead process left is taken over; one that a living server has is not.
#[tokio::test]
async fn a_stale_socket_is_taken_over_and_a_live_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let address = format!("unix:{}", path.display());
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let server = builder().listen(&address).bind().await.unwrap().spawn();
    answers(&address).await;
    let error = builder().listen(&address).bind().await.unwrap_err().to_string();
    assert!(error.contains("another process listens there") && error.contains(&address), "{error}");
    answers(&address).await;
    server.shutdown(Duration::from_secs(1)).await;
    assert!(!path.exists());
}

/// Any other file in the way is left alone.
#[tokio::test]
async fn another_file_is_not_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("precious");
    std::fs::write(&path, "data").unwrap();
    let error = builder().listen(format!("unix:{}", path.display())).bind().await.unwrap_err().to_string();
    assert!(error.contains("not a socket"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "data");
}

/// Only this user reaches a socket file, unless the configuration says otherwise.
#[tokio::test]
async fn socket_files_have_the_permissions_that_were_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    for mode in [0o600, 0o660] {
        let path = dir.path().join(format!("{mode:o}"));
        let mut config = ServerConfig::default();
        config.unix_mode = mode;
        let server = builder().config(config).listen(format!("unix:{}", path.display())).bind().await.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
        drop(server);
    }
}

/// Several addresses at once, the abstract namespace and a free port among them.
#[tokio::test]
async fn a_server_listens_on_several_addresses() {
    let name = format!("unix:@punctual-test-{}", std::process::id());
    let server = builder().listen("tcp://127.0.0.1:0").listen(&name).listen("inproc:several").bind().await.unwrap();
    let addresses = server.local_addrs().to_vec();
    assert_eq!(addresses.len(), 3);
    assert!(!addresses[0].ends_with(":0"));
    let server = server.spawn();
    for address in &addresses {
        answers(address).await;
    }
    server.shutdown(Duration::from_secs(1)).await;
}

/// An address that other machines reach needs an explicit word, since nothing is encrypted.
#[tokio::test]
async fn plaintext_off_loopback_needs_a_word() {
    let error = builder().listen("tcp://0.0.0.0:0").bind().await.unwrap_err().to_string();
    assert!(error.contains("allow_plaintext_off_loopback"), "{error}");
    let server = builder().listen("tcp://0.0.0.0:0").allow_plaintext_off_loopback(true).bind().await.unwrap();
    assert!(server.local_addrs()[0].starts_with("tcp://0.0.0.0:"));
}

/// Other mistakes are told in one line each.
#[tokio::test]
async fn other_mistakes_are_told() {
    let taken = builder().listen("tcp://127.0.0.1:0").bind().await.unwrap();
    let long = format!("unix:/{}", "x".repeat(200));
    for (server, says) in [
        (builder().listen(taken.local_addrs()[0].clone()), "in use"),
        (builder().listen("tcp:127.0.0.1"), "is not an address"),
        (builder().listen(long), "107 bytes"),
        (builder(), "needs an address"),
        (builder().service(Probe::default()).listen("inproc:twice"), "served twice"),
        (builder().listen("unix:/no/such/directory/socket"), "cannot listen on"),
    ] {
        let error = server.bind().await.unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains('\n'), "{error}");
    }
}

/// A server takes away its own socket file only: one that another server put there since then stays.
#[tokio::test]
async fn a_socket_file_of_another_server_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let address = format!("unix:{}", path.display());
    let bind = || async { Server::builder().service(Probe::default()).listen(&address).bind().await.unwrap() };
    let first = bind().await;
    std::fs::rename(&path, dir.path().join("moved")).unwrap();
    let second = bind().await;
    drop(first);
    assert!(path.exists());
    drop(second);
    assert!(!path.exists());
}
