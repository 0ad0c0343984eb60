//! What is printed for Prometheus, against the document that promises it.

use crate::support::{Daemon, Web, Workspace};
use std::collections::BTreeMap;

const DOCUMENT: &str = include_str!("../../../../../docs/metrics.md");

/// The families of a scrape, by name, with their types.
fn families(text: &str) -> BTreeMap<String, String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.filter_map(|line| line.split_once(' ')).map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect()
}

/// Every name that is printed is in the document with its type, and the document names no other: alarms are built on it.
#[test]
fn the_document_names_what_is_printed() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &["--http", "127.0.0.1:0"]);
    let web = Web::of(&daemon);
    // Families of calls are there once there was one.
    daemon.run(&["queues", "list"]).succeeded();
    let answer = web.get("/metrics");
    assert_eq!(answer.status, 200);
    assert!(answer.headers["content-type"].to_str().unwrap().starts_with("application/openmetrics-text"));
    assert!(answer.text.ends_with("# EOF\n") && answer.text.matches("# EOF").count() == 1);
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
        Some((cells.next()?.trim_end_matches('`').to_owned(), cells.next()?.to_owned()))
    };
    let documented: BTreeMap<String, String> = DOCUMENT.lines().filter_map(row).collect();
    assert_eq!(families(&answer.text), documented);
    for line in answer.text.lines().filter(|line| !line.starts_with('#')) {
        let (sample, value) = line.rsplit_once(' ').unwrap();
        assert!(sample.starts_with("punctual_") && value.parse::<f64>().is_ok(), "{line}");
    }
    daemon.stop();
}

/// The numbers are those of what happened: a task that waits, one that failed for good, a schedule that is halted or late.
#[test]
fn the_numbers_are_those_of_the_store() {
    let workspace = Workspace::new();
    let daemon = Daemon::start(&workspace, &["--http", "127.0.0.1:0", "--http-allow", "allowed.test"]);
    let web = Web::of(&daemon);
    daemon.run(&["tasks", "enqueue", "Nobody/knows", "{}", "--queue", "odd \"one\""]).succeeded();
    let cron = ["schedules", "add", "hourly", "--cron", "0 * * * *", "Nobody/knows", "{}"];
    daemon.run(&cron).succeeded();
    let text = web.get("/metrics").text;
    for line in [
        "punctual_queue_due{queue=\"odd \\\"one\\\"\"} 1",
        "punctual_schedules{state=\"active\"} 1",
        "punctual_schedule_created_total{schedule=\"hourly\"} 0",
        "punctual_schedule_missed_total{schedule=\"hourly\",reason=\"age\"} 0",
        "punctual_workers{state=\"alive\"} 1",
        "punctual_store_up 1",
        "punctual_engine_enqueued_total 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
    }
    daemon.stop();
}
