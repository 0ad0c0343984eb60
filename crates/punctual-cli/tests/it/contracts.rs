//! `punctual describe --save` and `punctual contract diff`.

use crate::support::{Daemon, Workspace};
use serde_json::Value;

/// The description of `Http` that the binary itself has, edited.
fn edited(workspace: &Workspace, name: &str, edit: impl FnOnce(&mut Value)) -> String {
    let saved = workspace.run(&["describe", "built-in", "Http", "--json"]).json();
    let mut services = saved;
    edit(&mut services[0]);
    workspace.file(name, &services.to_string())
}

/// What a daemon tells of itself is saved, and is what the binary has built in: nothing differs, in text and as JSON.
#[test]
fn a_daemon_s_contract_is_saved() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &["--allow-commands"]);
    let (file, unix) = (workspace.text("saved.json"), daemon.address("unix:"));
    let told = workspace.run(&["describe", &unix, "--save", &file]).line();
    assert!(told.contains("Admin") && told.contains("saved.json"), "{told}");
    for other in ["built-in", unix.as_str(), file.as_str()] {
        assert_eq!(workspace.run(&["contract", "diff", &file, other, "--strict"]).line(), "nothing differs");
    }
    let json = workspace.run(&["contract", "diff", &file, "built-in", "--json"]).json();
    assert_eq!(json, serde_json::json!({"verdict": "compatible", "changes": []}));
    let saved = workspace.run(&["describe", "built-in", "Http", "--save", &file, "--json"]).json();
    assert_eq!(saved, serde_json::json!({"file": file, "services": ["Http"]}));
}

/// What breaks is named, worst first, and is exit code 1; what needs an order of upgrade is that only where it is asked for.
#[test]
fn what_breaks_is_named() {
    let workspace = Workspace::new();
    let old = edited(&workspace, "old.json", |_| {});
    let renamed = edited(&workspace, "renamed.json", |http| http["methods"][0]["name"] = "fetch".into());
    let told = workspace.run(&["contract", "diff", &old, &renamed]).failed(1, &["1 change breaks"]);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 2, "{told}");
    assert!(lines[0].starts_with("breaks") && lines[0].contains("Http/request"), "{told}");
    assert!(lines[0].contains("old clients fail") && lines[0].contains("stored tasks fail"), "{told}");
    assert!(lines[1].starts_with("servers first"), "{told}");

    let json = workspace.run(&["contract", "diff", &old, &renamed, "--json"]);
    assert_eq!(json.code, 1);
    let (told, failed): (Value, Value) = (json.stdout.parse().unwrap(), json.stderr.parse().unwrap());
    assert_eq!((told["verdict"].as_str(), failed["error"]["code"].as_str()), (Some("breaks"), Some("breaks")));
    assert_eq!(told["changes"][0]["kind"], "method_removed");

    let added = edited(&workspace, "added.json", |http| {
        let method = http["methods"][0].clone();
        http["methods"].as_array_mut().unwrap().push(method);
        http["methods"][1]["name"] = "fetch".into();
    });
    assert!(workspace.run(&["contract", "diff", &old, &added]).line().starts_with("servers first"));
    workspace.run(&["contract", "diff", &old, &added, "--strict"]).failed(1, &["1 change"]);
    // A service that only one of them has.
    let other = workspace.run(&["contract", "diff", "built-in", &old]).failed(1, &["2 changes break"]);
    assert!(other.contains("Admin: the service was removed"), "{other}");
    assert_eq!(workspace.run(&["contract", "diff", "built-in", &old, "--service", "Http"]).line(), "nothing differs");
}

/// What is no description is refused with what to do.
#[test]
fn what_is_no_description() {
    let workspace = Workspace::new();
    let text = workspace.file("text.json", "{\"name\": 1}");
    workspace.run(&["contract", "diff", &text, "built-in"]).failed(2, &["text.json", "no description", "--save"]);
    workspace.run(&["contract", "diff", "built-in", "absent.json"]).failed(3, &["absent.json", "--save"]);
    workspace.run(&["contract", "diff", "built-in", "unix:absent.sock"]).failed(4, &["absent.sock"]);
    workspace.run(&["contract", "diff", "built-in", "built-in", "--service", "X"]).failed(3, &["X"]);
    workspace.run(&["describe", "built-in", "Billing"]).failed(3, &["Billing", "Admin"]);
    workspace.run(&["describe", "built-in", "--save", "no/such/folder.json"]).failed(1, &["no/such/folder.json"]);
}
