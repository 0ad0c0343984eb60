//! `punctual queues`, `workers` and `info`.

use crate::support::{Daemon, Workspace, has_keys};
use serde_json::json;

/// A paused queue keeps what is due, and gives it when it is resumed.
#[test]
fn a_paused_queue_gives_nothing() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &["--allow-commands"]);
    assert_eq!(
        daemon.run(&["queues", "pause", "slow", "--json"]).json(),
        json!({"name": "slow", "paused": true, "changed": true})
    );
    assert_eq!(daemon.run(&["queues", "pause", "slow"]).line(), "slow is paused, as before");
    let id = daemon.run(&["tasks", "enqueue", "Command/run", "{\"program\": \"true\"}", "--queue", "slow"]).line();
    let queues = daemon.run(&["queues", "list", "--json"]).json();
    let slow = queues.as_array().unwrap().iter().find(|queue| queue["name"] == "slow").unwrap();
    has_keys(slow, ["name", "paused", "due", "later", "running", "oldest"]);
    assert_eq!(
        (slow["due"].as_u64(), slow["running"].as_u64(), slow["paused"].as_bool()),
        (Some(1), Some(0), Some(true))
    );
    assert!(slow["oldest"].is_string());
    assert_eq!(daemon.run(&["queues", "resume", "slow"]).line(), "slow is not paused");
    assert_eq!(daemon.ended(&id)["task"]["state"], "succeeded");
    daemon.run(&["queues", "pause", ""]).failed(2, &["queue", "1 to 200"]);
}

/// The daemon's worker is listed while it lives, and gone when it has stopped in order.
#[test]
fn workers_are_listed() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &["--name", "one", "--slots", "3"]);
    let workers = daemon.run(&["workers", "list", "--json"]).json();
    has_keys(&workers[0], ["id", "name", "slots", "holds", "lease_until", "alive"]);
    assert_eq!((workers[0]["name"].as_str(), workers[0]["slots"].as_u64()), (Some("one"), Some(3)));
    let line = daemon.run(&["workers", "list"]).line();
    assert!(line.contains("\talive\t0\t3\t") && line.ends_with("\tone"), "{line}");
    daemon.stop();
    assert_eq!(workspace.on_db(&["workers", "list", "--json"]).json(), json!([]));
}

/// What answers says what it is and what it runs: a daemon its methods, a command on a database none.
#[test]
fn what_answers_is_told() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &[]);
    let info = daemon.run(&["info", "--json"]).json();
    has_keys(&info, ["version", "store", "location", "store_version", "schema_version", "tzdb", "runs"]);
    assert_eq!((&info["store"], &info["runs"]), (&json!("sqlite"), &json!(["Http/request"])));
    let info = workspace.on_db(&["info", "--json"]).json();
    assert_eq!(info["runs"], json!([]));
    assert!(workspace.on_db(&["info"]).succeeded().contains("only shows"));
}
