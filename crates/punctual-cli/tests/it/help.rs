//! Help, versions, wrong command lines, and readers that go away.

use crate::support::Workspace;
use std::io::Read;
use std::process::Stdio;

/// Help is a success on standard output, names every command and every exit code; no command is a usage error.
#[test]
fn help_is_there() {
    let workspace = Workspace::new();
    let help = workspace.run(&["--help"]).succeeded();
    for word in ["serve", "tasks", "schedules", "migrate", "Examples:", "Exit codes:", "  6  incompatible"] {
        assert!(help.contains(word), "{word} is missing: {help}");
    }
    assert!(workspace.run(&["tasks", "enqueue", "--help"]).succeeded().contains("Examples:"));
    assert!(workspace.run(&["--version"]).line().starts_with("punctual "));
    let bare = workspace.run(&[]);
    assert_eq!((bare.code, bare.stdout.as_str()), (2, ""));
    assert!(bare.stderr.contains("Usage: punctual"));
}

/// A wrong command line is one line, and exit code 2, also in JSON.
#[test]
fn wrong_command_lines_are_told() {
    let workspace = Workspace::new();
    workspace.run(&["taks"]).failed(2, &["taks", "tasks", "--help"]);
    workspace.run(&["tasks", "show"]).failed(2, &["ID", "--help"]);
    workspace.run(&["tasks", "list", "--state", "done"]).failed(2, &["done", "succeeded"]);
    workspace.run(&["tasks", "list", "--addr", "x:1", "--db", "y"]).failed(2, &["--addr", "--db"]);
    workspace.run(&["schedules", "add", "n", "A/b"]).failed(2, &["--cron", "--every", "--calendar"]);
    workspace.run(&["schedules", "preview", "--cron", "* * * * *", "--every", "1m"]).failed(2, &["--every"]);
    let json = workspace.run(&["taks", "--json"]);
    assert_eq!((json.code, json.stdout.as_str()), (2, ""));
    let error: serde_json::Value = serde_json::from_str(&json.stderr).unwrap();
    assert_eq!((error["error"]["code"].as_str(), error["error"]["exit"].as_u64()), (Some("usage"), Some(2)));
}

/// A reader that closes the pipe early is no failure, and leaves no message and no panic behind.
#[test]
fn a_closed_pipe_ends_quietly() {
    let workspace = Workspace::new();
    // More than any pipe holds.
    let arguments = ["schedules", "preview", "--every", "1s", "--zone", "Europe/Rome", "-n", "1000"];
    for arguments in [arguments.to_vec(), [&arguments[..], &["--json"]].concat(), vec!["migrate", "--print"]] {
        let mut command = workspace.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut told = String::new();
        child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        assert_eq!((child.wait().unwrap().code(), told.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

/// A full standard output is a failure that says so: a script must not take half a list for a whole one.
#[test]
fn a_full_output_is_a_failure() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let workspace = Workspace::new();
    let mut command = workspace.command(&["schedules", "preview", "--every", "1s"]);
    let child = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("error: cannot write to standard output"));
}
