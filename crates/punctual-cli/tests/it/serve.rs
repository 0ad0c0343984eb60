//! `punctual serve`: configuration, readiness, stopping.

use crate::support::{Daemon, Workspace, has_keys, lines_of};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;

/// The addresses and the line that says ready come on standard output, in text and in JSON; the log does not.
#[test]
fn readiness_is_told() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &[]);
    let ready = daemon.ready();
    has_keys(ready, ["ready", "version", "pid", "addresses", "location", "runs"]);
    assert!(!daemon.address("tcp:").ends_with(":0"), "the port that it got: {ready}");
    daemon.stop();
    let mut command = workspace.command(&["serve", "--listen", "tcp://127.0.0.1:0"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines: Vec<String> = BufReader::new(child.stdout.take().unwrap()).lines().take(2).map(Result::unwrap).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(lines[0].starts_with("listening on tcp://127.0.0.1:"), "{lines:?}");
    assert!(
        lines[1].starts_with("ready: punctual ") && lines[1].contains(" on punctual.db, runs Http/request"),
        "{lines:?}"
    );
}

/// Without flags a daemon and a command find each other on this user's socket.
#[test]
fn defaults_meet() {
    let workspace = Workspace::new();
    // The default TCP port is everybody's; the socket is this test's.
    let socket = format!("unix:{}", workspace.text("punctual.sock"));
    let daemon = Daemon::start_as(&workspace, workspace.command(&["serve", "--json", "--listen", &socket]));
    assert_eq!(workspace.run(&["queues", "list", "--json"]).line(), "[]");
    daemon.stop();
    assert!(!workspace.path("punctual.sock").exists(), "a stopped daemon takes its socket away");
}

/// A flag wins over the environment, the environment over the file, the file over the default.
#[test]
fn sources_have_their_order() {
    let workspace = Workspace::new();
    let file = workspace
        .file("punctual.toml", "database = 'file.db'\n[engine]\nslots = 3\npoll = '2s'\n[log]\nlevel = 'warn'\n");
    let print = |arguments: &[&str], environment: &[(&str, &str)]| -> Value {
        let mut command = workspace.command(&[&["serve", "--print-config", "--json"], arguments].concat());
        command.envs(environment.iter().copied());
        crate::support::ran(command).json()
    };
    let environment = [("PUNCTUAL_CONFIG", file.as_str()), ("PUNCTUAL_SLOTS", "5"), ("PUNCTUAL_DB", "env.db")];
    let config = print(&[], &environment[..1]);
    assert_eq!((config["database"].as_str(), config["engine"]["slots"].as_u64()), (Some("file.db"), Some(3)));
    let config = print(&[], &environment);
    assert_eq!((config["database"].as_str(), config["engine"]["slots"].as_u64()), (Some("env.db"), Some(5)));
    let config = print(&["--slots", "7", "--db", "flag.db", "--allow-commands"], &environment);
    assert_eq!((config["database"].as_str(), config["engine"]["slots"].as_u64()), (Some("flag.db"), Some(7)));
    assert_eq!((config["engine"]["poll"].as_str(), config["log"]["level"].as_str()), (Some("2s"), Some("warn")));
    assert_eq!(config["commands"]["allow"], true);
    let config = print(&["--allow-commands=false"], &[("PUNCTUAL_ALLOW_COMMANDS", "true")]);
    assert_eq!(config["commands"]["allow"], false);
    assert_eq!(print(&[], &[("PUNCTUAL_ALLOW_COMMANDS", "1")])["commands"]["allow"], true);
    let listen = print(&[], &[("PUNCTUAL_LISTEN", "unix:/a,127.0.0.1:0")])["listen"].clone();
    assert_eq!(listen, serde_json::json!(["unix:/a", "tcp://127.0.0.1:0"]));
    let text = workspace.run(&["serve", "--print-config"]).succeeded();
    assert!(text.contains("database = \"punctual.db\"") && text.contains("[engine]"), "{text}");
}

/// A configuration that is wrong is one line with its place, and nothing is started or created.
#[test]
fn wrong_configurations_are_refused() {
    let workspace = Workspace::new();
    let serve = |arguments: &[&str]| workspace.run(&[&["serve"], arguments].concat());
    let file = workspace.file("punctual.toml", "[engine]\nslotz = 3\n");
    serve(&["--config", &file])
        .failed(2, &["punctual.toml", "line 2", "slotz", "did you mean `slots`?", "docs/punctual.toml"]);
    serve(&["--config", "nowhere.toml"]).failed(2, &["nowhere.toml", "--config"]);
    serve(&["--slots", "0"]).failed(2, &["slots", "1 to"]);
    serve(&["--shutdown-grace", "5"]).failed(2, &["--shutdown-grace", "units"]);
    serve(&["--log-level", "loud=very"]).failed(2, &["log level", "loud"]);
    serve(&["--log-format", "xml"]).failed(2, &["log format", "json"]);
    serve(&["--http-allow", "https://example.org"]).failed(2, &["--http-allow", "example.org"]);
    serve(&["--listen", "127.0.0.1"]).failed(2, &["127.0.0.1", "tcp://"]);
    serve(&["--listen", "tcp://0.0.0.0:0"]).failed(1, &["0.0.0.0", "loopback"]);
    serve(&["--addr", "tcp://127.0.0.1:1"]).failed(2, &["--addr", "--listen"]);
    serve(&["--listen", "unix:/no/such/folder/d.sock"]).failed(1, &["/no/such/folder", "--listen"]);
}

/// A second daemon on the same address ends at once and says why; the first goes on.
#[test]
fn a_second_daemon_is_refused() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &[]);
    for scheme in ["unix:", "tcp:"] {
        let address = daemon.address(scheme);
        let second = workspace.run(&["serve", "--db", &workspace.db(), "--listen", &address]);
        assert_eq!(second.stdout, "", "it was never ready");
        second.failed(1, &[address.as_str(), "daemon", "--listen"]);
    }
    assert_eq!(workspace.run(&["health", &daemon.address("unix:")]).line(), "serving");
    workspace.file("in-the-way", "not a socket");
    let address = format!("unix:{}", workspace.text("in-the-way"));
    workspace.run(&["serve", "--db", &workspace.db(), "--listen", &address]).failed(1, &["not a socket"]);
    assert_eq!(std::fs::read_to_string(workspace.path("in-the-way")).unwrap(), "not a socket");
}

/// SIGTERM and SIGINT let what runs end within the grace, and then the daemon has ended well.
#[test]
fn a_stop_lets_tasks_end() {
    for signal in [Signal::TERM, Signal::INT] {
        let workspace = Workspace::new();
        let daemon = Daemon::start(&workspace, &["--allow-commands"]);
        // It ends when the test has seen it begin and has told the daemon to stop.
        let line = "{\"program\": \"echo begun >> ledger; while [ ! -e go ]; do sleep 0.01; done; echo ended >> ledger\", \"shell\": true}";
        let id = daemon.run(&["tasks", "enqueue", "Command/run", line]).line();
        lines_of(&workspace.path("ledger"), 1);
        daemon.signal(signal);
        workspace.file("go", "");
        let (status, logged) = daemon.wait();
        assert!(status.success(), "{status}: {logged}");
        assert_eq!(lines_of(&workspace.path("ledger"), 2), ["begun", "ended"]);
        let report = workspace.on_db(&["tasks", "show", &id, "--json"]).json();
        assert_eq!(report["task"]["state"], "succeeded", "its end is recorded");
    }
}

/// What does not end within the grace is ended with its programs and given back: it waits for the next daemon.
#[test]
fn a_stop_is_bounded() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &["--allow-commands", "--shutdown-grace", "50ms"]);
    let line = "{\"program\": \"echo $$ >> pid; exec sleep 1000\", \"shell\": true}";
    let id = daemon.run(&["tasks", "enqueue", "Command/run", line]).line();
    let pid = lines_of(&workspace.path("pid"), 1).remove(0);
    daemon.stop();
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid} lives on");
    let report = workspace.on_db(&["tasks", "show", &id, "--json"]).json();
    assert_eq!((report["task"]["state"].as_str(), &report["attempts"]), (Some("waiting"), &serde_json::json!([])));
}

/// A second signal ends a long grace.
#[test]
fn a_second_signal_ends_the_grace() {
    let workspace = Workspace::new();
    let mut daemon = Daemon::start(&workspace, &["--allow-commands", "--shutdown-grace", "1d"]);
    let mut log = daemon.log();
    let line = "{\"program\": \"echo $$ >> pid; exec sleep 1000\", \"shell\": true}";
    let id = daemon.run(&["tasks", "enqueue", "Command/run", line]).line();
    let pid = lines_of(&workspace.path("pid"), 1).remove(0);
    daemon.signal(Signal::TERM);
    let mut told = String::new();
    while !told.contains("stopping") {
        told.clear();
        assert_ne!(log.read_line(&mut told).unwrap(), 0, "it ended without a word");
    }
    daemon.signal(Signal::TERM);
    let (status, _) = daemon.wait();
    assert!(status.success(), "{status}");
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid} lives on");
    assert_eq!(workspace.on_db(&["tasks", "show", &id, "--json"]).json()["task"]["state"], "waiting");
}

/// Log lines are JSON objects if that is asked for, so that no collector has to guess.
#[test]
fn logs_are_json_if_asked() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &["--log-format", "json", "--log-level", "debug"]);
    daemon.run(&["queues", "list"]).succeeded();
    let logged = daemon.stop();
    assert!(logged.lines().count() > 0);
    for line in logged.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        assert!(line["level"].is_string() && line["timestamp"].is_string(), "{line}");
    }
}

/// A service manager is told when the daemon is ready and when it stops.
#[test]
fn the_service_manager_is_told() {
    let workspace = Workspace::new();
    let socket = UnixDatagram::bind(workspace.path("notify.sock")).unwrap();
    let listen = format!("unix:{}", workspace.text("d.sock"));
    let mut command = workspace.command(&["serve", "--json", "--listen", &listen]);
    command.env("NOTIFY_SOCKET", workspace.path("notify.sock"));
    let daemon = Daemon::start_as(&workspace, command);
    let mut buffer = [0; 64];
    let mut next = || {
        let count = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..count].to_vec()).unwrap()
    };
    assert_eq!(next(), "READY=1");
    daemon.stop();
    assert_eq!(next(), "STOPPING=1");
}

/// A store in memory is good for a trial, and gone with the process.
#[test]
fn memory_is_gone_with_the_process() {
    let workspace = Workspace::new();
    let listen = format!("unix:{}", workspace.text("d.sock"));
    let command = || workspace.command(&["serve", "--json", "--db", "memory:", "--listen", &listen]);
    let daemon = Daemon::start_as(&workspace, command());
    daemon.run(&["tasks", "enqueue", "A/b"]).succeeded();
    daemon.stop();
    let daemon = Daemon::start_as(&workspace, command());
    assert_eq!(daemon.run(&["tasks", "list"]).succeeded(), "");
}
