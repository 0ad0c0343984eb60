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
            "jitter",
            "pause_after",
            "version",
            "era",
            "lost",
            "losses",
            "next",
            "pending",
            "backfill",
            "zone",
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
    workspace.on_db(&PING).failed(1, &["cancelled for good", "--new-series"]);
    let anew = workspace.on_db(&[&PING[..], &["--new-series", "--json"]].concat()).json();
    assert_eq!((anew["outcome"].as_str(), anew["state"].as_str()), (Some("created"), Some("active")));
    for act in ["pause", "resume", "trigger", "cancel", "show", "edit"] {
        let more: &[&str] = if act == "edit" { &["--every", "1h"] } else { &[] };
        workspace.on_db(&[&["schedules", act, "nobody"], more].concat()).failed(3, &["no schedule `nobody`"]);
    }
}

/// An edit changes what it names, counts only against the version that it names, and a rule is replaced as a whole.
#[test]
fn schedules_are_edited() {
    let workspace = Workspace::with_database();
    let add = ["schedules", "add", "n", "--cron", "0 3 * * *", "--zone", "Europe/Rome", "A/b"];
    workspace.on_db(&add).succeeded();
    let edit =
        ["schedules", "edit", "n", "--max-pending", "3", "--missed", "all:5:1h", "--args", "{\"x\": 1}", "--json"];
    let act = workspace.on_db(&edit).json();
    has_keys(&act, ["name", "outcome", "state", "next", "notes"]);
    assert_eq!(act["outcome"], "updated");
    assert_eq!(workspace.on_db(&edit).json()["outcome"], "unchanged");
    workspace.on_db(&["schedules", "edit", "n", "--cron", "0 4 * * *", "--decide-first"]).succeeded();
    let shown = workspace.on_db(&["schedules", "show", "n", "--json"]).json();
    assert_eq!(shown["schedule"]["rule"], "cron 0 4 * * * in Europe/Rome");
    let rest = ["max_pending", "missed", "args", "version", "era"].map(|key| shown[key].clone());
    assert_eq!(rest, [json!(3), json!("all:5:1h:halt"), json!({"x": 1}), json!(3), json!(2)]);
    assert_eq!(shown["zone"]["tzdb"], shown["zone"]["here"]);
    workspace.on_db(&["schedules", "edit", "n", "--priority", "0", "--if-version", "2"]).failed(1, &["version 3"]);
    workspace.on_db(&["schedules", "edit", "n"]).failed(2, &["nothing to change"]);
    workspace.on_db(&["schedules", "edit", "n", "--zone", "UTC"]).failed(2, &["as a whole"]);
    workspace.on_db(&["schedules", "edit", "n", "--max-pending", "0"]).failed(2, &["max_pending"]);
    let both = ["schedules", "edit", "n", "--priority", "0", "--decide-first", "--pending", "drop"];
    workspace.on_db(&both).failed(2, &["one of the two"]);
}

/// A halt needs a word on the backlog, and only a halted schedule takes it.
#[test]
fn a_schedule_is_unhalted() {
    let workspace = Workspace::with_database();
    workspace.on_db(&PING).succeeded();
    workspace.on_db(&["schedules", "unhalt", "ping"]).failed(2, &["--from"]);
    workspace.on_db(&["schedules", "unhalt", "ping", "--all", "--last", "2"]).failed(2, &["--last"]);
    workspace.on_db(&["schedules", "unhalt", "ping", "--from", "now"]).failed(1, &["is active and not halted"]);
    let halts = ["schedules", "add", "h", "--every", "10ms", "--missed", "all:3:1h", "--start", "2026-01-01T00:00:00Z"];
    workspace.on_db(&[&halts[..], &["A/b"]].concat()).succeeded();
    let daemon = Daemon::start(&workspace, &[]);
    // Its one occurrence waits for a worker that knows the method, and slots are late after 5 s.
    let report = daemon.until(&["schedules", "show", "h"], |report| {
        if let Some(task) = report["pending"][0]["task"].as_str() {
            daemon.run(&["tasks", "cancel", task]).succeeded();
        }
        report["schedule"]["state"] == "halted"
    });
    let note = report["schedule"]["note"].as_str().unwrap();
    assert!(note.contains("more than 3 slots"), "{note}");
    let text = daemon.run(&["schedules", "show", "h"]).succeeded();
    assert!(text.contains("state       halted (more than 3 slots"), "{text}");
    let act = daemon.run(&["schedules", "unhalt", "h", "--from", "now", "--json"]).json();
    assert_eq!(act["state"], "active");
    let report = daemon.run(&["schedules", "show", "h", "--json"]).json();
    assert!(report["lost"].as_array().unwrap().iter().any(|lost| lost["reason"] == "cap"), "{report}");
}

/// A backfill is previewed slot by slot, made once, and shown with the schedule.
#[test]
fn schedules_are_backfilled() {
    let workspace = Workspace::with_database();
    let add = ["schedules", "add", "n", "--cron", "0 3 * * *", "--zone", "Europe/Rome", "A/b"];
    workspace.on_db(&add).succeeded();
    let range = ["schedules", "backfill", "n", "--from", "2026-11-01T00:00:00Z", "--to", "2026-11-04T00:00:00Z"];
    let text = workspace.on_db(&[&range[..], &["--dry-run"]].concat()).succeeded();
    assert!(text.starts_with("a backfill of n would create 3: 3 new, 0 missed, 0 exist, 0 unknown\n"), "{text}");
    assert!(text.contains("2026-11-01T03:00:00+01:00\t2026-11-01T02:00:00Z\tnew\tyes"), "{text}");
    let report = workspace.on_db(&[&range[..], &["--dry-run", "--limit", "2", "--json"]].concat()).json();
    has_keys(
        &report,
        ["schedule", "dry_run", "pass", "creates", "new", "exists", "missed", "unknown", "more", "slots"],
    );
    assert_eq!((&report["creates"], &report["pass"], &report["dry_run"]), (&json!(2), &Value::Null, &json!(true)));
    assert_eq!(report["slots"][2]["creates"], false);
    assert_eq!(workspace.on_db(&["schedules", "show", "n", "--json"]).json()["backfill"], Value::Null);

    let begun = workspace.on_db(&[&range[..], &["--max-pending", "9", "--json"]].concat()).json();
    assert_eq!((&begun["pass"], &begun["creates"]), (&json!(1), &json!(3)));
    workspace.on_db(&range).failed(1, &["backfill 1", "under way"]);
    let daemon = Daemon::start(&workspace, &[]);
    let shown = daemon.until(&["schedules", "show", "n"], |report| report["backfill"]["state"] == "over");
    let backfill = &shown["backfill"];
    assert_eq!(
        (&backfill["created"], &backfill["live"], &shown["schedule"]["runs"]),
        (&json!(3), &json!(3), &json!(0))
    );
    let slots: Vec<&str> =
        shown["pending"].as_array().unwrap().iter().map(|task| task["slot"].as_str().unwrap()).collect();
    assert_eq!(slots, ["2026-11-03T02:00:00Z", "2026-11-02T02:00:00Z", "2026-11-01T02:00:00Z"]);
    let text = daemon.run(&["schedules", "show", "n"]).succeeded();
    assert!(text.contains("backfill    1 of 2026-11-01T00:00:00Z"), "{text}");
    assert!(text.contains("\twaiting\t2026-11-03T02:00:00Z\t0\t1\n"), "{text}");
    daemon.run(&["schedules", "backfill", "n", "--stop"]).succeeded();
    daemon.run(&["schedules", "backfill", "n"]).failed(2, &["--from"]);
    daemon.run(&["schedules", "backfill", "n", "--from", "yesterday"]).failed(2, &["from", "instant"]);
    let ahead = ["schedules", "backfill", "n", "--from", "2090-01-01T00:00:00Z", "--to", "2090-02-01T00:00:00Z"];
    daemon.run(&ahead).failed(1, &["no slot"]);
    daemon.stop();
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
