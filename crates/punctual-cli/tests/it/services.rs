//! The shipped services, as tasks of a daemon.

use crate::support::{Daemon, Workspace, lines_of};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

/// Answers one connection after another with these, and gives what it was asked.
fn server(answers: &'static [&'static str]) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        answers
            .iter()
            .map(|answer| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = Vec::new();
                while !String::from_utf8_lossy(&asked).contains("\r\n\r\n") {
                    let mut buffer = [0; 4096];
                    let count = stream.read(&mut buffer).unwrap();
                    assert!(count > 0);
                    asked.extend_from_slice(&buffer[..count]);
                }
                let length = answer.split_once('|').unwrap().1.len();
                let (head, body) = answer.split_once('|').unwrap();
                write!(stream, "HTTP/1.1 {head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
                    .unwrap();
                String::from_utf8(asked).unwrap()
            })
            .collect()
    });
    (url, asked)
}

fn key(asked: &str) -> &str {
    asked.lines().find_map(|line| line.strip_prefix("idempotency-key: ")).unwrap_or_default()
}

/// A request that the server cannot serve now is sent again when the server says, under the same key, and its answer is
/// kept.
#[test]
fn http_requests_are_retried() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &[]);
    let (url, asked) = server(&["503 Busy\r\nRetry-After: 1|later", "200 OK\r\nContent-Type: text/plain|done"]);
    let id = daemon.run(&["tasks", "enqueue", "Http/request", &format!("{{\"url\": \"{url}\"}}")]).line();
    let report = daemon.ended(&id);
    assert_eq!(report["task"]["state"], "succeeded");
    assert_eq!(report["attempts"][0]["out"]["detail"]["Status"]["response"]["body"], "later");
    let response = &report["attempts"][1]["out"];
    assert_eq!((response["status"].as_u64(), response["body"].as_str()), (Some(200), Some("done")));
    let asked = asked.join().unwrap();
    assert_eq!(key(&asked[0]), format!("punctual-{id}"));
    assert_eq!(key(&asked[1]), key(&asked[0]));
}

/// A request that no repetition mends is a dead letter at once, with what the server said.
#[test]
fn hopeless_http_requests_are_dead_letters() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &[]);
    let (url, asked) = server(&["410 Gone|no more"]);
    let id = daemon.run(&["tasks", "enqueue", "Http/request", &format!("{{\"url\": \"{url}\"}}")]).line();
    let report = daemon.ended(&id);
    assert_eq!((report["task"]["state"].as_str(), report["attempts"].as_array().unwrap().len()), (Some("failed"), 1));
    assert!(report["task"]["error"].as_str().unwrap().contains("410"), "{report}");
    asked.join().unwrap();
}

/// A daemon that may send to some hosts only takes requests for no others.
#[test]
fn http_hosts_are_bounded() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &["--http-allow", "example.org,*.example.net:443"]);
    daemon
        .run(&["tasks", "enqueue", "Http/request", "{\"url\": \"http://127.0.0.1/\"}"])
        .failed(2, &["127.0.0.1", "--http-allow"]);
    let later = ["tasks", "enqueue", "Http/request", "{\"url\": \"https://a.example.net/\"}", "--delay", "1h"];
    daemon.run(&later).succeeded();
    // What was stored past the daemon is refused where it runs.
    let id = workspace.on_db(&["tasks", "enqueue", "Http/request", "{\"url\": \"http://127.0.0.1/\"}"]).line();
    let report = daemon.ended(&id);
    assert_eq!((report["task"]["state"].as_str(), report["attempts"].as_array().unwrap().len()), (Some("failed"), 1));
    assert!(report["task"]["error"].as_str().unwrap().contains("--http-allow"), "{report}");
}

/// Without --allow-commands commands are refused where they are stored, and one that got in by the database waits.
#[test]
fn commands_are_off_unless_allowed() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &[]);
    daemon.run(&["tasks", "enqueue", "Command/run", "{\"program\": \"true\"}"]).failed(1, &["--allow-commands"]);
    let add = ["schedules", "add", "x", "--cron", "@daily", "Command/run", "{\"program\": \"true\"}"];
    daemon.run(&add).failed(1, &["--allow-commands"]);
    let id = workspace
        .on_db(&["tasks", "enqueue", "Command/run", "{\"program\": \"echo ran >> ledger\", \"shell\": true}"])
        .line();
    // The daemon looks for work all the while: a task that it can run passes this one.
    let (url, asked) = server(&["200 OK|"]);
    let other = daemon.run(&["tasks", "enqueue", "Http/request", &format!("{{\"url\": \"{url}\"}}")]).line();
    assert_eq!(daemon.ended(&other)["task"]["state"], "succeeded");
    asked.join().unwrap();
    assert_eq!(daemon.run(&["tasks", "show", &id, "--json"]).json()["task"]["attempts"], 0);
    daemon.stop();
    let daemon = Daemon::start(&workspace, &["--allow-commands"]);
    assert_eq!(daemon.ended(&id)["task"]["state"], "succeeded");
    assert_eq!(lines_of(&workspace.path("ledger"), 1), ["ran"]);
}

/// Whoever reaches only the TCP port can neither store nor run commands.
#[test]
fn commands_come_over_unix_sockets() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &["--allow-commands"]);
    let tcp = daemon.address("tcp:");
    let program = "{\"program\": \"true\"}";
    workspace.run(&["tasks", "enqueue", "Command/run", program, "--addr", &tcp]).failed(1, &["Unix socket"]);
    let add = ["schedules", "add", "x", "--cron", "@daily", "Command/run", program, "--addr", &tcp];
    workspace.run(&add).failed(1, &["Unix socket"]);
    workspace.run(&["call", &tcp, "Command/run", program]).failed(1, &["Unix socket"]);
    workspace.run(&["call", &daemon.address("unix:"), "Command/run", program]).succeeded();
    assert_eq!(workspace.run(&["tasks", "list", "--addr", &tcp]).succeeded(), "");
}

fn is_gone(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // One that has ended and waits to be collected by whoever inherited it runs no more.
    stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with(['Z', 'X']) || stat.is_empty()
}

/// A command that is cancelled, or whose time is up, ends with everything that it started.
#[test]
fn ended_commands_leave_nothing_behind() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &["--allow-commands"]);
    let line = |file: &str| format!("{{\"program\": \"sleep 1000 & echo $$ $! >> {file}; wait\", \"shell\": true}}");
    let cancelled = daemon.run(&["tasks", "enqueue", "Command/run", &line("cancelled")]).line();
    let cancelled_pids = lines_of(&workspace.path("cancelled"), 1).remove(0);
    daemon.run(&["tasks", "cancel", &cancelled]).succeeded();
    assert_eq!(daemon.ended(&cancelled)["task"]["state"], "cancelled");
    let enqueue = ["tasks", "enqueue", "Command/run", &line("late"), "--timeout", "300ms", "--attempts", "1"];
    let late = daemon.run(&enqueue).line();
    let late_pids = lines_of(&workspace.path("late"), 1).remove(0);
    let report = daemon.ended(&late);
    assert_eq!(
        (report["task"]["state"].as_str(), report["attempts"][0]["outcome"].as_str()),
        (Some("failed"), Some("timed_out"))
    );
    for pid in cancelled_pids.split(' ').chain(late_pids.split(' ')) {
        assert!(is_gone(pid), "{pid} lives on");
    }
}

/// A command runs as another user only under root's daemon, and with that user's groups; any other daemon says that it
/// cannot before the task is stored.
#[test]
fn other_users_need_root() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &["--allow-commands"]);
    let enqueue = [
        "tasks",
        "enqueue",
        "Command/run",
        "{\"program\": \"id -un; id -G\", \"shell\": true, \"user\": \"nobody\", \"dir\": \"/\"}",
    ];
    if rustix::process::geteuid().is_root() {
        let id = daemon.run(&enqueue).line();
        let report = daemon.ended(&id);
        let said = report["attempts"][0]["out"]["stdout"]["text"].as_str().unwrap_or_default().to_owned();
        assert!(said.starts_with("nobody\n"), "{report}");
        let groups: Vec<&str> = said.lines().nth(1).unwrap().split(' ').collect();
        assert!(!groups.contains(&"0"), "root's groups are left behind: {said}");
    } else {
        daemon.run(&enqueue).failed(1, &["nobody", "root"]);
    }
    let unknown = "{\"program\": \"true\", \"user\": \"no-such-user-here\"}";
    daemon.run(&["tasks", "enqueue", "Command/run", unknown]).failed(1, &["no user no-such-user-here"]);
}
