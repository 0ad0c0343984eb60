//! `punctual schedules`, all but crontabs.

use crate::support::{Daemon, Workspace, has_keys, lines_of};
use serde_json::{Value, json};

const PING: [&str; 7] = ["schedules", "add", "ping", "--every", "1h", "A/ping", "{\"n\": 1}"];

/// A schedule is stored once, kept as it is by a second add of the same, and changed only if that is asked for.
#[test]
fn schedules_are_added_once() {
    let workspace = Workspace::with_database();
    let act = workspace.on_db(&[&PING[..], &["--json"]].concat()).json();
    has_keys(&act, ["name", "outcome", "state", "next", "notes"]);
    assert_eq!((act["outcome"].as_str(), act["state"].as_str()), (Some("created"), Some("active")));
    assert_eq!(workspace.on_db(&[&PING[..], &["--json"]].concat()).json()["outcome"], "unchanged");
    let other = ["schedules", "add", "ping", "--every", "2h", "A/ping", "{\"n\": 1}"];
    workspace.on_db(&other).failed(1, &["ping", "another definition", "--replace"]);
    let replaced = workspace.on_db(&[&other[..], &["--replace", "--json"]].concat()).json();
    assert_eq!(replaced["outcome"], "updated");
    let list = workspace.on_db(&["schedules", "list", "--json"]).json();
    has_keys(&list[0], ["name", "rule", "method", "state", "note", "next", "next_local", "live", "runs", "lost"]);
    assert_eq!((list[0]["rule"].as_str(), list.as_array().unwrap().len()), (Some("every 2h"), 1));
    let shown = workspace.on_db(&["schedules", "show", "ping", "--json"]).json();
    has_keys(
        &shown,
        [
            "schedule",
            "args",
            "created",
            "queue",
            "missed",
            "overlap",
            "max_pending",
            "version",
            "era",
            "lost",
            "losses",
            "next",
        ],
    );
    assert_eq!(
        (&shown["args"], &shown["version"], &shown["missed"]),
        (&json!({"n": 1}), &json!(2), &json!("latest:1d"))
    );
    let text = workspace.on_db(&["schedules", "show", "ping"]).succeeded();
    assert!(text.contains("rule        every 2h") && text.contains("overlap     wait (at most 1 at once)"), "{text}");
}

/// Every flag of a rule and a policy reaches the schedule.
#[test]
fn flags_reach_the_schedule() {
    let workspace = Workspace::with_database();
    let flags = [
        "schedules",
        "add",
        "nightly",
        "--cron",
        "30 2 13 * 5",
        "--zone",
        "America/New_York",
        "--gap",
        "skip",
        "--fold",
        "both",
        "--days",
        "and",
        "--start",
        "2026-01-01T00:00:00Z",
        "--until",
        "2090-01-01T00:00:00Z",
        "--max-occurrences",
        "9",
        "--missed",
        "all:500:24h:skip_oldest",
        "--overlap",
        "cancel",
        "--max-pending",
        "3",
        "--queue",
        "q",
        "--priority",
        "2",
        "--attempts",
        "7",
        "--timeout",
        "90s",
        "A/b",
    ];
    workspace.on_db(&flags).succeeded();
    let shown = workspace.on_db(&["schedules", "show", "nightly", "--json"]).json();
    assert_eq!(
        shown["schedule"]["rule"],
        "cron 30 2 13 * 5 in America/New_York, days and, gap skip, fold both, from 2026-01-01T00:00:00Z, until \
         2090-01-01T00:00:00Z, 9 times"
    );
    let policies = ["missed", "overlap", "max_pending", "queue"].map(|key| shown[key].clone());
    assert_eq!(policies, [json!("all:500:1d:skip_oldest"), json!("cancel"), json!(3), json!("q")]);
    let calendar = [
        "schedules",
        "add",
        "pay",
        "--calendar",
        "1 month on 31 overflow last at 09:00",
        "--zone",
        "Europe/Rome",
        "A/b",
    ];
    workspace.on_db(&calendar).succeeded();
    let list = workspace.on_db(&["schedules", "list"]).succeeded();
    assert!(list.contains("1 month on 31 overflow last at 09:00 in Europe/Rome"), "{list}");
}

/// A preview shows what the clocks do to a rule, needs nobody to answer, and goes on from a stored schedule's cursor.
#[test]
fn previews_are_shown() {
    let workspace = Workspace::with_database();
    let rule = [
        "schedules",
        "preview",
        "--cron",
        "30 2 * * *",
        "--zone",
        "America/New_York",
        "--start",
        "2099-03-07T12:00:00Z",
        "-n",
        "2",
    ];
    // No database and no daemon.
    let nowhere = Workspace::new();
    let text = nowhere.run(&rule).succeeded();
    assert_eq!(
        text,
        "2099-03-08T03:00:00-04:00\t2099-03-08T07:00:00Z\tmoved from 2099-03-08T02:30:00\n\
         2099-03-09T02:30:00-04:00\t2099-03-09T06:30:00Z\t\n"
    );
    let slots = nowhere.run(&[&rule[..], &["--json"]].concat()).json();
    has_keys(&slots[0], ["at", "local", "nominal", "skipped"]);
    workspace.on_db(&["schedules", "add", "yearly", "--cron", "@yearly", "--max-occurrences", "3", "A/b"]).succeeded();
    let slots = workspace.on_db(&["schedules", "preview", "yearly", "--json"]).json();
    assert_eq!(slots.as_array().unwrap().len(), 3, "no more than it has left");
    workspace.on_db(&["schedules", "preview", "nightly"]).failed(3, &["no schedule `nightly`", "schedules list"]);
    workspace.on_db(&["schedules", "preview"]).failed(2, &["NAME"]);
    workspace.on_db(&["schedules", "preview", "yearly", "--cron", "@daily"]).failed(2, &["--cron"]);
}

/// What an operator does to a schedule is seen in it, and doing it again changes nothing.
#[test]
fn schedules_are_steered() {
    let workspace = Workspace::with_database();
    workspace.on_db(&PING).succeeded();
    let act = workspace.on_db(&["schedules", "pause", "ping", "--note", "disk", "--json"]).json();
    assert_eq!((act["outcome"].as_str(), act["state"].as_str()), (Some("changed"), Some("paused")));
    let shown = workspace.on_db(&["schedules", "show", "ping", "--json"]).json();
    assert_eq!(
        (shown["schedule"]["state"].as_str(), shown["schedule"]["note"].as_str()),
        (Some("paused"), Some("disk"))
    );
    let act = workspace.on_db(&["schedules", "resume", "ping", "--from", "now"]).succeeded();
    assert!(act.starts_with("ping is active; next "), "{act}");
    assert!(workspace.on_db(&["schedules", "resume", "ping"]).line().contains("as before"));

    let task = workspace.on_db(&["schedules", "trigger", "ping"]).line();
    let report = workspace.on_db(&["tasks", "show", &task, "--json"]).json();
    assert_eq!((report["task"]["schedule"].as_str(), &report["run"]), (Some("ping"), &Value::Null));
    workspace.on_db(&["schedules", "trigger", "ping"]).failed(1, &["1 live", "--force"]);
    let forced = workspace.on_db(&["schedules", "trigger", "ping", "--force", "--json"]).json();
    has_keys(&forced, ["schedule", "task"]);

    assert!(workspace.on_db(&["schedules", "cancel", "ping"]).line().starts_with("ping is cancelled"));
    assert!(workspace.on_db(&["schedules", "cancel", "ping"]).line().contains("as before"));
    assert_eq!(workspace.on_db(&["tasks", "show", &task, "--json"]).json()["task"]["state"], "cancelled");
    workspace.on_db(&["schedules", "resume", "ping"]).failed(1, &["cancelled"]);
    workspace.on_db(&PING).failed(1, &["cancelled for good", "another name"]);
    for act in ["pause", "resume", "trigger", "cancel", "show"] {
        workspace.on_db(&["schedules", act, "nobody"]).failed(3, &["no schedule `nobody`"]);
    }
}

/// Rules that cannot be are refused by the name of what is wrong, and nothing is stored.
#[test]
fn impossible_rules_are_refused() {
    let workspace = Workspace::with_database();
    let refused = |rule: &[&str], words: &[&str]| {
        let add = ["schedules", "add", "x", "A/b"];
        workspace.on_db(&[&add[..], rule].concat()).failed(2, words);
        workspace.on_db(&[&["schedules", "preview"], rule].concat()).failed(2, words);
    };
    refused(&["--cron", "0 0 30 2 *"], &["can never fire"]);
    refused(&["--cron", "61 * * * *"], &["minute field `61`", "0-59"]);
    refused(&["--cron", "* * * *"], &["4 fields"]);
    refused(&["--cron", "@reboot"], &["@reboot"]);
    refused(&["--cron", "@daily", "--zone", "Europe/Roma"], &["Europe/Roma", "did you mean `Europe/Rome`"]);
    refused(&["--every", "1"], &["every:", "units"]);
    refused(&["--every", "0"], &["interval"]);
    refused(&["--calendar", "1 month on 31 at 09:00"], &["calendar:", "overflow"]);
    refused(&["--cron", "@daily", "--start", "2030-01-01T00:00:00Z", "--until", "2029-01-01T00:00:00Z"], &["until"]);
    let past = ["schedules", "add", "x", "A/b", "--cron", "@daily", "--until", "2001-01-01T00:00:00Z"];
    workspace.on_db(&past).failed(2, &["no slot after", "until"]);
    workspace.on_db(&["schedules", "add", "x", "A/b", "--cron", "@daily", "--missed", "none"]).failed(2, &["missed"]);
    workspace
        .on_db(&["schedules", "add", "x", "A/b", "--cron", "@daily", "--max-pending", "0"])
        .failed(2, &["max_pending"]);
    workspace.on_db(&["schedules", "add", "x", "b", "--cron", "@daily"]).failed(2, &["Service/method"]);
    workspace.on_db(&["schedules", "add", &"x".repeat(201), "A/b", "--cron", "@daily"]).failed(2, &["1 to 200"]);
    assert_eq!(workspace.on_db(&["schedules", "list", "--json"]).json(), json!([]));
}

/// A daemon serves a schedule's slots, each once, and the handler is told which one it serves.
#[test]
fn a_daemon_serves_slots() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &["--allow-commands"]);
    let line = "{\"program\": \"echo $PUNCTUAL_SCHEDULE $PUNCTUAL_SLOT $PUNCTUAL_RUN >> ledger\", \"shell\": true}";
    let add = ["schedules", "add", "tick", "--every", "50ms", "--max-occurrences", "5", "--missed", "all:100:1h"];
    daemon.run(&[&add[..], &["Command/run", line]].concat()).succeeded();
    let ledger = lines_of(&workspace.path("ledger"), 5);
    let runs: Vec<&str> = ledger.iter().map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(runs, ["1", "2", "3", "4", "5"], "one at a time, in order");
    assert!(ledger.iter().all(|line| line.starts_with("tick 2")), "{ledger:?}");
    let report = daemon.until(&["schedules", "show", "tick"], |report| report["schedule"]["live"] == 0);
    assert_eq!((report["schedule"]["state"].as_str(), report["schedule"]["runs"].as_u64()), (Some("ended"), Some(5)));
    let tasks = daemon.run(&["tasks", "list", "--schedule", "tick", "--json"]).json();
    let mut slots: Vec<&str> = tasks.as_array().unwrap().iter().map(|task| task["slot"].as_str().unwrap()).collect();
    slots.sort_unstable();
    slots.dedup();
    assert_eq!(slots.len(), 5);
}
