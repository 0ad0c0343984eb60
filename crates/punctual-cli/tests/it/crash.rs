//! A daemon that is killed and started again: nothing acknowledged is lost, and schedules go on.

use crate::support::{Daemon, Workspace, lines_of};
use serde_json::Value;
use std::collections::BTreeMap;

/// Tasks that were acknowledged before a SIGKILL are run by the next daemon, and the schedule serves every slot.
#[test]
fn a_killed_daemon_loses_nothing() {
    let workspace = Workspace::new();
    let short_lease = workspace.file(
        "punctual.toml",
        "[engine]\nlease = '1s'\nrenewal = '100ms'\nstop_after = '500ms'\nstop_grace = '100ms'\nrescue = '100ms'\n",
    );
    let arguments = ["--allow-commands", "--config", &short_lease];
    let daemon = Daemon::start(&workspace, &arguments);
    let tick = "{\"program\": \"echo $PUNCTUAL_SLOT >> slots\", \"shell\": true}";
    let add = ["schedules", "add", "tick", "--every", "100ms", "--max-occurrences", "30", "--missed", "all:1000:1h"];
    daemon.run(&[&add[..], &["Command/run", tick]].concat()).succeeded();
    let mut tasks = Vec::new();
    for n in 0..20 {
        let line = format!("{{\"program\": \"echo {n} >> tasks\", \"shell\": true}}");
        // Half of them are not due yet when the daemon dies.
        let delay = if n % 2 == 0 { "0" } else { "1s" };
        tasks.push(daemon.run(&["tasks", "enqueue", "Command/run", &line, "--delay", delay]).line());
    }
    lines_of(&workspace.path("slots"), 3);
    daemon.kill();
    // The socket file of the dead daemon lies there still, and is no obstacle.
    assert!(workspace.path("d.sock").exists());
    let daemon = Daemon::start(&workspace, &arguments);
    let report = daemon.until(&["schedules", "show", "tick"], |report| {
        report["schedule"]["state"] == "ended" && report["schedule"]["live"] == 0
    });
    assert_eq!(report["schedule"]["runs"], 30);
    assert_eq!(report["schedule"]["lost"], 0);
    for task in &tasks {
        assert_eq!(daemon.ended(task)["task"]["state"], "succeeded");
    }
    let occurrences = daemon.run(&["tasks", "list", "--schedule", "tick", "--limit", "1000", "--json"]).json();
    let mut by_slot: BTreeMap<&str, u32> = BTreeMap::new();
    for task in occurrences.as_array().unwrap() {
        assert_eq!(task["state"], "succeeded", "{task}");
        *by_slot.entry(task["slot"].as_str().unwrap()).or_default() += 1;
    }
    assert_eq!(by_slot.len(), 30, "each slot has its task");
    assert!(by_slot.values().all(|count| *count == 1), "and no slot has two: {by_slot:?}");
    // What a handler did twice, because its worker died before recording it, the attempts tell.
    let ledger = lines_of(&workspace.path("slots"), 30);
    let attempts: u64 = occurrences.as_array().unwrap().iter().filter_map(|task| task["attempts"].as_u64()).sum();
    assert!(u64::try_from(ledger.len()).unwrap() <= attempts, "{} runs of {attempts} attempts", ledger.len());
    daemon.stop();
}

/// Twelve kills at whatever moment they come: every task acknowledged before any of them ends well.
#[test]
fn killed_again_and_again() {
    let workspace = Workspace::new();
    let short_lease = workspace.file(
        "punctual.toml",
        "[engine]\nlease = '1s'\nrenewal = '100ms'\nstop_after = '500ms'\nstop_grace = '100ms'\nrescue = '100ms'\n",
    );
    let arguments = ["--config", &short_lease];
    let mut acknowledged: Vec<String> = Vec::new();
    for round in 0..12 {
        let daemon = Daemon::start(&workspace, &arguments);
        for _ in 0..=round % 4 {
            acknowledged.push(daemon.run(&["tasks", "enqueue", "Unknown/method"]).line());
        }
        daemon.kill();
    }
    let kept: Vec<Value> =
        workspace.on_db(&["tasks", "list", "--limit", "1000", "--json"]).json().as_array().unwrap().clone();
    let kept: Vec<&str> = kept.iter().rev().map(|task| task["id"].as_str().unwrap()).collect();
    assert_eq!(kept, acknowledged);
}
