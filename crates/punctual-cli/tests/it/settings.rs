//! What each setting of the daemon's server does, seen from its socket; and `punctual config`.

use crate::support::{Daemon, GOAWAY, PING, Raw, Workspace, has_keys, lines_of, ran};
use punctual::clock::{Clock, SystemClock};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

const DEADLINE_EXCEEDED: u8 = 4;
const RESOURCE_EXHAUSTED: u8 = 8;

/// A program that says that it has begun, and runs until the file `go` is there.
const UNTIL_GO: &str = r#"{"program": "echo begun >> begun; while [ ! -e go ]; do sleep 0.01; done; echo first >> ledger", "shell": true}"#;

const SECOND: &str = r#"{"program": "echo second >> ledger", "shell": true}"#;

/// A daemon that runs programs, with these flags besides.
fn start<'a>(workspace: &'a Workspace, flags: &[&str]) -> Daemon<'a> {
    Daemon::start(workspace, &[&["--allow-commands"], flags].concat())
}

/// A connection on which the program runs that waits for `go`.
fn busy(workspace: &Workspace, daemon: &Daemon<'_>) -> Raw {
    let mut raw = Raw::connect(&daemon.address("unix:"));
    raw.request(0, "Command/run", UNTIL_GO, None);
    lines_of(&workspace.path("begun"), 1);
    raw
}

/// What both sides must know of a connection's limits is announced to each client, as the file, the environment and flags say it.
#[test]
fn limits_are_announced() {
    let workspace = Workspace::new();
    let file = workspace.file(
        "p.toml",
        "[limits]\nmessage_bytes_max = 100000\nmetadata_bytes_max = 2048\npending_calls_max = 17\nstreams_max = 1\n\
         stream_window_bytes = 70000\nconnection_window_bytes = 200000\n[compression]\nprofiles = ['lz4', 'zstd']\n",
    );
    let socket = format!("unix:{}", workspace.text("d.sock"));
    let flags = ["--config", &file, "--limits-running-calls-max", "7", "--listen", &socket];
    let mut command = workspace.command(&[&["serve", "--json"], &flags[..]].concat());
    command.env("PUNCTUAL_LIMITS_STREAMS_MAX", "3");
    let daemon = Daemon::start_as(&workspace, command);
    let raw = Raw::connect(&daemon.address("unix:"));
    let announced: Vec<u32> = (1..=7).map(|tag| raw.announced(tag)).collect();
    assert_eq!(announced, [100_000, 2_048, 17, 7, 3, 70_000, 200_000]);
    assert_eq!(raw.welcome[&18], [2, 1], "lz4 before zstd");
    daemon.stop();
}

/// A handshake takes as long as it may, and a connection is asked for a sign of life and given up when that is said.
#[test]
fn silence_has_its_times() {
    let workspace = Workspace::new();
    let daemon = start(&workspace, &["--limits-handshake-timeout", "20ms"]);
    assert_eq!(Raw::silent(&daemon.address("unix:")).frame(), None, "it closed");
    daemon.stop();
    let daemon = start(&workspace, &["--limits-ping-after", "20ms", "--limits-dead-after", "60ms"]);
    let frames = Raw::connect(&daemon.address("unix:")).rest();
    assert_eq!(frames.first().map(|frame| frame.kind), Some(PING), "{frames:?}");
    daemon.stop();
}

/// More connections than are allowed are refused by name, and of handshakes the oldest gives way.
#[test]
fn connections_and_handshakes_are_counted() {
    let workspace = Workspace::new();
    let daemon = start(&workspace, &["--server-connections-max", "1"]);
    let address = daemon.address("unix:");
    let held = Raw::connect(&address);
    let refused = Raw::connect_with(&address, &[]).map(|_| ()).unwrap_err();
    assert_eq!(refused.limit, Some(("connections_max".to_owned(), 1)), "{refused:?}");
    drop(held);
    daemon.stop();
    let daemon = start(&workspace, &["--server-handshakes-max", "1", "--limits-handshake-timeout", "1m"]);
    let address = daemon.address("unix:");
    // Which of the two began first the server says by closing it; the other one is still welcome.
    let mut links = [Raw::silent(&address), Raw::silent(&address)];
    let gave_way = loop {
        if let Some(at) = links.iter_mut().position(Raw::is_closed) {
            break at;
        }
        std::thread::yield_now();
    };
    let [first, second] = links;
    let other = if gave_way == 0 { second } else { first };
    assert!(other.open(&[]).is_ok());
    daemon.stop();
}

/// A connection of the age that was said is sent away for it.
#[test]
fn connections_have_an_age() {
    let workspace = Workspace::new();
    let daemon = start(&workspace, &["--server-connection-age-max", "1s"]);
    let frame = Raw::connect(&daemon.address("unix:")).frame().unwrap();
    assert_eq!((frame.kind, frame.payload[8]), (GOAWAY, 1), "the reason is its age: {frame:?}");
    daemon.stop();
}

/// The socket file has the permissions that were said, and by default its owner's only.
#[test]
fn socket_files_have_their_permissions() {
    let workspace = Workspace::new();
    for (flags, mode) in [(&[][..], 0o600), (&["--server-unix-mode", "0660"], 0o660)] {
        let daemon = start(&workspace, flags);
        let path = daemon.address("unix:").replace("unix:", "");
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, mode);
        daemon.stop();
    }
}

/// A reply is held back for others as long as was said.
#[test]
fn replies_wait_for_others() {
    let workspace = Workspace::new();
    let daemon = start(&workspace, &["--server-write-latency-max", "200ms"]);
    let mut raw = Raw::connect(&daemon.address("unix:"));
    let before = SystemClock.now();
    raw.call(0, "Admin/list_queues", "{}").unwrap();
    assert!(SystemClock.now().since(before) >= Duration::from_millis(100), "it came at once");
    daemon.stop();
}

/// Calls beyond those that may run are refused by name, for a connection and for the daemon; by default there is room.
#[test]
fn running_calls_are_bounded() {
    for (flags, limit, other) in [
        (&["--limits-running-calls-max", "1"][..], Some("running_calls_max"), false),
        (&["--server-running-calls-max", "1"], Some("server_running_calls_max"), true),
        (&[], None, false),
    ] {
        let workspace = Workspace::new();
        let daemon = start(&workspace, flags);
        let mut first = busy(&workspace, &daemon);
        let mut second = other.then(|| Raw::connect(&daemon.address("unix:")));
        let answer = second.as_mut().unwrap_or(&mut first).call(1, "Command/run", SECOND);
        let refused = answer.err().and_then(|failed| failed.limit);
        assert_eq!(refused, limit.map(|limit| (limit.to_owned(), 1)), "{flags:?}");
        workspace.file("go", "");
        first.response(0).unwrap();
        daemon.stop();
    }
}

/// A budget is refused below its minimum, cut to its maximum, and given to calls that have none.
#[test]
fn budgets_are_kept() {
    let workspace = Workspace::new();
    let hour = 3_600_000_000;
    for (flags, budget) in [
        (["--calls-budget-min", "2h"], Some(hour)),
        (["--calls-budget-max", "30ms"], Some(hour)),
        (["--calls-budget-default", "30ms"], None),
    ] {
        let daemon = start(&workspace, &flags);
        let mut raw = Raw::connect(&daemon.address("unix:"));
        raw.request(0, "Command/run", UNTIL_GO, budget);
        let failed = raw.response(0).unwrap_err();
        assert_eq!(failed.code, DEADLINE_EXCEEDED, "{flags:?}: {failed:?}");
        daemon.stop();
    }
    assert!(!workspace.path("ledger").exists(), "none of them ran to its end");
}

/// Which calls are let in is as was said: how many run and begin, for the daemon, a service and a method, and who waits.
#[test]
fn calls_are_let_in_as_was_said() {
    let exhausted = |limit: &str, value: u64, workspace: &Workspace, flags: &[&str]| {
        let daemon = start(workspace, flags);
        let mut raw = busy(workspace, &daemon);
        let failed = raw.call(1, "Command/run", SECOND).unwrap_err();
        assert_eq!(
            (failed.code, failed.limit.clone()),
            (RESOURCE_EXHAUSTED, Some((limit.to_owned(), value))),
            "{failed:?}"
        );
        workspace.file("go", "");
        raw.response(0).unwrap();
        daemon.stop();
        failed
    };
    let at_once = ["--admission-queue-calls-max", "0"];
    let running = ["--admission-running-max", "1"];
    let flags = [&running[..], &at_once, &["--admission-retry-after", "7s"]].concat();
    let failed = exhausted("server_running_max", 1, &Workspace::new(), &flags);
    assert_eq!(failed.retry_after_micros, 7_000_000);
    let rate = ["--admission-calls-per-second", "1", "--admission-burst", "1"];
    // Whatever was done before, the next one comes within a second of it or of the first.
    let workspace = Workspace::new();
    let daemon = start(&workspace, &[&rate[..], &at_once].concat());
    let mut raw = Raw::connect(&daemon.address("unix:"));
    let refused = (0..1_000).find_map(|slot| raw.call(slot, "Admin/list_queues", "{}").err()).unwrap();
    assert_eq!(refused.limit, Some(("server_rate_max".to_owned(), 1)), "{refused:?}");
    assert!((1..=1_000_000).contains(&refused.retry_after_micros), "{refused:?}");
    daemon.stop();
    // The line: nobody has room by its bytes; one waits, and not for long.
    let (bytes, wait) = (["--admission-queue-bytes-max", "1"], ["--admission-queue-wait-max", "10ms"]);
    exhausted("admission_queue_bytes_max", 1, &Workspace::new(), &[running, bytes].concat());
    // Who has waited for nothing is told what for; below, one that may wait longer is let in.
    exhausted("server_running_max", 1, &Workspace::new(), &[running, wait].concat());
    let workspace = Workspace::new();
    let line = ["--admission-queue-calls-max", "1", "--admission-queue-wait-max", "1h"];
    let daemon = start(&workspace, &[&running[..], &line].concat());
    let mut raw = busy(&workspace, &daemon);
    raw.request(1, "Command/run", SECOND, None);
    let refused = raw.call(2, "Command/run", SECOND).unwrap_err();
    assert_eq!(refused.limit, Some(("admission_queue_calls_max".to_owned(), 1)), "{refused:?}");
    workspace.file("go", "");
    raw.response(0).unwrap();
    raw.response(1).unwrap();
    daemon.stop();
    for (name, limit) in
        [("services.Command", "service_running_max"), ("methods.\"Command/run\"", "method_running_max")]
    {
        let workspace = Workspace::new();
        let text = format!("[admission]\nqueue_calls_max = 0\n[admission.{name}]\nrunning_max = 1\n");
        let file = workspace.file("p.toml", &text);
        exhausted(limit, 1, &workspace, &["--config", &file]);
    }
    let workspace = Workspace::new();
    let file = workspace.file("p.toml", "[admission.services.Billing]\nrunning_max = 1\n");
    workspace.run(&["serve", "--db", &workspace.db(), "--config", &file]).failed(2, &["Billing"]);
}

/// Bodies are compressed where a profile is agreed on, from the length that was said.
#[test]
fn bodies_are_compressed() {
    const COMPRESSED: u8 = 1 << 7;
    let workspace = Workspace::new();
    let long = r#"{"program": "head -c 20000 /dev/zero | tr '\\0' a", "shell": true}"#;
    for (flags, profile, compressed) in [
        (&["--compression-profiles", "zstd,lz4"][..], 1, true),
        (&["--compression-profiles", "lz4"], 2, true),
        (&["--compression-profiles", "lz4", "--compression-bytes-min", "1000000"], 2, false),
    ] {
        let daemon = start(&workspace, flags);
        let mut raw =
            Raw::connect_with(&daemon.address("unix:"), &[profile]).unwrap_or_else(|failed| panic!("{failed:?}"));
        let response = raw.call(0, "Command/run", long).unwrap();
        assert_eq!(response.flags & COMPRESSED != 0, compressed, "{flags:?}");
        assert_eq!(response.payload.len() < 20_000, compressed, "{flags:?}");
        daemon.stop();
    }
    let daemon = start(&workspace, &[]);
    let mut raw = Raw::connect_with(&daemon.address("unix:"), &[1, 2]).unwrap_or_else(|failed| panic!("{failed:?}"));
    assert!(!raw.welcome.contains_key(&18), "off by default");
    assert_eq!(raw.call(0, "Command/run", long).unwrap().flags & COMPRESSED, 0);
    daemon.stop();
}

/// A file is checked without a daemon: all that is wrong is named with its line, and the exit code is a script's.
#[test]
fn files_are_checked() {
    let workspace = Workspace::new();
    let fine =
        workspace.file("fine.toml", "[limits]\nstreams_max = 3\n[admission.methods.'Http/request']\nrunning_max = 1\n");
    assert!(
        workspace.run(&["config", "check", &fine]).line().ends_with("fine.toml is fine; settings that it makes: 2")
    );
    let json = workspace.run(&["config", "check", &fine, "--json"]).json();
    has_keys(&json, ["file", "ok", "settings", "problems"]);
    assert_eq!((&json["ok"], &json["settings"]), (&true.into(), &2.into()));
    let wrong =
        workspace.file("wrong.toml", "databse = 'x'\n[limits]\nstreams_max = 99999\n[calls]\nbudget_max = '5'\n");
    let told = workspace.run(&["config", "check", &wrong]).failed(2, &["wrong.toml has 3 problems", "would refuse it"]);
    let told: Vec<&str> = told.lines().collect();
    assert_eq!(told.len(), 3, "{told:?}");
    for (line, words) in told.iter().zip([
        "line 1: unknown setting `databse`; did you mean `database`?",
        "line 3: [limits] streams_max is 99999; set it between 0 and 32768",
        "line 5: [calls] budget_max: `5` is not a duration",
    ]) {
        assert!(line.starts_with(words) && line.contains("docs/punctual.toml"), "{line}");
    }
    let run = workspace.run(&["config", "check", &wrong, "--json"]);
    assert_eq!(run.code, 2);
    let json: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((json["problems"][1]["line"].as_u64(), json["ok"].as_bool()), (Some(3), Some(false)));
    let tls = workspace.file("tls.toml", "[tls]\ncertificate = 'no.pem'\nkey = 'no.key'\n");
    let told = workspace.run(&["config", "check", &tls]).failed(2, &["tls.toml has a problem"]);
    assert!(told.contains("[tls]") && told.contains("no.pem"), "{told}");
    workspace.run(&["config", "check", "nowhere.toml"]).failed(2, &["nowhere.toml"]);
    workspace.run(&["config", "check"]).failed(2, &["FILE"]);
}

/// Each setting is shown with its value and with who says so: a flag, a variable, the file, or nobody.
#[test]
fn settings_are_shown_with_their_sources() {
    let workspace = Workspace::new();
    let file = workspace.file(
        "p.toml",
        "database = 'mysql://u:secret@h/d'\n[engine]\nslots = 3\n[limits]\nstreams_max = 4\nping_after = '3s'\n\
         [admission.services.Http]\nrunning_max = 2\n",
    );
    let mut command = workspace.command(&[
        "config",
        "show",
        "--config",
        &file,
        "--slots",
        "9",
        "--compression-profiles",
        "lz4",
        "--json",
    ]);
    command.env("PUNCTUAL_LIMITS_STREAMS_MAX", "5").env("PUNCTUAL_SLOTS", "8");
    let text = ran(command).json().to_string();
    assert!(!text.contains("secret"), "{text}");
    let shown: serde_json::Value = serde_json::from_str(&text).unwrap();
    let settings = shown["settings"].as_array().unwrap();
    let of =
        |key: &str| settings.iter().find(|one| one["key"] == key).unwrap_or_else(|| panic!("{key} in {text}")).clone();
    for (key, value, source, from) in [
        ("engine.slots", serde_json::json!(9), "flag", Some("--slots")),
        ("compression.profiles", serde_json::json!(["lz4"]), "flag", Some("--compression-profiles")),
        ("limits.streams_max", serde_json::json!(5), "environment", Some("PUNCTUAL_LIMITS_STREAMS_MAX")),
        ("limits.ping_after", serde_json::json!("3s"), "file", Some(file.as_str())),
        ("admission.services.Http.running_max", serde_json::json!(2), "file", Some(file.as_str())),
        ("calls.budget_max", serde_json::json!("0"), "default", None),
    ] {
        let one = of(key);
        assert_eq!(
            (&one["value"], one["source"].as_str(), one["from"].as_str()),
            (&value, Some(source), from),
            "{key}"
        );
    }
    assert_eq!(of("database")["from"], file.as_str());
    let text = workspace.run(&["config", "show", "--db", "a.db"]).succeeded();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    assert!(lines.contains(&vec!["database", "\"a.db\"", "--db"]), "{text}");
    assert!(lines.contains(&vec!["engine.slots", "64", "default"]), "{text}");
    workspace
        .run(&["config", "show", "--limits-streams-max", "99999"])
        .failed(2, &["--limits-streams-max", "0 and 32768"]);
    workspace.run(&["config", "show", "--limits-streams-max", "many"]).failed(2, &["--limits-streams-max", "many"]);
}
