//! What the network and the system do to a daemon: it is stopped and goes on, it has no file descriptors left, and thousands connect
//! and say nothing.

use crate::support::{Daemon, Workspace};
use punctual::{Channel, Code};
use punctual_admin::AdminClient;
use rustix::process::Signal;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

/// A channel that takes half a second of silence for the end.
async fn impatient(address: &str) -> AdminClient {
    let mut limits = punctual::rpc::Limits::default();
    (limits.ping_after, limits.dead_after) = (Duration::from_millis(100), Duration::from_millis(500));
    AdminClient::new(Channel::builder(address).limits(limits).connect().await.unwrap())
}

/// A daemon that stands still is left within the time for a silent peer, and found again when it goes on.
#[tokio::test]
async fn a_stopped_daemon_is_left_and_found_again() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &[]);
    for scheme in ["unix:", "tcp:"] {
        let client = impatient(&daemon.address(scheme)).await;
        client.info().await.unwrap();
        daemon.freeze();
        let error = client.info().timeout(Duration::from_secs(600)).await.unwrap_err();
        assert_eq!(error.status().unwrap().code(), Code::HeartbeatLost, "{error}");
        daemon.signal(Signal::CONT);
        client.info().wait_for_ready().timeout(Duration::from_secs(600)).await.unwrap();
    }
    daemon.stop();
}

/// With no file descriptor left a daemon serves those who are connected, and accepts others again once there are some.
#[tokio::test]
async fn exhausted_descriptors_come_back() {
    let workspace = Workspace::new();
    let db = workspace.db();
    let plain = workspace.command(&["serve", "--json", "--db", &db, "--listen", "tcp://127.0.0.1:0"]);
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""]).arg(plain.get_program()).args(plain.get_args());
    limited.current_dir(workspace.path("")).env("XDG_RUNTIME_DIR", workspace.path("")).env("HOME", workspace.path(""));
    let daemon = Daemon::start_as(&workspace, limited);
    let address = daemon.address("tcp:");
    let port = address.strip_prefix("tcp://").unwrap();
    let before = AdminClient::new(Channel::connect(&address).await.unwrap());
    let silent: Vec<_> = (0..100).map(|_| TcpStream::connect(port).unwrap()).collect();
    before.info().await.unwrap();
    // The handshakes of the silent ones are cut after their time, and the rest are accepted in their place.
    drop(silent);
    let client = Channel::builder(&address).connect().await;
    let client = match client {
        Ok(channel) => AdminClient::new(channel),
        Err(_) => AdminClient::new(Channel::lazy(&address).unwrap()),
    };
    client.info().wait_for_ready().timeout(Duration::from_secs(600)).await.unwrap();
    before.info().await.unwrap();
    daemon.stop();
}

/// Ten thousand links that say nothing, or half of something, and go: those who mean it are served, and every socket is closed.
#[tokio::test]
async fn ten_thousand_links_leave_nothing() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &[]);
    let address = daemon.address("tcp:");
    let port = address.strip_prefix("tcp://").unwrap();
    let client = AdminClient::new(Channel::connect(&address).await.unwrap());
    client.info().await.unwrap();
    let sockets = daemon.sockets();
    for round in 0..100 {
        let links: Vec<_> = (0..100)
            .map(|at| {
                let mut link = TcpStream::connect(port).unwrap();
                link.write_all(&b"PNCTUAL\x01half of a handshake"[..at % 24]).unwrap();
                link
            })
            .collect();
        if round % 10 == 0 {
            client.info().await.unwrap();
        }
        drop(links);
    }
    client.info().await.unwrap();
    while daemon.sockets() > sockets {
        tokio::task::yield_now().await;
    }
    daemon.stop();
}
