//! `punctual call`, `describe` and `health`.

use crate::support::{Daemon, Workspace};
use serde_json::{Value, json};

/// A method is called by name with a JSON object, over both transports, and gives its result as JSON.
#[test]
fn methods_are_called_by_name() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &["--allow-commands"]);
    for scheme in ["unix:", "tcp:"] {
        let address = daemon.address(scheme);
        let queues = workspace.run(&["call", &address, "Admin/list_queues"]).line();
        assert_eq!(queues, "[]");
        let query = "{\"query\": {\"limit\": 1}}";
        assert_eq!(
            workspace.run(&["call", &address, "Admin/list_tasks", query, "--metadata", "tenant=a"]).line(),
            "[]"
        );
    }
    let unix = daemon.address("unix:");
    let path = unix.trim_start_matches("unix:");
    let done = workspace.run(&["call", path, "Command/run", "{\"program\": \"printf\", \"args\": [\"hi\"]}"]).json();
    assert_eq!(done["stdout"]["text"], "hi");
    let short = daemon.address("tcp:").replace("tcp://", "");
    assert_eq!(workspace.run(&["call", &short, "Admin/list_queues"]).line(), "[]");
}

/// An error of the method's own is exit code 1 with the error, as text and as JSON; one of the system says its own.
#[test]
fn errors_are_told_apart() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &["--allow-commands"]);
    let unix = daemon.address("unix:");
    let fail = ["call", &unix, "Command/run", "{\"program\": \"exit 3\", \"shell\": true}"];
    workspace.run(&fail).failed(1, &["Command/run returned an error", "Exited"]);
    let json = workspace.run(&[&fail[..], &["--json"]].concat());
    assert_eq!((json.code, json.stdout.as_str()), (1, ""));
    let error: Value = serde_json::from_str(&json.stderr).unwrap();
    assert_eq!(error["error"]["code"], "application");
    assert_eq!(error["error"]["detail"]["Exited"]["status"], 3);
    workspace.run(&["call", &unix, "Admin/show_task", "{\"id\": \"1\"}"]).failed(3, &["no task 1"]);
    workspace.run(&["call", &unix, "Admin/show_task", "{\"id\": 1}"]).failed(2, &["string"]);
    workspace.run(&["call", &unix, "Admin/show_task"]).failed(2, &["id"]);
    workspace.run(&["call", &unix, "Admin/nothing"]).failed(3, &["no method `nothing`", "list_queues"]);
    workspace.run(&["call", &unix, "Billing/charge"]).failed(3, &["no service `Billing`", "Admin"]);
    workspace.run(&["call", &unix, "charge"]).failed(2, &["SERVICE/METHOD"]);
    workspace.run(&["call", &unix, "Admin/info", "{}", "--metadata", "novalue"]).failed(2, &["--metadata"]);
    workspace.run(&["call", &unix, "Admin/info", "{}", "--metadata", "Bad=1"]).failed(2, &["Bad"]);
    workspace.run(&["call", &unix, "Admin/info", "{}", "--timeout", "0"]).failed(2, &["--timeout"]);
    let slow = ["call", &unix, "Command/run", "{\"program\": \"sleep\", \"args\": [\"1000\"]}", "--timeout", "50ms"];
    workspace.run(&slow).failed(5, &[]);
}

/// A server says what it serves, and whether it takes calls.
#[test]
fn servers_describe_themselves() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &[]);
    let unix = daemon.address("unix:");
    let text = workspace.run(&["describe", &unix]).succeeded();
    for word in ["service Admin {", "service Http {", "show_task(id: String) -> Result<TaskReport, Status>"] {
        assert!(text.contains(word), "{word} is missing: {text}");
    }
    assert!(!text.contains("service Command"), "commands are off");
    let described = workspace.run(&["describe", &unix, "Http", "--json"]).json();
    assert_eq!(described[0]["methods"][0]["full_name"], "Http/request");
    assert_eq!(described.as_array().unwrap().len(), 1);
    workspace.run(&["describe", &unix, "Billing"]).failed(3, &["no service `Billing`", "Admin"]);

    assert_eq!(workspace.run(&["health", &unix]).line(), "serving");
    let health = workspace.run(&["health", &unix, "Admin", "--json"]).json();
    assert_eq!(health, json!({"server": unix, "service": "Admin", "status": "serving"}));
    workspace.run(&["health", &unix, "Billing"]).failed(3, &["Billing", "describe"]);
}
