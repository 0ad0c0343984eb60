//! `punctual doctor` on databases that are well, and on some that are not.

use crate::support::{Daemon, Ran, Workspace, has_keys};
use serde_json::Value;

/// The state of each check, by its name.
#[track_caller]
pub(crate) fn states(ran: &Ran) -> Vec<(String, String)> {
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    has_keys(&report, ["ok", "findings"]);
    let findings = report["findings"].as_array().unwrap();
    let state = |one: &Value| {
        let (check, state) = (one["check"].as_str().unwrap(), one["state"].as_str().unwrap());
        assert_eq!(one["advice"].is_string(), state != "ok", "{one}");
        (check.to_owned(), state.to_owned())
    };
    let states: Vec<_> = findings.iter().map(state).collect();
    let failed = states.iter().any(|(_, state)| state == "fail");
    assert_eq!((report["ok"].as_bool(), ran.code), (Some(!failed), i32::from(failed)), "{ran:?}");
    states
}

/// All that a database has that is well; nobody works on it yet, which is no failure.
#[track_caller]
pub(crate) fn is_well(ran: &Ran, workers: &str) {
    let expected = ["configuration", "database", "tables", "clock", "tzdb", "schedules", "workers", "notifications"];
    let state = |check: &str| if check == "workers" { workers.to_owned() } else { "ok".to_owned() };
    let expected: Vec<_> = expected.iter().map(|check| ((*check).to_owned(), state(check))).collect();
    assert_eq!(states(ran), expected, "{ran:?}");
}

/// A SQLite database that is well is found so, beside a daemon as without one, and nothing is changed by looking.
#[test]
fn a_healthy_database_is_found_so() {
    let workspace = Workspace::with_database();
    is_well(&workspace.on_db(&["doctor", "--json"]), "warn");
    let text = workspace.on_db(&["doctor"]).succeeded();
    assert!(text.lines().any(|line| line.starts_with("warn  workers ") && line.contains("punctual serve")), "{text}");
    assert!(text.lines().any(|line| line.starts_with("ok    clock ") && line.contains("agree")), "{text}");
    let daemon = Daemon::start(&workspace, &[]);
    is_well(&workspace.on_db(&["doctor", "--json"]), "ok");
    daemon.stop();
}

/// What is wrong is named with what to do, and the exit code is a script's.
#[test]
fn what_is_wrong_is_named() {
    let workspace = Workspace::new();
    let missing = workspace.run(&["doctor", "--db", &workspace.db(), "--json"]);
    assert_eq!(states(&missing)[1], ("database".to_owned(), "fail".to_owned()));
    assert!(!workspace.path("punctual.db").exists(), "looking creates nothing");
    let told = workspace.run(&["doctor", "--db", &workspace.db()]).failed(1, &["a check failed"]);
    assert!(told.contains("fail  database ") && told.contains("there is no database at"), "{told}");
    let file = workspace.file("p.toml", "[limits]\nstreams_max = 99999\n");
    let told = workspace.run(&["doctor", "--config", &file]).failed(1, &["a check failed"]);
    assert!(told.starts_with("fail  configuration ") && told.contains("streams_max is 99999"), "{told}");
    assert!(told.contains("punctual config check"), "{told}");
    workspace.file("in-the-way", "no database, but a text that is long enough to be none: ".repeat(99).as_str());
    let other = workspace.run(&["doctor", "--db", &workspace.text("in-the-way"), "--json"]);
    assert_eq!(states(&other)[1].1, "fail", "{other:?}");
    let tls = workspace.file("tls.toml", "database = 'memory:'\n[tls]\ncertificate = 'no.pem'\nkey = 'no.key'\n");
    let told = workspace.run(&["doctor", "--config", &tls]).failed(1, &["a check failed"]);
    assert!(
        told.contains("fail  certificates ") && told.contains("no.pem") && told.contains("warn  database "),
        "{told}"
    );
    workspace.run(&["doctor", "--addr", "tcp://127.0.0.1:1"]).failed(2, &["--addr", "--db"]);
}

/// Tables of another version are what the daemon brings up, or what it must not touch, as it is configured.
#[test]
fn tables_of_another_version_are_named() {
    let workspace = Workspace::with_database();
    workspace.on_db(&["migrate", "--down", "0"]).succeeded();
    let ran = workspace.on_db(&["doctor", "--json"]);
    assert_eq!(states(&ran)[2], ("tables".to_owned(), "warn".to_owned()), "{ran:?}");
    let ran = workspace.on_db(&["doctor", "--json", "--store-migrate=false"]);
    assert_eq!(states(&ran)[2], ("tables".to_owned(), "fail".to_owned()), "{ran:?}");
}
