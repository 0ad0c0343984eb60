//! `punctual migrate`.

use crate::support::{Daemon, Workspace, has_keys};
use serde_json::json;

/// A database is created, its version told, its SQL printed; going down needs to be asked for, with the version.
#[test]
fn tables_are_moved_between_versions() {
    let workspace = Workspace::new();
    let db = workspace.db();
    workspace.on_db(&["migrate", "--status"]).failed(3, &["no database", "punctual migrate"]);
    assert!(!workspace.path("punctual.db").exists(), "asking creates nothing");
    let made = workspace.on_db(&["migrate", "--json"]).json();
    has_keys(&made, ["location", "version", "wanted", "applied", "undone"]);
    assert_eq!((&made["location"], &made["version"]), (&json!(db), &made["wanted"]));
    assert_eq!(made["applied"][0], json!({"version": 1, "name": "first"}));
    let again = workspace.on_db(&["migrate", "--json"]).json();
    assert_eq!((&again["applied"], &again["version"]), (&json!([]), &made["version"]));
    assert!(workspace.on_db(&["migrate", "--status"]).line().contains("this build's version"));
    let up = workspace.run(&["migrate", "--print"]).succeeded();
    assert!(up.contains("CREATE TABLE") && up.starts_with("-- 1 first, up\n"), "{up}");
    let down = workspace.run(&["migrate", "--print", "--down", "0"]).succeeded();
    assert!(down.contains("DROP TABLE") && !down.contains("CREATE TABLE"), "{down}");
    let undone = workspace.on_db(&["migrate", "--down", "0", "--json"]).json();
    let last = undone["undone"].as_array().and_then(|steps| steps.last());
    assert_eq!((&undone["version"], last), (&json!(0), Some(&json!({"version": 1, "name": "first"}))));
    workspace.on_db(&["tasks", "list"]).failed(6, &["version 0", "punctual migrate"]);
    workspace.on_db(&["migrate", "--down", "99"]).failed(1, &["99"]);
}

/// Tables are not pulled from under a daemon.
#[test]
fn tables_in_use_stay() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &[]);
    workspace.on_db(&["migrate", "--down", "0"]).failed(1, &["alive", "stop"]);
    assert_eq!(daemon.run(&["queues", "list", "--json"]).line(), "[]");
}

/// A daemon told not to migrate refuses a database that needs it, and says what to run.
#[test]
fn a_daemon_may_be_told_not_to_migrate() {
    let workspace = Workspace::new();
    let file = workspace.file("punctual.toml", "listen = ['unix:d.sock']\n[store]\nmigrate = false\n");
    workspace.on_db(&["serve", "--config", &file]).failed(6, &["version 0", "punctual migrate"]);
    workspace.run(&["migrate"]).failed(2, &["--db"]);
    workspace.run(&["migrate", "--addr", "tcp://127.0.0.1:1"]).failed(2, &["--db"]);
    assert!(workspace.run(&["migrate", "--print", "--json"]).stderr.contains("leave out --json"));
}
