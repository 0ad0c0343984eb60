//! Addresses that lead nowhere: one line each that says what to do.

use crate::support::{Daemon, Workspace};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;

/// Commands that speak to a server, with the address in its place.
fn commands(address: &str) -> Vec<Vec<&str>> {
    vec![
        vec!["health", address],
        vec!["describe", address],
        vec!["call", address, "A/b"],
        vec!["tasks", "list", "--addr", address],
    ]
}

/// An address that means nothing is a usage error that shows the forms.
#[test]
fn wrong_addresses() {
    let workspace = Workspace::new();
    for (address, words) in [
        ("localhost", "tcp://HOST:PORT"),
        ("http://localhost:80", "tcp://HOST:PORT"),
        ("tcp://localhost", "port"),
        ("tcp://localhost:70000", "65535"),
        ("unix:", "missing"),
        ("", "tcp://HOST:PORT"),
    ] {
        for command in commands(address) {
            workspace.run(&command).failed(2, &["not an address", words]);
        }
    }
}

/// A port that nobody listens on, a host that does not resolve, a socket file that is not there and one that a dead process
/// left behind are all unavailable, each in its own words.
#[test]
fn nobody_answers() {
    let workspace = Workspace::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = format!("tcp://{}", listener.local_addr().unwrap());
    drop(listener);
    // A listener that is dropped without removing its file leaves what a killed process leaves.
    drop(UnixListener::bind(workspace.path("stale.sock")).unwrap());
    let stale = format!("unix:{}", workspace.text("stale.sock"));
    let absent = format!("unix:{}", workspace.text("absent.sock"));
    for (address, words) in [(&closed, "nothing listens"), (&stale, "stale"), (&absent, "no such socket file")] {
        for command in commands(address) {
            workspace.run(&command).failed(4, &[address.as_str(), words]);
        }
    }
    workspace.run(&["health", "tcp://no-such-host.invalid:80"]).failed(4, &["no-such-host.invalid"]);
    // Commands for a daemon say how to get one.
    workspace.run(&["tasks", "list"]).failed(4, &["punctual.sock", "punctual serve", "--db"]);
    let told: serde_json::Value = workspace.run(&["tasks", "list", "--json"]).stderr.parse().unwrap();
    assert_eq!((told["error"]["code"].as_str(), told["error"]["exit"].as_u64()), (Some("unavailable"), Some(4)));
}

/// A daemon takes over the socket file that a dead one left.
#[test]
fn a_stale_socket_is_taken_over() {
    let workspace = Workspace::new();
    drop(UnixListener::bind(workspace.path("d.sock")).unwrap());
    let daemon = Daemon::start(&workspace, &[]);
    assert_eq!(workspace.run(&["health", &daemon.address("unix:")]).line(), "serving");
}

/// The environment names a daemon or a database like the flags do, and not both.
#[test]
fn the_environment_names_the_target() {
    let workspace = Workspace::with_database();
    let run = |environment: &[(&str, &str)]| {
        let mut command = workspace.command(&["tasks", "list"]);
        command.envs(environment.iter().copied());
        crate::support::ran(command)
    };
    let db = workspace.db();
    assert_eq!(run(&[("PUNCTUAL_DB", &db)]).succeeded(), "");
    run(&[("PUNCTUAL_ADDR", "tcp://127.0.0.1:1")]).failed(4, &["127.0.0.1:1"]);
    run(&[("PUNCTUAL_ADDR", "tcp://127.0.0.1:1"), ("PUNCTUAL_DB", &db)]).failed(2, &["PUNCTUAL_ADDR", "PUNCTUAL_DB"]);
}
