//! `punctual tasks`, over RPC and on the database itself.

use crate::support::{Daemon, Workspace, has_keys};
use serde_json::json;

/// A task that no worker knows waits: stored once by its key, listed, shown and cancelled; and the shapes of JSON stay as
/// scripts know them.
#[test]
fn tasks_are_stored_listed_and_cancelled() {
    let workspace = Workspace::with_database();
    let enqueue = ["tasks", "enqueue", "Billing/charge", "{\"order\": 42}", "--key", "charge-42", "--delay", "1h"];
    let stored = workspace.on_db(&[&enqueue[..], &["--json"]].concat()).json();
    has_keys(&stored, ["id", "inserted", "queue"]);
    assert_eq!((stored["inserted"].as_bool(), stored["queue"].as_str()), (Some(true), Some("Billing")));
    let id = stored["id"].as_str().unwrap();
    assert_eq!(workspace.on_db(&enqueue).line(), id, "the key is held");

    let list = workspace.on_db(&["tasks", "list", "--json"]).json();
    assert_eq!(list.as_array().unwrap().len(), 1);
    has_keys(
        &list[0],
        ["id", "method", "queue", "priority", "state", "created", "due", "attempts", "schedule", "slot", "error"],
    );
    assert_eq!((list[0]["state"].as_str(), list[0]["method"].as_str()), (Some("waiting"), Some("Billing/charge")));
    let line = workspace.on_db(&["tasks", "list"]).line();
    assert_eq!(line.split('\t').collect::<Vec<_>>()[..4], [id, "waiting", "Billing/charge", "Billing"]);

    let shown = workspace.on_db(&["tasks", "show", &id.to_lowercase(), "--json"]).json();
    has_keys(&shown, ["task", "args", "key", "run", "attempts", "progress"]);
    assert_eq!(
        (&shown["args"], &shown["key"], &shown["attempts"]),
        (&json!({"order": 42}), &json!("charge-42"), &json!([]))
    );
    assert!(workspace.on_db(&["tasks", "show", id]).succeeded().contains("key       charge-42"));

    let acts = workspace.on_db(&["tasks", "cancel", id, "--json"]).json();
    has_keys(&acts[0], ["id", "outcome", "detail"]);
    assert_eq!(acts[0]["outcome"], "cancelled");
    workspace.on_db(&["tasks", "cancel", id]).failed(1, &["1 of 1"]);
    assert_eq!(workspace.on_db(&["tasks", "retry", id, "--json"]).json()[0]["outcome"], "waiting");
    workspace.on_db(&["tasks", "retry", id]).failed(1, &["1 of 1"]);
}

/// Waiting tasks are cancelled by a filter; a dry run lists them and changes nothing.
#[test]
fn tasks_are_cancelled_by_filter() {
    let workspace = Workspace::with_database();
    let enqueue = |queue: &str| workspace.on_db(&["tasks", "enqueue", "A/b", "--queue", queue]).line();
    let (first, other, second) = (enqueue("mail"), enqueue("other"), enqueue("mail"));
    let chosen = ["tasks", "cancel", "--waiting", "--queue", "mail"];
    let dry = workspace.on_db(&[&chosen[..], &["--dry-run", "--json"]].concat()).json();
    let ids: Vec<&str> = dry.as_array().unwrap().iter().filter_map(|task| task["id"].as_str()).collect();
    assert_eq!(ids, [second.as_str(), &first]);
    assert_eq!(workspace.on_db(&["tasks", "list", "--state", "waiting", "--json"]).json().as_array().unwrap().len(), 3);
    let acts = workspace.on_db(&[&chosen[..], &["--json"]].concat()).json();
    assert_eq!(
        (&acts[0]["id"], &acts[0]["outcome"], &acts[1]["id"]),
        (&json!(second), &json!("cancelled"), &json!(first))
    );
    let left = workspace.on_db(&["tasks", "list", "--state", "waiting", "--json"]).json();
    assert_eq!((left.as_array().unwrap().len(), &left[0]["id"]), (1, &json!(other)));
    assert_eq!(workspace.on_db(&[&chosen[..], &["--json"]].concat()).json(), json!([]));
    assert_eq!(workspace.on_db(&["tasks", "retry", "--failed", "--dry-run", "--json"]).json(), json!([]));
    workspace.on_db(&["tasks", "cancel", "--queue", "mail", &other]).failed(2, &["--waiting"]);
    workspace.on_db(&["tasks", "cancel", "--dry-run", &other]).failed(2, &["--waiting"]);
    workspace.on_db(&["tasks", "cancel"]).failed(2, &["ID"]);
}

/// What an attempt said of itself is shown, with the size of the checkpoint that the next one finds.
#[test]
fn progress_is_shown() {
    let workspace = Workspace::with_database();
    let id = workspace.on_db(&["tasks", "enqueue", "Billing/charge"]).line();
    assert_eq!(workspace.on_db(&["tasks", "show", &id, "--json"]).json()["progress"], json!(null));
    let said = "INSERT INTO progress (task, n, at, percent, message, checkpoint)
        SELECT max(id), 2, 1772409600000000, 40, 'row 4 of 10', x'5b345d' FROM task";
    rusqlite::Connection::open(workspace.path("punctual.db")).unwrap().execute(said, []).unwrap();
    let shown = workspace.on_db(&["tasks", "show", &id, "--json"]).json();
    has_keys(&shown["progress"], ["attempt", "at", "percent", "message", "checkpoint_bytes"]);
    assert_eq!((&shown["progress"]["percent"], &shown["progress"]["checkpoint_bytes"]), (&json!(40), &json!(3)));
    let text = workspace.on_db(&["tasks", "show", &id]).succeeded();
    let line = "progress  40 %, row 4 of 10 (attempt 2, 2026-03-02T00:00:00Z, a checkpoint of 3 bytes)";
    assert!(text.contains(line), "{text}");
}

/// Filters and pages find what they name, and an empty list is an empty list.
#[test]
fn lists_are_filtered_and_paged() {
    let workspace = Workspace::with_database();
    let ids: Vec<String> = (0..5)
        .map(|n| {
            let queue = if n % 2 == 0 { "even" } else { "odd" };
            workspace.on_db(&["tasks", "enqueue", "A/b", "--queue", queue]).line()
        })
        .collect();
    let listed = |arguments: &[&str]| -> Vec<String> {
        let text = workspace.on_db(&[&["tasks", "list"], arguments].concat()).succeeded();
        text.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
    };
    assert_eq!(listed(&["--queue", "odd"]), [ids[3].clone(), ids[1].clone()]);
    assert_eq!(listed(&["--limit", "2"]), [ids[4].clone(), ids[3].clone()]);
    assert_eq!(listed(&["--limit", "2", "--before", &ids[3]]), [ids[2].clone(), ids[1].clone()]);
    assert!(listed(&["--state", "failed"]).is_empty());
    assert!(listed(&["--method", "A/c"]).is_empty() && listed(&["--schedule", "none"]).is_empty());
    assert_eq!(workspace.on_db(&["tasks", "list", "--state", "failed", "--json"]).json(), json!([]));
}

/// Arguments come from the command line, a file or standard input.
#[test]
fn arguments_have_three_sources() {
    let workspace = Workspace::with_database();
    let file = workspace.file("args.json", "{\"from\": \"file\"}");
    let by_file = workspace.on_db(&["tasks", "enqueue", "A/b", &format!("@{file}")]).line();
    let db = workspace.db();
    let by_input =
        workspace.run_with_input(&["tasks", "enqueue", "A/b", "-", "--db", &db], "{\"from\": \"input\"}").line();
    for (id, from) in [(by_file, "file"), (by_input, "input")] {
        assert_eq!(workspace.on_db(&["tasks", "show", &id, "--json"]).json()["args"], json!({"from": from}));
    }
    workspace.on_db(&["tasks", "enqueue", "A/b", "@nowhere.json"]).failed(3, &["no file nowhere.json"]);
    workspace.on_db(&["tasks", "enqueue", "A/b", "[1]"]).failed(2, &["object", "such as {"]);
}

/// What cannot be meant is refused before anything is stored, by the name of what is wrong.
#[test]
fn wrong_drafts_are_refused() {
    let workspace = Workspace::with_database();
    let refused = |arguments: &[&str], code: i32, words: &[&str]| {
        workspace.on_db(&[&["tasks", "enqueue"], arguments].concat()).failed(code, words);
    };
    refused(&["charge"], 2, &["Service/method"]);
    refused(&["A/b", "--delay", "5"], 2, &["delay", "units"]);
    refused(&["A/b", "--at", "2026-01-01T00:00:00"], 2, &["at:", "no offset"]);
    refused(&["A/b", "--at", "2026-01-01T00:00:00Z", "--delay", "1s"], 2, &["--delay"]);
    refused(&["A/b", "--priority", "4"], 2, &["priority"]);
    refused(&["A/b", "--timeout", "0"], 2, &["timeout"]);
    refused(&["A/b", "--key", ""], 2, &["unique key", "1 to 255"]);
    refused(&["A/b", "--queue", "a\nb"], 2, &["queue", "control"]);
    refused(&["Http/request", "{}"], 2, &["Http/request", "url"]);
    refused(&["Http/request", "{\"url\":\"http://a/\",\"headers\":{\"a b\":\"c\"}}"], 2, &["headers", "a b"]);
    refused(&["Command/run", "{\"program\":\"x\",\"shel\":true}"], 2, &["no `shel`", "shell"]);
    assert_eq!(workspace.on_db(&["tasks", "list"]).succeeded(), "");
    workspace.on_db(&["tasks", "show", "ZZ"]).failed(3, &["no task ZZ", "tasks list"]);
    workspace.on_db(&["tasks", "show", "not-an-id"]).failed(2, &["not a task id"]);
    workspace.on_db(&["tasks", "cancel", "ZZ"]).failed(3, &["1 of 1", "tasks list"]);
    workspace.on_db(&["tasks", "retry"]).failed(2, &["ID"]);
    workspace.on_db(&["tasks", "retry", "--queue", "x", "1"]).failed(2, &["--failed"]);
}

/// Over RPC the same commands do the same: a failed task is seen with its attempts, and all failed ones are retried.
#[test]
fn failed_tasks_are_retried() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &["--allow-commands"]);
    let fail = "{\"program\": \"echo tried >> tries; echo no luck >&2; exit 3\", \"shell\": true}";
    let id = daemon.run(&["tasks", "enqueue", "Command/run", fail, "--attempts", "1"]).line();
    let report = daemon.ended(&id);
    assert_eq!(report["task"]["state"], "failed");
    assert_eq!(report["task"]["error"], "exit status 3: no luck");
    let attempt = &report["attempts"][0];
    has_keys(attempt, ["n", "worker", "started", "ended", "outcome", "out"]);
    assert_eq!(attempt["out"]["detail"]["Exited"]["status"], 3);
    let shown = daemon.run(&["tasks", "show", &id]).succeeded();
    assert!(shown.contains("stderr of the last attempt:\nno luck\n"), "{shown}");
    let acts = daemon.run(&["tasks", "retry", "--failed", "--queue", "Command", "--json"]).json();
    assert_eq!((acts[0]["id"].as_str(), acts[0]["outcome"].as_str()), (Some(id.as_str()), Some("waiting")));
    let report = daemon.until(&["tasks", "show", &id], |report| report["attempts"][1]["n"] == 2);
    assert_eq!(report["task"]["state"], "failed");
    assert_eq!(daemon.run(&["tasks", "retry", "--failed", "--queue", "other", "--json"]).json(), json!([]));
}
